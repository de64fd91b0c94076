"""All labelings, one after the other."""

from dataclasses import dataclass

import numpy as np

from sksstruct.inference.map.core._decode import set_marginals
from sksstruct.inference.map.core.solver import MAPSolver
from sksstruct.utils.progress import Status


@dataclass(eq=False, repr=False)
class Enumeration(MAPSolver):
    """Enumeration of all labelings of a small graph: a reference for the other solvers.

    Parameters
    ----------
    max_iter : int, default=2000000
        Maximum number of labelings. Graphs with more labelings raise an error.
    tol : float, default=1e-6
        Has no effect, because the labeling is optimal.
    """

    max_iter: int = 2_000_000
    tol: float = 1e-6

    _pairwise = False

    def _check_graph(self, graph):
        count = float(np.prod(graph.n_states.astype(np.float64)))
        if count > self.max_iter:
            raise ValueError(
                f"the graph has {count:.4g} labelings, Enumeration visits at most "
                f"max_iter = {self.max_iter}"
            )

    def _run(self, run):
        scores = _all_scores(run.problem.graph, run.problem.penalty)
        best = np.unravel_index(int(np.argmax(scores)), scores.shape)
        run.offer(np.array(best, dtype=np.int32))
        run.report(bound=run.score)
        run.status = Status.OPTIMAL
        set_marginals(run)


def _all_scores(graph, penalty):
    """Scores of all labelings, as an array with an axis for each variable."""
    shape = tuple(graph.n_states)
    total = np.zeros(shape)
    for v in range(graph.n_variables):
        total += _spread(graph.unary(v), [v], shape)
    for scope, table, weight in graph._listed():
        table = weight * table.dense()
        # conditions have -inf written out; the other tables are finite already, and may
        # be lower
        if penalty:
            table = np.where(table > -np.inf, table, penalty)
        total += _spread(table, scope, shape)
    return total


def _spread(table, scope, shape):
    """A table as an array that broadcasts over all variables."""
    order = np.argsort(scope)
    full = [1] * len(shape)
    for v in scope:
        full[v] = shape[v]
    return np.transpose(table, order).reshape(full)
