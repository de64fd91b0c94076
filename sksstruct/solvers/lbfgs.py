"""Limited-memory quasi-Newton method for smooth losses.

Minimises P(w) = alpha/2 |w|^2 + sum_i p_i f_i(w). With the expected mean parameters at
w as dual variables, whose weights are w' = -grad f(w) / alpha, the duality gap is
alpha/2 |w - w'|^2 = |grad P(w)|^2 / (2 alpha). Where weights are confined to a box, w'
is truncated to it, and the gap is alpha/2 (|w|^2 - |w'|^2) + <grad f(w), w - w'>.
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral

import numpy as np
from scipy.optimize import Bounds, minimize

from sksstruct.solvers.core.base import SCALING, GradientSolver, example
from sksstruct.solvers.core.box import Box
from sksstruct.solvers.core.certificate import Certificate
from sksstruct.solvers.core.loop import FALL, PERIOD, Loop
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils._param_validation import Interval
from sksstruct.utils.progress import Status


@fill_doc(
    example('loss="log", solver=LBFGS(tol=1e-6)', "from sksstruct.solvers import LBFGS")
)
@dataclass(eq=False, repr=False)
class LBFGS(GradientSolver):
    """L-BFGS: the default for losses with a gradient.

    Minimises ``alpha/2 |w|^2 + sum_i p_i f_i(w)`` for the negative log-likelihood or a
    smoothed hinge loss [1]_. The expected mean parameters of every example are a point
    of the dual, and the duality gap between it and w is ``|gradient|^2 / (2 alpha)``:
    the certificate costs nothing. Weights stay in the box that a model needs [2]_.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of iterations. An iteration is one sweep of the oracles over all
        examples, sometimes two.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective. Where there is no gap,
        stop when ten iterations have lowered the objective by less than ``tol / 10`` of
        itself.
    memory : int, default=10
        Number of pairs of vectors that form the approximation of the Hessian.

    Notes
    -----
    If some labels were not observed, the loss is not convex and has no dual; training
    then stops when ``|gradient|^2 / (2 alpha)`` is small. If the K best labelings are
    not enough for an l2-smoothed loss, the dual value is valid, but the objective is
    only a lower estimate. The gap is ``inf`` in both cases.

    References
    ----------
    .. [1] D. C. Liu and J. Nocedal, "On the limited memory BFGS method for large scale
       optimization", Mathematical Programming 45, 1989.
    .. [2] R. H. Byrd, P. Lu, J. Nocedal and C. Zhu, "A limited memory algorithm for
       bound constrained optimization", SIAM Journal on Scientific Computing 16(5),
       1995.

    %(example)s
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    memory: int = 10

    bounded = unregularised = True
    _parameter_constraints = {
        **GradientSolver._parameter_constraints,
        "memory": [Interval(Integral, 1, None, closed="left")],
    }

    def _solve(self, model, alpha, options):
        loss, box = self.smooth_loss(model), Box.of(model)
        objective = Objective(loss, box, alpha, options)
        return minimise(objective, LBFGSLoop(self, alpha, options), self.memory)


def minimise(objective, loop, memory):
    """Minimise an objective by scipy's L-BFGS-B.

    Parameters
    ----------
    objective : Objective
        What is minimised.
    loop : LBFGSLoop
        Says when to stop.
    memory : int
        Number of pairs of vectors.

    Returns
    -------
    result : SolverResult
        Weights, certificate and trace.
    """

    def after_iteration(_):
        loop.n_iter += 1
        objective.report(loop)
        status = loop.end(objective.best_weights)
        if status is not None:
            raise _Stop(status)

    try:
        objective.evaluate(objective.start)
        objective.report(loop)
        if loop.converged:
            raise _Stop(Status.CONVERGED)
        minimize(
            objective.evaluate,
            objective.start,
            jac=True,
            method="L-BFGS-B",
            bounds=objective.bounds,
            callback=after_iteration,
            options={
                "maxiter": loop.solver.max_iter,
                "maxfun": 100 * loop.solver.max_iter,
                "maxcor": memory,
                "ftol": 0.0,
                "gtol": 0.0,
            },
        )
        loop.status = Status.STALLED
    except _Stop as stop:
        loop.status = stop.status
    except KeyboardInterrupt:
        if objective.best is None:
            raise
        loop.status = Status.INTERRUPTED
    # an interrupt may come between an evaluation and its report
    objective.take_best(loop)
    return loop.result()


