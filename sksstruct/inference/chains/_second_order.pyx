"""Max-product on chains with scores of triples of labels, and the K best labelings.

    max over y of  sum_t unary[t, y_t] + sum_t pairwise[y_{t-1}, y_t]
                   + sum_t w[y_{t-2}, y_{t-1}, y_t]

where most triples have no weight (`_triples.pyx`). The recursion is that of Viterbi on
pairs of labels: of the prefixes that end in the labels b, c the K best are kept, and
extend those that end in a, b. It would take K^3 steps at a position, but nearly all
pairs of labels can be left out. A first-order recursion from the end, in which each pair
(b, c) gains the largest weight of a triple (a, b, c), bounds what any prefix can
still gain; the score of a labeling that follows this bound greedily is what the best one
has to reach. Prefixes that cannot reach it, or are farther from it than the k-th
labeling, are dropped. If fewer than k labelings are left then, the recursion is repeated
with a larger distance. The result is exact.

Ties are those of `_viterbi.pyx` and `_topk.pyx`: the last label is the lowest
maximizer, and so is every label before it given those after it.
"""

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from sksstruct.inference.trees._messages cimport best_state, best_state_given
from sksstruct.utils._memory cimport reserve
from sksstruct.utils._simd cimport sks_maxplus

import numpy as np

from sksstruct.utils._layout import aligned_zeros

# Distances are not enlarged beyond this, times the largest score.
cdef double FARTHEST = 1e6


cdef inline double largest_of(double largest, double score) noexcept nogil:
    """Return the larger of two sizes; what is forbidden has none."""
    cdef double size = fabs(score)
    return size if largest < size < INFINITY else largest


