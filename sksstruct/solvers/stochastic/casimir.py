"""Casimir-SVRG: Catalyst acceleration with smoothing.

Minimises alpha/2 |w|^2 + sum_i p_i max_y H_i(y), or a smooth loss, by Algorithm 4 of
Pillutla et al. (2018): proximal point steps (25) on smoothed objectives, each an epoch
of SVRG, extrapolated by (27)-(29); parameters are those of Propositions 29-32. A
gradient g of the smoothed hinge, with the expected loss E, is a plane below the hinge
and gives the dual value E - |g|^2 / (2 alpha).
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state

from sksstruct.solvers.bundle.bmrm import Segment
from sksstruct.solvers.core.base import GradientSolver, example
from sksstruct.solvers.core.loop import Loop
from sksstruct.solvers.core.risk import Risk
from sksstruct.solvers.stochastic._catalyst import Catalyst, Schedule, best_kappa
from sksstruct.solvers.stochastic._epochs import (
    LEAST_VISITS,
    Epochs,
    calibrate,
    check_convex,
    report_smooth,
)
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import Interval, StrOptions

# A decreasing smoothing starts where it may change the objective by this share of it.
_FIRST_BIAS = 0.1
# No smoothing changes it by less than this.
_LEAST_BIAS = 1e-8
# Passes without progress until steps are made shorter.
_PATIENCE = 5


@fill_doc(example('solver="casimir", random_state=0'))
@dataclass(eq=False, repr=False)
class Casimir(GradientSolver):
    """Casimir-SVRG: accelerated, for losses with a gradient and the smoothed hinge.

    Minimises the structured hinge through its smoothing, which is fixed or decreases,
    or a loss that is smooth already. Each pass is an approximate proximal point step by
    `SVRG`, followed by an extrapolation [1]_. All parameters follow the paper's
    Propositions 29 to 32 unless given; the step length is found as in `SVRG`.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of passes.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times an objective: for the hinge the one at
        w = 0, for the other losses the one reached.
    schedule : {"adaptive", "constant"}, default="adaptive"
        Whether the smoothing decreases (Corollary 18), or is fixed so that `tol` can be
        reached (Corollary 17).
    smoothing : {"entropy", "l2"}, default="entropy"
        How the hinge is smoothed: through the exp oracle, or the top-K oracle.
    k : int, default=5
        Number of labelings for "l2".
    mu : float or None, default=None
        Smoothing of the hinge, the initial one if it decreases. None: the value that
        changes the objective at w = 0 by a tenth of `tol`, or, if it decreases, by a
        tenth of the objective.
    kappa : float or None, default=None
        Strength of the proximal term, the initial one if it increases.
    learning_rate : float or "auto", default="auto"
        ``1 / (L + alpha)`` where L is the Lipschitz constant of the gradients at the
        first smoothing. "auto" is found as in `SVRG`; steps are halved if five passes
        make no progress.
    start : {"prox_center", "extrapolation", "previous"}, default="prox_center"
        Point where the visits of a pass start (Section 7.3.1).
    inner : {"budget", "accuracy"}, default="budget"
        Whether a pass makes `budget` visits, or as many as its accuracy delta_k takes,
        eq. (26).
    budget : float, default=1.0
        Visits between two full gradients, as a multiple of the number of examples; at
        least 200 visits.

    Notes
    -----
    Memory is that of `SVRG`. With the hinge, the expected mean parameters of every
    gradient are dual variables, and the best point on the segment from the earlier ones
    to these is kept as the certificate.

    References
    ----------
    .. [1] K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to
       train structured prediction models", NeurIPS 2018, Algorithm 4.

    %(example)s
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    schedule: str = "adaptive"
    smoothing: str = "entropy"
    k: int = 5
    mu: float | None = None
    kappa: float | None = None
    learning_rate: float | str = "auto"
    start: str = "prox_center"
    inner: str = "budget"
    budget: float = 1.0

    losses = ("hinge", "smooth")
    _parameter_constraints = {
        **GradientSolver._parameter_constraints,
        "schedule": [StrOptions({"adaptive", "constant"})],
        "smoothing": [StrOptions({"entropy", "l2"})],
        "k": [Interval(Integral, 1, None, closed="left")],
        "mu": [Interval(Real, 0, None, closed="neither"), None],
        "kappa": [Interval(Real, 0, None, closed="neither"), None],
        "learning_rate": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"auto"}),
        ],
        "start": [StrOptions({"prox_center", "extrapolation", "previous"})],
        "inner": [StrOptions({"budget", "accuracy"})],
        "budget": [Interval(Real, 0, None, closed="neither")],
    }

    def _solve(self, model, alpha, options):
        loss = self.smooth_loss(model)
        check_convex(loss)
        return CasimirRun(self, loss, alpha, options).run()


