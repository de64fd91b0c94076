"""Seconds of a pass against the number of labels."""

import matplotlib.pyplot as plt
from _tables import OWN, SECOND, number, rows

solvers = {
    "table": ("table of all pairs", SECOND, "s--"),
    "gdmm": ("GDMM", "C4", "^"),
    "auto": ("auto: sparse transitions", OWN, "o-"),
}
table = rows("many_labels", "labels", "solver", "CPU s a pass")

figure, ax = plt.subplots()
for name, (label, color, style) in solvers.items():
    chosen = [row for row in table if row["solver"] == name]
    ax.plot(
        [number(row["labels"]) for row in chosen],
        [number(row["CPU s a pass"]) for row in chosen],
        style,
        color=color,
        label=label,
    )
ax.set(
    title="2,000 sentences of about 14 labels",
    xlabel="number of labels",
    ylabel="CPU seconds of a pass",
    xscale="log",
    yscale="log",
)
ax.legend()
