"""Max-product linear programming, for graphs with factors of any size."""

from sksstruct.inference.lp._base import MAPSolver
from sksstruct.inference.lp._decode import by_variable, polish, refine
from sksstruct.inference.lp._mplp import MaxProductLP
from sksstruct.inference.lp.trws import ties


class MPLP(MAPSolver):
    """Max-product linear programming (MPLP), for factors of any size.

    Block-coordinate descent on the dual of the LP relaxation [1]_. Factors of three or
    more variables are tables, or conditions such as "exactly one", which take linear
    time. For graphs of edges `TRWS` is faster.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of sweeps.
    tol : float, default=1e-6
        As of `TRWS`.
    search : bool, default=True
        Whether labelings are improved by a local search from time to time.
    patience : int, default=40
        As of `TRWS`.

    References
    ----------
    .. [1] A. Globerson and T. Jaakkola, "Fixing max-product: convergent message passing
       algorithms for MAP LP-relaxations", NIPS 2007.
    """

    _pairwise = False
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
        messages = MaxProductLP(run.problem)
        descend(run, messages, self.search, self.patience)
        if run.status == "optimal":
            flat = run.problem.indicator(run.labeling)
        else:
            flat = ties(run.problem, messages.beliefs)
        run.marginals = by_variable(run.problem, flat)


def descend(run, messages, search, patience):
    """Sweep until the run ends or the bound stalls."""
    checkpoint, next_search = float("inf"), 4
    for k in range(run.max_iter):
        bound = messages.sweep()
        run.offer(messages.labeling())
        if search and k + 1 >= next_search:
            next_search = int(1.5 * next_search) + 1
            refine(run, polish(run, messages.labeling()), messages.beliefs)
        if run.report(bound=bound):
            return
        if k % patience == patience - 1:
            if checkpoint - run.bound <= 0.01 * (run.bound - run.score):
                run.status = "stalled"
                return
            checkpoint = run.bound
