"""When the parts of `auto` ran on three problems, and score and bound over time."""

import matplotlib.pyplot as plt
import numpy as np
from _tables import file_rows

from sksstruct.plotting import MAPDisplay

table = file_rows("map_schedule")
problems = list(dict.fromkeys(row["problem"] for row in table))

figure, axes = plt.subplots(len(problems), figsize=(6, 9), layout="constrained")
for ax, problem in zip(axes, problems, strict=True):
    rows = [row for row in table if row["problem"] == problem]
    trace = {
        name: np.array([float(row[name]) for row in rows])
        for name in ("seconds", "score", "bound")
    }
    trace["part"] = np.array([row["part"] for row in rows])
    MAPDisplay(trace).plot(ax, parts=True)
    # the first labelings and bounds are far from the optimum
    low, high = np.quantile(trace["score"], 0.1), np.quantile(trace["bound"], 0.9)
    margin = 0.2 * (high - low)
    ax.set(
        xlim=(0, None), ylim=(low - margin, high + margin), xlabel=f"seconds: {problem}"
    )
