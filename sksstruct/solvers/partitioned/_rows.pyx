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


cdef enum:
    # sums of squares are kept apart for so many entries at a time: a processor adds
    # these at once, and whoever adds has the same bits
    LANES = 4


cdef inline void _add_squares(Py_ssize_t width, const double* row,
                              double* lanes) noexcept nogil:
    """Add the squares of a row to sums, lane by lane."""
    cdef Py_ssize_t k, j
    for k in range(0, width - 3, 4):
        for j in range(LANES):
            lanes[j] += row[k + j] * row[k + j]
    for k in range(width - width % LANES, width):
        lanes[0] += row[k] * row[k]


cdef inline double _total(const double* lanes) noexcept nogil:
    """Return the sum of all lanes."""
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])


cdef inline void _add_row(Py_ssize_t width, const double* change, double* out,
                          double* lanes) noexcept nogil:
    """Add a change to a row; add to sums, by lanes, how much its square has risen."""
    cdef Py_ssize_t k, j
    # by differences: all weights are far more than the rows that change
    for k in range(0, width - 3, 4):
        for j in range(LANES):
            lanes[j] += change[k + j] * (2.0 * out[k + j] + change[k + j])
            out[k + j] += change[k + j]
    for k in range(width - width % LANES, width):
        lanes[0] += change[k] * (2.0 * out[k] + change[k])
        out[k] += change[k]


def squared_norm(const double[:, ::1] rows):
    """Return the squared norm of some rows."""
    cdef Py_ssize_t r
    cdef double[LANES] lanes
    with nogil:
        for r in range(LANES):
            lanes[r] = 0.0
        for r in range(rows.shape[0]):
            _add_squares(rows.shape[1], &rows[r, 0], lanes)
    return _total(lanes)


cdef object _marked(const unsigned char[::1] marks):
    """Return the numbers of the rows that are marked, with the lock released."""
    cdef Py_ssize_t n_marks = marks.shape[0], n = 0, r
    with nogil:
        for r in range(n_marks):
            n += marks[r]
    found = np.empty(n, dtype=np.int32)
    cdef int32_t[::1] rows = found
    n = 0
    with nogil:
        for r in range(n_marks):
            if marks[r]:
                rows[n] = r
                n += 1
    return found


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
    found = _marked(marks)
    cdef const int32_t[::1] rows = found
    cdef Py_ssize_t n_rows = rows.shape[0], r, k
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


def add_terms(double[::1] vector, terms, double[::1] other, double factor):
    """Add the sum of one or two changes to a vector, and a multiple to another one.

    Parameters
    ----------
    vector : ndarray of shape (n_rows * width,)
        Changed in place.
    terms : list of SparseChange
        The changes.
    other : ndarray of shape (n_rows * width,) or None
        Changed in place, unless it is None.
    factor : float
        What the sum is multiplied by there.

    Returns
    -------
    rows : ndarray of int32
        Rows of the sum.
    squares : float
        Squared norm of the sum.
    risen : float
        By how much the squared norm of the vector rose.
    """
    one, two = terms[0], terms[len(terms) - 1]
    cdef const int32_t[::1] first_rows = one.rows, second_rows = two.rows
    cdef const double[:, ::1] first = one.values, second = two.values
    cdef Py_ssize_t n_first = len(first_rows), width = first.shape[1]
    cdef Py_ssize_t n_second = 0 if two is one else len(second_rows)
    cdef Py_ssize_t a = 0, b = 0, n = 0, k, row, ahead
    cdef double[LANES] squares, risen
    cdef double* out_other = NULL
    cdef const double* change
    # for all rows of both: what is left over is never written to
    found = np.empty(n_first + n_second, dtype=np.int32)
    cdef int32_t[::1] rows = found
    cdef double[::1] both = np.empty(width)
    if other is not None:
        out_other = &other[0]
    with nogil:
        for k in range(LANES):
            squares[k] = risen[k] = 0.0
        while a < n_first or b < n_second:
            if b == n_second or (a < n_first and first_rows[a] < second_rows[b]):
                row, change = first_rows[a], &first[a, 0]
                a += 1
            elif a == n_first or second_rows[b] < first_rows[a]:
                row, change = second_rows[b], &second[b, 0]
                b += 1
            else:
                # the changes first: so does whoever merges them
                row, change = first_rows[a], &both[0]
                for k in range(width):
                    both[k] = first[a, k] + second[b, k]
                a, b = a + 1, b + 1
            if a + AHEAD < n_first:
                ahead = first_rows[a + AHEAD] * width
                sks_prefetch(&vector[ahead], width * sizeof(double))
                if out_other != NULL:
                    sks_prefetch(out_other + ahead, width * sizeof(double))
            rows[n] = row
            n += 1
            _add_squares(width, change, squares)
            _add_row(width, change, &vector[row * width], risen)
            if out_other != NULL:
                for k in range(width):
                    out_other[row * width + k] += factor * change[k]
    return found[:n], _total(squares), _total(risen)


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
