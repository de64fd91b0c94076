"""The limited-memory quasi-Newton method with an l1 penalty.

Minimizes F(x) = f(x) + l1 |x|_1 as in Andrew and Gao, "Scalable training of
L1-regularized log-linear models", ICML 2007. Within the orthant of x the penalty is
linear. An entry may leave zero if its slope is large enough: the pseudo-gradient of F
is

    g_j = f'_j + l1 sign(x_j),  at x_j = 0:  f'_j after soft thresholding by l1.

The direction is minus the inverse Hessian of f times g, with zeros for entries that do
not descend. Entries of a step that would leave the orthant are set to zero.
"""

import numpy as np

from sksstruct.solvers.core.quasi_newton import Pairs

# Armijo's condition: fraction of the decrease predicted by the slope that a step must
# reach.
_DECREASE = 1e-4
# Largest number of steps that are tried, each half as long as the one before.
_TRIALS = 30


def penalized_slope(x, slope, l1):
    """Return the pseudo-gradient of F at x: the subgradient with the least norm.

    Parameters
    ----------
    x, slope : ndarray of shape (size,)
        Weights, and the gradient of f.
    l1 : float
        Strength of the penalty.

    Returns
    -------
    slope : ndarray of shape (size,)
        Pseudo-gradient; zero at the optimum.
    """
    return np.where(
        x == 0.0,
        np.sign(slope) * np.maximum(np.abs(slope) - l1, 0.0),
        slope + l1 * np.sign(x),
    )


def descend_in_orthants(objective, value, found, memory, after_iteration):
    """Minimize F until `after_iteration` raises an exception, or no step helps.

    Parameters
    ----------
    objective : Objective
        Its `at` returns the value of F and the gradient of f.
    value : float
        F at `start` of the objective.
    found : ndarray
        Gradient of f at the start.
    memory : int
        Number of pairs of vectors.
    after_iteration : callable
        Called after every iteration; it raises an exception at the end.
    """
    x, gradient = objective.start, found.copy()
    direction = np.empty_like(x)
    # The initial matrix is a multiple of the identity. A diagonal would keep the
    # curvature of weights that have become zero: in experiments, every step was then
    # too short after 200 iterations.
    pairs = Pairs(memory, len(x), diagonal=False)
    slope = penalized_slope(x, gradient, objective.l1)
    first_length = objective.first_step(value, slope)
    while True:
        pairs.direct(slope, direction)
        direction[direction * slope >= 0.0] = 0.0
        orthant = np.where(x == 0.0, -np.sign(slope), np.sign(x))
        step = _step(objective, value, x, slope, direction, orthant,
                     1.0 if pairs else first_length)  # fmt: skip
        if step is None:
            if not pairs:
                return
            first_length = pairs.clear()
            continue
        old_x, (x, value, found) = x, step
        change, distance = found - gradient, x - old_x
        pairs.append(1.0, distance, change, float(distance @ change))
        gradient[...] = found
        slope = penalized_slope(x, gradient, objective.l1)
        objective.keep(x)
        after_iteration()


def _step(objective, value, x, slope, direction, orthant, length):
    """Search along a direction in the orthant for a sufficient decrease of F.

    Returns the weights, F and the gradient of f after the step, or None.
    """
    for _ in range(_TRIALS):
        trial = x + length * direction
        trial[trial * orthant < 0.0] = 0.0
        fall = float(slope @ (trial - x))
        # rounding errors may make the projected step an ascent
        if not fall < 0.0:
            return None
        new, found = objective.at(trial)
        if new <= value + _DECREASE * fall:
            return trial, new, found
        length *= 0.5
    return None
