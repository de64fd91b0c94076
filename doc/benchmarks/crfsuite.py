"""Training of taggers of CoNLL-2000: seconds and F1, beside python-crfsuite."""

import matplotlib.pyplot as plt
from _tables import OWN, PEERS, number, rows

table = rows("taggers", "who", "CPU seconds", "F1")
table += rows("taggers", "who", "CPU seconds", "iterations", "F1")[:1]
table = [row for row in table if "partial_fit" not in row["who"]]
table.sort(key=lambda row: number(row["CPU seconds"]), reverse=True)
names = [row["who"].split(", five")[0].replace("`", "") for row in table]
names = [
    name.replace("python-crfsuite, ", "crfsuite: ").replace(", default", "")
    for name in names
]
ours = [name.startswith("Chain") for name in names]

figure, ax = plt.subplots()
seconds = [number(row["CPU seconds"]) for row in table]
colors = [OWN if own else PEERS["CRFsuite"] for own in ours]
bars = ax.barh(names, seconds, color=colors)
labels = [f" F1 {row['F1']}" for row in table]
ax.bar_label(bars, labels, fontsize="small")
ax.set_title("CoNLL-2000 chunking, one thread", loc="right")
ax.set(
    xlabel="CPU seconds of training",
    xlim=(0, 1.35 * max(seconds)),
)
ax.grid(axis="y", visible=False)
