"""Seconds of training the likelihood of classes, beside LogisticRegression."""

import matplotlib.pyplot as plt
from _tables import OWN, PEERS, SECOND, rows

HEAD = "CPU seconds (iterations)"
colors = {
    "``SSVMClassifier``, sdca": (OWN, "o"),
    "``SSVMClassifier``, lbfgs": (SECOND, "s"),
    "``LogisticRegression``, lbfgs": (PEERS["scikit-learn"], "s"),
    "``LogisticRegression``, saga": (PEERS["scikit-learn"], "^"),
}
table = {row.pop(HEAD): row for row in rows("models", HEAD)}

figure, ax = plt.subplots(figsize=(6, 3.6))
for name, (color, marker) in colors.items():
    seconds = [float(cell.split()[0]) for cell in table[name].values()]
    label = name.replace("`", "")
    ax.plot(seconds, list(table[name]), marker, color=color, label=label, markersize=8)
ax.invert_yaxis()
ax.margins(y=0.15)
ax.set(title="To 1e-6 of the optimum, one thread", xlabel="CPU seconds", xscale="log")
figure.legend(loc="outside lower center", ncols=2)
