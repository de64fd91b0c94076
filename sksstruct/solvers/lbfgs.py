"""Limited-memory quasi-Newton method for smooth losses.

Minimizes P(w) = alpha/2 |w|^2 + sum_i p_i f_i(w). With the expected mean parameters at
w as dual variables, whose weights are w' = -grad f(w) / alpha, the duality gap is
alpha/2 |w - w'|^2 = |grad P(w)|^2 / (2 alpha). If weights are confined to a box, w'
is truncated to the box, and the gap is alpha/2 (|w|^2 - |w'|^2) + <grad f(w), w - w'>.
With an l1 penalty the gap is R(w) + <grad f(w), w> + sum_j o_j^2 / (2 alpha), where R
is the sum of both penalties and o_j = max(|grad_j f(w)| - l1, 0). As P(w) bounds l1
|w*|_1, the last term can be replaced by max_j o_j P(w) / l1, which needs no alpha.
"""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from scipy.optimize import Bounds, minimize

from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.models.protocols.duals import ROUNDING
from sksstruct.solvers.core.base import SCALING, GradientSolver, example
from sksstruct.solvers.core.box import Box
from sksstruct.solvers.core.certificate import GradientCertificate
from sksstruct.solvers.core.loop import FALL, PERIOD, Loop, ended_by
from sksstruct.solvers.core.orthants import descend_in_orthants
from sksstruct.solvers.core.quasi_newton import add_scaled, descend
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils._param_validation import Count
from sksstruct.utils.progress import Status

# First step, as a fraction of the step at which the linearized objective is zero.
_FIRST = 0.5
# The objective is flat if the later half of the iterations has gained less than this
# fraction of the tolerance.
FLAT_SHARE = 0.5
# Smallest number of iterations before an objective counts as flat, as features in
# different units cause plateaus.
LEAST_ITERATIONS = 60


