"""Upper bounds on a frustrated grid, and the score of its best labeling."""

import matplotlib.pyplot as plt
import numpy as np

from sksstruct import FactorGraph
from sksstruct.inference.map import MPLP, TRWS, BranchAndBound, HiGHS, Tightened

SIDE = 12
rng = np.random.default_rng(0)
nodes = np.arange(SIDE**2).reshape(SIDE, SIDE)
edges = np.concatenate([
    np.column_stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()]),
    np.column_stack([nodes[:-1].ravel(), nodes[1:].ravel()]),
])  # fmt: skip
graph = FactorGraph(
    rng.normal(size=(SIDE**2, 2)),
    edges,
    np.eye(2),
    edge_weights=rng.normal(scale=2.0, size=len(edges)),
)
relaxed, exact = HiGHS(relaxed=True).solve(graph), BranchAndBound().solve(graph)

figure, ax = plt.subplots()
solvers = {
    "MPLP": (MPLP(), ":"),
    "Tightened": (Tightened(), "-"),
    "TRW-S": (TRWS(), "--"),
}
for name, (solver, style) in solvers.items():
    trace = solver.solve(graph).trace
    ax.plot(np.arange(len(trace["bound"])) + 1, trace["bound"], style, label=name)
ax.axhline(relaxed.bound, color="gray", linestyle="-.", label="LP relaxation")
ax.axhline(exact.score, color="black", linewidth=0.8, label="best labeling")
ax.set(
    title=f"Grid of {SIDE} x {SIDE} variables, edges of both signs",
    xlabel="rounds: sweeps, then clusters",
    ylabel="score",
    xscale="log",
    ylim=(exact.score - 3, exact.score + 27),
)
ax.legend()
