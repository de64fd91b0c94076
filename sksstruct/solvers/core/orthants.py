"""The limited-memory quasi-Newton method with an l1 penalty.

Minimizes F(x) = f(x) + l1 |x|_1 as in Andrew and Gao, "Scalable training of
L1-regularized log-linear models", ICML 2007. In the orthant of x the penalty is linear.
A zero may leave zero where its slope says so; the slope of F that this makes is

    g_j = f'_j + l1 sign(x_j),  at x_j = 0:  f'_j moved towards zero by l1.

Minus the inverse Hessian of f times g is the direction, without the entries that do not
go down. What would leave the orthant stays at zero.
"""

import numpy as np

from sksstruct.solvers.core.quasi_newton import Pairs

# Armijo's condition: share of the fall along the slope that a step must reach.
_DECREASE = 1e-4
# Steps that are tried, each half of the one before.
_TRIALS = 30


def penalized_slope(x, slope, l1):
    """Slope of F at x, of least absolute value in each entry.

    Parameters
    ----------
    x, slope : ndarray of shape (size,)
        Weights, and the gradient of f.
    l1 : float
        Strength of the penalty.

    Returns
    -------
    slope : ndarray of shape (size,)
        Zero at the optimum.
    """
    return np.where(
        x == 0.0,
        np.sign(slope) * np.maximum(np.abs(slope) - l1, 0.0),
        slope + l1 * np.sign(x),
    )


def descend_in_orthants(objective, value, found, memory, after_iteration):
    """Minimize an objective with an l1 penalty; as `descend` of `quasi_newton`.

    Parameters
    ----------
    objective : Objective
        Its `at` returns the value of F and the gradient of f.
    value : float
        F at its `start`.
    found : ndarray
        The gradient there.
    memory : int
        Number of pairs of vectors.
    after_iteration : callable
        Called after every iteration; it raises an exception at the end.
    """
    x, gradient = objective.start, found.copy()
    direction = np.empty_like(x)
    # From a multiple of the identity: the diagonal keeps curvature of weights that have
    # become zero, and after 200 iterations every step was too short.
    pairs = Pairs(memory, len(x), diagonal=False)
    slope = penalized_slope(x, gradient, objective.l1)
    first = objective.first_step(value, slope)
    while True:
        pairs.direct(slope, direction)
        direction[direction * slope >= 0.0] = 0.0
        orthant = np.where(x == 0.0, -np.sign(slope), np.sign(x))
        step = _step(objective, value, x, slope, direction, orthant,
                     1.0 if pairs else first)  # fmt: skip
        if step is None:
            if not pairs:
                return
            first = pairs.clear()
            continue
        before, (x, value, found) = x, step
        change, moved = found - gradient, x - before
        pairs.append(1.0, moved, change, float(moved @ change))
        gradient[...] = found
        slope = penalized_slope(x, gradient, objective.l1)
        objective.keep(x)
        after_iteration()


def _step(objective, value, x, slope, direction, orthant, length):
    """Weights, value and gradient after a step that goes down enough, or None."""
    for _ in range(_TRIALS):
        trial = x + length * direction
        trial[trial * orthant < 0.0] = 0.0
        fall = float(slope @ (trial - x))
        # not even the slope goes down
        if not fall < 0.0:
            return None
        new, found = objective.at(trial)
        if new <= value + _DECREASE * fall:
            return trial, new, found
        length *= 0.5
    return None