@fill_doc(
    example('loss="log", solver=LBFGS(tol=1e-6)', "from sksstruct.solvers import LBFGS")
)
@dataclass(eq=False, repr=False)
class LBFGS(GradientSolver):
    """L-BFGS: the default for losses with a gradient.

    Minimizes ``alpha/2 |w|^2 + sum_i p_i f_i(w)`` for the negative log-likelihood or a
    smoothed hinge loss [1]_. The expected mean parameters of every example are a point
    of the dual, and the duality gap of this point and w is ``|gradient|^2 / (2
    alpha)``: the certificate needs no additional computation. The solver supports the
    bounds on weights that some models need [2]_, and an l1 penalty beside the squared
    norm or in its place [3]_.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of iterations. An iteration is one sweep of the oracles over all
        examples, sometimes two.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective, or when the objective is
        flat: the later half of at least 60 iterations has reduced it by less than
        ``tol / 2`` times its value. The gap may be large then, if `alpha` is small.
    memory : int, default=10
        Number of pairs of vectors that form the approximation of the Hessian.

    Notes
    -----
    The pairs are stored in single precision, because they only determine the direction
    of a step. Each pair takes 8 bytes for every weight. Objective, gradient and gap are
    computed in double precision. With bounds on weights, scipy's L-BFGS-B stores the
    pairs in double precision.

    If some labels are missing, the loss is not convex and has no dual. Training then
    stops when ``|gradient|^2 / (2 alpha)`` is small. If the K best labelings are not
    enough for an l2-smoothed loss, the dual value is valid, but the objective is only
    an estimate from below. The gap is ``inf`` in both cases.

    References
    ----------
    .. [1] D. C. Liu and J. Nocedal, "On the limited memory BFGS method for large scale
       optimization", Mathematical Programming 45, 1989.
    .. [2] R. H. Byrd, P. Lu, J. Nocedal and C. Zhu, "A limited memory algorithm for
       bound constrained optimization", SIAM Journal on Scientific Computing 16(5),
       1995.
    .. [3] G. Andrew and J. Gao, "Scalable training of L1-regularized log-linear
       models", ICML 2007.

    %(example)s
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    memory: Count = 10

    required_oracles = ("exp", "topk", "slopes")
    bounded = unregularized = True
    penalties = ("l2", "elasticnet")

    def asks_for(self, model: BoundModel) -> tuple[str, ...]:
        if "slopes" in model.oracles:
            return ("slopes",)
        # a model without slopes needs one of the other oracles
        return tuple(each for each in super().asks_for(model) if each != "slopes")

    def losses_of(self, model: BoundModel) -> tuple[str, ...]:
        return ("hinge", "smooth") if "slopes" in model.oracles else self.losses

    def _solve(self, model, alpha, options):
        loss, box = self.smooth_loss(model), Box.of(model)
        objective = Objective(loss, box, alpha, options)
        return run_lbfgs(objective, LBFGSLoop(self, alpha, options), self.memory)


def run_lbfgs(objective, loop, memory):
    """Minimize an objective by L-BFGS, or by scipy's L-BFGS-B if there are bounds.

    Parameters
    ----------
    objective : Objective
        The objective to minimize.
    loop : LBFGSLoop
        Decides when to stop.
    memory : int
        Number of pairs of vectors that form the approximation of the Hessian.

    Returns
    -------
    result : SolverResult
        Weights, certificate and trace.
    """

    def after_iteration(_=None):
        loop.n_iter += 1
        objective.report(loop)
        status = loop.end(objective.best_weights)
        if status is not None:
            raise _Stop(status)
        return objective.changed()

    try:
        with loop.in_time():
            first = objective.at(objective.start)
            objective.keep(objective.start)
            objective.report(loop)
            if loop.converged:
                raise _Stop(Status.CONVERGED)
            method = descend if objective.bounds is None else _descend_in_box
            if objective.l1:
                method = descend_in_orthants
            method(objective, *first, memory, after_iteration)
            loop.status = Status.STALLED
    except _Stop as stop:
        loop.status = stop.status
    except KeyboardInterrupt as interrupt:
        loop.status = ended_by(interrupt)
        if objective.best is None:
            if loop.status is Status.INTERRUPTED:
                raise
            # no time for a single sweep: return the start without a certificate
            objective.best = np.inf, objective.start, 1.0, np.inf
    # report the best iterate, as an interrupt may precede its report
    objective.take_best(loop)
    return loop.result()


def _descend_in_box(objective, value, slope, memory, after_iteration):
    """Minimize as `descend` does, with the objective's bounds."""
    # variables are scaled, as scipy's first step has length one
    unit = objective.first_step(value, slope) * float(np.sqrt(slope @ slope)) or 1.0
    lower, upper = objective.bounds.lb, objective.bounds.ub
    first_values = [(value, unit * slope)]

    def evaluate(steps):
        if first_values:  # scipy evaluates the start first, where the value is known
            return first_values.pop()
        # rounding of the product can move weights beyond the bounds
        x = np.clip(unit * steps, lower, upper)
        value, slope = objective.at(x)
        if value < objective.best[0]:
            objective.keep(x)
        return value, unit * slope

    # scipy gets no limit, as the callback stops the iterations
    no_limit = np.iinfo(np.int32).max
    minimize(
        evaluate,
        objective.start / unit,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(lower / unit, upper / unit),
        callback=after_iteration,
        options={
            "maxiter": no_limit,
            "maxfun": no_limit,
            "maxcor": memory,
            "ftol": 0.0,
            "gtol": 0.0,
        },
    )


class _Stop(Exception):
    """Raised to leave scipy's loop or `descend`."""

    def __init__(self, status):
        super().__init__()
        self.status = status