class _Stop(Exception):
    """Leaves scipy's loop."""

    def __init__(self, status):
        super().__init__()
        self.status = status


class LBFGSLoop(Loop):
    """A loop whose passes scipy makes."""

    def has_settled(self):
        # a gradient of the K best labelings only may never get small
        return (
            self.exact < 1.0
            and len(self.values) > PERIOD
            and self.values[-1 - PERIOD] - self.primal <= FALL * self.target
        )


class Objective:
    """P(w) and its gradient for scipy, with the best weights and dual value so far.

    Parameters
    ----------
    loss : SmoothLoss
        The mean loss.
    box : Box or None
        Bounds of some weights.
    alpha : float
        Regularisation.
    options : Options
        Its `n_jobs` and `dual_state` are read.

    Attributes
    ----------
    start : ndarray
        Weights to start from, of those that exist.
    best : tuple or None
        Objective, weights that exist, share of exact losses, and residual of the
        lowest objective.
    """

    # further columns of the trace
    extra = ()

    def __init__(self, loss, box, alpha, options):
        self.loss, self.alpha, self.n_jobs = loss, alpha, options.n_jobs
        self.w = aligned_zeros(loss.model.n_weights)
        self.gradient = np.zeros_like(self.w)
        self._kept = slice(None) if loss.support is None else loss.support
        if options.dual_state is not None:
            self.w[self._kept] = options.dual_state["weights"][self._kept]
        self.start = np.array(self.w[self._kept])
        self.box, self.bounds = box, None
        if box is not None:
            lower, upper = box.lower[self._kept], box.upper[self._kept]
            self.start = np.clip(self.start, lower, upper)
            self.bounds = Bounds(lower, upper)
        self._certificate = Certificate(alpha, box)
        self.best = self._first = None
        self.best_dual = -np.inf
        self.calls = 0

    def evaluate(self, x):
        """Objective, and its gradient with respect to the weights that exist."""
        if self._first is not None:  # scipy asks again for the start
            first, self._first = self._first, None
            return first
        self.w[self._kept] = x
        loss = self.loss.value_and_gradient(self.w, self.gradient, self.n_jobs)
        gradient = self.gradient[self._kept]
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = gradient + self.alpha * x
            primal = loss + self.alpha / 2 * (x @ x)
            dual, residual = self._compare(primal, gradient)
        if not (np.isfinite(primal) and np.isfinite(residual)):
            raise ValueError(
                f"training broke down: the objective is not finite. {SCALING}"
            )
        self.calls += self.loss.model.n_examples
        if self.loss.convex:
            self.best_dual = max(self.best_dual, dual)
        if self.best is None:
            self._first = primal, gradient
        if self.best is None or primal < self.best[0]:
            exact = float(np.mean(self.loss.exact))
            self.best = primal, x.copy(), exact, residual
        return primal, gradient

    def _compare(self, primal, slope):
        """Dual value at the weights, and a number that is small at the optimum."""
        if self.box is None and self.alpha > 0.0:
            # over the weights that exist
            residual = (slope @ slope) / (2 * self.alpha)
            return primal - residual, residual
        if self.loss.support is not None:
            gradient = np.zeros_like(self.gradient)
            gradient[self._kept] = self.gradient[self._kept]
            self.gradient[:] = gradient
        dual, residual = self._certificate.at(primal, self.w, self.gradient)
        return dual, min(primal - dual, residual)

    def best_weights(self):
        """Flat weights of the lowest objective so far."""
        weights = np.zeros_like(self.w)
        weights[self._kept] = self.best[1]
        return weights

    def report(self, loop):
        """Report the lowest objective so far to the loop; adds a row to the trace."""
        primal, _, exact, residual = self.best
        loop.calls = self.calls
        dual = self.best_dual if self.loss.convex else -np.inf
        loop.report(primal, None, dual, exact, self.extra, residual=residual)

    def take_best(self, loop):
        """Make the loop return the lowest objective, whether reported or not."""
        loop.primal, _, loop.exact, _ = self.best
        loop.weights, loop.dual = self.best_weights(), self.best_dual
