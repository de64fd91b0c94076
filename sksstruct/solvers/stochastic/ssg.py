"""Stochastic subgradient method.

Minimizes alpha/2 |w|^2 + sum_i p_i max_y H_i(y). Step t visits example i, for which the
oracle returns y:

    w <- (1 - rate_t alpha) w + rate_t n p_i A_i^T (mu_i(y_i) - mu_i(y))

The average is 2/(t (t + 1)) sum_k k w_k (Pillutla et al., 2018, Section 7.2).
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from sklearn.utils import check_random_state

from sksstruct.models.protocols._weights import Weights
from sksstruct.solvers.core.base import Solver, example
from sksstruct.solvers.core.box import Box
from sksstruct.solvers.core.loop import Loop
from sksstruct.solvers.core.risk import Risk
from sksstruct.solvers.stochastic.iterates import SubgradientKernel
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import Count, Positive


@fill_doc(example('solver="ssg", random_state=0'))
@dataclass(eq=False, repr=False)
class SSG(Solver):
    """Stochastic subgradient method (Pegasos): fast first passes.

    Visits one example at a time, and makes a step along the subgradient given by its
    loss-augmented labeling. The weights shrink lazily, so the cost of a step depends
    only on the nonzero features of its example.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of passes, each of one oracle call per example.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective at w = 0. If there is no
        gap, stop when the lowest of ten computed objectives is less than a tenth of
        that amount below the lowest of the ten before.
    step_size : {"pegasos", "constant_then_decay"}, default="pegasos"
        Step t has length ``1 / (alpha t)`` [1]_, or
        ``eta0 / (1 + floor(t / t0))`` [2]_ (Section 7.2).
    eta0 : float or None, default=None
        Initial step length of "constant_then_decay". None: ``1 / (alpha n)``, where n
        is the number of examples.
    t0 : int or None, default=None
        Number of steps until the length halves. None: n.
    averaging : bool, default=True
        Whether to return the mean of the iterates with weights 1, 2, 3, ...
    sampling : {"permutation", "uniform"}, default="permutation"
        "permutation": all examples in a new random order every pass; "uniform": with
        replacement.
    check_every : int, default=1
        Number of passes between two computations of the objective. Each computation
        takes one oracle call per example.

    Notes
    -----
    With steps ``1 / (alpha t)`` the iterate is ``1 / (alpha t)`` times the sum of all
    subgradients so far. With permutations, the oracle has been called equally often for
    every example at the end of a pass. The iterate then corresponds to dual variables,
    which are the mean of the labelings that the oracle returned. Their dual value gives
    the certificate. There is no certificate with other options, or with bounds on
    weights, onto which every step is projected.

    References
    ----------
    .. [1] S. Shalev-Shwartz, Y. Singer, N. Srebro and A. Cotter, "Pegasos: primal
       estimated sub-gradient solver for SVM", Mathematical Programming 127, 2011.
    .. [2] K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to
       train structured prediction models", NeurIPS 2018.

    %(example)s
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    step_size: Literal["pegasos", "constant_then_decay"] = "pegasos"
    eta0: Positive | None = None
    t0: Count | None = None
    averaging: bool = True
    sampling: Literal["permutation", "uniform"] = "permutation"
    check_every: Count = 1

    bounded = True

    def _rates(self, steps, alpha, n):
        """Return the lengths of the steps with the numbers `steps`, counted from 1."""
        if self.step_size == "pegasos":
            return 1.0 / (alpha * steps)
        eta0 = 1.0 / (alpha * n) if self.eta0 is None else self.eta0
        t0 = n if self.t0 is None else self.t0
        # longer steps would cross the origin
        return np.minimum(eta0 / (1.0 + (steps - 1) // t0), 0.5 / alpha)

    def _solve(self, model, alpha, options):
        weights = Weights(model.n_weights, average=self.averaging)
        n = model.n_examples
        rng = check_random_state(options.random_state)
        risk = Risk(model, options.n_jobs)
        box = Box.of(model)
        kernel = SubgradientKernel(weights, model, alpha, box=box)
        loop = Loop(self, alpha, options)
        has_dual = self.step_size == "pegasos" and self.sampling == "permutation"
        # a projected iterate is not a mean of labelings, hence defines no dual
        # variables
        has_dual = has_dual and box is None

        def weights_now():
            w = kernel.average() if self.averaging else kernel.weights()
            # weights are products s v: rounding can move them beyond the bounds
            return w if box is None else box.clip(w)

        def look():
            dual = 0.0
            if has_dual and kernel.steps:
                iterate = kernel.weights()
                dual = kernel.loss / kernel.steps
                dual -= alpha / 2 * float(iterate @ iterate)
            w = weights_now()
            loop.calls += n
            value = risk.decode(w)[0]
            # the dual value 0 at w = 0 is a valid bound; -inf means no dual variables
            loop.report(
                value + alpha / 2 * float(w @ w), w, dual if has_dual else -np.inf
            )

        def one_pass():
            if self.sampling == "permutation":
                order = rng.permutation(n)
            else:
                order = rng.randint(n, size=n)
            steps = kernel.steps + np.arange(1.0, n + 1.0)
            kernel.visit(order.astype(np.intp), self._rates(steps, alpha, n))
            loop.calls += n
            if loop.n_iter % self.check_every == 0:
                look()

        look()
        loop.scale = loop.primal
        return loop.run(one_pass, look, weights=weights_now)
