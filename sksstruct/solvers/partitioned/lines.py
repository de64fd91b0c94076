"""Sparse vectors as arrays of lines, masks and entries, allocated for `_lines.pyx`."""

import numpy as np

from sksstruct.solvers.partitioned import _lines

# Number of entries in a line, as in the kernels.
LINE = 8


def empty_lines(n_lines, n_values):
    """Return arrays for `n_lines` line numbers and masks, and `n_values` entries."""
    lines = np.empty(n_lines, dtype=np.int32)
    return lines, np.empty(n_lines, dtype=np.uint8), np.empty(n_values)


_NOTHING = empty_lines(0, 0)


def first_of(arrays, n_lines, n_values):
    """Return the leading lines, masks and entries, which a kernel has written."""
    lines, masks, values = arrays
    return lines[:n_lines], masks[:n_lines], values[:n_values]


def merge(first, second):
    """Return the sum of two sparse vectors.

    Parameters
    ----------
    first, second : tuple of ndarray
        Lines, masks and entries.

    Returns
    -------
    lines, masks, values : ndarray
        Lines, masks and entries of the sum.
    """
    # the arrays have the largest possible size, of which a part stays unused
    out = empty_lines(len(first[0]) + len(second[0]), len(first[2]) + len(second[2]))
    return first_of(out, *_lines.merge(first, second, *out))


def add_terms(vector, first, second, other, factor):
    """Add one or two sparse vectors to `vector`, and a multiple of both to `other`.

    Parameters
    ----------
    vector : ndarray of shape (size,)
        Changed in place.
    first, second : tuple of ndarray
        Lines, masks and entries; the second may be None.
    other : ndarray of shape (size,) or None
        Changed in place, unless None.
    factor : float
        Factor of the sum for `other`.

    Returns
    -------
    lines, masks : ndarray
        Lines and masks of the sum.
    squares : float
        Squared norm of the sum.
    risen : float
        Increase of the squared norm of the vector.
    """
    second = _NOTHING if second is None else second
    lines, masks, _ = empty_lines(len(first[0]) + len(second[0]), 0)
    n, *norms = _lines.add_terms(vector, first, second, other, factor, lines, masks)
    return lines[:n], masks[:n], *norms


def take_back(vector, origin, marks, factor, width):
    """Return the changes of `vector` in marked rows; reset these rows and the marks.

    Parameters
    ----------
    vector, origin : ndarray of shape (size,)
        Vectors that differ in lines overlapping with marked rows; equal afterwards.
    marks : ndarray of uint8
        1 for marked rows; zero afterwards.
    factor : float
        Factor of the changes.
    width : int
        Length of the rows.

    Returns
    -------
    lines, masks, values : ndarray
        factor * (vector - origin), as a sparse vector.
    """
    rows = np.empty(_lines.count_marks(marks), dtype=np.int32)
    max_lines = len(rows) * (width // LINE + 2)
    # the arrays have the largest possible size, of which a part stays unused
    out = empty_lines(max_lines, min(max_lines * LINE, len(vector)))
    counts = _lines.take_back(vector, origin, marks, factor, width, rows, *out)
    return first_of(out, *counts)


def pack(vector):
    """Return the lines, masks and entries of a dense vector."""
    out = empty_lines(-(-len(vector) // LINE), len(vector))
    return first_of(out, *_lines.pack(vector, *out))


def take(vector, lines, masks):
    """Return the entries of a vector under lines and masks."""
    values = np.empty(_lines.count(masks))
    _lines.take(vector, lines, masks, values)
    return values
