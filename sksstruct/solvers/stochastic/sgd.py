"""Averaged stochastic gradient descent for smooth losses.

Minimizes P(w) = alpha/2 |w|^2 + sum_i p_i f_i(w). Step t = 0, 1, ... visits example i:

    w <- (1 - eta_t alpha) w - eta_t n p_i grad f_i(w)
    eta_t = eta0 / (1 + alpha eta0 t)

(Bottou, 2010). The result is the mean of the iterates since the last pass whose number
is a power of two.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.models.protocols._weights import Weights
from sksstruct.models.roles import nonlinear_loss
from sksstruct.solvers.core.base import GradientSolver, SolverRun, example
from sksstruct.solvers.core.box import Box
from sksstruct.solvers.core.certificate import GradientCertificate
from sksstruct.solvers.core.loop import PERIOD, Loop, ended_by
from sksstruct.solvers.stochastic._epochs import (
    LEAST_VISITS,
    check_convex,
    missing_weights,
)
from sksstruct.solvers.stochastic.iterates import GradientKernel
from sksstruct.utils._clock import OutOfTime
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils._param_validation import Positive
from sksstruct.utils.progress import Status

# Fraction of the examples on which step lengths are tried.
TRIAL = 0.1
# Factor between step lengths that are tried.
FACTOR = 4.0
# Largest power of this factor that is tried, up and down.
POWERS = 12
# Smallest number of passes before divergence is diagnosed.
LEAST_PASSES = 3


@fill_doc(example('loss="log", solver="sgd", random_state=0'))
@dataclass(eq=False, repr=False)
class SGD(GradientSolver):
    """Averaged stochastic gradient descent: a fast and rough solver for smooth losses.

    The solver is also the baseline for nonlinear scores. For these, steps are along the
    gradient of the loss on mini-batches; for the hinge, along a subgradient, through
    the top-K oracle.

    Visits one example at a time, and makes a step along its gradient. Steps get shorter
    as ``eta0 / (1 + alpha eta0 t)`` [1]_, and the iterates are averaged [2]_. The
    weights shrink lazily, so the cost of a step depends only on the nonzero features of
    its example. SGD needs no memory besides a few vectors of weights. If the oracle is
    sum-product, `SDCA` makes as much progress in about as many passes, and has a
    certificate.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of passes, each of two oracle calls per example: one for the
        step, and one for the objective.
    tol : float, default=3e-3
        Stop when the second half of the passes so far has reduced the objective by less
        than ``tol`` times its value, or when the duality gap is smaller. The gap
        is ``|gradient|^2 / (2 alpha)``, as in `LBFGS`, and is loose if alpha is small.
    eta0 : float or "auto", default="auto"
        Initial step length, at most ``0.5 / alpha``. "auto" searches in a few sweeps
        for the length with which the average over a part of the examples has the lowest
        objective. The length is reduced if the objective exceeds its initial value.
    averaging : bool, default=True
        Whether to return the mean of the iterates since the last pass whose number is a
        power of two, instead of the last iterate.

    References
    ----------
    .. [1] L. Bottou, "Large-scale machine learning with stochastic gradient descent",
       COMPSTAT 2010.
    .. [2] A. Rakhlin, O. Shamir and K. Sridharan, "Making gradient descent optimal for
       strongly convex stochastic optimization", ICML 2012.

    %(example)s
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    eta0: Positive | Literal["auto"] = "auto"
    averaging: bool = True

    bounded = unregularized = True
    required_oracles = (*GradientSolver.required_oracles, "nonlinear")

    def asks_for(self, model: BoundModel) -> tuple[str, ...]:
        if "nonlinear" in model.oracles:
            return ("nonlinear",)
        return tuple(name for name in super().asks_for(model) if name != "nonlinear")

    def losses_of(self, model: BoundModel) -> tuple[str, ...]:
        # with nonlinear scores no loss is convex, so that the hinge is allowed, too
        return ("hinge", "smooth") if "nonlinear" in model.oracles else self.losses

    def _solve(self, model, alpha, options):
        kind = NonlinearDescent if "nonlinear" in model.oracles else Descent
        return kind(self, model, alpha, options).run()


