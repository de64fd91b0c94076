"""Stochastic variance-reduced gradient.

Minimizes P(w) = alpha/2 |w|^2 + f(w), f = sum_i p_i f_i being smooth (Johnson and
Zhang, 2013, Procedure SVRG). At every anchor P(w) - |grad P(w)|^2 / (2 alpha) is a
dual value.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from sklearn.utils import check_random_state

from sksstruct.solvers.core.base import GradientSolver, example
from sksstruct.solvers.core.box import Box
from sksstruct.solvers.core.certificate import Certificate
from sksstruct.solvers.core.loop import Loop
from sksstruct.solvers.stochastic._epochs import (
    LEAST_VISITS,
    Epochs,
    calibrate,
    check_convex,
    report_smooth,
)
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import Positive


@fill_doc(example('loss="log", solver="svrg"'))
@dataclass(eq=False, repr=False)
class SVRG(GradientSolver):
    """Stochastic variance-reduced gradient: for many examples and smooth losses.

    A pass visits examples one at a time, and makes steps along [1]_

        ``grad f_i(w) - grad f_i(anchor) + grad f(anchor) + alpha w``

    and then computes the gradient of the mean loss f at the new anchor. The cost of a
    step depends only on the nonzero features of its example.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of passes, each of ``1 + epoch_size`` oracle calls per example.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective. The gap is
        ``|gradient|^2 / (2 alpha)``, as in `LBFGS`. If there is no gap, stop when
        the lowest objective of ten passes is less than a tenth of that amount below the
        lowest of the ten before.
    learning_rate : float or "auto", default="auto"
        Step length, less than ``1 / alpha``. "auto" starts with half the length that
        reduces the objective most on a tenth of the examples, and halves it whenever
        the objective rises.
    epoch_size : float, default=2.0
        Number of visits per pass, as a multiple of the number of examples. There are at
        least 200 visits.
    first_pass : bool, default=True
        Whether training from zero begins with a pass of plain stochastic gradients.

    Notes
    -----
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

    bounded = unregularized = True

    def _solve(self, model, alpha, options):
        loss = self.smooth_loss(model)
        check_convex(loss)
        rng = check_random_state(options.random_state)
        box = Box.of(loss.model)
        epochs = Epochs(loss, rng, options.n_jobs, box=box)
        certificate = Certificate(alpha, box)
        w = epochs.w
        start = options.start(model.n_weights)
        if start is not None:
            epochs.start_from(start)
        loop = Loop(self, alpha, options)
        visits = max(self.epoch_size * epochs.n_examples, LEAST_VISITS)
        anchored = options.dual_state is not None or not self.first_pass
        last = np.inf

        def look():
            nonlocal last, rate
            size = float(w @ w)
            if not np.isfinite(size):
                w[:] = loop.weights
                rate, size = rate / 4.0, float(w @ w)
            before, last = last, epochs.value_and_gradient() + alpha / 2 * size
            if last > before and self.learning_rate == "auto":
                rate /= 2.0
            report_smooth(loop, epochs, last, certificate)

        rate = 0.0
        look()
        rate = self.learning_rate
        if rate == "auto":
            rate = calibrate(epochs, alpha)
            if anchored:
                epochs.value_and_gradient()

        def one_pass():
            nonlocal anchored
            with np.errstate(over="ignore", invalid="ignore"):
                epochs.epoch(visits, rate, alpha, anchored=anchored)
            anchored = True
            look()

        return loop.run(one_pass)
