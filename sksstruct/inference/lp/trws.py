"""Sequential tree-reweighted message passing."""

import numpy as np

from sksstruct.inference.lp._base import MAPSolver
from sksstruct.inference.lp._decode import by_variable, polish, refine
from sksstruct.inference.lp._trws import TreeReweighted


class TRWS(MAPSolver):
    """Sequential tree-reweighted max-product (TRW-S), for graphs of edges.

    Block-coordinate ascent on the dual of the LP relaxation [1]_: the upper bound never
    rises, and may end above that of the relaxation. Messages through Potts tables and
    truncated distances take linear time [2]_; those through large tables visit only
    states that can matter, which is exact.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of sweeps.
    tol : float, default=1e-6
        A labeling is optimal where its score is within `tol` of the bound, relative to
        the score or 1.
    search : bool, default=True
        Whether labelings are improved by a local search from time to time.
    patience : int, default=40
        Stop when the bound has not fallen by more than a hundredth of the gap in so
        many sweeps.

    Notes
    -----
    The marginals of a result are those of its labeling where it is optimal, and else
    divide each variable evenly between the states whose reparametrised scores tie: an
    indication of what the relaxation cannot decide, not a solution of it. `HiGHS` and
    `GDMM` have solutions.

    References
    ----------
    .. [1] V. Kolmogorov, "Convergent tree-reweighted message passing for energy
       minimization", IEEE PAMI 28, 2006.
    .. [2] P. Felzenszwalb and D. Huttenlocher, "Efficient belief propagation for early
       vision", IJCV 70, 2006.
    """

    _parameter_constraints = {
        **MAPSolver._parameter_constraints,
        "search": ["boolean"],
        "patience": MAPSolver._parameter_constraints["max_iter"],
    }

    def __init__(self, max_iter=1000, tol=1e-6, *, search=True, patience=40):
        self.max_iter = max_iter
        self.tol = tol
        self.search = search
        self.patience = patience

    def _run(self, run):
        messages = TreeReweighted(run.problem)
        sweeps(run, messages, self.search, self.patience)
        if run.status == "optimal":
            flat = run.problem.indicator(run.labeling)
        else:
            flat = ties(run.problem, messages.beliefs)
        run.marginals = by_variable(run.problem, flat)


def sweeps(run, messages, search, patience):
    """Sweep until the run ends or the bound stalls."""
    checkpoint, next_search = np.inf, 8
    for k in range(run.max_iter):
        bound = messages.sweep(k % 2 == 1)
        if run.labeling is None or messages.score > run.score:
            run.offer(messages.labeling, messages.score)
        if search and k + 1 >= next_search:
            next_search = int(1.5 * next_search) + 1
            refine(run, polish(run, messages.labeling), messages.beliefs)
        if run.report(bound=bound):
            return
        if k % patience == patience - 1:
            # the bound alternates a little between the directions
            if checkpoint - run.bound <= 0.01 * (run.bound - run.score):
                run.status = "stalled"
                return
            checkpoint = run.bound


def ties(problem, beliefs):
    """Even shares of the states within rounding of each variable's best."""
    flat = np.zeros(len(beliefs))
    graph = problem.graph
    scale = max(1.0, float(np.abs(beliefs).max(initial=0.0)))
    for first, last in zip(graph.first_state[:-1], graph.first_state[1:], strict=True):
        part = beliefs[first:last]
        tie = part >= part.max() - 1e-6 * scale
        flat[first:last] = tie / tie.sum()
    return flat
