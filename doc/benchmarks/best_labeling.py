"""Seconds to the best labeling of four images, by solver."""

import matplotlib.pyplot as plt
from _tables import OWN, PEERS, SECOND, rows

solvers = {
    "auto": (OWN, "o"),
    "TRW-S": (SECOND, "s"),
    "MPLP": (SECOND, "^"),
    "GDMM": (SECOND, "D"),
    "toulbar2": (PEERS["toulbar2"], "o"),
    "AD3": (PEERS["AD3"], "o"),
    "published": (PEERS["published"], "D"),
}
labels = {"published": "GDMM's authors"}
table = rows("map", "instance", "published", "auto")

figure, ax = plt.subplots(figsize=(6, 3.6))
for name, (color, marker) in solvers.items():
    seconds = [float(row[name].split()[0]) for row in table]
    # hollow: it did not get there
    reached = ["(" not in row[name] for row in table]
    for k, (x, full) in enumerate(zip(seconds, reached, strict=True)):
        style = {"fillstyle": "full" if full else "none", "markersize": 8}
        label = None if k else labels.get(name, name)
        ax.plot(x, k, marker, color=color, label=label, **style)
ax.set_yticks(range(len(table)), [row["instance"] for row in table])
ax.invert_yaxis()
ax.margins(y=0.15)
ax.set(title="Seconds to the best labeling", xlabel="seconds, one thread", xscale="log")
figure.legend(loc="outside lower center", ncols=4)
