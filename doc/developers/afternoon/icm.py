"""Iterated conditional modes, from one random labeling after another."""

from dataclasses import dataclass

import numpy as np

from sksstruct.inference.map import MAPSolver


@dataclass(eq=False, repr=False)
class ICM(MAPSolver):
    """Iterated conditional modes (Besag, 1986), for graphs of edges.

    Each variable in turn takes the best state given the others, until none changes;
    then a new random labeling is the start. The upper bound is the sum of the largest
    scores of all variables and edges.

    Parameters
    ----------
    max_iter : int, default=100
        Number of starts.
    tol : float, default=1e-6
        A labeling is optimal where its score is within `tol` of the upper bound,
        relative to the score or 1.

    References
    ----------
    J. Besag, "On the statistical analysis of dirty pictures", Journal of the Royal
    Statistical Society B 48, 1986.
    """

    max_iter: int = 100
    tol: float = 1e-6

    def _run(self, run):
        graph = run.problem.graph
        neighbors = _neighbors(graph)
        bound = sum(graph.unary(v).max() for v in range(graph.n_variables))
        # every edge stands in two lists
        bound += sum(t.max() for tables in neighbors for _, t in tables) / 2
        stop = run.report(bound=bound, step=0)
        while not stop:
            labeling = run.rng.randint(graph.n_states).astype(np.int32)
            while _improve(graph, neighbors, labeling):
                pass
            run.offer(labeling)
            stop = run.report()


def _neighbors(graph):
    """For each variable, its neighbors and tables of shape (own, their states)."""
    out = [[] for _ in range(graph.n_variables)]
    for e, (first, second) in enumerate(graph.edges):
        table = graph.tables[graph.edge_tables[e]].dense()
        if graph.edge_weights is not None:
            table = graph.edge_weights[e] * table
        out[first].append((second, table))
        out[second].append((first, table.T))
    return out


def _improve(graph, neighbors, labeling):
    """Give each variable its best state given the others; whether one changed."""
    changed = False
    for variable, tables in enumerate(neighbors):
        scores = graph.unary(variable).copy()
        for neighbor, table in tables:
            scores += table[:, labeling[neighbor]]
        best = scores.argmax()
        if scores[best] > scores[labeling[variable]]:
            labeling[variable], changed = best, True
    return changed