class CasimirRun:
    """One call of `Casimir.solve`: proximal point steps, and when to shorten them."""

    def __init__(self, solver, loss, alpha, options):
        self.solver, self.loss, self.alpha = solver, loss, alpha
        self.model = model = loss.model
        rng = check_random_state(options.random_state)
        self.epochs = Epochs(loss, rng, options.n_jobs)
        self.w = self.epochs.w
        if options.dual_state is not None:
            self.epochs.start_from(options.dual_state["weights"])
        self.loop = Loop(solver, alpha, options)
        self.adaptive = solver.schedule == "adaptive"
        mu = 0.0
        if loss.nonsmooth:
            self.risk = Risk(model, options.n_jobs)
            self.loop.scale = self.risk.value(np.zeros_like(self.w))
            self.epochs.calls += model.n_examples
            # the expected mean parameters of every gradient are dual variables
            self.duals = Segment(alpha, True)
            mu = self._first_smoothing()
            loss.set_smoothing(mu)
        self.value, self.idle = np.inf, 0
        value = self.epochs.value_and_gradient()
        self._certify(value, mu)
        if loss.nonsmooth:
            self._look()
        self.first = self.loop.primal
        rate = solver.learning_rate
        if rate == "auto":
            rate = calibrate(self.epochs, max(alpha, 1e-12))
        lipschitz = max(1.0 / rate - alpha, alpha)
        self.smoothness = lipschitz * mu if mu else lipschitz
        self._accelerate(self.adaptive, mu, lipschitz)

    def _last_smoothing(self):
        """Smoothing that leaves a gap of `tol` within reach (Proposition 29)."""
        part = max(self.solver.tol / 10.0, _LEAST_BIAS)
        return part * self.loop.scale / self.loss.diameter

    def _first_smoothing(self):
        if self.solver.mu is not None:
            return self.solver.mu
        if self.adaptive:
            return _FIRST_BIAS * self.loop.scale / self.loss.diameter
        return self._last_smoothing()

    def _accelerate(self, adaptive, mu, lipschitz):
        """Begin accelerated steps at the weights."""
        solver, n = self.solver, self.model.n_examples
        kappa = solver.kappa
        if kappa is None:
            kappa = best_kappa(self.alpha, adaptive, lipschitz, n)
        self.catalyst = Catalyst(
            self.epochs,
            self.alpha,
            Schedule(self.alpha, adaptive, mu, kappa),
            self.smoothness,
            max(solver.budget * n, LEAST_VISITS),
            solver.start,
            1 if solver.inner == "budget" else None,
        )

    def _certify(self, value, mu):
        """Update the certificate from a gradient at the current weights."""
        w = self.w
        if not self.loss.nonsmooth:
            self.value = value + self.alpha / 2 * float(w @ w)
            report_smooth(self.loop, self.epochs, self.value, self.alpha)
        elif self.alpha > 0:
            self.duals.add(self.epochs.gradient, self.loss.expected_loss)
            self.loop.dual = max(self.loop.dual, self.duals.value)

    def _look(self):
        """Report the hinge objective of the current weights."""
        w = self.w
        self.value = self.risk.value(w) + self.alpha / 2 * float(w @ w)
        self.epochs.calls += self.model.n_examples
        self.loop.calls = self.epochs.calls
        self.loop.report(self.value, w, self.loop.dual)

    def run(self):
        if self.loss.nonsmooth:
            return self.loop.run(self._one_pass)
        return self.loop.run(self._one_pass, self._look_smooth)

    def _look_smooth(self):
        """Report the weights that the last pass reached."""
        self.w[:] = self.catalyst.w
        if np.isfinite(self.w @ self.w):
            self._certify(self.epochs.value_and_gradient(), 0.0)

    def _one_pass(self):
        w, catalyst, loop = self.w, self.catalyst, self.loop
        reached = loop.primal, loop.dual
        with np.errstate(over="ignore", invalid="ignore"):
            catalyst.step(self._certify)
            self.smoothness = catalyst.smoothness
            size = float(w @ w)
        if np.isfinite(size) and self.loss.nonsmooth:
            self._look()
        # The weights of a smooth loss are reported when the next pass begins.
        loop.reported = loop.n_iter if self.loss.nonsmooth else -1
        # while the smoothing decreases, the hinge need not decrease
        settled = not (self.loss.nonsmooth and catalyst.schedule.adaptive)
        idle = settled and reached == (loop.primal, loop.dual)
        self.idle = self.idle + 1 if idle else 0
        # Extrapolation lets the objective rise now and then. If it rises far above its
        # first value, or for long, the steps are too long.
        if (
            not np.isfinite(size)
            or self.value > 2.0 * self.first
            or self.idle == _PATIENCE
        ):
            w[:] = loop.weights
            self.smoothness *= 2.0
            mu = catalyst.schedule.mu(max(catalyst.k, 1))
            lipschitz = self.smoothness / mu if mu else self.smoothness
            self._accelerate(catalyst.schedule.adaptive, mu, lipschitz)
            self.idle = 0
        elif self.loss.nonsmooth and catalyst.schedule.adaptive and self.alpha > 0:
            # Less smoothing than the tolerance needs takes longer for nothing: from
            # there on the smoothing is constant.
            last = self._last_smoothing()
            if catalyst.schedule.mu(catalyst.k) < last:
                self._accelerate(False, last, self.smoothness / last)
