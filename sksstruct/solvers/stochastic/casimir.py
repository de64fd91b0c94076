"""Casimir-SVRG: Catalyst acceleration with smoothing.

Minimizes alpha/2 |w|^2 + sum_i p_i max_y H_i(y), or a smooth loss, by Algorithm 4 of
Pillutla et al. (2018): proximal point steps (25) on smoothed objectives, each by an
epoch of SVRG, and extrapolation by (27)-(29), with the parameters of Propositions
29-32. The outer loop is in `_catalyst.py`; this file chooses smoothing and step
lengths.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from sksstruct.solvers.core.base import SCALING, GradientSolver, example
from sksstruct.solvers.stochastic._catalyst import Catalyst, Schedule, best_kappa
from sksstruct.solvers.stochastic._epochs import LEAST_VISITS, calibrate
from sksstruct.solvers.stochastic._epochs_run import EpochsRun
from sksstruct.solvers.stochastic._steps import StepLength, first_length
from sksstruct.utils._clock import OutOfTime
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import Count, Positive
from sksstruct.utils.progress import Status

# The first smoothing of a decreasing sequence changes the objective at w = 0 by at most
# this fraction. The change is as large only if all labelings have equal scores.
_FIRST_BIAS = {"l2": 0.25, "entropy": 2.5}
# Length of variance-reduced steps as a fraction of 1 / L (Johnson and Zhang).
_SAFETY = 0.1
# Divisor of the step length after divergence.
_SHORTER = 4.0
# The constant A, with gradients that are A / mu Lipschitz, is measured with the
# smoothing that may change the objective by this fraction.
_TRIAL_BIAS = 0.1
# A is set to the measured value divided by this; if the steps are too long, restarts
# double A.
_LESS = 4.0
# At the last smoothing, adapted step lengths are kept while `_PASSES` passes reduce the
# gap to less than this fraction.
_GAIN = 0.7
# Number of passes in which the gap must fall to the fraction `_GAIN`.
_PASSES = 10
# With a constant step length, the smoothing may change the objective by this fraction
# of the gap.
_SHARE_OF_GAP = 0.25
# Number of passes without progress after which steps are made shorter.
_PATIENCE = 5


@fill_doc(example('solver="casimir", random_state=0'))
@dataclass(eq=False, repr=False)
class Casimir(GradientSolver):
    """Casimir-SVRG: an accelerated solver for smooth losses and the smoothed hinge.

    Minimizes the structured hinge through a fixed or decreasing smoothing, or a loss
    that is already smooth. Each pass is an approximate proximal point step by
    `SVRG`, followed by an extrapolation [1]_. All parameters follow the paper's
    Propositions 29 to 32 unless given; the step length is found as in `SVRG`.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of passes.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times an objective: for the hinge the objective
        at w = 0, for other losses the objective reached.
    schedule : {"adaptive", "constant"}, default="adaptive"
        Whether the smoothing decreases (Corollaries 18 and 20), or is fixed so that
        `tol` can be reached (Corollaries 17 and 19).
    smoothing : {"entropy", "l2"}, default="l2"
        How the hinge is smoothed: "entropy" with the exp oracle, or "l2" with the top-K
        oracle, which also computes the hinge. The name "casimir" selects "entropy" if
        the model has an exp oracle, but no top-K oracle, and for
        `sksstruct.models.PartsModel`.
    k : int, default=5
        Number of labelings for "l2". A larger number takes longer, but small gaps may
        need it.
    mu : float or None, default=None
        Smoothing of the hinge; with the adaptive schedule, its initial value. None: the
        value that changes the objective at w = 0 by half of `tol`; with the adaptive
        schedule, by a quarter of the objective ("l2") or two and a half times the
        objective ("entropy").
    kappa : float, "alpha" or None, default=None
        Strength of the proximal term, or its initial value if it increases. "alpha":
        the regularization, as with the adaptive schedule of Section 7.3.1. None: kappa
        of Propositions 29 to 32, for the hinge without `lipschitz` with ``L = 1 / (10
        learning_rate)``, and not less than alpha.
    learning_rate : float or "auto", default="auto"
        Initial step length. For the hinge, "auto" is the length that gives the most
        progress on visits of a few examples. The length is then adapted to the slopes
        of the objective between the first and the last weights of each pass. For smooth
        losses the length is ``1 / (L + alpha)``, found as in `SVRG`, and halved if five
        passes make no progress.
    lipschitz : float or None, default=None
        Lipschitz constant L of the gradients of the loss of an example, for the hinge
        with the initial smoothing `mu`. Steps then have the length ``1 / (L + alpha +
        kappa)`` of Section 7.3.1, which is not adapted: with too small a constant,
        training ends with a large gap. By eq. (58) the constant is ``A / mu``: with a
        smaller ``mu_k``, it is ``L mu / mu_k``. None: see `learning_rate`.
    start : {"prox_center", "extrapolation", "previous"}, default="prox_center"
        Point where the visits of a pass start (Section 7.3.1).
    inner : {"budget", "accuracy"}, default="budget"
        Whether a pass makes `budget` visits, or as many visits as the accuracy delta_k
        needs, eq. (26).
    budget : float, default=1.0
        Visits between two full gradients, as a multiple of the number of examples; at
        least 200 visits.

    Notes
    -----
    The solver uses as much memory as `SVRG`. With the hinge, the expected mean
    parameters of every gradient are dual variables. The best point on the segment from
    the earlier dual variables to the new ones gives the certificate.

    Without `lipschitz`, once the smoothing of the hinge is small enough for `tol`, and
    the gap falls slowly, steps are of constant length ``1 / (A / mu + alpha + kappa)``,
    and ``mu`` follows the gap.

    References
    ----------
    .. [1] K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to
       train structured prediction models", NeurIPS 2018, Algorithm 4.

    %(example)s
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    schedule: Literal["adaptive", "constant"] = "adaptive"
    smoothing: Literal["entropy", "l2"] = "l2"
    k: Count = 5
    mu: Positive | None = None
    kappa: Positive | Literal["alpha"] | None = None
    learning_rate: Positive | Literal["auto"] = "auto"
    lipschitz: Positive | None = None
    start: Literal["prox_center", "extrapolation", "previous"] = "prox_center"
    inner: Literal["budget", "accuracy"] = "budget"
    budget: Positive = 1.0

    bounded = unregularized = True
    losses = ("hinge", "smooth")

    def check(self) -> None:
        """Raise an error if a parameter, or their combination, is not valid."""
        super().check()
        if self.lipschitz is not None and self.learning_rate != "auto":
            raise ValueError(
                "lipschitz gives the length of all steps, and learning_rate the first "
                "one: set one of them"
            )

    def check_alpha(self, alpha: float) -> None:
        super().check_alpha(alpha)
        if self.kappa == "alpha" and not alpha > 0:
            raise ValueError("kappa='alpha' needs alpha > 0: kappa must be positive")

    def _solve(self, model, alpha, options):
        return CasimirRun(self, model, alpha, options).run()