class DescentLoop(Loop):
    """Passes of `SGD`, which end if their second half hardly lowered the objective."""

    @property
    def converged(self):
        if min(self.gap, self.residual) <= self.target:
            return True
        # the error falls as 1 / t, so that the second half of the passes gained about
        # as much as is left to gain; single passes are not compared, as averages
        # restart
        half = len(self.values) // 2
        if half < PERIOD or not self.primal < self.values[0]:
            return False
        gained = min(self.values[:half]) - min(self.values[half:])
        return 0.0 <= gained <= self.target


class Descent(SolverRun):
    """A run of `SGD`: step lengths, passes, and objectives."""

    box = outside = None

    def __init__(self, solver, model, alpha, options):
        super().__init__(solver, model, alpha, options)
        self.loop = DescentLoop(solver, alpha, options)
        # longer steps would cross the origin
        self.longest = 0.5 / alpha if alpha > 0.0 else np.inf
        self.prepare(options.start(model.n_weights))
        self.kernel = self.new_kernel()

    def prepare(self, start):
        """Set the loss and the initial weights, at `start` if given."""
        model = self.model
        # number of visits of a pass, and of oracle calls per visit
        self.n, self.calls = model.n_examples, 1
        self.loss = self.solver.smooth_loss(model)
        check_convex(self.loss)
        self.gradient = aligned_zeros(model.n_weights)
        self.outside = missing_weights(self.loss)
        self.start = aligned_zeros(model.n_weights)
        if start is not None:
            self.start[:] = start
            self.existing(self.start)
        self.box = Box.of(self.loss.model)
        if self.box is not None:
            self.box.clip(self.start)
        self.certificate = GradientCertificate(self.alpha, self.box)

    def existing(self, w):
        """Set weights outside the support to zero, in place, and return all weights."""
        if self.outside is not None:
            w[self.outside] = 0.0
        return w

    def new_kernel(self):
        """Return a new kernel of steps that start from the initial weights."""
        weights = Weights(len(self.start), average=True, support=self.loss.support)
        weights.set(self.start)
        return GradientKernel(weights, self.loss, self.alpha, box=self.box)

    def weights(self):
        """Return the weights that the run would return now."""
        averaged = self.solver.averaging
        w = self.existing(self.kernel.average() if averaged else self.kernel.weights())
        return w if self.box is None else self.box.clip(w)

    def objective(self, w):
        """Return P(w), and write the gradient of the losses."""
        value = self.loss.value_and_gradient(w, self.gradient, self.n_jobs)
        self.loop.calls += self.n
        return value + self.alpha / 2 * float(w @ w)

    def run(self):
        """Make passes until they no longer lower the objective."""
        self.look()
        eta0 = self.solver.eta0
        if eta0 == "auto":
            try:
                with self.loop.at_start():
                    eta0 = self.best_length()
            except KeyboardInterrupt as interrupt:
                self.loop.status = ended_by(interrupt)
                return self.loop.result()
        self.eta0 = min(eta0, self.longest)
        return self.loop.run(self.one_pass, self.last_look, weights=self.weights)

    def visit(self, order, eta0):
        """Take a step on each of the given examples."""
        t = self.kernel.steps + np.arange(len(order))
        self.kernel.visit(order.astype(np.intp), eta0 / (1.0 + self.alpha * eta0 * t))
        self.loop.calls += len(order) * self.calls

    def one_pass(self):
        """Visit all examples once."""
        number, loop = self.loop.n_iter, self.loop
        if number & (number - 1) == 0:
            self.kernel.begin_average()
        with np.errstate(over="ignore", invalid="ignore"):
            self.visit(self.rng.permutation(self.n), self.eta0)
            finite = np.isfinite(self.kernel.weights()).all()
        if finite:
            self.look()
        # the steps are too long if weights are not finite, or if the last objectives
        # are all above the initial one
        if number < LEAST_PASSES and finite:
            return None
        if finite and min(loop.values[-LEAST_PASSES:]) < loop.values[0]:
            return None
        if self.solver.eta0 != "auto":
            return Status.DIVERGED
        self.eta0 /= FACTOR
        self.kernel = self.new_kernel()
        return None

    def look(self):
        """Report the weights and their certificate."""
        w = self.weights()
        primal = self.objective(w)
        exact = float(np.mean(self.loss.exact))
        gradient = self.existing(self.gradient)
        dual, residual = self.certificate.at(primal, w, gradient, exact)
        self.loop.report(primal, w, dual, exact, residual=residual)

    def last_look(self):
        """Report the weights of an interrupted pass, if they are finite."""
        if np.isfinite(self.kernel.weights()).all():
            self.look()

    def best_length(self):
        """Return the initial step length that reduces the objective most in a trial.

        Each trial makes steps on the same part of the examples.
        """
        visits = min(self.n, max(int(TRIAL * self.n), LEAST_VISITS))
        order = self.rng.permutation(self.n)[:visits]
        half = len(order) // 2

        def value(power):
            self.kernel = self.new_kernel()
            length = min(FACTOR**power, self.longest)
            with np.errstate(over="ignore", invalid="ignore"):
                self.visit(order[:half], length)
                self.kernel.begin_average()
                self.visit(order[half:], length)
                w = self.weights()
                if not np.isfinite(w @ w):
                    return np.inf
            return self.objective(w)

        # shorter lengths are tried first, as the first length is rarely too short; as a
        # function of the length, the objective is assumed to have a single minimum
        best, power = value(-1), -1
        for step in (-1, 1):
            first_power = power
            try:
                while abs(power) < POWERS and (new_value := value(power + step)) < best:
                    best, power = new_value, power + step
            except OutOfTime:
                # after the time limit, the best length so far is used
                break
            if power != first_power:
                break
        self.kernel = self.new_kernel()
        return FACTOR**power


