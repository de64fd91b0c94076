"""The limited-memory quasi-Newton method, without bounds, in little memory.

Liu and Nocedal (1989), with a line search for the weak Wolfe conditions. Most memory is
used by the pairs (s, y) of differences of weights and gradients. As pairs determine
only the direction, they are stored in single precision, each divided by its norm.
Values, gradients and weights are in double precision.

The two-loop recursion runs on coefficients of the vectors s, y and g, given their inner
products, as in Chen, Wang and Zhou, "Large-scale L-BFGS using MapReduce", NIPS 2014,
Algorithm 3. An iteration thus reads the pairs twice, whatever their number.

The initial matrix of the recursion is diagonal, and every pair updates it: by the
diagonal of the BFGS formula, after Gilbert and Lemarechal, "Some numerical experiments
with variable-storage quasi-Newton algorithms", Mathematical Programming 45, 1989,
Section 4.2. Weights of rare features have little curvature, weights of the intercept
much more: with a multiple of the identity, texts take up to three times the iterations.
"""

import numpy as np

from sksstruct.utils._layout import aligned_zeros

# Number of entries read at a time, such that the parts of all pairs fit into a cache.
_BATCH = 4096
# Armijo's condition: fraction of the decrease predicted by the slope that a step must
# reach.
_DECREASE = 1e-4
# Wolfe's condition: largest fraction of the slope that may be left after a step.
_CURVATURE = 0.9
# Largest number of trials in a line search.
_TRIALS = 20
# Smallest and largest factor by which a trial step grows.
_GROWTH = 1.5, 4.0
# Smallest distance of a trial step from the ends of a bracket, as a fraction of the
# length of the bracket.
_MARGIN = 0.1
# Pairs with a smaller cosine of s and y are dominated by single-precision rounding
# errors.
_LEAST_COSINE = float(np.finfo(np.float32).eps)
# Smallest factor by which an update may reduce an entry of the diagonal.
_LEAST_LEFT = np.float32(1e-6)


def batches(size):
    """Yield slices that divide a vector into parts of `_BATCH` entries."""
    for first in range(0, size, _BATCH):
        yield slice(first, first + _BATCH)


def add_scaled(factor, x, out):
    """Add a multiple of a vector to another, without a temporary vector."""
    for part in batches(len(x)):
        out[part] += factor * x[part]


