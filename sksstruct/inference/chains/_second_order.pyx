"""Max-product on chains with scores of triples of labels, and the K best labelings.

    max over y of  sum_t unary[t, y_t] + sum_t pairwise[y_{t-1}, y_t]
                   + sum_t w[y_{t-2}, y_{t-1}, y_t]

where triples without a weight score zero (`_triples.pyx`). The best prefix that ends in
labels b, c at t - 1 and t has the score

    delta_t(b, c) = unary[t, c] + pairwise[b, c] + max_a delta_{t-1}(a, b) + w[a, b, c]

For each b the maximum over a is one of whole vectors over c: one vector for each pair
(a, b) with which some weighted triple begins, and one for all other a. Most vectors are
pruned:

* vectors of a whose prefix scores less than the best prefix that ends in b, by more
  than the range of the weights of b;
* if a single labeling is wanted, vectors of prefixes that are in no best labeling.
  Scores of suffixes are bounded by a chain without triples, in which each pair b, c
  also scores the largest w[a, b, c] of all a. The score of a labeling that maximizes
  these bounds label by label is a lower bound on the maximum.

No row is written for a label b all of whose prefixes are pruned. Labelings are found
from the last label to the first: the scores of prefixes yield the score of the best
labeling with a given suffix, and the best suffix is extended first. The k-th labeling
is complete after at most k suffixes of each length were extended, and the queue never
has more than k suffixes.

Ties are broken as in `_viterbi.pyx` and `_topk.pyx`: the last label is the lowest
maximizer, and so is every label before it, given all labels after it.
"""

import numpy as np

from libc.float cimport DBL_MAX
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove, memset

from sksstruct.utils._memory cimport reserve
from sksstruct.utils._simd cimport (
    sks_axpy, sks_first, sks_max, sks_maxplus, sks_raise, sks_reaching,
)

from sksstruct.utils._layout import aligned_zeros


