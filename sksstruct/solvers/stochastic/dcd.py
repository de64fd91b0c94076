"""Dual coordinate descent for losses of margins.

Maximizes D(b) = sum of phi(b_k) - alpha/2 |w(b)|^2 over one dual variable after the
other, each exactly.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from sklearn.utils import check_random_state

from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.models.roles import coordinate_dual, fits_coordinate_dual
from sksstruct.solvers.core.base import Solver
from sksstruct.solvers.core.loop import Loop, later_check
from sksstruct.utils._param_validation import Count


@dataclass(eq=False, repr=False)
class DCD(Solver):
    """Dual coordinate descent: for losses of margins, as in `LinearSSVC`.

    Visits the examples in random order, and maximizes the dual over one variable at a
    time: exactly for the hinge and the squared hinge [1]_, and by Newton's method for
    the logistic loss [2]_. It needs no step size, and computes a duality gap. With two
    classes, it temporarily skips examples whose variable seems to stay at a bound,
    which is called shrinking.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of passes over the examples.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective.
    check_every : int or "auto", default="auto"
        Number of passes between two computations of the objective and the gap. Each
        computation takes about as long as a pass. "auto": a number that grows with the
        number of passes.

    References
    ----------
    .. [1] C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi and S. Sundararajan, "A
       dual coordinate descent method for large-scale linear SVM", ICML 2008.
    .. [2] H.-F. Yu, F.-L. Huang and C.-J. Lin, "Dual coordinate descent methods for
       logistic regression and maximum entropy models", Machine Learning 85, 2011.

    Examples
    --------
    >>> from sksstruct import MultilabelPairwise
    >>> from sksstruct.solvers import DCD
    >>> X, y = [[0.0, 1.0], [1.0, 0.0]], [[0, 1], [1, 0]]
    >>> classifier = MultilabelPairwise(0.1, solver=DCD(tol=1e-6), random_state=0)
    >>> classifier.fit(X, y).predict([[0.1, 0.9]])
    array([[0, 1]])
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    check_every: Count | Literal["auto"] = "auto"

    required_oracles = ("coordinates",)

    def accepts(self, dual_state: dict, model: BoundModel) -> bool:
        state = dual_state.get("coordinates")
        return state is not None and fits_coordinate_dual(model, state)

    def _solve(self, model, alpha, options):
        rng = check_random_state(options.random_state)
        start = options.dual_state and options.dual_state["coordinates"]
        dual = coordinate_dual(model, alpha, start)
        loop = Loop(self, alpha, options)
        next_check = 0

        def look():
            nonlocal next_check
            loop.report(dual.primal(options.n_jobs), dual.w, dual.value())
            next_check = later_check(loop, self.check_every)

        def one_pass():
            n_changed = dual.visit(rng)
            loop.calls += model.n_examples
            # an estimate is of the examples that are visited: first those left out
            reached = dual.gap <= loop.target and not dual.expand()
            due = reached or loop.n_iter >= next_check
            if due:
                look()
            stalled = not dual.end_pass() and not n_changed
            if stalled and not due:
                look()
            return stalled

        def state():
            return {"weights": loop.weights, "coordinates": dual.state()}

        look()
        return loop.run(one_pass, look, state, dual.w.copy)
