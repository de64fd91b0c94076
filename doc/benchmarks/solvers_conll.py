"""Distance to the optimum against oracle calls on CoNLL-2000."""

import matplotlib.pyplot as plt
from _tables import SOLVERS, number, rows

CALLS = 10, 30, 100
LEAST = 5e-5  # the table has four digits
table = {row["solver"]: row for row in rows("solvers", "solver", "OCR, 10")}

figure, ax = plt.subplots()
for name, (color, style) in SOLVERS.items():
    values = [max(number(table[name][f"CoNLL, {calls}"]), LEAST) for calls in CALLS]
    ax.plot(CALLS, values, style, color=color, label=name)
ax.set(
    title="CoNLL-2000, alpha = 0.02 = 179 / n",
    xlabel="oracle calls for each example",
    ylabel="objective above its minimum",
    xscale="log",
    yscale="log",
    xlim=(9, 900),
)
ax.set_xticks(CALLS, CALLS)
ax.minorticks_off()
ax.legend(loc="right")
