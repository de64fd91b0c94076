"""The prox-linear method for scores that are not linear in the weights.

Minimizes F(w) = alpha/2 |w|^2 + sum_i p_i h(g_i(w)), where h is the hinge or a smooth
loss and g_i is nonlinear, by Algorithm 5 of Pillutla et al. (2018). The convex models
(61) are minimized by L-BFGS, or by Casimir-SVRG as in the paper.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from scipy.optimize import minimize

from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.models.roles import nonlinear_loss
from sksstruct.solvers.core.base import Solver, SolverRun
from sksstruct.solvers.core.box import Box
from sksstruct.solvers.core.loop import LEAST_SCALE, Loop
from sksstruct.solvers.stochastic._catalyst import Catalyst, Schedule, best_kappa
from sksstruct.solvers.stochastic._epochs import Order, calibrate
from sksstruct.utils._param_validation import Count, Positive

# The initial smoothing may change the objective by this fraction.
FIRST_BIAS = 0.1
# Smallest number of steps of Casimir-SVRG between two full gradients.
LEAST_STEPS = 8
# Bounds of the step length eta.
ETA = 1e-6, 1e6
# Factor by which stochastic steps become longer after a pass that lowers the objective.
LONGER = 1.5
# Factor by which stochastic steps become shorter after any other pass.
SHORTER = 2.0
# Number of gradients, or of accelerated steps, in a pass.
INNER_ITER = {"lbfgs": 10, "casimir": 5}


@dataclass(eq=False, repr=False)
class ProxLinear(Solver):
    """Prox-linear method: for nonlinear scores.

    Minimizes losses h(g(w)) of nonlinear scores g, with a convex h such as the
    structured hinge. Every pass minimizes the loss of the scores linearized at the
    iterate [1]_,

        ``mean_i h(g_i(w_k) + J_i (w - w_k)) + alpha/2 |w|^2 + |w - w_k|^2 / (2 eta)``

    approximately. A hinge is smoothed by mu / k in pass k. The result becomes the next
    iterate if the objective falls.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of passes.
    tol : float, default=3e-3
        Stop when ten passes have reduced the objective by less than ``tol / 10`` times
        its initial value. This also happens if steps are too short. There is no
        certificate, because the problem is not convex.
    eta : float or "auto", default="auto"
        Step length. "auto" starts at 1, doubles the length after a step that reduces
        the objective, and divides it by four after other steps.
    smoothing : {"auto", "entropy", "l2"}, default="auto"
        How the hinge is smoothed: through the exp oracle, or the top-K oracle. "auto"
        is "l2" for chains, and if a model has no exp oracle.
    k : int, default=10
        Number of labelings for "l2".
    mu : float or None, default=None
        Smoothing of the hinge in the first pass. None: the value that changes the
        initial objective by at most a tenth.
    schedule : {"adaptive", "constant"}, default="adaptive"
        Whether pass k smoothes by mu / k or by mu.
    inner : {"lbfgs", "casimir"}, default="lbfgs"
        Solver of the convex problems: L-BFGS with full gradients, or Casimir-SVRG with
        stochastic gradients of parts of the examples.
    inner_iter : int or "auto", default="auto"
        Gradients of a pass with L-BFGS, 10, or accelerated steps with Casimir-SVRG, 5,
        each of two oracle calls per example or more.
    learning_rate : float or "auto", default="auto"
        Length of the stochastic steps in the first pass, with Casimir-SVRG. Steps are
        shorter if the smoothing is smaller. "auto" finds the length by trial, and
        increases it after passes that reduce the objective.
    start : {"prox_center", "extrapolation", "previous"}, default="prox_center"
        Point where accelerated steps start, with Casimir-SVRG, as in
        `sksstruct.solvers.Casimir`.

    Notes
    -----
    Besides the features, the solver stores a few tables of the size of all scores, and
    the data that the score function keeps for the linearization.

    References
    ----------
    .. [1] K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to
       train structured prediction models", NeurIPS 2018, Algorithm 5 and Section 7.3.2.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.models import ELUScore
    >>> X, y = [[[0.0], [1.0], [2.0]]] * 4, [["out", "in", "out"]] * 4
    >>> tagger = ChainCRF(
    ...     1e-3, score_function=ELUScore(8), solver="prox_linear", random_state=0
    ... )
    >>> tagger.fit(X, y).predict([[[0.0], [1.0], [2.0]]])[0].tolist()
    ['out', 'in', 'out']
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    eta: Positive | Literal["auto"] = "auto"
    smoothing: Literal["auto", "entropy", "l2"] = "auto"
    k: Count = 10
    mu: Positive | None = None
    schedule: Literal["adaptive", "constant"] = "adaptive"
    inner: Literal["lbfgs", "casimir"] = "lbfgs"
    inner_iter: Count | Literal["auto"] = "auto"
    learning_rate: Positive | Literal["auto"] = "auto"
    start: Literal["prox_center", "extrapolation", "previous"] = "prox_center"

    required_oracles = ("nonlinear",)
    losses = ("hinge", "smooth")
    bounded = unregularized = True

    def accepts(self, dual_state: dict, model: BoundModel) -> bool:
        weights = dual_state.get("weights")
        return weights is not None and len(weights) == model.n_weights

    def _solve(self, model, alpha, options):
        return ProxLinearRun(self, model, alpha, options).run()


