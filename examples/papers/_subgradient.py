"""Projected subgradient dual decomposition, for comparison."""

from dataclasses import dataclass

import numpy as np

from sksstruct.inference.map.core._decode import by_variable, search_locally
from sksstruct.inference.map.core.solver import TEXTS, MAPSolver
from sksstruct.utils._doc import fill_doc


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class Subgradient(MAPSolver):
    """Subgradient dual decomposition, for graphs with edges only: the baseline.

    Solves every edge separately [1]_, and moves the multipliers by the disagreement of
    edges and variables. Step sizes fall as one over the square root of the iteration.
    The marginals are averages of the best states of the variables over the iterations.

    Parameters
    ----------
    max_iter : int, default=500
        Maximum number of iterations.
    %(tol)s

    References
    ----------
    .. [1] N. Komodakis, N. Paragios and G. Tziritas, "MRF optimization via dual
       decomposition: message-passing revisited", ICCV 2007.
    """

    max_iter: int = 500
    tol: float = 1e-6

    def _run(self, run):
        graph = run.problem.graph
        tables = [weight * table.dense() for _, table, weight in graph._listed()]
        multipliers = [tuple(np.zeros(size) for size in t.shape) for t in tables]
        mean, step = np.zeros(len(graph.unaries)), None
        for k in range(self.max_iter):
            rows = _beliefs(graph, multipliers)
            labeling = np.array([int(np.argmax(row)) for row in rows], dtype=np.int32)
            bound = float(sum(row.max() for row in rows))
            if step is None:
                step = float(np.mean([np.ptp(row) for row in rows])) + 1e-3
            rate = step / np.sqrt(k + 1.0)
            for ends, table, messages in zip(
                graph.edges, tables, multipliers, strict=True
            ):
                bound += _solve_edge(table, messages, labeling[ends], rate)
            mean += (run.problem.indicator(labeling) - mean) / (k + 1.0)
            run.offer(labeling)
            # at iterations 1, 2, 4, 8, ...: searches cost more than iterations
            if k & (k + 1) == 0:
                search_locally(run, labeling)
            if run.report(bound=bound):
                break
        run.marginals = by_variable(run.problem, mean)


def _beliefs(graph, multipliers):
    """Scores of the states of each variable plus its multipliers."""
    first, beliefs = graph.first_state, np.array(graph.unaries)
    for ends, messages in zip(graph.edges, multipliers, strict=True):
        for variable, message in zip(ends, messages, strict=True):
            beliefs[first[variable] : first[variable + 1]] += message
    return [beliefs[a:b] for a, b in zip(first[:-1], first[1:], strict=True)]


def _solve_edge(table, messages, states, rate):
    """Maximize one edge and move its multipliers; return its share of the bound."""
    scores = table - messages[0][:, None] - messages[1]
    best = np.unravel_index(int(np.argmax(scores)), scores.shape)
    value = float(scores[best])
    # towards agreement with the states that its ends have by themselves
    for message, own, state in zip(messages, best, states, strict=True):
        message[own] += rate
        message[state] -= rate
    return value
