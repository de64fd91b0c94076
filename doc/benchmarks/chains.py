"""Microseconds of the oracles of a chain against the number of labels."""

import matplotlib.pyplot as plt
from _tables import OWN, PEERS, SECOND, number, rows

lines = {
    "sum-product": (SECOND, "s--"),
    "5 best": (SECOND, "^-"),
    "Viterbi": (OWN, "o-"),
    "C loop, double": (PEERS["C loop"], "x-"),
}
table = rows("oracles", "K", "Viterbi")
labels = [number(row["K"]) for row in table]

figure, ax = plt.subplots(figsize=(6, 3.4))
for name, (color, style) in lines.items():
    ax.plot(
        labels, [number(row[name]) for row in table], style, color=color, label=name
    )
ax.set(
    title="One chain of 25 positions",
    xlabel="number of labels K",
    ylabel="microseconds",
    xscale="log",
    yscale="log",
)
ax.set_xticks(labels, [f"{k:.0f}" for k in labels])
ax.minorticks_off()
ax.legend()
