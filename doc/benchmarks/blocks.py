"""Seconds of training in blocks, on two cores."""

import matplotlib.pyplot as plt
import numpy as np
from _tables import OWN, SECOND, number, rows

# place in the table, and what it is called
kinds = {
    0: ("no blocks, one thread", OWN, 1),
    1: ("2 blocks, one thread", SECOND, 0.4),
    2: ("2 blocks, two threads", SECOND, 1),
}
groups = []
for row in rows("large_data", "problem", "blocks"):
    if not row["problem"].startswith("the same"):
        groups.append((row["problem"], []))
    groups[-1][1].append(number(row["wall seconds"]))
places = np.arange(len(groups))

figure, ax = plt.subplots(figsize=(6, 3.4))
for k, (label, color, alpha) in kinds.items():
    values = [seconds[k] for _, seconds in groups]
    bars = ax.barh(
        places + 0.27 * (k - 1), values, 0.25, color=color, alpha=alpha, label=label
    )
    ax.bar_label(bars, padding=2, fontsize="small", fmt="%.1f")
ax.set_yticks(places, [name.replace(", ", ",\n") for name, _ in groups])
ax.invert_yaxis()
ax.set(title="To a duality gap of 0.01", xlabel="wall seconds", xlim=(0, 30))
ax.grid(axis="y", visible=False)
ax.legend(loc="upper right")
