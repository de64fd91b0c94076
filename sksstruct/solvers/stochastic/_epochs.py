"""Epochs of variance-reduced steps, and the search for a step length.

`Epochs` computes the gradient of a smooth loss, and makes epochs of steps on this loss.
`calibrate` finds a step length for smooth losses by trial, `_steps.py` for smoothed
hinges.
"""

import numpy as np

from sksstruct.models.protocols._weights import LazyWeights
from sksstruct.solvers.stochastic.iterates import VarianceReducedKernel
from sksstruct.utils._clock import OutOfTime
from sksstruct.utils._layout import aligned_zeros

# Smallest number of visits of an epoch.
LEAST_VISITS = 200
# Fraction of the examples that are visited in the trial of a step length.
_TRIAL = 0.1


class Order:
    """Examples in random order, and the number of oracle calls."""

    # the `Box` of bounds on some weights; None: no bounds
    box = None

    def __init__(self, n_examples, rng):
        self.n_examples = n_examples
        self.rng = rng
        self.calls = 0

    def draw(self, visits):
        """Draw `visits` examples: permutations of all, the last one truncated."""
        full, rest = divmod(int(visits), self.n_examples)
        parts = [self.rng.permutation(self.n_examples) for _ in range(full)]
        if rest:
            parts.append(self.rng.permutation(self.n_examples)[:rest])
        return np.concatenate(parts).astype(np.intp)


class Epochs(Order):
    """The smooth part f of an objective, with the gradient and epochs of visits.

    Parameters
    ----------
    loss : SmoothLoss
        Mean smooth loss.
    rng : RandomState
        Order of the visits.
    n_jobs : int or None
        Threads for the gradient.
    average : bool, default=False
        Whether epochs with an anchor end at the average of their iterates, which is
        more accurate for losses that are hardly smooth.
    box : Box or None
        Bounds of some weights.

    Attributes
    ----------
    w : ndarray of shape (n_weights,)
        The weights, which callers may overwrite.
    gradient : ndarray of shape (n_weights,)
        Gradient of the last call of `value_and_gradient`, whose weights are the anchor.
    value : float
        Value of f at this anchor.
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
        """Set the smoothing parameter of the loss to mu."""
        self.loss.set_smoothing(mu)

    def start_from(self, weights):
        """Start at the given weights; weights outside the support stay zero."""
        existing = slice(None) if self.loss.support is None else self.loss.support
        self.w[existing] = weights[existing]
        if self.box is not None:
            self.box.clip(self.w)

    def value_and_gradient(self):
        """Return f at the weights, and write its gradient to `gradient`."""
        loss = self.loss
        self.value = loss.value_and_gradient(self.w, self.gradient, self.n_jobs)
        if self._outside is not None:
            self.gradient[self._outside] = 0.0
        self.calls += self.n_examples
        return self.value

    def epoch(self, visits, rate, ridge, linear=None, anchored=True):
        """Take stochastic steps that reduce f(w) + <linear, w> + ridge/2 |w|^2.

        The steps are those of `VarianceReducedKernel`; without an anchor, they are
        plain stochastic gradient steps.
        """
        average = anchored and self.average
        self.visit(self.draw(visits), rate, ridge, linear, anchored, average)

    def visit(self, order, rate, ridge, linear=None, anchored=True, average=False):
        """Take steps on the given examples, as `epoch` does."""
        direction = self._direction
        direction[:] = self.gradient if anchored else 0.0
        if linear is not None:
            direction += linear
        ratios = self.n_examples * self.loss.model.example_weights[order]
        self._kernel.epoch(order, ratios, direction, rate, ridge, anchored, average)
        if self.box is not None:
            # weights are products scale * v: rounding can move them beyond the bounds
            self.box.clip(self.w)
        self.calls += len(order)


def calibrate(epochs, ridge, at_zero=True):
    """Return half the step length that is best in a tenth of a pass of plain steps.

    Plain stochastic gradient steps have no anchor. The best length reduces the
    objective most. The search starts from a length that follows from the curvature of f
    along its gradient, and multiplies or divides by four while the objective falls. The
    weights are restored, but the anchor changes.

    Parameters
    ----------
    epochs : Epochs
        The smooth part, with its gradient at the weights.
    ridge : float
        Strength of the quadratic part, or zero.
    at_zero : bool, default=True
        Whether to try steps from zero; near the optimum no length lowers the value.

    Returns
    -------
    rate : float
        Step length.
    """
    w, gradient = epochs.w, epochs.gradient
    initial_w = w.copy()

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
        w[:] = initial_w
        return 0.5 / ridge if ridge else 1.0
    # a gradient step of this length makes the linearized loss zero
    most = abs(epochs.value) / norm**2
    small = 1e-5 * most * norm
    go_to(start - small / norm * slope)
    epochs.value_and_gradient()
    change = gradient - slope
    curvature = float(np.sqrt(change @ change)) / small if small else 0.0
    rate = 0.05 / curvature if curvature else most
    most = 0.5 / ridge if ridge else np.inf  # longer steps would cross the origin
    visits = max(epochs.n_examples * _TRIAL, min(LEAST_VISITS, epochs.n_examples))
    state = epochs.rng.get_state()

    def value(rate):
        epochs.rng.set_state(state)  # each trial visits the same examples
        w[:] = start
        with np.errstate(over="ignore", invalid="ignore"):
            epochs.epoch(visits, rate, ridge, anchored=False)
            size = float(w @ w)
        if not np.isfinite(size):
            return np.inf
        return epochs.value_and_gradient() + ridge / 2 * size

    rate, _ = try_rates(value, min(rate, most), most, (4.0, 0.25), 30)
    w[:] = initial_w
    # the best length for first steps is too long near the optimum
    return rate / 2.0


def try_rates(value, rate, most, factors, trials):
    """Return the step length of the lowest value that a search with factors finds.

    The length is multiplied by a factor as long as the value falls.

    If the time for trials is over, the best length so far is returned.

    Parameters
    ----------
    value : callable
        ``value(rate)`` is the objective after steps of the length ``rate``, or inf if
        the length is much too long.
    rate, most : float
        The first length, and the largest one.
    factors : tuple of float
        Multiples for longer and shorter lengths, in the order in which they are tried;
        the second multiple is tried only if the first has not improved the value.
    trials : int
        Largest number of trials with each multiple.

    Returns
    -------
    rate, best : float
        The length, and its value.
    """
    best = value(rate)
    # if the first length diverges, longer lengths diverge, too
    for factor in [f for f in factors if f < 1.0 or np.isfinite(best)]:
        initial_rate = rate
        for _ in range(trials):
            new_rate = min(rate * factor, most)
            if new_rate == rate:
                break
            try:
                new_value = value(new_rate)
            except OutOfTime:
                return rate, best
            if new_value >= best and np.isfinite(best):
                break
            best, rate = new_value, new_rate
        if rate != initial_rate:
            break
    return rate, best


def missing_weights(loss):
    """Return a mask of the weights outside the support; None if all weights exist."""
    if loss.support is None:
        return None
    outside = np.ones(loss.model.n_weights, dtype=bool)
    outside[loss.support] = False
    return outside


def check_convex(loss):
    """Raise an error if missing labels make the loss non-convex."""
    if not loss.convex:
        raise ValueError(
            "missing labels make loss='log' non-convex, which needs solver='lbfgs'"
        )
