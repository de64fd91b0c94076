"""Training of taggers of CoNLL-2000: seconds and F1, beside python-crfsuite."""

import matplotlib.pyplot as plt
from _tables import OWN, PEERS, rows

HEAD = "CPU seconds, chunk F1"
LABELS = {
    "python-crfsuite, L-BFGS, c1 = c2 = 0.1": "crfsuite: L-BFGS",
    "python-crfsuite, averaged perceptron": "crfsuite: averaged perceptron",
    "CRFsuite's model, c1 = c2 = 0.1": "CRFsuite's model",
    '``ChainCRF(loss="log")``': 'ChainCRF(loss="log")',
    "python-crfsuite, passive-aggressive, 10": "crfsuite: passive-aggressive",
    "``ChainCRF()``": "ChainCRF()",
}
table = {row[HEAD]: row["CoNLL-2000"].split(", ") for row in rows("taggers", HEAD)}
seconds = [float(table[name][0]) for name in LABELS]
colors = [PEERS["CRFsuite"] if "pyth" in name else OWN for name in LABELS]

figure, ax = plt.subplots()
bars = ax.barh([*LABELS.values()], seconds, color=colors)
labels = [f" F1 {table[name][1]}" for name in LABELS]
ax.bar_label(bars, labels, fontsize="small")
ax.set_title("CoNLL-2000 chunking, one thread", loc="right")
ax.set(xlabel="CPU seconds of training", xlim=(0, 1.35 * max(seconds)))
ax.grid(axis="y", visible=False)
