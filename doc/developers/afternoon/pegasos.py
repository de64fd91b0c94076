"""Stochastic subgradient steps on the structured hinge, with a certificate."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_random_state

from afternoon._pegasos import visit
from sksstruct.models.protocols._weights import Weights
from sksstruct.solvers.core.base import Solver
from sksstruct.solvers.core.loop import Loop
from sksstruct.solvers.core.risk import Risk


@dataclass(eq=False, repr=False)
class Pegasos(Solver):
    """Stochastic subgradient method with steps 1 / (alpha t).

    Every pass visits all examples in a new order. After whole passes the mean of the
    oracle's answers is a point of the dual, so that there is a duality gap.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of passes.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective at w = 0.

    References
    ----------
    S. Shalev-Shwartz, Y. Singer, N. Srebro and A. Cotter, "Pegasos: primal estimated
    sub-gradient solver for SVM", Mathematical Programming 127, 2011.
    """

    max_iter: int = 1000
    tol: float = 3e-3

    # What a model must offer, and which losses are minimized; both are the defaults.
    required_oracles = ("max",)
    losses = ("hinge",)

    def _solve(self, model, alpha, options):
        n = model.n_examples
        rng = check_random_state(options.random_state)
        loop = Loop(self, alpha, options)
        risk = Risk(model, options.n_jobs)
        total = Weights(model.n_weights)
        workspace = model.workspace(total.w)
        mean_loss = 0.0  # of all answers so far

        def look():
            w = total.w / (alpha * max(loop.n_iter * n, 1))
            square = alpha / 2 * float(w @ w)
            primal = square + risk.value(w)
            loop.calls += n
            loop.report(primal, w, dual=mean_loss - square)

        def one_pass():
            nonlocal mean_loss
            n_before = loop.n_iter - 1
            order = rng.permutation(n).astype(np.intp)
            loss = visit(model, workspace, total, order, alpha, n_before * n)
            mean_loss += (loss - mean_loss) / loop.n_iter
            loop.calls += n
            look()

        look()
        loop.scale = loop.primal
        return loop.run(one_pass)
