"""Layout of the weights of triples of consecutive labels.

The weights w(a, b, c) are in one vector, in the order of (a, b, c). Triples without a
weight score zero. Oracles write the weights into rows: a row has the scores of all c
after a pair (a, b). The rows of each b are consecutive: first the rows of pairs with
weights, ordered by a, then a row of zeros that stands for all other pairs.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.utils._pointers cimport const_int32s

from sksstruct.inference.chains._triple_arrays import triple_arrays


cdef class LabelTriples:
    """Triples of labels that have a weight, and the layout of these weights in rows.

    Parameters
    ----------
    keys : ndarray of int64
        ``(a * n_labels + b) * n_labels + c``, ascending; at least one.
    n_labels : int
        Number of labels.
    """

    def __cinit__(self, keys, Py_ssize_t n_labels):
        self.ld, self.n_rows, self._owned = triple_arrays(keys, n_labels)
        self.n_weights, self.n_labels = len(keys), n_labels
        self.start, self.stop, self.row, self.third = (
            const_int32s(self._owned[0]), const_int32s(self._owned[1]),
            const_int32s(self._owned[2]), const_int32s(self._owned[3]))
        self.place, self.turned, self.first_row, self.before = (
            const_int32s(self._owned[4]), const_int32s(self._owned[5]),
            const_int32s(self._owned[6]), const_int32s(self._owned[7]))

    cdef Py_ssize_t find(self, const int32_t* y) noexcept nogil:
        """Return the index of the weight of three labels, -1 if they have no weight."""
        cdef Py_ssize_t row = self.row[y[0] * self.n_labels + y[1]]
        cdef Py_ssize_t low, high, middle
        if row < 0:
            return -1
        low, high = self.start[row], self.stop[row]
        while low < high:
            middle = (low + high) // 2
            if self.third[middle] < y[2]:
                low = middle + 1
            else:
                high = middle
        return low if low < self.stop[row] and self.third[low] == y[2] else -1

    cdef double score(self, Py_ssize_t size, const int32_t* y,
                      const double* weights) noexcept nogil:
        """Return the sum of the weights of the triples of a labeling."""
        cdef Py_ssize_t t, k
        cdef double total = 0.0
        for t in range(size - 2):
            k = self.find(y + t)
            if k >= 0:
                total += weights[k]
        return total

    cdef Py_ssize_t gather(self, Py_ssize_t b, const double* pairs, bint summed,
                           double* values) noexcept nogil:
        """Write, for each row of label b, an entry (a, b) of `pairs`; return the count.

        The last row stands for all pairs (a, b) without weights: its entry is the sum
        (if `summed`) or the maximum of their entries in `pairs`.
        """
        cdef Py_ssize_t last = self.first_row[b + 1] - self.first_row[b] - 1, k
        cdef const int32_t* before = self.before + b * self.n_labels
        cdef double rest = 0.0 if summed else -INFINITY, value
        pairs += b
        for k in range(last):
            values[k] = pairs[before[k] * self.ld]
        if summed:
            for k in range(last, self.n_labels):
                rest += pairs[before[k] * self.ld]
        else:
            for k in range(last, self.n_labels):
                value = pairs[before[k] * self.ld]
                rest = value if value > rest else rest
        values[last] = rest
        return last + 1