cdef class SecondOrder:
    """Decoder of the K best labelings, with memory for one chain at a time.

    Parameters
    ----------
    triples : LabelTriples
        Triples that have a weight.
    """

    def __cinit__(self, LabelTriples triples):
        cdef Py_ssize_t cells = triples.n_labels * triples.ld
        cdef double[::1] memory = aligned_zeros(2 * cells + 2 * triples.ld)
        cdef int32_t[::1] lists = np.zeros(3 * triples.n_labels + 2, dtype=np.int32)
        self._triples, self._arrays = triples, (memory, lists)
        self._n, self._ld = triples.n_labels, triples.ld
        self._gain, self._turned = &memory[0], &memory[cells]
        self._row = self._turned + cells
        self._top = self._row + self._ld
        self._begin, self._before = &lists[0], &lists[self._n + 1]
        self._alive = self._before + self._n + 1
        self._gap = 1.0

    def __dealloc__(self):
        free(self._ahead)
        free(self._states)
        free(self._prefixes)

    cdef Py_ssize_t decode(
            self, Py_ssize_t size, const double* theta, const double* table,
            Py_ssize_t table_step, const double* weights, Py_ssize_t k, double* scores,
            int32_t* labelings) except -1 nogil:
        """Write up to k best labelings (k, size) and their scores; return their number.

        There are at least two positions. Rows are padded to ld; theta is (size, ld),
        and position t + 1 uses table + t * table_step. If every labeling is forbidden,
        there is none, and the first one is written with any labels.
        """
        cdef Py_ssize_t count, t
        cdef double guess, slack, largest, gap = self._gap if k > 1 else 0.0
        self._size, self._theta, self._weights, self._k = size, theta, weights, k
        self._table, self._table_step = table, table_step
        largest = self._look_ahead()
        guess = self._guess()
        if guess == -INFINITY:
            memset(labelings, 0, size * sizeof(int32_t))
            return 0
        # sums that are formed in another order differ by their rounding errors
        slack = 1e-15 * size * size * largest
        while True:
            self._threshold, self._pruned = guess - gap - slack, False
            self._begin_states()
            for t in range(2, size):
                self._extend(t)
            count = self._finish(scores, labelings)
            # nothing that was left out is above the threshold
            if not self._pruned or (
                    count == k and scores[k - 1] >= self._threshold + slack):
                break
            # of one labeling, rounding errors only: it is the best above the threshold
            if k == 1:
                break
            gap = 4.0 * gap if gap < FARTHEST * (1.0 + largest) else INFINITY
        if k > 1 and count == k:
            self._gap = 1.25 * (guess - scores[k - 1]) + 1e-3
        return count

    cdef double _look_ahead(self) except? -1 nogil:
        """Bound what labelings score from each label on; return the largest score."""
        cdef Py_ssize_t n = self._n, ld = self._ld, t, k, a, b
        cdef const double* table
        cdef double largest = 0.0, gain
        reserve(<void**> &self._ahead, &self._ahead_capacity, self._size * ld,
                sizeof(double))
        memcpy(self._ahead, self._theta, self._size * ld * sizeof(double))
        memcpy(self._gain, self._triples.floor, n * ld * sizeof(double))
        for k in range(self._triples.n_weights):
            largest = largest_of(largest, self._weights[k])
            if self._weights[k] > self._gain[self._triples.turned[k]]:
                self._gain[self._triples.turned[k]] = self._weights[k]
        for t in range(self._size - 2, -1, -1):
            table = self._table + t * self._table_step
            # one table for all positions is transposed twice: the first pair ends no
            # triple
            if self._table_step or t == self._size - 2 or t == 0:
                for b in range(n):
                    for a in range(n):
                        largest = largest_of(largest, table[a * ld + b])
                        gain = self._gain[b * ld + a] if t else 0.0
                        self._turned[b * ld + a] = table[a * ld + b] + gain
            sks_maxplus(n, ld, self._ahead + (t + 1) * ld, self._turned,
                        self._ahead + t * ld)
            for a in range(n):
                largest = largest_of(largest, self._theta[t * ld + a])
        return largest

    cdef double _guess(self) noexcept nogil:
        """Return the score of the labeling that follows the bounds."""
        cdef Py_ssize_t n = self._n, ld = self._ld, t, k, c, row = -1
        cdef Py_ssize_t label = best_state(n, self._ahead)
        cdef double total = self._theta[label]
        for t in range(1, self._size):
            memcpy(self._row, self._table + (t - 1) * self._table_step + label * ld,
                   n * sizeof(double))
            if row >= 0:
                for k in range(self._triples.start[row], self._triples.start[row + 1]):
                    self._row[self._triples.third[k]] += self._weights[k]
            c = best_state_given(n, self._row, self._ahead + t * ld, 1)
            total += self._row[c] + self._theta[t * ld + c]
            row, label = self._triples.row[label * n + c], c
        return total

    # ---- prefixes of all lengths ----

    cdef bint _is_out(self, double bound) noexcept nogil:
        """Return whether a prefix is left out, as what it can score is too low."""
        if bound >= self._threshold and bound > -INFINITY:
            return False
        self._pruned |= bound > -INFINITY
        return True

    cdef int _begin_states(self) except -1 nogil:
        """Form the prefixes of one label, and those of two."""
        cdef Py_ssize_t b
        self._n_states, self._n_prefixes, self._n_alive = 0, self._n, self._n
        reserve(<void**> &self._prefixes, &self._prefix_capacity, self._n,
                sizeof(Prefix))
        reserve(<void**> &self._states, &self._state_capacity, self._n, sizeof(State))
        # as if a label came before them that no triple begins with
        for b in range(self._n):
            self._prefixes[b] = Prefix(self._theta[b], -1, <int32_t> b)
            self._states[b] = State(b, 1, -1)
            self._begin[b] = <int32_t> b
        self._begin[self._n] = <int32_t> self._n
        self._n_states = self._n
        return self._extend(1)

    cdef int _extend(self, Py_ssize_t t) except -1 nogil:
        """Form the prefixes that end at position t from those that end before it."""
        cdef Py_ssize_t n = self._n, ld = self._ld, b, c, k
        cdef const double* table = self._table + (t - 1) * self._table_step
        cdef const double* ahead = self._ahead + t * ld
        cdef double gain
        self._begin, self._before = self._before, self._begin
        self._n_alive = 0
        for b in range(n):
            if self._before[b] < self._before[b + 1]:
                self._alive[self._n_alive] = <int32_t> b
                self._n_alive += 1
                self._top[b] = -INFINITY
            for k in range(self._before[b], self._before[b + 1]):
                self._top[b] = max(
                    self._top[b], self._prefixes[self._states[k].first].score)
        for c in range(n):
            self._begin[c] = <int32_t> self._n_states
            if ahead[c] == -INFINITY:
                continue
            for k in range(self._n_alive):
                b = self._alive[k]
                gain = self._gain[c * ld + b] if t > 1 else 0.0
                if not self._is_out(
                        self._top[b] + gain + table[b * ld + c] + ahead[c]):
                    self._add_state(t, b, c)
        self._begin[n] = <int32_t> self._n_states
        return 0

    cdef int _add_state(self, Py_ssize_t t, Py_ssize_t b, Py_ssize_t c) except -1 nogil:
        """Form the prefixes that end in the labels b, c, unless all are left out."""
        cdef Py_ssize_t first = self._n_prefixes, kept = 0, rank, count
        cdef double pair = self._table[(t - 1) * self._table_step + b * self._ld + c]
        cdef Prefix* prefix
        reserve(<void**> &self._prefixes, &self._prefix_capacity, first + self._k,
                sizeof(Prefix))
        reserve(<void**> &self._states, &self._state_capacity, self._n_states + 1,
                sizeof(State))
        count = self._collect(self._before[b], self._before[b + 1], c)
        for rank in range(count):
            prefix = &self._prefixes[first + rank]
            prefix.score += pair
            # the best come first
            if self._is_out(prefix.score + self._ahead[t * self._ld + c]):
                break
            prefix.score += self._theta[t * self._ld + c]
            kept += 1
        if kept:
            self._states[self._n_states] = State(
                first, kept, self._triples.row[b * self._n + c])
            self._n_states += 1
            self._n_prefixes += kept
        return 0

    cdef Py_ssize_t _collect(self, Py_ssize_t begin, Py_ssize_t end,
                             Py_ssize_t label) noexcept nogil:
        """Write the best prefixes of some states with a label put to them.

        They follow the prefixes that there are. No triple ends in the label -1, which
        stands for the end of the chain. Returns their number.
        """
        cdef Prefix* best = self._prefixes + self._n_prefixes
        cdef Py_ssize_t count = 0, s, k, rank, place
        cdef State state
        cdef double gain, score
        for s in range(begin, end):
            state = self._states[s]
            k = self._triples.find_in(state.row, label)
            gain = 0.0 if k < 0 else self._weights[k]
            for rank in range(state.first, state.first + state.count):
                score = self._prefixes[rank].score + gain
                # of equal ones those that were there first
                if count == self._k and score <= best[count - 1].score:
                    break
                place = count if count < self._k else count - 1
                while place > 0 and best[place - 1].score < score:
                    best[place] = best[place - 1]
                    place -= 1
                best[place] = Prefix(score, rank, <int32_t> label)
                count += count < self._k
        return count

    cdef Py_ssize_t _finish(self, double* scores, int32_t* labelings) except -1 nogil:
        """Write the best labelings and their scores; return their number."""
        cdef Py_ssize_t count, rank, place, t
        reserve(<void**> &self._prefixes, &self._prefix_capacity,
                self._n_prefixes + self._k, sizeof(Prefix))
        count = self._collect(self._begin[0], self._begin[self._n], -1)
        for rank in range(count):
            scores[rank] = self._prefixes[self._n_prefixes + rank].score
            place = self._prefixes[self._n_prefixes + rank].previous
            for t in range(self._size - 1, -1, -1):
                labelings[rank * self._size + t] = self._prefixes[place].label
                place = self._prefixes[place].previous
        return count
