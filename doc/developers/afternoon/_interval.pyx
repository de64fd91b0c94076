"""The interval of a sequence with the largest sum of scores (Kadane's algorithm).

For scores s_t, t < T, and intervals that are not empty,

    ending(t) = s_t + max(0, ending(t - 1))        best sum that ends with t
    best      = max_t ending(t)

in time T. Among intervals of equal score the one that stops first is found, and of
those the shortest.
"""

import numpy as np


cdef Interval find_interval(Py_ssize_t n_positions,
                            const double* scores) noexcept nogil:
    """The best interval of at least one position."""
    cdef Interval best, ending
    cdef Py_ssize_t t
    best.start, best.stop, best.score = 0, 1, scores[0]
    ending = best
    for t in range(1, n_positions):
        # what came before is kept only where it helps: a tie begins anew
        if ending.score <= 0.0:
            ending.start, ending.score = t, 0.0
        ending.stop = t + 1
        ending.score += scores[t]
        if ending.score > best.score:
            best = ending
    return best


def best_interval(scores):
    """Find the interval with the largest sum of scores.

    Parameters
    ----------
    scores : array-like of shape (n_positions,)
        Finite scores.

    Returns
    -------
    interval : tuple of (int, int)
        First position, and the one after the last.
    score : float
        Sum of the scores in between.

    Raises
    ------
    ValueError
        If there are no scores, or one is not finite.

    Examples
    --------
    >>> from afternoon._interval import best_interval
    >>> best_interval([-1.0, 2.0, -0.5, 1.0, -3.0])
    ((1, 4), 2.5)
    """
    cdef const double[::1] values
    cdef Interval found
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    if scores.ndim != 1 or not len(scores) or not np.isfinite(scores).all():
        raise ValueError(
            f"scores must be a 1-D array of finite numbers, got shape {scores.shape}")
    values = scores
    with nogil:
        found = find_interval(values.shape[0], &values[0])
    return (found.start, found.stop), found.score
