"""Rows of weights that changed: found, sent and put back without the interpreter lock.

A table is a vector cut into rows of equally many weights; row r of it begins at
r * width. Rows are read in ascending order and lie apart, so that they are asked for
before they are needed. Squares are summed row by row: rows of zeros, which one way of
computing a change may keep and another leave out, make no difference.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.utils._simd cimport sks_prefetch

cdef enum:
    # rows that are asked for ahead
    AHEAD = 8


cdef inline double _square(Py_ssize_t width, const double* row) noexcept nogil:
    """Return the squared norm of a row."""
    cdef Py_ssize_t k
    cdef double total = 0.0
    # one accumulator, in the order of the entries: the same bits however wide registers
    # are, and whoever adds
    for k in range(width):
        total += row[k] * row[k]
    return total


def squared_norm(const double[:, ::1] rows):
    """Return the squared norm of some rows."""
    cdef Py_ssize_t r
    cdef double total = 0.0
    with nogil:
        for r in range(rows.shape[0]):
            total += _square(rows.shape[1], &rows[r, 0])
    return total


def take_back(double[::1] vector, const double[::1] origin, unsigned char[::1] marks,
              double factor, Py_ssize_t width):
    """Return what was changed in marked rows, and put these and the marks back.

    Parameters
    ----------
    vector, origin : ndarray of shape (n_rows * width,)
        Differ in marked rows only; equal afterwards.
    marks : ndarray of shape (n_rows,), uint8
        1 for marked rows; zero afterwards.
    factor : float
        What changes are multiplied by.
    width : int
        Length of the rows.

    Returns
    -------
    rows : ndarray of int32
        The marked rows, ascending.
    values : ndarray of shape (len(rows), width)
        factor * (vector - origin), in these.
    """
    # ascending: the order of the rows decides that of the sums
    found = np.flatnonzero(marks).astype(np.int32)
    cdef const int32_t[::1] rows = found
    cdef Py_ssize_t n_rows = len(found), r, k
    out = np.empty((n_rows, width))
    cdef double[:, ::1] values = out
    cdef double* changed
    cdef double* value
    cdef const double* before
    with nogil:
        for r in range(n_rows):
            if r + AHEAD < n_rows:
                sks_prefetch(&vector[rows[r + AHEAD] * width], width * sizeof(double))
                sks_prefetch(&origin[rows[r + AHEAD] * width], width * sizeof(double))
            changed, before = &vector[rows[r] * width], &origin[rows[r] * width]
            value = &values[r, 0]
            # put back at once, while the row is in the cache
            for k in range(width):
                value[k] = factor * (changed[k] - before[k])
                changed[k] = before[k]
            marks[rows[r]] = 0
    return found, out


def copy_rows(const double[::1] source, double[::1] target, const int32_t[::1] rows,
              Py_ssize_t width):
    """Copy some rows from one vector to another."""
    cdef Py_ssize_t n_rows = rows.shape[0], r, k
    cdef double* out
    cdef const double* value
    with nogil:
        for r in range(n_rows):
            if r + AHEAD < n_rows:
                sks_prefetch(&source[rows[r + AHEAD] * width], width * sizeof(double))
                sks_prefetch(&target[rows[r + AHEAD] * width], width * sizeof(double))
            value, out = &source[rows[r] * width], &target[rows[r] * width]
            for k in range(width):
                out[k] = value[k]


def add_rows(double[::1] vector, const int32_t[::1] rows,
             const double[:, ::1] values):
    """Add rows to a vector, and return by how much its squared norm rose."""
    cdef Py_ssize_t n_rows = rows.shape[0], width = values.shape[1], r, k
    cdef double risen = 0.0
    cdef double* out
    with nogil:
        for r in range(n_rows):
            if r + AHEAD < n_rows:
                sks_prefetch(&vector[rows[r + AHEAD] * width], width * sizeof(double))
            # by differences: all weights are far more than these rows
            out = &vector[rows[r] * width]
            risen -= _square(width, out)
            for k in range(width):
                out[k] += values[r, k]
            risen += _square(width, out)
    return risen


def merge(const int32_t[::1] first_rows, const double[:, ::1] first,
          const int32_t[::1] second_rows, const double[:, ::1] second):
    """Return the sum of two changes, as rows and values."""
    cdef Py_ssize_t n_first = first_rows.shape[0], n_second = second_rows.shape[0]
    cdef Py_ssize_t width = first.shape[1], a = 0, b = 0, n = 0, k
    # for all rows of both: what is left over is never written to
    found = np.empty(n_first + n_second, dtype=np.int32)
    out = np.empty((n_first + n_second, width))
    cdef int32_t[::1] rows = found
    cdef double[:, ::1] values = out
    with nogil:
        while a < n_first or b < n_second:
            # a row of the first change alone, or of the second alone
            if b == n_second or (a < n_first and first_rows[a] < second_rows[b]):
                rows[n] = first_rows[a]
                for k in range(width):
                    values[n, k] = first[a, k]
                a += 1
            elif a == n_first or second_rows[b] < first_rows[a]:
                rows[n] = second_rows[b]
                for k in range(width):
                    values[n, k] = second[b, k]
                b += 1
            else:
                # a row of both
                rows[n] = first_rows[a]
                for k in range(width):
                    values[n, k] = first[a, k] + second[b, k]
                a, b = a + 1, b + 1
            n += 1
    return found[:n], out[:n]
