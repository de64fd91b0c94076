"""Stochastic variance-reduced gradient.

Minimizes P(w) = alpha/2 |w|^2 + f(w) with smooth f = sum_i p_i f_i (Johnson and Zhang,
2013, Procedure SVRG). At every anchor, P(w) - |grad P(w)|^2 / (2 alpha) is a dual
value. For the hinge, f is its fixed smoothing (Pillutla et al., 2018, Section 7.2).
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from sksstruct.solvers.core.base import GradientSolver, example
from sksstruct.solvers.stochastic._epochs import LEAST_VISITS, calibrate
from sksstruct.solvers.stochastic._epochs_run import EpochsRun
from sksstruct.utils._clock import OutOfTime
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import Count, Positive
from sksstruct.utils.progress import Status


@fill_doc(example('loss="log", solver="svrg"'))
@dataclass(eq=False, repr=False)
class SVRG(GradientSolver):
    """Stochastic variance-reduced gradient: for many examples.

    Minimizes a smooth loss, or the structured hinge through a fixed smoothing [2]_. A
    pass visits examples one at a time, and makes steps along [1]_

        ``grad f_i(w) - grad f_i(anchor) + grad f(anchor) + alpha w``

    and then computes the gradient of the mean loss f at the new anchor. The cost of a
    step depends only on the nonzero features of its example.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of passes, each of ``1 + epoch_size`` oracle calls per example.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times an objective: for the hinge the objective
        at w = 0, for other losses the objective reached. For other losses the gap is
        ``|gradient|^2 / (2 alpha)``, as in `LBFGS`. If there is no gap, stop when
        the lowest objective of ten passes is less than a tenth of that amount below the
        lowest of the ten before.
    learning_rate : float or "auto", default="auto"
        Step length, less than ``1 / alpha``. "auto" starts with half the length that
        reduces the objective most on a tenth of the examples, and halves the length
        whenever the objective, with the hinge smoothed, rises.
    epoch_size : float, default=2.0
        Number of visits per pass, as a multiple of the number of examples. There are at
        least 200 visits.
    first_pass : bool, default=True
        Whether training from zero begins with a pass of plain stochastic gradients.
    smoothing : {"entropy", "l2"}, default="l2"
        How the hinge is smoothed: "entropy" with the exp oracle, or "l2" with the top-K
        oracle, which also computes the hinge. The name "svrg" selects "entropy" if the
        model has an exp oracle, but no top-K oracle, and for
        `sksstruct.models.PartsModel`.
    k : int, default=5
        Number of labelings for "l2". A larger number takes longer, but small gaps may
        need it.
    mu : float or None, default=None
        Smoothing of the hinge. None: the value that changes the objective at w = 0 by
        half of `tol`. A larger value is faster, and may not reach `tol`.

    Notes
    -----
    With the hinge, passes end at the average of their iterates, as in [2]_. The
    objective is that of the hinge, and the expected mean parameters of every gradient
    are dual variables. The best point on the segment from the earlier dual variables to
    the new ones gives the certificate.

    Besides a few vectors of weights, the solver stores the node means of all positions
    and a table of label pairs for each example. For sentences with 20 labels, this
    takes as much memory as the features. With 200 labels, it takes ten times as much.

    References
    ----------
    .. [1] R. Johnson and T. Zhang, "Accelerating stochastic gradient descent using
       predictive variance reduction", NIPS 2013.
    .. [2] K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to
       train structured prediction models", NeurIPS 2018, Section 7.2.

    %(example)s
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    learning_rate: Positive | Literal["auto"] = "auto"
    epoch_size: Positive = 2.0
    first_pass: bool = True
    smoothing: Literal["entropy", "l2"] = "l2"
    k: Count = 5
    mu: Positive | None = None

    bounded = unregularized = True
    losses = ("hinge", "smooth")

    def _solve(self, model, alpha, options):
        return SVRGRun(self, model, alpha, options).run(options)


class SVRGRun(EpochsRun):
    """A run of `SVRG`: epochs, whose steps are shortened when the objective rises."""

    def run(self, options):
        solver, epochs, alpha = self.solver, self.epochs, self.alpha
        self.visits = max(solver.epoch_size * epochs.n_examples, LEAST_VISITS)
        self.anchored = options.dual_state is not None or not solver.first_pass
        self.last, self.rate = np.inf, 0.0
        if self.hinge:
            mu = solver.mu
            self.loss.set_smoothing(self.last_smoothing() if mu is None else mu)
        self._look()
        self.rate = solver.learning_rate
        if self.rate == "auto":
            try:
                with self.loop.at_start():
                    self.rate = calibrate(epochs, alpha)
                    if self.anchored:
                        epochs.value_and_gradient()
            except OutOfTime:
                self.loop.status = Status.TIME_LIMIT
        return self.loop.run(self._one_pass, self._look)

    def _look(self):
        """Report the weights, and make steps shorter if the objective rose."""
        if not np.isfinite(self.w @ self.w):
            self.w[:] = self.loop.weights
            self.rate /= 4.0
        before, self.last = self.last, self.certify(self.epochs.value_and_gradient())
        if self.unseen:
            self.look()
        if self.last > before and self.solver.learning_rate == "auto":
            self.rate /= 2.0

    def _one_pass(self):
        with np.errstate(over="ignore", invalid="ignore"):
            self.epochs.epoch(
                self.visits, self.rate, self.alpha, anchored=self.anchored
            )
        self.anchored = True
        self._look()