class CasimirRun(EpochsRun):
    """A run of `Casimir`: proximal point steps, smoothings and step lengths."""

    def __init__(self, solver, model, alpha, options):
        super().__init__(solver, model, alpha, options)
        self.adaptive = solver.schedule == "adaptive"
        mu = 0.0
        if self.hinge:
            mu = self._first_smoothing()
            self.loss.set_smoothing(mu)
        self.idle = 0
        # at the last smoothing of the schedule: whether step lengths are constant, and
        # the gaps of passes with adapted step lengths
        self.settled, self.gaps = False, []
        self._certify(self.epochs.value_and_gradient(), mu)
        if self.unseen:
            self.look()
        if self.loop.converged:  # then `run` makes no pass
            return
        self.first = self.loop.primal
        self.fixed = solver.lipschitz is not None
        try:
            with self.loop.at_start():
                self._first_steps(mu)
        except OutOfTime:
            self.loop.status = Status.TIME_LIMIT
            return
        self._accelerate(mu)
        self.catalyst.known = self.hinge

    def _first_steps(self, mu):
        """Find the first step length, or the constant A that determines all lengths."""
        solver, alpha, hinge = self.solver, self.alpha, self.hinge
        if self.fixed:
            self.steps = None
            self.smoothness = solver.lipschitz * (mu if hinge else 1.0)
            return
        rate = solver.learning_rate
        if rate == "auto":
            find = first_length if hinge else calibrate
            rate = find(self.epochs, alpha)
        if not rate > 0.0:
            raise ValueError(f"training broke down: all steps are too long. {SCALING}")
        self.steps = StepLength(rate) if hinge else None
        self.smoothness = max(1.0 / rate - alpha, alpha)

    def _first_smoothing(self):
        if self.solver.mu is not None:
            return self.solver.mu
        if self.adaptive:
            return self.smoothing(_FIRST_BIAS[self.solver.smoothing])
        return self.last_smoothing()

    def _accelerate(self, mu):
        """Restart the accelerated steps at the current weights."""
        solver, n, alpha = self.solver, self.model.n_examples, self.alpha
        kappa, adaptive = solver.kappa, self.adaptive and not self.settled
        if kappa == "alpha":
            kappa = alpha
        elif kappa is None and self.steps is None:
            lipschitz = self.smoothness / mu if mu else self.smoothness
            kappa = best_kappa(alpha, adaptive, lipschitz, n)
        elif kappa is None:
            # Proposition 29, with L estimated from the first step length
            kappa = max(alpha, best_kappa(0.0, adaptive, _SAFETY / self.steps.rate, n))
        least = 0.0
        if mu and alpha > 0:
            # with a smaller smoothing than the tolerance needs, training takes longer
            least = min(mu, self.last_smoothing())
        schedule = Schedule(alpha, adaptive, mu, kappa, least)
        if mu:
            schedule.begin_at(mu)
        self.catalyst = Catalyst(
            self.epochs,
            alpha,
            schedule,
            self.smoothness,
            max(solver.budget * n, LEAST_VISITS),
            solver.start,
            1 if solver.inner == "budget" else None,
            steps=self.steps,
            fixed=self.fixed,
        )

    def _certify(self, value, mu):
        """Update the certificate from a gradient at the current weights."""
        smoothed = self.certify(value)
        if self.settled and smoothed < self.smoothed:
            self.smoothed, self.smoothed_at = smoothed, self.w.copy()

    def run(self):
        return self.loop.run(self._one_pass, self._look_last)

    def _look_last(self):
        """Report the weights that the last pass reached."""
        # after an interrupt in the first step, the present weights are reported
        if self.catalyst.k > 1:
            self.w[:] = self.catalyst.w
        if not np.isfinite(self.w @ self.w):
            return
        if self.hinge:
            self.look()
        else:
            self._certify(self.epochs.value_and_gradient(), 0.0)

    def _one_pass(self):
        w, catalyst, loop = self.w, self.catalyst, self.loop
        reached = self._progress_state()
        with np.errstate(over="ignore", invalid="ignore"):
            catalyst.step(self._certify)
            self.smoothness = catalyst.smoothness
            size = float(w @ w)
        # the gradient is reported at the start of the next pass
        loop.reported = -1
        if np.isfinite(size) and self.unseen:
            self.look()
        if self.fixed:
            if not np.isfinite(size):
                raise ValueError(
                    f"training broke down: set lipschitz to a larger value. {SCALING}"
                )
            return
        idle = self.steps is None and reached == self._progress_state()
        self.idle = self.idle + 1 if idle else 0
        # Extrapolation may let the objective rise temporarily. If the objective rises
        # far above its first value, or does not fall for several passes, the steps are
        # too long.
        if (
            not np.isfinite(size)
            or self.value > 2.0 * self.first
            or self.idle == _PATIENCE
        ):
            w[:] = self.smoothed_at if self.settled else loop.weights
            self.smoothness *= 2.0
            if self.steps is not None:
                self.steps.rate /= _SHORTER
            self._accelerate(catalyst.schedule.mu(max(catalyst.k, 1)))
            self.idle, self.value = 0, loop.primal
        elif self.steps is not None and self._is_gap_stalled():
            self._fix_step_length()
        elif self.settled and self._next_smoothing() < 0.5 * catalyst.schedule.mu(1):
            self._restart_smoothing()

    def _progress_state(self):
        """Return values that stay equal in a pass without progress."""
        # near the optimum of the smoothed objective, the hinge may not fall any more
        return self.smoothed if self.settled else (self.loop.primal, self.loop.dual)

    def _is_gap_stalled(self):
        """Whether the smoothing has reached its minimum and the gap falls slowly."""
        schedule = self.catalyst.schedule
        if self.alpha == 0 or schedule.mu(self.catalyst.k) > schedule.least:
            return False
        self.gaps.append(self.loop.primal - self.loop.dual)
        return (
            len(self.gaps) > _PASSES and self.gaps[-1] > _GAIN * self.gaps[-1 - _PASSES]
        )

    def _fix_step_length(self):
        """Switch to steps of constant length, which minimize the smoothed objective.

        Adapted step lengths become too short near the optimum, where the slopes along
        paths are mostly noise.
        """
        trial = self.smoothing(_TRIAL_BIAS)
        self.w[:] = self.catalyst.w
        self.epochs.set_smoothing(trial)
        self.epochs.value_and_gradient()
        lipschitz = 1.0 / calibrate(self.epochs, self.alpha) - self.alpha
        self.smoothness = max(lipschitz, self.alpha) * trial / _LESS
        self.least = self.catalyst.schedule.least
        self.settled, self.steps = True, None
        self._restart_smoothing()

    def _next_smoothing(self):
        """Return a smoothing with which the gap can become much smaller."""
        gap = self.loop.primal - self.loop.dual
        return max(self.least, _SHARE_OF_GAP * gap / self.loss.diameter)

    def _restart_smoothing(self):
        """Restart the accelerated steps with the smoothing of `_next_smoothing`."""
        self.w[:] = self.catalyst.w
        self.smoothed, self.smoothed_at = np.inf, self.w.copy()
        self._accelerate(self._next_smoothing())