class LBFGSLoop(Loop):
    """A loop whose passes are iterations of L-BFGS."""

    def has_settled(self):
        # if the K best labelings are not enough for an exact loss, the gradient may
        # never become small
        return (
            self.exact < 1.0
            and len(self.values) > PERIOD
            and self.values[-1 - PERIOD] - self.primal <= FALL * self.target
        )

    def reason(self, stalled=None):
        return super().reason(stalled) or (Status.FLAT if self.is_flat else None)

    @property
    def is_flat(self):
        """Whether the later half of the iterations has lowered the objective by little.

        With a small alpha, the gap stays large long after the objective is flat.
        Features in different units cause plateaus, which are at most about as long as
        the iterations before them.
        """
        n = len(self.values)
        if n < LEAST_ITERATIONS:
            return False
        return self.values[n // 2] - self.values[-1] <= FLAT_SHARE * self.target


class Objective:
    """P(w) and its gradient, with the best weights and dual value so far.

    Parameters
    ----------
    loss : SmoothLoss
        The mean loss.
    box : Box or None
        Bounds of some weights.
    alpha : float
        Regularization.
    options : Options
        Its `n_jobs`, `l1` and `dual_state` are read.

    Attributes
    ----------
    start : ndarray
        Initial weights, restricted to weights that exist.
    best : tuple or None
        Lowest objective so far, its weights that exist, fraction of exact losses,
        and residual.
    """

    # entries of further columns of the trace
    extra = ()

    def __init__(self, loss, box, alpha, options):
        if options.l1 and (box is not None or loss.unpenalized is not None):
            raise ValueError(
                "LBFGS has no l1 penalty for models with bounds of weights, or with "
                "weights without a penalty"
            )
        self.loss, self.alpha, self.n_jobs = loss, alpha, options.n_jobs
        self.l1 = options.l1
        n_weights = loss.model.n_weights
        self.gradient = aligned_zeros(n_weights)
        self._existing = slice(None) if loss.support is None else loss.support
        n_kept = n_weights if loss.support is None else len(loss.support)
        self.start = aligned_zeros(n_kept)
        start = options.start(n_weights)
        if start is not None:
            self.start[:] = start[self._existing]
        self.box, self.bounds = box, None
        if box is not None:
            lower, upper = box.lower[self._existing], box.upper[self._existing]
            np.clip(self.start, lower, upper, out=self.start)
            self.bounds = Bounds(lower, upper)
        # a vector of all weights for the model: needed if some weights do not exist, or
        # if scipy passes vectors of its own
        self._all_weights = None
        if loss.support is not None or box is not None:
            self._all_weights = aligned_zeros(n_weights)
        # without regularization, weights without a penalty need no special treatment
        self._free = loss.unpenalized if alpha > 0.0 else None
        self._next_bound = 0
        if loss.unpenalized is not None and start is None:
            self.start[loss.unpenalized] = loss.constants
        self._certificate = GradientCertificate(alpha, box)
        self.best = self._last = None
        self.best_dual = -np.inf
        self.calls = 0

    def at(self, x):
        """Return the objective and its gradient at x, the weights that exist.

        The gradient does not include the l1 penalty, and the next call may overwrite
        the gradient.
        """
        w = x
        if self._all_weights is not None:
            w = self._all_weights
            w[self._existing] = x
        loss = self.loss.value_and_gradient(w, self.gradient, self.n_jobs)
        with np.errstate(over="ignore", invalid="ignore"):
            primal = loss + self.alpha / 2 * self._square(x)
            if self.l1:
                primal += self.l1 * float(np.abs(x).sum())
            slope, dual, residual = self._gradient_and_bounds(primal, x, w)
        if not (np.isfinite(primal) and np.isfinite(residual)):
            raise ValueError(
                f"training broke down: the objective is not finite. {SCALING}"
            )
        self.calls += self.loss.model.n_examples
        self._last = primal, float(np.mean(self.loss.exact)), residual, dual
        return primal, slope

    def _square(self, x):
        """Return the squared norm of the weights that have a penalty."""
        square = float(x @ x)
        if self._free is None:
            return square
        free = x[self._free]
        return square - float(free @ free)

    def first_step(self, value, slope):
        """Return the length of a step along minus a gradient, without a known Hessian.

        The length is invariant if the features and the root of alpha are scaled.
        """
        square = float(slope @ slope)
        step = _FIRST * abs(value) / square if square else 0.0
        return min(step, 1.0 / self.alpha) if self.alpha > 0.0 else step

    def _gradient_and_bounds(self, primal, x, w):
        """Return gradient, dual value, and a residual that is 0 at the optimum."""
        if self.l1:
            return self._compare_sparse(primal, x)
        if self.box is None and self.alpha > 0.0:
            slope = self.gradient[self._existing]
            add_scaled(self.alpha, x, slope)
            if self._free is not None:
                slope[self._free] -= self.alpha * x[self._free]
            # the gap |grad P|^2 / (2 alpha), over existing weights with a penalty
            residual = self._square(slope) / (2 * self.alpha)
            if self._free is not None:
                # the dual variables satisfy the constraints of free weights only at the
                # optimum
                return slope, -np.inf, residual
            rounding = ROUNDING * (abs(primal) + residual)
            return slope, primal - residual - rounding, residual
        if self.loss.support is not None:
            gradient = np.zeros_like(self.gradient)
            gradient[self._existing] = self.gradient[self._existing]
            self.gradient[:] = gradient
        dual, residual = self._certificate.at(primal, w, self.gradient)
        slope = self.gradient[self._existing]
        add_scaled(self.alpha, x, slope)
        return slope, dual, min(primal - dual, residual)

    def _compare_sparse(self, primal, x):
        """Return gradient without l1 penalty, dual value, and gap with l1 penalty."""
        slope = self.gradient[self._existing]
        size = float(np.abs(x).sum())
        # Convexity bounds the optimum: f(v) is at least f(x) + <f'(x), v - x>, and the
        # minimum over v of this bound plus the penalties has a closed form. With only
        # the l1 penalty, |v|_1 at the optimum is at most P(x) / l1.
        excess = np.maximum(np.abs(slope) - self.l1, 0.0)
        bound = float(np.max(excess, initial=0.0)) * primal / self.l1
        if self.alpha > 0.0:
            bound = min(bound, float(excess @ excess) / (2 * self.alpha))
        terms = [float(slope @ x), self.alpha / 2 * float(x @ x), self.l1 * size, bound]
        rounding = ROUNDING * (abs(primal) + sum(map(abs, terms)))
        add_scaled(self.alpha, x, slope)
        return slope, primal - sum(terms) - rounding, sum(terms)

    def keep(self, x):
        """Record x, the weights of the last call of `at`, as the best so far."""
        primal, exact, residual, dual = self._last
        self.best = primal, x, exact, residual
        # dual values count at iterates only, as trial steps may be far away
        if self.loss.convex:
            self.best_dual = max(self.best_dual, dual)

    def best_weights(self):
        """Return the flat weights of the lowest objective so far."""
        weights = np.zeros_like(self.gradient)
        weights[self._existing] = self.best[1]
        return weights

    def report(self, loop):
        """Report the lowest objective so far to the loop, as a row of the trace."""
        primal, x, exact, residual = self.best
        loop.calls = self.calls
        if self._free is not None:
            self._bound(x, residual, loop)
            residual = np.inf
        dual = self.best_dual if self.loss.convex else -np.inf
        loop.report(primal, None, dual, exact, self.extra, residual=residual)

    def _bound(self, x, residual, loop):
        """Compute a dual value once weights without a penalty are near-optimal."""
        is_near = residual <= loop.solver.tol * abs(self.best[0])
        # a dual value takes as long as a few gradients
        is_due = is_near and loop.n_iter >= self._next_bound
        if is_due or loop.n_iter >= loop.solver.max_iter:
            self.best_dual = max(self.best_dual, self.loss.dual_value(x, self.alpha))
            self._next_bound = loop.n_iter + 1 + loop.n_iter // 8

    def changed(self):
        """Return value and gradient of a new objective to continue with, or None."""
        return None

    def take_best(self, loop):
        """Set the lowest objective as the loop's result, whether reported or not."""
        loop.primal, x, loop.exact, _ = self.best
        out_of_time = loop.status is Status.TIME_LIMIT
        if self._free is not None and self.best_dual == -np.inf and not out_of_time:
            self.best_dual = self.loss.dual_value(x, self.alpha)
        loop.weights, loop.dual = x, self.best_dual
        if self._all_weights is not None:
            # the vector of all weights is reused, as the run has ended
            self._all_weights[self._existing] = x
            loop.weights = self._all_weights
