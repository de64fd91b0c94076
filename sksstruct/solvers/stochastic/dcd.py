"""Dual coordinate descent for losses of margins.

Maximizes D(b) = sum of phi(b_k) - alpha/2 |w(b)|^2 exactly over one dual variable at a
time.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.models.roles import coordinate_dual, fits_coordinate_dual
from sksstruct.solvers.core.base import Solver, SolverRun
from sksstruct.solvers.core.loop import Loop, later_check
from sksstruct.utils._param_validation import Count


@dataclass(eq=False, repr=False)
class DCD(Solver):
    """Dual coordinate descent: for losses of margins, as in `LinearSSVC`.

    Visits the examples in random order, and maximizes the dual over one variable at a
    time: exactly for the hinge and the squared hinge [1]_, and by Newton's method for
    the logistic loss [2]_. The solver needs no step size, and computes a duality gap.
    With two classes, passes temporarily skip examples whose variable seems to stay at a
    bound, which is called shrinking.

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
        return Descent(self, model, alpha, options).run()


class Descent(SolverRun):
    """A run of `DCD`: passes over the examples, and certificates.

    Passes may leave out examples whose variable stays at a bound (shrinking). The gap
    estimated in such a pass is a sum over visited examples, and is no certificate.
    """

    def __init__(self, solver, model, alpha, options):
        super().__init__(solver, model, alpha, options)
        start = options.dual_state and options.dual_state["coordinates"]
        self.dual = coordinate_dual(model, alpha, start)
        self.loop = Loop(solver, alpha, options)
        self.next_check = 0

    def run(self):
        """Make passes until the duality gap is small enough."""
        self.look()
        return self.loop.run(self.one_pass, self.look, self.state, self.dual.w.copy)

    def one_pass(self):
        """Visit the examples once; return whether no variable can change any more."""
        n_changed = self.dual.visit(self.rng)
        self.loop.calls += self.model.n_examples
        # the certificate is evaluated if the estimated gap is small, or a check is due
        is_evaluated = self.seems_done() or self.loop.n_iter >= self.next_check
        if is_evaluated:
            self.look()
        # ending a pass may change more variables, or bring left-out examples back
        is_stalled = not self.dual.end_pass() and not n_changed
        # if the run ends here, its last report must be of the final variables
        if is_stalled and not is_evaluated:
            self.look()
        return is_stalled

    def seems_done(self):
        """Whether the estimated gap is small and includes all examples.

        If the gap is small but examples were left out, the next pass visits them again.
        """
        return self.dual.gap <= self.loop.target and not self.dual.expand()

    def look(self):
        """Compute and report the objective and the dual value."""
        primal = self.dual.primal(self.n_jobs)
        self.loop.report(primal, self.dual.w, self.dual.value())
        self.next_check = later_check(self.loop, self.solver.check_every)

    def state(self):
        """Return the state that another run can start from."""
        return {"weights": self.loop.weights, "coordinates": self.dual.state()}
