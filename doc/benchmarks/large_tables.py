"""Scores after five seconds on large tables, in percent of those of `auto`."""

import matplotlib.pyplot as plt
from _tables import OWN, PEERS, SECOND, number, rows

solvers = {
    "auto: score at s": ("auto", OWN, "o-"),
    "TRW-S": ("TRW-S", SECOND, "s-"),
    "GDMM": ("GDMM", SECOND, "D--"),
    "toulbar2": ("toulbar2", PEERS["toulbar2"], "o-"),
}
table = rows("map", "tables", "states", "auto: score at s")
table = [row for row in table if row["tables"] == "frustrated"]
best = [float(row["auto: score at s"].split()[0]) for row in table]

figure, ax = plt.subplots(figsize=(6, 3.4))
for name, (label, color, style) in solvers.items():
    points = [
        (number(row["states"]), 100 * float(row[name].split()[0]) / top)
        for row, top in zip(table, best, strict=True)
        if row[name] != r"\-"
    ]
    ax.plot(*zip(*points, strict=True), style, color=color, label=label)
ax.set(
    title="30 variables, 60 frustrated edges, 5 seconds",
    xlabel="number of states",
    ylabel="score, % of auto's",
    xscale="log",
    ylim=(80, 102),
)
states = [number(row["states"]) for row in table]
ax.set_xticks(states, [f"{k:.0f}" for k in states])
ax.minorticks_off()
ax.legend(ncols=2, loc="lower right")
