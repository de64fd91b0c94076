"""Distance to the optimum of the solvers of the hinge after 7.5 seconds."""

import matplotlib.pyplot as plt
from _tables import SOLVERS, rows

LOWER = 0.30273  # a bound of the optimum, which the page gives
table = rows("solvers", "solver", "calls / n")
table = {row["solver"]: float(row["primal"]) for row in table}
names = sorted(SOLVERS, key=table.get)

figure, ax = plt.subplots(figsize=(6, 3.4))
distance = [table[name] - LOWER for name in names]
for name, value in zip(names, distance, strict=True):
    color, style = SOLVERS[name]
    ax.plot(value, name, style[0], color=color, markersize=9)
ax.invert_yaxis()
ax.margins(y=0.1)
ax.set(
    title="OCR letters, 6251 words, 7.5 seconds",
    xlabel="objective above its minimum, at most",
    xscale="log",
    xlim=(1e-4, 1),
)