class NonlinearDescent(Descent):
    """A run of `SGD` on nonlinear scores, which visits parts of the examples."""

    def prepare(self, start):
        # the loss of the best labeling (k = 1) has the subgradient of the hinge
        self.loss = nonlinear_loss(self.model, "l2", 1)
        self.n = self.model.n_parts
        self.calls = -(-self.model.n_examples // self.n)
        self.start = self.loss.initial_weights(self.rng)
        if start is not None:
            self.start = start.copy()

    def new_kernel(self):
        return PartKernel(self.start, self.loss, self.alpha, self.n_jobs)

    def objective(self, w):
        self.loop.calls += self.loss.n_examples
        return self.loss.value(w, self.n_jobs) + self.alpha / 2 * float(w @ w)

    def look(self):
        w = self.weights()
        self.loop.report(self.objective(w), w)


class PartKernel:
    """Steps along the gradient of parts: the `GradientKernel` of a `NonlinearLoss`.

    Parameters
    ----------
    start : ndarray of shape (n_weights,)
        Initial weights.
    loss : NonlinearLoss
        The loss.
    alpha : float
        Regularization.
    n_jobs : int or None
        Threads.
    """

    def __init__(self, start, loss, alpha, n_jobs):
        self.w, self.loss, self.alpha, self.n_jobs = start.copy(), loss, alpha, n_jobs
        self.steps, self.box = 0, Box.of(loss)
        self.begin_average()

    def begin_average(self):
        """Discard the sum of the iterates so far."""
        self._sum, self._count = np.zeros_like(self.w), 0

    def weights(self):
        """Return a copy of the iterate."""
        return self.w.copy()

    def average(self):
        """Return the mean of the iterates."""
        return self._sum / self._count if self._count else self.weights()

    def visit(self, order, rates):
        """Take a step of the given rate on each of the given parts."""
        w, loss = self.w, self.loss
        for number, rate in zip(order.tolist(), rates.tolist(), strict=True):
            slope = loss.true_gradient(number, w, self.n_jobs)[1]
            w *= 1.0 - rate * self.alpha
            # the factor makes the gradient unbiased, as parts are drawn uniformly
            w -= rate * loss.n_parts * loss.shares[number] * slope
            if self.box is not None:
                self.box.clip(w)
            self._sum += w
            self._count += 1
            self.steps += 1