class ProxLinearRun(SolverRun):
    """A call of `ProxLinear.solve`: the outer loop of Algorithm 5."""

    def __init__(self, solver, problem, alpha, options):
        super().__init__(solver, problem, alpha, options)
        fine = solver.inner == "casimir"
        self.loss = nonlinear_loss(problem, solver.smoothing, solver.k, fine=fine)
        self.w = self.loss.initial_weights(self.rng)
        start = options.start(problem.n_weights)
        if start is not None:
            self.w = start.copy()
        self.loop = Loop(solver, alpha, options)
        first, diameter = self._objective(self.w), self.loss.diameter
        # the objective cannot be negative, so that an objective of zero is optimal
        self.loop.report(first, self.w, 0.0 if first < LEAST_SCALE else -np.inf)
        self.loop.scale = self.loop.primal
        self.mu = 0.0
        if self.loss.nonsmooth:
            # if every example has a single output, the smoothing does not matter
            self.mu = solver.mu or (FIRST_BIAS * first / diameter if diameter else 1.0)
        self.eta = 1.0 if solver.eta == "auto" else solver.eta
        count = solver.inner_iter
        self.inner = {"lbfgs": QuasiNewton, "casimir": Accelerated}[solver.inner](
            self, INNER_ITER[solver.inner] if count == "auto" else count
        )

    def _objective(self, w):
        self.loop.calls += self.loss.n_examples
        value = self.loss.value(w, self.n_jobs)
        return value + self.alpha / 2 * float(w @ w)

    def run(self):
        return self.loop.run(self._one_pass)

    def _one_pass(self):
        loop, k = self.loop, 1
        if self.solver.schedule == "adaptive":
            k = loop.n_iter
        if self.mu:
            self.loss.set_smoothing(self.mu / k)
        self.loss.linearize(self.w)
        with np.errstate(over="ignore", invalid="ignore"):
            new_w = self.inner.minimum(self.w, self.eta, k)
            value = self._objective(new_w) if np.isfinite(new_w @ new_w) else np.inf
        old_primal = loop.primal
        if value <= old_primal:  # line 4 of Algorithm 5
            self.w = new_w
            loop.report(value, new_w)
        else:
            loop.report(old_primal, self.w)
        self.inner.adapt(value < old_primal)
        if self.solver.eta == "auto":
            # as in a trust region, eta grows after a decrease of the objective, and
            # shrinks otherwise
            factor = 2.0 if value < old_primal else 0.25
            self.eta = float(np.clip(factor * self.eta, *ETA))