class Pairs:
    """The last pairs (s, y), and the inverse Hessian that they define.

    Parameters
    ----------
    memory : int
        Largest number of pairs.
    size : int
        Number of weights.
    diagonal : bool, default=True
        Whether pairs update the initial matrix of the recursion.
    """

    def __init__(self, memory, size, diagonal=True):
        self.memory, self._updates_diagonal = memory, diagonal
        # s and y of pair k in rows 2 k and 2 k + 1; pages are allocated on first write
        self._rows = np.empty((2 * memory, size), dtype=np.float32)
        # <s, y> of normalized vectors, for s in rows and y in columns
        self._inner = np.zeros((memory, memory))
        # |s| / |y| of every pair
        self._ratio = np.zeros(memory)
        # diagonal of the Hessian divided by |y| / |s| of the newest pair
        self._diagonal = np.empty(size, dtype=np.float32)
        # <y, y / diagonal> of all pairs
        self._weighted = np.zeros((memory, memory))
        self._order = []
        self.clear()

    def clear(self):
        """Remove all pairs; return |s| / |y| of the newest pair."""
        newest = self._ratio[self._order[-1]] if self._order else 1.0
        # `_order` lists the places of all pairs in the arrays, oldest first; `_new`
        # lists the places of pairs whose inner products are not computed yet
        self._order, self._new = [], []
        self._diagonal[:] = 1.0
        return newest

    def __len__(self):
        return len(self._order)

    def append(self, step, direction, change, curvature):
        """Add a pair, which replaces the oldest pair if the memory is full.

        Parameters
        ----------
        step : float
            s is `step` times `direction`.
        direction, change : ndarray of shape (size,)
            Direction of s, and y.
        curvature : float
            <s, y>.
        """
        s_norm = step * float(np.linalg.norm(direction))
        y_norm = float(np.linalg.norm(change))
        if not curvature > _LEAST_COSINE * s_norm * y_norm:
            return
        place = len(self._order)
        if place == self.memory:
            place = self._order.pop(0)
        self._order.append(place)
        self._new.append(place)
        self._ratio[place] = s_norm / y_norm
        np.multiply(direction, step / s_norm, out=self._rows[2 * place])
        np.multiply(change, 1.0 / y_norm, out=self._rows[2 * place + 1])
        if self._updates_diagonal:
            self._update_diagonal(place, curvature / s_norm / y_norm)

    def _update_diagonal(self, place, cosine):
        """Update the diagonal by the BFGS formula with a normalized pair.

        The old diagonal b is first scaled such that <y, y / b> = <s, y>.
        """
        s, y = self._rows[2 * place : 2 * place + 2]
        b = self._diagonal
        scale = s_curvature = 0.0
        for part in batches(len(b)):
            scale += float(y[part] @ (y[part] / b[part]))
            s_curvature += float(s[part] @ (s[part] * b[part]))
        scale = np.float32(scale / cosine)
        of_s, of_y = np.float32(scale / s_curvature), np.float32(1.0 / cosine)
        for part in batches(len(b)):
            old = b[part]
            new = of_y * y[part] ** 2 - of_s * (old * s[part]) ** 2
            old *= scale
            new += old
            # new entries are positive up to rounding errors
            np.maximum(new, _LEAST_LEFT * old, out=old)

    def direct(self, gradient, out):
        """Write minus the inverse Hessian times a gradient to `out`."""
        norm = float(np.linalg.norm(gradient))
        if not (self._order and 0.0 < norm < np.inf):
            np.negative(gradient, out=out)
            return
        n, newest = 2 * len(self._order), self._order[-1]
        s_dots, y_dots = self._products(gradient, norm)
        s_coef, y_coef = self._coefficients(s_dots, y_dots)
        length = -norm * self._ratio[newest]
        for part in batches(len(gradient)):
            rows = self._rows[:n, part]
            entries = gradient[part] / norm
            entries += y_coef @ rows[1::2]
            entries /= self._diagonal[part]
            entries += s_coef @ rows[::2]
            np.multiply(entries, length, out=out[part])

    def _products(self, gradient, norm):
        """Return <s, g> and <y, g / diagonal> of all pairs, for normalized g.

        Computes the inner products of new pairs, and <y, y / diagonal> of all pairs.
        """
        n, new = len(self._order), self._new
        s_dots, y_dots = np.zeros(n), np.zeros(n)
        inner, weighted = np.zeros((len(new), 2, n)), np.zeros((n, n))
        for part in batches(len(gradient)):
            rows = self._rows[: 2 * n, part]
            s, y = rows[::2], rows[1::2]
            unit = (gradient[part] / norm).astype(np.float32)
            scaled = y / self._diagonal[part]
            s_dots += s @ unit
            y_dots += scaled @ unit
            weighted += scaled @ y.T
            for products, place in zip(inner, new, strict=True):
                products[0] += y @ s[place]
                products[1] += s @ y[place]
        for products, place in zip(inner, new, strict=True):
            self._inner[place, :n], self._inner[:n, place] = products
        self._weighted[:n, :n] = weighted
        self._new = []
        return s_dots, y_dots

    def _coefficients(self, s_dots, y_dots):
        """Return the coefficients of all s and y in H g, for normalized g.

        The caller adds the y terms to g before the division by the diagonal. H g is
        divided by |s| / |y| of the newest pair.
        """
        n, inner = len(s_dots), self._inner
        ratio = self._ratio / self._ratio[self._order[-1]]
        s_coef, y_coef, alpha = np.zeros(n), np.zeros(n), np.zeros(n)
        for k in reversed(self._order):
            alpha[k] = (s_dots[k] + inner[k, :n] @ y_coef) / inner[k, k]
            y_coef[k] -= alpha[k]
        for k in self._order:
            beta = y_dots[k] + self._weighted[k, :n] @ y_coef + inner[:n, k] @ s_coef
            s_coef[k] = ratio[k] * alpha[k] - beta / inner[k, k]
        return s_coef.astype(np.float32), y_coef.astype(np.float32)