cdef class SecondOrder:
    """Decoder of the K best labelings of a chain with scores of triples of labels.

    Parameters
    ----------
    triples : LabelTriples
        Triples that have a weight.
    """

    def __cinit__(self, LabelTriples triples):
        cdef Py_ssize_t k, cells = triples.n_labels * triples.ld
        cdef double[::1] memory = aligned_zeros(
            triples.n_rows * triples.ld + 3 * cells + 4 * triples.ld)
        cdef int32_t[::1] listed = np.zeros(triples.n_labels, dtype=np.int32)
        cdef int64_t[::1] written = np.zeros(triples.n_rows, dtype=np.int64)
        self._triples, self._arrays = triples, (memory, listed, written)
        self._n, self._ld = triples.n_labels, triples.ld
        self._rows, self._maxima = &memory[0], &memory[triples.n_rows * self._ld]
        self._bounds = self._maxima + cells
        self._turned = self._bounds + cells
        self._range = self._turned + cells
        self._rest = self._range + self._ld
        self._row = self._rest + self._ld
        self._minus_inf = self._row + self._ld
        self._listed, self._written = &listed[0], &written[0]
        for k in range(triples.ld):
            self._minus_inf[k] = -INFINITY

    def __dealloc__(self):
        free(self._best)
        free(self._after)
        free(self._reached)
        free(self._popped)
        free(self._queue)

    cdef Py_ssize_t decode(
            self, Py_ssize_t size, const double* theta, const double* table,
            Py_ssize_t table_step, const double* weights, Py_ssize_t k, double* scores,
            int32_t* labelings) except -1 nogil:
        """Write up to k best labelings (k, size) and their scores; return their number.

        There are at least two positions. Rows are padded to ld; theta is (size, ld),
        and positions t and t + 1 use table + t * table_step. Labelings of score -inf
        are not returned; if all score -inf, the labels of the first one become zeros.
        """
        cdef Py_ssize_t count = 0, suffix, t
        self._size, self._theta = size, theta
        self._table, self._table_step = table, table_step
        self._weights, self._call = weights, self._call + 1
        self._bound_suffixes()
        self._least = self._bound_best() if k == 1 else -DBL_MAX
        self._find_prefixes()
        reserve(<void**> &self._queue, &self._queue_capacity, k, sizeof(Suffix))
        self._n_popped, self._n_queued, self._queue_limit = 0, 0, k
        memset(labelings, 0, size * sizeof(int32_t))
        self._queue_last_pairs()
        while self._n_queued > 0:
            reserve(<void**> &self._popped, &self._popped_capacity,
                    self._n_popped + 1, sizeof(Suffix))
            suffix = self._n_popped
            self._popped[suffix] = self._queue[0]
            self._n_popped += 1
            self._n_queued -= 1
            memmove(self._queue, self._queue + 1, self._n_queued * sizeof(Suffix))
            if self._popped[suffix].start > 0:
                self._extend(suffix)
                continue
            scores[count] = self._popped[suffix].score
            for t in range(size):
                labelings[count * size + t] = self._popped[suffix].label
                suffix = self._popped[suffix].next
            count += 1
            self._queue_limit -= 1
        return count

    # ---- bounds ----

    cdef void _bound_weights(self) noexcept nogil:
        """Set `_bounds`, the largest weights over a, and `_range`, the ranges by b."""
        cdef Py_ssize_t ld = self._ld, cells = self._n * ld, k, cell
        cdef double* lows = self._turned
        cdef double value
        memset(self._bounds, 0, cells * sizeof(double))
        memset(lows, 0, cells * sizeof(double))
        for k in range(self._triples.n_weights):
            cell, value = self._triples.turned[k], self._weights[k]
            self._bounds[cell] = (
                value if value > self._bounds[cell] else self._bounds[cell])
            lows[cell] = -value if -value > lows[cell] else lows[cell]
        memset(self._range, 0, ld * sizeof(double))
        memset(self._row, 0, ld * sizeof(double))
        for k in range(self._n):
            sks_raise(ld, 0.0, self._bounds + k * ld, self._range)
            sks_raise(ld, 0.0, lows + k * ld, self._row)
        sks_axpy(ld, 1.0, self._row, self._range)

    cdef int _bound_suffixes(self) except -1 nogil:
        """Set `_after`, upper bounds on the scores of suffixes, and `_scale`."""
        cdef Py_ssize_t n = self._n, ld = self._ld, t, b, c
        cdef const double* table
        cdef double table_top = 0.0
        self._bound_weights()
        reserve(<void**> &self._after, &self._after_capacity, self._size * ld,
                sizeof(double))
        memcpy(self._after, self._theta, self._size * ld * sizeof(double))
        self._scale = 1.0 + sks_max(n, self._range)
        for t in range(self._size - 1, 0, -1):
            if self._table_step or t == self._size - 1:
                table = self._table + (t - 1) * self._table_step
                for b in range(n):
                    for c in range(n):
                        self._turned[c * ld + b] = (
                            self._bounds[c * ld + b] + table[b * ld + c])
                table_top = fabs(sks_max(n * ld, self._turned))
            self._scale += table_top + fabs(sks_max(n, self._theta + t * ld))
            sks_maxplus(n, ld, self._after + t * ld, self._turned,
                        self._after + (t - 1) * ld)
        self._scale += fabs(sks_max(n, self._theta))
        return 0

    cdef double _bound_best(self) noexcept nogil:
        """Return a lower bound on the best score that allows for rounding errors.

        The bound is the score of one labeling. Each of its labels maximizes the upper
        bound on the score, given the labels before.
        """
        cdef Py_ssize_t n = self._n, ld = self._ld, t, a = 0, b = 0, c
        cdef const double* row = NULL
        cdef const double* table
        cdef double total = 0.0
        for t in range(self._size):
            memcpy(self._row, self._after + t * ld, ld * sizeof(double))
            table, row = self._table + (t - 1) * self._table_step + b * ld, NULL
            if t > 0:
                sks_axpy(ld, 1.0, table, self._row)
            if t > 1 and self._triples.row[a * n + b] >= 0:
                row = self._weights_after(self._triples.row[a * n + b])
                sks_axpy(ld, 1.0, row, self._row)
            c = sks_first(n, self._row, sks_max(n, self._row))
            # with NaN scores no label has the maximum, and there is no lower bound
            if c == n:
                return -DBL_MAX
            total += self._theta[t * ld + c]
            total += table[c] if t > 0 else 0.0
            total += row[c] if row != NULL else 0.0
            a, b = b, c
        # a margin for rounding: the partial sums of a best labeling are at most
        # `_scale`, and at least total - `_scale`
        return max(total - 1e-12 * (2.0 * self._scale + fabs(total)), -DBL_MAX)

    cdef const double* _weights_after(self, Py_ssize_t row) noexcept nogil:
        """Return the row of weights of a pair (a, b), written once per `decode`.

        Entries of triples without a weight stay zero.
        """
        cdef Py_ssize_t k
        if self._written[row] != self._call:
            self._written[row] = self._call
            for k in range(self._triples.start[row], self._triples.stop[row]):
                self._rows[self._triples.place[k]] = self._weights[k]
        return self._rows + row * self._ld

    # ---- prefixes ----

    cdef int _find_prefixes(self) except -1 nogil:
        """Find the scores of the best prefixes that end in each pair of labels."""
        cdef Py_ssize_t n = self._n, ld = self._ld, t, b, c
        reserve(<void**> &self._best, &self._best_capacity, self._size * n * ld,
                sizeof(double))
        reserve(<void**> &self._reached, &self._reached_capacity, self._size * n, 1)
        memset(self._reached, 0, self._size * n)
        for t in range(1, self._size):
            if t > 1:
                self._find_best(t)
            for b in range(n):
                if t == 1:
                    self._reached[n + b] = 1
                    for c in range(ld):
                        self._maxima[b * ld + c] = self._theta[b]
                if self._reached[t * n + b]:
                    self._append_label(t, b)
        return 0

    cdef void _append_label(self, Py_ssize_t t, Py_ssize_t b) noexcept nogil:
        """Write the scores of best prefixes that end in b at t - 1 and each c at t."""
        cdef Py_ssize_t ld = self._ld
        cdef double* out = self._best + (t * self._n + b) * ld
        memcpy(out, self._table + (t - 1) * self._table_step + b * ld,
               ld * sizeof(double))
        sks_axpy(ld, 1.0, self._theta + t * ld, out)
        sks_axpy(ld, 1.0, self._maxima + b * ld, out)

    cdef void _find_thresholds(self, Py_ssize_t t) noexcept nogil:
        """Write to `_row`, for each last label b, minus the least prefix score kept."""
        cdef Py_ssize_t n = self._n, ld = self._ld, a, b
        cdef const double* theta = self._theta + t * ld
        cdef double best, rest
        memcpy(self._row, self._minus_inf, ld * sizeof(double))
        for a in range(n):
            if self._reached[t * n + a]:
                sks_raise(ld, 0.0, self._best + (t * n + a) * ld, self._row)
        for b in range(n):
            best = self._row[b]
            if best == -INFINITY:
                continue
            # a margin for rounding errors
            self._row[b] = self._range[b] + 1e-12 * (1.0 + fabs(best)) - best
            rest = self._after[t * ld + b] - theta[b] - self._least
            self._row[b] = min(self._row[b], rest)

    cdef void _find_best(self, Py_ssize_t t) noexcept nogil:
        """Write max_a prefix + w[a, b, c] to `_maxima`, for b at t - 1 and c at t."""
        cdef Py_ssize_t n = self._n, ld = self._ld, a, b, k, row
        cdef char* reached = self._reached + t * n
        cdef const double* before
        cdef double best
        self._find_thresholds(t - 1)
        memcpy(self._rest, self._minus_inf, ld * sizeof(double))
        for a in range(n):
            if not (reached - n)[a]:
                continue
            before = self._best + ((t - 1) * n + a) * ld
            for k in range(sks_reaching(n, before, self._row, 0.0, self._listed)):
                b = self._listed[k]
                best, row = before[b], self._triples.row[a * n + b]
                if not reached[b]:
                    reached[b] = 1
                    memcpy(self._maxima + b * ld, self._minus_inf, ld * sizeof(double))
                if row >= 0:
                    sks_raise(
                        ld, best, self._weights_after(row), self._maxima + b * ld)
                elif best > self._rest[b]:
                    self._rest[b] = best
        for b in range(n):
            # the last row of b, which stands for all pairs without weights, is zero
            if self._rest[b] > -INFINITY:
                row = self._triples.first_row[b + 1] - 1
                sks_raise(ld, self._rest[b], self._rows + row * ld,
                          self._maxima + b * ld)

    # ---- suffixes ----

    cdef int _enqueue(self, Suffix suffix) except -1 nogil:
        """Insert a suffix into the queue, unless k better suffixes are known."""
        cdef Py_ssize_t place = self._n_queued
        if suffix.score == -INFINITY:
            return 0
        if place == self._queue_limit:
            if place == 0 or self._precedes(&self._queue[place - 1], &suffix):
                return 0
            place -= 1
        else:
            self._n_queued += 1
        while place > 0 and self._precedes(&suffix, &self._queue[place - 1]):
            self._queue[place] = self._queue[place - 1]
            place -= 1
        self._queue[place] = suffix
        return 0

    cdef bint _precedes(self, const Suffix* one, const Suffix* other) noexcept nogil:
        """Return whether a suffix precedes another in the queue."""
        cdef bint lower = False
        if one.score != other.score:
            return one.score > other.score
        # of equal scores, the last label in which the suffixes differ decides
        while one.start < other.start:
            one = &self._popped[one.next]
        while other.start < one.start:
            other = &self._popped[other.next]
        while True:
            if one.label != other.label:
                lower = one.label < other.label
            if one.next == other.next:
                return lower
            one, other = &self._popped[one.next], &self._popped[other.next]

    cdef int _queue_last_pairs(self) except -1 nogil:
        """Insert the suffixes of two labels into the queue."""
        cdef Py_ssize_t n = self._n, last = self._size - 1, b, c
        cdef const double* best = self._best + last * n * self._ld
        reserve(<void**> &self._popped, &self._popped_capacity, n, sizeof(Suffix))
        for c in range(n):
            self._popped[c] = Suffix(0.0, 0.0, -1, last, <int32_t> c)
        self._n_popped = n
        for b in range(n):
            if not self._reached[last * n + b]:
                continue
            for c in range(n):
                # if the queue is full, most pairs score less than its last suffix
                if self._n_queued == self._queue_limit and (
                        best[b * self._ld + c] < self._queue[
                            self._n_queued - 1].score):
                    continue
                self._enqueue(Suffix(
                    best[b * self._ld + c], 0.0, c, last - 1, <int32_t> b))
        return 0

    cdef int _extend(self, Py_ssize_t suffix) except -1 nogil:
        """Extend a suffix by each previous label; put the results into the queue."""
        cdef Py_ssize_t n = self._n, ld = self._ld, a, row
        cdef Py_ssize_t b = self._popped[suffix].label, t = self._popped[suffix].start
        cdef Py_ssize_t c = self._popped[self._popped[suffix].next].label
        cdef const double* best = self._best + t * n * ld
        # the part of `Suffix.rest` without the weight of the triple (a, b, c)
        cdef double rest = (self._popped[suffix].rest + self._theta[(t + 1) * ld + c]
                            + self._table[t * self._table_step + b * ld + c]), triple
        for a in range(n):
            if not self._reached[t * n + a]:
                continue
            row = self._triples.row[a * n + b]
            triple = 0.0 if row < 0 else self._weights_after(row)[c]
            self._enqueue(Suffix(best[a * ld + b] + (rest + triple), rest + triple,
                                 suffix, t - 1, <int32_t> a))
        return 0
