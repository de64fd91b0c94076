"""F1 of samples with pairs of labels, beside one-vs-rest and classifier chains."""

import matplotlib.pyplot as plt
import numpy as np
from _tables import OWN, PEERS, rows

methods = {
    "one-vs-rest": (PEERS["scikit-learn"], "s"),
    "chain": (PEERS["scikit-learn"], "^"),
    "pairs": (OWN, "o"),
}
labels = {"pairs": "MultilabelPairwise", "chain": "classifier chain"}
table = rows("many_labels", "data", "loss, C", "method")
table = [row for row in table if row["loss, C"].startswith("squared_hinge")]
names = list(dict.fromkeys(row["data"] for row in table))
places = np.arange(len(names))

figure, ax = plt.subplots(figsize=(6, 4.6))
for k, (name, (color, marker)) in enumerate(methods.items()):
    cells = [row["sample-F1 (se)"] for row in table if row["method"] == name]
    scores, errors = np.array([cell.strip(")").split(" (") for cell in cells], float).T
    ax.errorbar(
        scores, places + 0.2 * (k - 1), xerr=errors, fmt=marker, color=color,
        label=labels.get(name, name),
    )  # fmt: skip
ax.set_yticks(places, names)
ax.invert_yaxis()
ax.set(title="Squared hinge, test sets", xlabel="F1 of samples, with standard errors")
ax.grid(axis="y", visible=False)
figure.legend(loc="outside lower center", ncols=3)