def line_search(evaluate, value, slope, step):
    """Find a step that satisfies the weak Wolfe conditions.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(step)`` returns the function and its derivative.
    value, slope : float
        Function and derivative at zero.
    step : float
        The step that is tried first.

    Returns
    -------
    found : tuple of float or None
        Step, function and derivative; None if all trials fail.
    """
    low = before = 0.0, value, slope
    high = None
    for _ in range(_TRIALS):
        new = (step, *evaluate(step))
        # NaN must count as no descent
        if not new[1] <= value + _DECREASE * step * slope:
            high = new
        elif new[2] < _CURVATURE * slope:
            before, low = low, new
        else:
            return new
        if high is None:
            target = _cubic(before, low)
            # a minimum of the cubic before the step means that the function falls
            # further
            target = target if target > step else np.inf
            step = np.clip(target, step * _GROWTH[0], step * _GROWTH[1])
        else:
            margin = _MARGIN * (high[0] - low[0])
            step = np.clip(_cubic(low, high), low[0] + margin, high[0] - margin)
    return None


def _cubic(first, second):
    """Return the minimizer of the cubic through two points with slopes, or inf."""
    (a, value_a, slope_a), (b, value_b, slope_b) = first, second
    mean = slope_a + slope_b - 3.0 * (value_a - value_b) / (a - b)
    # slopes are scaled, so that their squares do not overflow
    scale = max(abs(mean), abs(slope_a), abs(slope_b))
    if not 0.0 < scale < np.inf:
        return np.inf
    mean, slope_a, slope_b = mean / scale, slope_a / scale, slope_b / scale
    root = mean**2 - slope_a * slope_b
    if not root >= 0.0:
        return np.inf
    root = np.sqrt(root)
    bottom = slope_b - slope_a + 2.0 * root
    return b - (b - a) * (slope_b + root - mean) / bottom if bottom else np.inf


def descend(objective, value, found, memory, after_iteration):
    """Minimize an objective until the caller raises an exception, or no step helps.

    Parameters
    ----------
    objective : Objective
        Its `at` returns value and gradient, `first_step` the length of the first
        step, and `keep` is called with every iterate.
    value : float
        The objective at its `start`.
    found : ndarray
        Gradient at the start.
    memory : int
        Number of pairs of vectors.
    after_iteration : callable
        Called after every iteration. It may return value and gradient of another
        objective at the same weights, which is minimized from then on.
    """
    x, trial = objective.start, aligned_zeros(len(objective.start))
    gradient, direction = found.copy(), np.empty_like(x)
    pairs, first_length = Pairs(memory, len(x)), objective.first_step(value, gradient)

    def evaluate(step):
        nonlocal found
        np.multiply(direction, step, out=trial)
        np.add(trial, x, out=trial)
        value, found = objective.at(trial)
        return value, float(found @ direction)

    while True:
        pairs.direct(gradient, direction)
        slope, step = float(gradient @ direction), None
        if slope < 0.0:
            step = line_search(evaluate, value, slope, 1.0 if pairs else first_length)
        if step is None:
            if not pairs:
                return
            first_length = pairs.clear()
            continue
        length, value, new_slope = step
        # vectors of weights are large, and are updated in place
        np.subtract(found, gradient, out=gradient)
        pairs.append(length, direction, gradient, length * (new_slope - slope))
        gradient[...] = found
        x, trial = trial, x
        objective.keep(x)
        changed = after_iteration()
        if changed is not None:
            # the pairs of the old objective are kept, as both Hessians are similar
            value, found = changed
            gradient[...] = found
