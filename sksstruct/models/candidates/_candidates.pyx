"""Candidates as a structure: a labeling picks a candidate and a class.

With candidates c of an example, which have features f_c, and classes k,

    score(c, k) = <W[:, k], f_c> + bias[k]
    loss(c, k)  = 1 - overlap(c) [k is right]

and labelings are pairs (c, k). The overlap of the observed candidate is 1; the overlap
of another candidate is 0, or that of its box with the observed box (Blaschko and
Lampert, 2008).

The table has a row of ld >= n_classes entries for each candidate, the classes and
padding.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.models.tables._best cimport keep_best
from sksstruct.models.tables._structure cimport OracleMemory, Potentials, Structure

from sksstruct.models.tables._table import block_ld


cdef class Candidates(Structure):
    """Candidates of examples, each of which may have one of several classes.

    Parameters
    ----------
    sizes, y_true, max_keys : objects
        As in `Structure`: a candidate and a class, and one key.
    offsets : ndarray of shape (n_examples + 1,), intp
        First candidate of each example.
    n_labels : int
        Number of classes.
    overlaps : ndarray of shape (n_candidates,) or None
        Overlap of each candidate with the observed one; None for prediction.
    """

    oracles = ("max", "topk", "exp")
    # first candidate of each example; overlap of each candidate with the observed
    # candidate of its example
    cdef const Py_ssize_t[::1] _offsets
    cdef const double[::1] _overlaps
    cdef readonly Py_ssize_t n_labels, ld

    def __init__(self, sizes, y_true, max_keys, offsets, n_labels, overlaps):
        self._offsets, self._overlaps = offsets, overlaps
        self.n_labels, self.ld = n_labels, block_ld(n_labels)

    cdef inline Py_ssize_t _n_candidates(self, Py_ssize_t i) noexcept nogil:
        """Return the number of candidates of an example."""
        return self._offsets[i + 1] - self._offsets[i]

    # ---- the loss ----

    cdef int add_loss(self, Potentials* at, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t candidate, first = self._offsets[i]
        cdef int32_t observed = self._y_true[2 * i + 1]
        # overlaps change only scores of the observed class, and the 1 of all labelings
        # is the constant
        for candidate in range(self._n_candidates(i)):
            at.theta[candidate * self.ld + observed] -= (
                scale * self._overlaps[first + candidate])
        at.constant += scale
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        value[0] = 1.0
        # a wrong class has loss 1, whatever the overlap
        if y[1] == self._y_true[2 * i + 1]:
            value[0] -= self._overlaps[self._offsets[i] + y[0]]
        return 0

    # ---- labelings ----

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        return 0 <= y[0] < self._n_candidates(i) and 0 <= y[1] < self.n_labels

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        keys[0] = <int32_t> (y[0] * self.ld + y[1])
        return 1

    cdef int decode(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                    int32_t* y) except -1 nogil:
        cdef Py_ssize_t candidate, label
        cdef const double* row = at.theta
        cdef double best = row[0]
        y[0] = y[1] = 0
        for candidate in range(self._n_candidates(i)):
            # padding is left out, as its scores are zero
            for label in range(self.n_labels):
                # strictly larger, so that the first maximum wins, as in `topk`
                if row[label] > best:
                    best = row[label]
                    y[0], y[1] = <int32_t> candidate, <int32_t> label
            row += self.ld
        return 0

    cdef int expect(self, Potentials* at, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        cdef Py_ssize_t n = self._n_candidates(i), candidate, label, k
        cdef double high = -INFINITY, total = 0.0
        memset(means, 0, n * self.ld * sizeof(double))
        for candidate in range(n):
            for label in range(self.n_labels):
                high = max(high, at.theta[candidate * self.ld + label])
        value[0] = high
        # if all labelings are forbidden, their probabilities are zero
        if high == -INFINITY:
            return 0
        for candidate in range(n):
            for label in range(self.n_labels):
                k = candidate * self.ld + label
                means[k] = exp((at.theta[k] - high) / mu)
                total += means[k]
        for k in range(n * self.ld):
            means[k] /= total
        value[0] = at.constant + high + mu * log(total)
        return 0

    cdef Py_ssize_t topk(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                         Py_ssize_t k) except -1 nogil:
        cdef Py_ssize_t candidate, label, count = 0, rank, n = self._n_candidates(i)
        cdef int32_t item
        k = min(k, n * self.n_labels)
        oracle.make_room(k, 2)
        for candidate in range(n):
            for label in range(self.n_labels):
                count = keep_best(
                    count, k, at.theta[candidate * self.ld + label],
                    <int32_t> (candidate * self.n_labels + label), oracle.values,
                    oracle.labelings)
        # Each number becomes a pair (candidate, class). The loop begins at the last
        # rank, so that no pair overwrites a number that is still needed.
        for rank in range(count - 1, -1, -1):
            item = oracle.labelings[rank]
            oracle.labelings[2 * rank] = <int32_t> (item // self.n_labels)
            oracle.labelings[2 * rank + 1] = <int32_t> (item % self.n_labels)
        return count
