"""Loopy max-product belief propagation, for comparison."""

from dataclasses import KW_ONLY, dataclass
from numbers import Real

import numpy as np

from sksstruct.inference.lp.core._decode import search_locally, set_marginals
from sksstruct.inference.lp.core.solver import TEXTS as COMMON
from sksstruct.inference.lp.core.solver import MAPSolver
from sksstruct.inference.lp.sum_product._beliefs import Beliefs
from sksstruct.inference.lp.sum_product._forests import draw_forest
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import Interval
from sksstruct.utils.progress import Status


@fill_doc(COMMON)
@dataclass(eq=False, repr=False)
class MaxProduct(MAPSolver):
    """Loopy max-product belief propagation, for factors of any size.

    It solves graphs without cycles. On other graphs the messages may not converge, and
    the bounds are not better than those of `TRWS`. Use it for comparisons.

    Parameters
    ----------
    max_iter : int, default=200
        Largest number of sweeps.
    %(tol)s
    damping : float, default=0.3
        Weight of the old message in the new message, below 1.

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph, Potts
    >>> from sksstruct.inference.lp import MaxProduct
    >>> chain = FactorGraph([[0, 1.0], [0, 0], [0.5, 0]], [(0, 1), (1, 2)], Potts(2))
    >>> result = MaxProduct().solve(chain, random_state=0)
    >>> result.labeling.tolist(), result.status
    ([1, 1, 1], 'optimal')
    """

    max_iter: int = 200
    tol: float = 1e-6
    _: KW_ONLY
    damping: float = 0.3

    _pairwise = False
    _parameter_constraints = {
        **MAPSolver._parameter_constraints,
        "damping": [Interval(Real, 0, 1, closed="left")],
    }

    def _run(self, run):
        problem = run.problem
        shares = np.ones(problem.n_factors)
        beliefs = Beliefs(problem, shares, True)
        beliefs.damping = float(self.damping)
        forest = draw_forest(problem, np.arange(len(shares)))
        next_search = 4
        for k in range(self.max_iter):
            residual = beliefs.sweep(k % 2 == 1)
            labeling = problem.best_states(beliefs.beliefs)
            run.offer(labeling)
            settled, bound = residual <= self.tol, None
            if settled or k + 1 >= next_search:
                next_search = int(1.5 * next_search) + 1
                search_locally(run, labeling)
                # without cycles a forest of all factors has the largest score itself
                whole = len(forest[0]) == len(shares)
                bound = (
                    beliefs.forest_log_partition(*forest)
                    if whole
                    else beliefs.upper_bound()
                )
            if run.report(bound=bound):
                break
            if settled:
                run.status = Status.STALLED
                break
        set_marginals(run, beliefs.beliefs)
