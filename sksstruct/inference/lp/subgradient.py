"""Projected subgradient dual decomposition, for comparison."""

import numpy as np

from sksstruct.inference.lp.core._decode import by_variable, polish
from sksstruct.inference.lp.core.solver import MAPSolver


class Subgradient(MAPSolver):
    """Subgradient dual decomposition [1]_, for graphs of edges: the baseline.

    Every edge is solved by itself; multipliers move by the disagreement of edges and
    variables, with steps that fall as one over the square root of the iteration. The
    marginals are averages of the answers of the variables.

    Parameters
    ----------
    max_iter : int, default=500
        Largest number of iterations.
    tol : float, default=1e-6
        As of `TRWS`.

    References
    ----------
    .. [1] N. Komodakis, N. Paragios and G. Tziritas, "MRF optimization via dual
       decomposition: message-passing revisited", ICCV 2007.
    """

    def __init__(self, max_iter=500, tol=1e-6):
        self.max_iter = max_iter
        self.tol = tol

    def _run(self, run):
        graph = run.problem.graph
        first, edges = graph.first_state, graph.edges
        weights = (
            np.ones(graph.n_edges) if graph.edge_weights is None else graph.edge_weights
        )
        tables = [w * graph.tables[t].dense()
                  for t, w in zip(graph.edge_tables, weights, strict=True)]  # fmt: skip
        multipliers = [(np.zeros(t.shape[0]), np.zeros(t.shape[1])) for t in tables]
        unaries = np.array(graph.unaries)
        mean, step = np.zeros(len(unaries)), None
        for k in range(self.max_iter):
            beliefs = unaries.copy()
            for (u, v), (mu, mv) in zip(edges, multipliers, strict=True):
                beliefs[first[u] : first[u + 1]] += mu
                beliefs[first[v] : first[v + 1]] += mv
            rows = [beliefs[a:b] for a, b in zip(first[:-1], first[1:], strict=True)]
            x = np.array([int(np.argmax(row)) for row in rows], dtype=np.int32)
            bound = float(sum(row.max() for row in rows))
            if step is None:
                step = float(np.mean([np.ptp(row) for row in rows])) + 1e-3
            rate = step / np.sqrt(k + 1.0)
            for (u, v), table, (mu, mv) in zip(edges, tables, multipliers, strict=True):
                scores = table - mu[:, None] - mv
                i, j = np.unravel_index(int(np.argmax(scores)), scores.shape)
                bound += float(scores[i, j])
                mu[i] += rate
                mu[x[u]] -= rate
                mv[j] += rate
                mv[x[v]] -= rate
            mean += (run.problem.indicator(x) - mean) / (k + 1.0)
            run.offer(x)
            if k & (k + 1) == 0:
                polish(run, x)
            if run.report(bound=bound):
                break
        run.marginals = by_variable(run.problem, mean)
