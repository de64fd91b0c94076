"""Max-product on chains with one sparse table of transitions, whose other scores are 0.

    max over y of  sum_t unary[t, y_t] + sum_t v[y_t, y_{t+1}]

over K labels at positions t; a and b are labels at neighboring positions. The recursion
is that of `_viterbi.pyx`. The best way into label b comes from the best label before
it, score 0, unless a stored score is in the way. So a step looks at the stored scores
of the column of b that are large enough to matter, in descending order, and at the best
label that has nothing stored with b: about K + (stored scores above zero) and no K x K.
Exact.
"""

import numpy as np
from scipy import sparse

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.trees._messages cimport best_state
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
        # an array of the caller's, with all duplicates, may change
        self.csr = csr
        self.n_states = csr.shape[0]
        self._row_first = csr.indptr.astype(np.intp)
        # one entry more, so that there is an address where nothing is stored
        self._to = np.append(csr.indices, 0).astype(np.int32)
        self._row_score = np.append(csr.data, 0.0)
        rows = np.repeat(np.arange(self.n_states), np.diff(csr.indptr))
        # by column, then descending, then by row
        order = np.lexsort((rows, -csr.data, csr.indices))
        self._first = np.searchsorted(
            csr.indices[order], np.arange(self.n_states + 1)).astype(np.intp)
        self._from = np.append(rows[order], 0).astype(np.int32)
        self._score = np.append(csr.data[order], 0.0)

    cdef double score(self, Py_ssize_t before, Py_ssize_t label,
                      bint* stored) noexcept nogil:
        """v[before, label], and whether it is stored."""
        # by bisection: labels ascend in a row
        cdef Py_ssize_t low = self._row_first[before], middle
        cdef Py_ssize_t last = self._row_first[before + 1], high = last
        # labels before low are below this one, those from high on are not
        while low < high:
            middle = (low + high) // 2
            if self._to[middle] < label:
                low = middle + 1
            else:
                high = middle
        stored[0] = low < last and self._to[low] == label
        return self._row_score[low] if stored[0] else 0.0

    cdef bint _is_stored(self, Py_ssize_t before, Py_ssize_t label) noexcept nogil:
        """Whether v[before, label] is stored."""
        cdef bint stored
        self.score(before, label, &stored)
        return stored

    cdef void _step(self, const double* previous, double* best,
                    int32_t* order) noexcept nogil:
        """best[b] = max_a previous[a] + v[a, b]"""
        cdef Py_ssize_t label, i
        cdef double top = sks_max(self.n_states, previous), value
        # most columns have nothing stored with the best label
        for label in range(self.n_states):
            best[label] = top
        # all prefixes are forbidden, and the rest would compare -inf with itself
        if top == -INFINITY:
            return
        order[0] = 0
        while previous[order[0]] != top:
            order[0] += 1
        self._set_unstored(previous, best, order)
        for label in range(self.n_states):
            for i in range(self._first[label], self._first[label + 1]):
                # scores descend: no later one reaches the best, with any label before
                value = self._score[i]
                if value + top <= best[label]:
                    break
                value += previous[self._from[i]]
                if value > best[label]:
                    best[label] = value

    cdef void _set_unstored(self, const double* previous, double* best,
                            int32_t* order) noexcept nogil:
        """Correct best[b] where the best label before, order[0], has b stored."""
        cdef Py_ssize_t i, label, rank, n_ordered = 1
        # The best of the others is tried then, and so on. The descending order is found
        # as far as it is needed: two or three labels, if few scores are stored.
        for i in range(self._row_first[order[0]], self._row_first[order[0] + 1]):
            label = self._to[i]
            # what remains if all labels have something stored with this one
            best[label] = -INFINITY
            for rank in range(1, self.n_states):
                if rank == n_ordered:
                    order[rank] = next_best(self.n_states, previous, order[rank - 1])
                    n_ordered += 1
                if not self._is_stored(order[rank], label):
                    best[label] = previous[order[rank]]
                    break

    cdef int32_t _way_in(self, const double* previous, Py_ssize_t label,
                         double best) noexcept nogil:
        """The lowest label a with previous[a] + v[a, label] = best."""
        cdef Py_ssize_t before, i
        cdef int32_t found = -1
        # The step kept maxima only. The same sum of two numbers gives the same bits, so
        # that equality finds the maximiser.
        for i in range(self._first[label], self._first[label + 1]):
            before = self._from[i]
            if previous[before] + self._score[i] == best and (
                    found < 0 or before < found):
                found = <int32_t> before
        # one that has nothing stored counts only if it is lower
        for before in range(self.n_states if found < 0 else found):
            if previous[before] == best and not self._is_stored(before, label):
                return <int32_t> before
        return found

    cdef double decode(self, Py_ssize_t size, Py_ssize_t ld, double* delta,
                       double* best, int32_t* order, int32_t* labeling) noexcept nogil:
        """Best labeling of unary scores delta (size x ld), and its score.

        The best scores of prefixes replace delta. best has room for size x ld numbers,
        order for K.
        """
        cdef Py_ssize_t t, label
        cdef double score
        # best without the unary scores is kept for the way back, where it is compared
        for t in range(1, size):
            self._step(delta + (t - 1) * ld, best + t * ld, order)
            for label in range(self.n_states):
                delta[t * ld + label] += best[t * ld + label]
        label = best_state(self.n_states, delta + (size - 1) * ld)
        labeling[size - 1] = <int32_t> label
        score = delta[(size - 1) * ld + label]
        if score == -INFINITY:
            # all is forbidden: there is no way in to be found
            memset(labeling, 0, size * sizeof(int32_t))
            return score
        for t in range(size - 2, -1, -1):
            label = self._way_in(delta + t * ld, label, best[(t + 1) * ld + label])
            labeling[t] = <int32_t> label
        return score


cdef int32_t next_best(Py_ssize_t n, const double* scores, int32_t last) noexcept nogil:
    """The entry that comes after the last one in descending order."""
    cdef Py_ssize_t k
    cdef int32_t found = -1
    # A pass over all: it is asked for two or three entries, too few for a sort.
    for k in range(n):
        # equal entries are in the order of their numbers
        if (scores[k] < scores[last] or scores[k] == scores[last] and k > last) and (
                found < 0 or scores[k] > scores[found]):
            found = <int32_t> k
    return found


def viterbi_sparse(unary, transitions):
    """`viterbi` where pairs of labels that are not stored score zero."""
    unary = check_scores("unary", unary, 2)
    cdef Py_ssize_t size = unary.shape[0], n_states = unary.shape[1]
    if transitions.shape != (n_states, n_states):
        raise ValueError(
            f"pairwise has shape {transitions.shape}, expected {(n_states, n_states)}")
    values = transitions.data
    if np.isnan(values).any() or (values == np.inf).any():
        raise ValueError("pairwise has an entry that is NaN or +inf")
    cdef SparseTransitions table = SparseTransitions(transitions)
    cdef double[:, ::1] delta = pad_rows(unary)
    cdef double[:, ::1] best = np.empty_like(delta)
    cdef int32_t[::1] order = np.empty(n_states, dtype=np.int32)
    labeling = np.empty(size, dtype=np.int32)
    cdef int32_t[::1] labels = labeling
    cdef double score
    with nogil:
        score = table.decode(size, delta.shape[1], &delta[0, 0], &best[0, 0],
                             &order[0], &labels[0])
    return labeling, score
