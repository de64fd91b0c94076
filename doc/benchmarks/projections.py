"""Time of projections against their size: with and without sorting."""

import matplotlib.pyplot as plt
from _tables import OWN, SECOND, rows

lines = {
    "box and equality, sorting": ("box and equality, by sorting", OWN, "s--"),
    "box and equality": ("box and equality", OWN, "o-"),
    "simplex, sorting": ("simplex, by sorting", SECOND, "s--"),
    "simplex": ("simplex", SECOND, "o-"),
}
table = rows("oracles", "n", "box and equality")

figure, ax = plt.subplots(figsize=(6, 3.6))
for name, (label, color, style) in lines.items():
    values = [float(row[name]) for row in table]
    ax.plot([float(row["n"]) for row in table], values, style, color=color, label=label)
ax.set(
    title="Projections, one thread",
    xlabel="number of entries n",
    ylabel="nanoseconds an entry",
    xscale="log",
    yscale="log",
    ylim=(0.7, 3e4),
)
ax.legend()