class QuasiNewton:
    """Minimizes convex models with full gradients and L-BFGS.

    Parameters
    ----------
    run : ProxLinearRun
        The run.
    most : int
        Largest number of gradients of a model.
    """

    def __init__(self, run, most):
        self.run, self.most = run, most
        box = Box.of(run.loss)
        self.bounds = None
        if box is not None:
            self.bounds = np.stack([box.lower, box.upper], axis=1)

    def adapt(self, succeeded):
        """Do nothing: line searches find the step length."""

    def minimum(self, center, eta, k):
        """Return an approximate minimum of the convex model around its center."""
        run = self.run

        def value_and_gradient(w):
            run.loop.calls += run.loss.n_examples
            value, gradient = run.loss.value_and_gradient(w, run.n_jobs)
            move = w - center
            value += run.alpha / 2 * float(w @ w) + float(move @ move) / (2 * eta)
            return value, gradient + run.alpha * w + move / eta

        return minimize(
            value_and_gradient,
            center,
            jac=True,
            method="L-BFGS-B",
            bounds=self.bounds,
            options={"maxfun": self.most, "maxiter": self.most},
        ).x


class Accelerated:
    """Minimizes convex models by Casimir-SVRG with a budget of steps.

    Parameters
    ----------
    run : ProxLinearRun
        The run; with `learning_rate` "auto" its loss is smoothed and linearized here.
    most : int
        Number of accelerated steps.
    """

    def __init__(self, run, most):
        self.run, self.most = run, most
        self.epochs = LinearizedEpochs(run.loss, run.w, run.rng, run.n_jobs)
        rate = run.solver.learning_rate
        if rate == "auto":
            if run.mu:
                run.loss.set_smoothing(run.mu)
            run.loss.linearize(run.w)
            self.epochs.value_and_gradient()
            rate = calibrate(self.epochs, run.alpha, at_zero=False)
        self.lipschitz = max(1.0 / rate - run.alpha, run.alpha)

    def adapt(self, succeeded):
        """Take longer steps if the last pass lowered the objective, else shorter."""
        if self.run.solver.learning_rate == "auto":
            self.lipschitz *= SHORTER if not succeeded else 1.0 / LONGER

    def minimum(self, center, eta, k):
        """Return an approximate minimum of the convex model around its center."""
        run, epochs = self.run, self.epochs
        ridge, before = run.alpha + 1.0 / eta, epochs.calls
        # L_k = k L_0 if the smoothing is mu / k
        lipschitz = self.lipschitz * k if run.mu else self.lipschitz
        kappa = best_kappa(ridge, False, lipschitz, epochs.n_examples)
        epochs.w[:] = center
        catalyst = Catalyst(
            epochs,
            ridge,
            Schedule(ridge, False, run.mu / k, kappa),
            self.lipschitz * run.mu if run.mu else self.lipschitz,
            max(epochs.n_examples, LEAST_STEPS),
            run.solver.start,
            linear=-center / eta,
        )
        for _ in range(self.most):
            catalyst.step()
        run.loop.calls += epochs.calls - before
        return epochs.w.copy()


class LinearizedEpochs(Order):
    """`Epochs` of the convex model, in which visits are of parts of the examples."""

    def __init__(self, loss, w, rng, n_jobs):
        super().__init__(loss.n_parts, rng)
        self.loss, self.n_jobs, self.box = loss, n_jobs, Box.of(loss)
        self.w = w.copy()
        self.gradient = np.zeros_like(w)

    def set_smoothing(self, mu):
        """Set the smoothing parameter of the loss to mu."""
        self.loss.set_smoothing(mu)

    def value_and_gradient(self):
        """Return the smoothed convex model at the weights, and write its gradient."""
        # extrapolated and trial points may violate the bounds
        if self.box is not None:
            self.box.clip(self.w)
        self.value, self.gradient[:] = self.loss.value_and_gradient(self.w, self.n_jobs)
        self.calls += self.loss.n_examples
        return self.value

    def epoch(self, visits, rate, ridge, linear=None, anchored=True):
        """Make the steps of `VarianceReducedKernel`, one part at a time."""
        loss, w = self.loss, self.w
        direction = np.zeros_like(w) if linear is None else linear.copy()
        if anchored:
            direction += self.gradient
        order = self.draw(visits)
        for number in order.tolist():
            slope = loss.part_gradient(number, w, anchored, self.n_jobs)
            # the factor makes the gradient unbiased, as parts are drawn uniformly
            slope *= loss.n_parts * loss.shares[number]
            slope += direction
            slope *= rate
            w *= 1.0 - rate * ridge
            w -= slope
            if self.box is not None:
                self.box.clip(w)
        self.calls += len(order) * loss.n_examples // loss.n_parts
