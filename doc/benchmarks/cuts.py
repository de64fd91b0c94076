"""Milliseconds of a minimum cut, beside PyMaxflow."""

import matplotlib.pyplot as plt
import numpy as np
from _tables import OWN, PEERS, SECOND, number, rows

colors = OWN, SECOND, PEERS["PyMaxflow"]
columns = "new graph", "scores changed a little", "PyMaxflow, new graph"
table = rows("oracles", "graph", *columns)
places = np.arange(len(table))
figure, ax = plt.subplots(figsize=(6, 3.3))
for k, (column, color) in enumerate(zip(columns, colors, strict=True)):
    values = [number(row[column]) for row in table]
    bars = ax.barh(places + 0.27 * (1 - k), values, 0.25, color=color, label=column)
    ax.bar_label(bars, padding=2, fontsize="small")
ax.set(title="Minimum cuts", xlabel="CPU milliseconds for each graph", xlim=(0, 0.75))
ax.set_yticks(places, [row["graph"].replace(", ", ",\n") for row in table])
ax.grid(axis="y", visible=False)
figure.legend(loc="outside lower center", ncols=2)
