"""Max-product on chains with one sparse table of transitions, whose other scores are 0.

    max over y of  sum_t unary[t, y_t] + sum_t v[y_t, y_{t+1}]

The best way into label b comes from the best label before it, score 0, unless a stored
score is in the way. So a step looks at the stored scores of the column of b that are
large enough to matter, in descending order, and at the best label that has nothing
stored with b: about K + (stored scores above zero) and no K x K. Exact.
"""

import numpy as np
from scipy import sparse

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from sksstruct.utils._simd cimport sks_max

from sksstruct.inference._checks import check_scores
from sksstruct.utils._layout import pad_rows


cdef class SparseTransitions:
    """Scores of pairs of labels, zero where nothing is stored.

    Parameters
    ----------
    transitions : sparse array of shape (n_states, n_states)
        Scores, from -> to.
    """

    def __init__(self, transitions):
        csr = sparse.csr_array(transitions, dtype=np.float64, copy=True)
        csr.sum_duplicates()
        self.csr = csr
        self.n_states = csr.shape[0]
        self._row_first = csr.indptr.astype(np.intp)
        self._to = np.append(csr.indices, 0).astype(np.int32)
        self._row_score = np.append(csr.data, 0.0)
        rows = np.repeat(np.arange(self.n_states), np.diff(csr.indptr))
        order = np.lexsort((rows, -csr.data, csr.indices))
        self._first = np.searchsorted(
            csr.indices[order], np.arange(self.n_states + 1)).astype(np.intp)
        self._from = np.append(rows[order], 0).astype(np.int32)
        self._score = np.append(csr.data[order], 0.0)

    cdef double score(self, Py_ssize_t a, Py_ssize_t b, bint* stored) noexcept nogil:
        """v[a, b], and whether it is stored."""
        cdef Py_ssize_t low = self._row_first[a], high = self._row_first[a + 1], middle
        while low < high:
            middle = (low + high) // 2
            if self._to[middle] < b:
                low = middle + 1
            else:
                high = middle
        stored[0] = low < self._row_first[a + 1] and self._to[low] == b
        return self._row_score[low] if stored[0] else 0.0

    cdef void _step(self, const double* previous, double* best,
                    int32_t* order) noexcept nogil:
        """best[b] = max_a previous[a] + v[a, b]"""
        cdef Py_ssize_t K = self.n_states, b, p, rank, ranked = 1
        cdef double top = sks_max(K, previous), value
        cdef bint stored
        for b in range(K):
            best[b] = top
        if top == -INFINITY:
            return
        order[0] = 0
        while previous[order[0]] != top:
            order[0] += 1
        # where the best label has a score of its own, the next best that has none
        for p in range(self._row_first[order[0]], self._row_first[order[0] + 1]):
            b = self._to[p]
            best[b] = -INFINITY
            for rank in range(1, K):
                if rank == ranked:
                    order[rank] = next_best(K, previous, order[rank - 1])
                    ranked += 1
                self.score(order[rank], b, &stored)
                if not stored:
                    best[b] = previous[order[rank]]
                    break
        for b in range(K):
            for p in range(self._first[b], self._first[b + 1]):
                value = self._score[p]
                if value + top <= best[b]:
                    break
                value += previous[self._from[p]]
                if value > best[b]:
                    best[b] = value

    cdef int32_t _way_in(self, const double* previous, Py_ssize_t b,
                         double best) noexcept nogil:
        """The lowest label a with previous[a] + v[a, b] = best."""
        cdef Py_ssize_t a, p
        cdef int32_t found = -1
        cdef bint stored
        for p in range(self._first[b], self._first[b + 1]):
            a = self._from[p]
            if previous[a] + self._score[p] == best and (found < 0 or a < found):
                found = <int32_t> a
        for a in range(self.n_states if found < 0 else found):
            if previous[a] == best:
                self.score(a, b, &stored)
                if not stored:
                    return <int32_t> a
        return found

    cdef double decode(self, Py_ssize_t size, Py_ssize_t ld, double* delta,
                       double* best, int32_t* order, int32_t* labeling) noexcept nogil:
        """Best labeling of unary scores delta (size x ld); the prefixes' scores replace
        them. best is room for size x ld numbers, order for K."""
        cdef Py_ssize_t K = self.n_states, t, b
        cdef double score
        for t in range(1, size):
            self._step(delta + (t - 1) * ld, best + t * ld, order)
            for b in range(K):
                delta[t * ld + b] += best[t * ld + b]
        score = sks_max(K, delta + (size - 1) * ld)
        labeling[size - 1] = 0
        if score == -INFINITY:
            for t in range(size - 1):
                labeling[t] = 0
            return score
        while delta[(size - 1) * ld + labeling[size - 1]] != score:
            labeling[size - 1] += 1
        for t in range(size - 2, -1, -1):
            b = labeling[t + 1]
            labeling[t] = self._way_in(delta + t * ld, b, best[(t + 1) * ld + b])
        return score


cdef int32_t next_best(Py_ssize_t n, const double* x, int32_t last) noexcept nogil:
    """The entry that comes after the last one in descending order."""
    cdef Py_ssize_t k
    cdef int32_t found = -1
    for k in range(n):
        if (x[k] < x[last] or x[k] == x[last] and k > last) and (
                found < 0 or x[k] > x[found]):
            found = <int32_t> k
    return found


def viterbi_sparse(unary, transitions):
    """`viterbi` where pairs of labels that are not stored score zero."""
    unary = check_scores("unary", unary, 2)
    cdef Py_ssize_t size = unary.shape[0], K = unary.shape[1]
    if transitions.shape != (K, K):
        raise ValueError(
            f"pairwise has shape {transitions.shape}, expected {(K, K)}")
    values = transitions.data
    if np.isnan(values).any() or (values == np.inf).any():
        raise ValueError("pairwise has an entry that is NaN or +inf")
    cdef SparseTransitions table = SparseTransitions(transitions)
    cdef double[:, ::1] delta = pad_rows(unary)
    cdef double[:, ::1] best = np.empty_like(delta)
    cdef int32_t[::1] order = np.empty(K, dtype=np.int32)
    labeling = np.empty(size, dtype=np.int32)
    cdef int32_t[::1] labels = labeling
    cdef double score
    with nogil:
        score = table.decode(size, delta.shape[1], &delta[0, 0], &best[0, 0],
                             &order[0], &labels[0])
    return labeling, score
