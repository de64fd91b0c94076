"""Epochs of variance-reduced steps, and a suitable step length."""

import numpy as np

from sksstruct.models.protocols._weights import LazyWeights
from sksstruct.solvers.stochastic.iterates import VarianceReducedKernel
from sksstruct.utils._clock import OutOfTime
from sksstruct.utils._layout import aligned_zeros

# Smallest number of visits of an epoch; visits to try a step length, as a share of all.
LEAST_VISITS = 200
_TRIAL = 0.1


class Order:
    """Examples in random order, and the number of oracle calls."""

    # bounds of some weights
    box = None

    def __init__(self, n_examples, rng):
        self.n_examples = n_examples
        self.rng = rng
        self.calls = 0

    def draw(self, visits):
        """So many examples: permutations of all, the last one cut short."""
        full, rest = divmod(int(visits), self.n_examples)
        parts = [self.rng.permutation(self.n_examples) for _ in range(full)]
        if rest:
            parts.append(self.rng.permutation(self.n_examples)[:rest])
        return np.concatenate(parts).astype(np.intp)


class Epochs(Order):
    """The smooth part f of an objective: its gradient, and epochs of visits.

    Parameters
    ----------
    loss : SmoothLoss
        Mean smooth loss.
    rng : RandomState
        Order of the visits.
    n_jobs : int or None
        Threads for the gradient.
    average : bool, default=False
        Whether epochs with an anchor end at the average of their iterates, as is good
        for losses that are hardly smooth.
    box : Box or None
        Bounds of some weights.

    Attributes
    ----------
    w : ndarray of shape (n_weights,)
        The weights, to be read and written.
    gradient : ndarray of shape (n_weights,)
        Gradient of the last call of `value_and_gradient`, whose weights are the anchor.
    value : float
        f there.
    calls : int
        Oracle calls so far.
    """

    def __init__(self, loss, rng, n_jobs=None, *, average=False, box=None):
        super().__init__(loss.model.n_examples, rng)
        self.loss, self.n_jobs, self.box = loss, n_jobs, box
        self.average = average
        weights = LazyWeights(loss.model.n_weights, average=average)
        self.w = weights.w
        if box is not None:
            box.clip(self.w)
        self.gradient = aligned_zeros(len(self.w))
        loss.keep_anchors = True
        self._kernel = VarianceReducedKernel(loss, weights, box)
        self._direction = aligned_zeros(len(self.w))
        self._outside = missing_weights(loss)

    def set_smoothing(self, mu):
        """Smooth by mu from now on."""
        self.loss.set_smoothing(mu)

    def start_from(self, weights):
        """Start at the given weights, as far as they exist."""
        kept = slice(None) if self.loss.support is None else self.loss.support
        self.w[kept] = weights[kept]
        if self.box is not None:
            self.box.clip(self.w)

    def value_and_gradient(self):
        """f at the weights; its gradient goes to `gradient`."""
        loss = self.loss
        self.value = loss.value_and_gradient(self.w, self.gradient, self.n_jobs)
        if self._outside is not None:
            self.gradient[self._outside] = 0.0
        self.calls += self.n_examples
        return self.value

    def epoch(self, visits, rate, ridge, linear=None, anchored=True):
        """Steps on f(w) + <linear, w> + ridge/2 |w|^2; see `VarianceReducedKernel`.

        Without an anchor they are plain stochastic gradient steps.
        """
        average = anchored and self.average
        self.visit(self.draw(visits), rate, ridge, linear, anchored, average)

    def visit(self, order, rate, ridge, linear=None, anchored=True, average=False):
        """Steps on the given examples, as of `epoch`."""
        direction = self._direction
        direction[:] = self.gradient if anchored else 0.0
        if linear is not None:
            direction += linear
        ratios = self.n_examples * self.loss.model.example_weights[order]
        self._kernel.epoch(order, ratios, direction, rate, ridge, anchored, average)
        if self.box is not None:
            self.box.clip(self.w)  # products round
        self.calls += len(order)


def calibrate(epochs, ridge, at_zero=True):
    """Length of stochastic gradient steps that gains most in a tenth of a pass.

    Starts from the curvature of f along its gradient, goes up and down by factors of
    four while that helps, and returns half of the best length. The weights are not
    changed; the anchor is.

    Parameters
    ----------
    epochs : Epochs
        The smooth part, with its gradient at the weights.
    ridge : float
        Strength of the quadratic part, or zero.
    at_zero : bool, default=True
        Whether to try the steps from zero: near the optimum no length gains anything.

    Returns
    -------
    rate : float
        Step length.
    """
    w, gradient = epochs.w, epochs.gradient
    given = w.copy()

    def go_to(point):
        w[:] = point
        if epochs.box is not None:
            epochs.box.clip(w)

    if at_zero and w.any():
        go_to(0.0)
        epochs.value_and_gradient()
    start, slope = w.copy(), gradient.copy()
    norm = float(np.sqrt(slope @ slope))
    if norm == 0.0:
        w[:] = given
        return 0.5 / ridge if ridge else 1.0
    # lengths follow the scale of the features: this one takes a line to zero
    most = abs(epochs.value) / norm**2
    small = 1e-5 * most * norm
    go_to(start - small / norm * slope)
    epochs.value_and_gradient()
    change = gradient - slope
    curvature = float(np.sqrt(change @ change)) / small if small else 0.0
    rate = 0.05 / curvature if curvature else most
    most = 0.5 / ridge if ridge else np.inf  # no step goes beyond the origin
    visits = max(epochs.n_examples * _TRIAL, min(LEAST_VISITS, epochs.n_examples))
    state = epochs.rng.get_state()

    def value(rate):
        epochs.rng.set_state(state)  # the same examples
        w[:] = start
        with np.errstate(over="ignore", invalid="ignore"):
            epochs.epoch(visits, rate, ridge, anchored=False)
            size = float(w @ w)
        if not np.isfinite(size):
            return np.inf
        return epochs.value_and_gradient() + ridge / 2 * size

    rate, _ = try_rates(value, min(rate, most), most, (4.0, 0.25), 30)
    w[:] = given
    # the length that gains most at first is too long near the optimum
    return rate / 2.0


def try_rates(value, rate, most, factors, trials):
    """The step length with the lowest value, going up and down while that helps.

    Where the time for trials is over, those so far decide.

    Parameters
    ----------
    value : callable
        ``value(rate)``, inf for lengths that are much too long.
    rate, most : float
        The first length, and the largest one.
    factors : tuple of float
        A longer and a shorter length, as multiples, in the order in which they are
        tried; the second only if the first did not help.
    trials : int
        Largest number of trials with each of them.

    Returns
    -------
    rate, best : float
        The length, and its value.
    """
    best = value(rate)
    # without a value, longer ones have none either
    for factor in [f for f in factors if f < 1.0 or np.isfinite(best)]:
        first = rate
        for _ in range(trials):
            other = min(rate * factor, most)
            if other == rate:
                break
            try:
                now = value(other)
            except OutOfTime:
                return rate, best
            if now >= best and np.isfinite(best):
                break
            best, rate = now, other
        if rate != first:
            break
    return rate, best


def missing_weights(loss):
    """A mask of the weights that do not exist; None if all do."""
    if loss.support is None:
        return None
    outside = np.ones(loss.model.n_weights, dtype=bool)
    outside[loss.support] = False
    return outside


def check_convex(loss):
    """Raise an error for losses of missing labels."""
    if not loss.convex:
        raise ValueError(
            "missing labels make loss='log' non-convex, which needs solver='lbfgs'"
        )
