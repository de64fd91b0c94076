"""Consecutive lists in one array: offsets, and positions sorted by key."""

import numpy as np

from sksstruct.inference.map.core._problem import sort_by_counting


def offsets(sizes):
    """Return the offset of each list in an array of consecutive lists.

    Parameters
    ----------
    sizes : sequence of int
        Sizes of the lists.

    Returns
    -------
    first : ndarray of shape (len(sizes) + 1,), intp
        The first index of each list, and the sum of all sizes.
    """
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)


def places_by(keys, n):
    """Return the positions of each key 0, ..., n - 1, in ascending order.

    Parameters
    ----------
    keys : ndarray of int
        Keys.
    n : int
        Number of different keys.

    Returns
    -------
    first : ndarray of shape (n + 1,), intp
        Offset of each key in `places`.
    places : ndarray of shape (len(keys),), int32
        Positions of key 0, then of key 1, and so on.
    """
    keys = np.ascontiguousarray(keys, dtype=np.int32)
    first = offsets(np.bincount(keys, minlength=n))
    if len(first) > n + 1:
        raise ValueError(f"keys must be below {n}, got {keys.max()}")
    places = np.empty(len(keys), dtype=np.int32)
    sort_by_counting(keys, first[:-1].copy(), places)
    return first, places
