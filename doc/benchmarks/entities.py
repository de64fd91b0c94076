"""Chunk F1 against seconds of training on three sets of entities and on chunks."""

import matplotlib.pyplot as plt
from _tables import OWN, PEERS, SECOND, rows

HEAD = "CPU seconds, chunk F1"
methods = {
    "``ChainCRF()``": ("ChainCRF(), the hinge", OWN, "o"),
    '``ChainCRF(loss="log")``': ('ChainCRF(loss="log")', SECOND, "s"),
    "python-crfsuite, passive-aggressive, 10": ("crfsuite: passive-aggressive", "o"),
    "python-crfsuite, averaged perceptron": ("crfsuite: perceptron", "^"),
    "python-crfsuite, L-BFGS, c1 = c2 = 0.1": ("crfsuite: L-BFGS", "s"),
}
table = {row[HEAD]: row for row in rows("taggers", HEAD)}

figure, axes = plt.subplots(2, 2, figsize=(6, 5.6))
for ax, data in zip(axes.ravel(), ("AnEM", "BTC", "WNUT17", "CoNLL-2000"), strict=True):
    for row, (label, *color, marker) in methods.items():
        seconds, f1 = map(float, table[row][data].split(", "))
        color = color[0] if color else PEERS["CRFsuite"]
        ax.plot(seconds, f1, marker, color=color, label=label, markersize=8)
    ax.set(title=data, xscale="log")
    ax.margins(0.2)
    ticks = (2, 5, 10, 20) if data == "CoNLL-2000" else (0.5, 1, 2, 5)
    ax.set_xticks(ticks, map(str, ticks))
    ax.minorticks_off()
    # a point is of the same height in all four
    middle = sum(ax.get_ylim()) / 2
    ax.set_ylim(middle - 5, middle + 5)
for ax in axes[1]:
    ax.set_xlabel("CPU seconds")
for ax in axes[:, 0]:
    ax.set_ylabel("chunk F1")
shown = axes[0, 0].get_legend_handles_labels()
figure.legend(*shown, loc="outside lower center", ncols=2)
