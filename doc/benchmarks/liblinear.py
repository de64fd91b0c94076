"""Time of training to the same objective, in units of liblinear's."""

import matplotlib.pyplot as plt
from _tables import OWN, PEERS, SECOND, number, rows

table = rows("models", "data", "C", "gap", "seconds", "liblinear", "ratio")
figure, ax = plt.subplots()
for data, marker in (("digits", "o"), ("OCR", "s")):
    for gap, face in (("0.01", "none"), ("0.001", "full")):
        chosen = [row for row in table if (row["data"], row["gap"]) == (data, gap)]
        ax.plot(
            [float(row["C"]) for row in chosen],
            [number(row["ratio"]) for row in chosen],
            marker + "-",
            color=OWN if data == "digits" else SECOND,
            fillstyle=face,
            label=f"{data}, to {gap}",
        )
ax.axhline(1, color=PEERS["liblinear"])
ax.text(1, 0.97, "liblinear", va="top", ha="right", color=PEERS["liblinear"])
ax.set(
    title="Multiclass hinge: SSVMClassifier beside liblinear",
    xlabel="C",
    ylabel="seconds / seconds of liblinear",
    xscale="log",
    ylim=(0, 2.2),
)
ax.legend(ncols=2, loc="lower left")
