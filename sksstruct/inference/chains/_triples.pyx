"""Which triples of consecutive labels have a weight.

The weights w(a, b, c) are in one vector, in the order of (a, b, c). Triples without a
weight score zero. A row holds the weights of a pair (a, b), and a cell those of a pair
(b, c); there are rows and cells for pairs that have some.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.utils._layout import aligned_zeros, padded_length


def _starts(numbers, size):
    """Return where runs of 0, 1, ... < size begin in ascending numbers."""
    return np.searchsorted(numbers, np.arange(size + 1)).astype(np.int32)


cdef class LabelTriples:
    """The triples that have a weight.

    Parameters
    ----------
    keys : ndarray of int64
        ``(a * n_labels + b) * n_labels + c``, ascending; at least one.
    n_labels : int
        Number of labels.
    """

    def __cinit__(self, keys, Py_ssize_t n_labels):
        cdef const int32_t[::1] row, start, third, turned, place
        cdef const int32_t[::1] first_cell, cell_third, cell_place
        cdef const double[::1] floor
        self.n_weights, self.n_labels = len(keys), n_labels
        self.ld = ld = padded_length(n_labels)
        before, c = np.divmod(keys, n_labels)
        a, b = np.divmod(before, n_labels)
        pairs, row_of = np.unique(before, return_inverse=True)
        cells, cell_of = np.unique(b * n_labels + c, return_inverse=True)
        self.n_rows, self.n_cells = len(pairs), len(cells)
        if max(self.n_rows, self.n_cells) * ld > np.iinfo(np.int32).max:
            raise ValueError(
                f"{self.n_weights} triples of {n_labels} labels are more than 32-bit "
                "indices can tell apart")
        table = np.full(n_labels ** 2, -1, dtype=np.int32)
        table[pairs] = np.arange(self.n_rows)
        least = aligned_zeros(n_labels * ld)
        full = cells[np.bincount(cell_of) == n_labels]
        least[full % n_labels * ld + full // n_labels] = -np.inf
        arrays = [
            table, _starts(row_of, self.n_rows), c, c * ld + b, row_of * ld + c,
            _starts(cells // n_labels, n_labels), cells % n_labels, cell_of * ld + a]
        row, start, third, turned, place, first_cell, cell_third, cell_place = arrays = [
            np.ascontiguousarray(array, dtype=np.int32) for array in arrays]
        floor = least
        self._owned = arrays, least
        self.row, self.start, self.third = &row[0], &start[0], &third[0]
        self.turned, self.place = &turned[0], &place[0]
        self.first_cell, self.cell_third = &first_cell[0], &cell_third[0]
        self.cell_place, self.floor = &cell_place[0], &floor[0]

    cdef Py_ssize_t find_in(self, Py_ssize_t row, Py_ssize_t c) noexcept nogil:
        """Return the number of a weight of a row, or -1; as for the row -1."""
        cdef Py_ssize_t low, end, high, middle
        if row < 0:
            return -1
        low, end = self.start[row], self.start[row + 1]
        high = end
        while low < high:
            middle = (low + high) // 2
            if self.third[middle] < c:
                low = middle + 1
            else:
                high = middle
        return low if low < end and self.third[low] == c else -1

    cdef Py_ssize_t find(self, const int32_t* y) noexcept nogil:
        """Return the number of the weight of three labels, or -1."""
        return self.find_in(self.row[y[0] * self.n_labels + y[1]], y[2])

    cdef double score(self, Py_ssize_t size, const int32_t* y,
                      const double* weights) noexcept nogil:
        """Return what the triples of a labeling score."""
        cdef Py_ssize_t t, k
        cdef double total = 0.0
        for t in range(size - 2):
            k = self.find(y + t)
            if k >= 0:
                total += weights[k]
        return total
