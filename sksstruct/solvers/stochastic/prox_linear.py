"""The prox-linear method for scores that are not linear in the weights.

Minimises F(w) = alpha/2 |w|^2 + sum_i p_i h(g_i(w)), h being the hinge or a smooth loss
and g_i nonlinear: Algorithm 5 of Pillutla et al. (2018), whose convex models (61) go to
Casimir-SVRG.
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state

from sksstruct.losses import SmoothedHinge
from sksstruct.solvers.core.base import Solver
from sksstruct.solvers.core.loop import Loop
from sksstruct.solvers.stochastic._catalyst import Catalyst, Schedule, best_kappa
from sksstruct.solvers.stochastic._epochs import LEAST_VISITS, Order, calibrate
from sksstruct.utils._param_validation import Interval, StrOptions

# The smoothing starts where it may change the objective by this share of it.
_FIRST_BIAS = 0.1
# Step lengths are between these.
_ETA = 1e-6, 1e6


@dataclass(eq=False, repr=False)
class ProxLinear(Solver):
    """Prox-linear method: for scores that are not linear in the weights.

    For losses h(g(w)) of nonlinear scores g, with a convex h such as the structured
    hinge. Every pass minimises the loss of the scores linearised at the iterate [1]_,

        ``mean_i h(g_i(w_k) + J_i (w - w_k)) + alpha/2 |w|^2 + |w - w_k|^2 / (2 eta)``

    approximately, by a few accelerated steps with smoothing mu / k in pass k. The
    result becomes the next iterate if the objective falls.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of passes.
    tol : float, default=3e-3
        Stop when ten passes have lowered the objective by less than ``tol / 10`` of its
        first value, which also happens if steps are too short. There is no certificate:
        the problem is not convex.
    eta : float or "auto", default="auto"
        Length of the steps. "auto" begins at 1, doubles it after a step that lowers the
        objective, and divides it by four after any other.
    smoothing : {"entropy", "l2"}, default="l2"
        How the hinge is smoothed: through the exp oracle, or the top-K oracle.
    k : int, default=10
        Number of labelings for "l2".
    mu : float or None, default=None
        Smoothing of the hinge in the first pass. None: the value that changes the
        objective by a tenth.
    inner_iter : int, default=5
        Accelerated steps of a pass, each of about two oracle calls per example.
    learning_rate : float or "auto", default="auto"
        Length of the stochastic steps of the first pass.

    References
    ----------
    .. [1] K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to
       train structured prediction models", NeurIPS 2018, Algorithm 5.

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
    eta: float | str = "auto"
    smoothing: str = "l2"
    k: int = 10
    mu: float | None = None
    inner_iter: int = 5
    learning_rate: float | str = "auto"

    required_oracles = ("nonlinear",)
    losses = ("hinge", "smooth")
    _parameter_constraints = {
        **Solver._parameter_constraints,
        "eta": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "smoothing": [StrOptions({"entropy", "l2"})],
        "k": [Interval(Integral, 1, None, closed="left")],
        "mu": [Interval(Real, 0, None, closed="neither"), None],
        "inner_iter": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"auto"}),
        ],
    }

    def accepts(self, dual_state, model):
        weights = dual_state.get("weights")
        return weights is not None and len(weights) == model.n_weights

    def _solve(self, problem, alpha, options):
        model = problem.nonlinear_loss(SmoothedHinge(self.smoothing, 1.0, self.k))
        rng = check_random_state(options.random_state)
        w = model.initial_weights(rng)
        if options.dual_state is not None:
            w = np.array(options.dual_state["weights"])
        loop = Loop(self, alpha, options)
        epochs = LinearizedEpochs(model, w, rng, options.n_jobs)

        def objective(w):
            epochs.calls += model.n_examples
            return model.value(w, options.n_jobs) + alpha / 2 * float(w @ w)

        first = objective(w)
        loop.calls = epochs.calls
        loop.report(first, w)
        loop.scale = first
        mu = 0.0
        if model.nonsmooth:
            mu = self.mu or _FIRST_BIAS * first / model.diameter
            model.set_smoothing(mu)
        model.linearize(w)
        epochs.value_and_gradient()
        rate = self.learning_rate
        if rate == "auto":
            rate = calibrate(epochs, alpha, at_zero=False)
        lipschitz = max(1.0 / rate - alpha, alpha)
        eta = 1.0 if self.eta == "auto" else self.eta
        visits = max(model.n_examples, LEAST_VISITS)

        def one_pass():
            nonlocal w, eta
            k = loop.n_iter
            smoothing = mu / k
            now = lipschitz * k if mu else lipschitz
            ridge = alpha + 1.0 / eta
            model.linearize(w)
            epochs.w[:] = w
            kappa = best_kappa(ridge, False, now, model.n_examples)
            catalyst = Catalyst(
                epochs,
                ridge,
                Schedule(ridge, False, smoothing, kappa),
                lipschitz * mu if mu else lipschitz,
                visits,
                linear=-w / eta,
            )
            with np.errstate(over="ignore", invalid="ignore"):
                for _ in range(self.inner_iter):
                    catalyst.step()
                finite = np.isfinite(epochs.w @ epochs.w)
                value = objective(epochs.w) if finite else np.inf
            loop.calls = epochs.calls
            previous = loop.primal
            if value <= previous:  # line 4
                w = epochs.w.copy()
                loop.report(value, w)
            else:
                loop.report(loop.primal, w)
            if self.eta == "auto":
                eta = 2.0 * eta if value < previous else eta / 4.0
                eta = float(np.clip(eta, *_ETA))

        return loop.run(one_pass)


class LinearizedEpochs(Order):
    """`Epochs` of the convex model, whose gradients are computed in Python."""

    def __init__(self, loss, w, rng, n_jobs):
        super().__init__(loss.n_examples, rng)
        self.loss, self.n_jobs = loss, n_jobs
        self.w = w.copy()
        self.gradient = np.zeros_like(w)
        self.anchor = w.copy()

    def set_smoothing(self, mu):
        """Smooth by mu from now on."""
        self.loss.set_smoothing(mu)

    def value_and_gradient(self):
        """The smoothed model at the weights; its gradient goes to `gradient`."""
        value, gradient = self.loss.value_and_gradient(self.w, self.n_jobs)
        self.gradient[:] = gradient
        self.anchor[:] = self.w
        self.calls += self.n_examples
        return value

    def epoch(self, visits, rate, ridge, linear=None, anchored=True):
        """Make the steps of `VarianceReducedKernel`, one example after the other."""
        loss, w = self.loss, self.w
        direction = np.zeros_like(w) if linear is None else linear.copy()
        if anchored:
            direction += self.gradient
        order = self.draw(visits)
        for i in order.tolist():
            ratio = self.n_examples * loss.example_weights[i]
            slope = loss.example_gradient(i, w)
            if anchored:
                slope -= loss.example_gradient(i, self.anchor)
            w *= 1.0 - rate * ridge
            w -= rate * (ratio * slope + direction)
        self.calls += len(order) * (2 if anchored else 1)
