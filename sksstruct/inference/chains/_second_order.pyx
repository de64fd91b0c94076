"""Max-product on chains with scores of triples of labels, and the K best labelings.

    max over y of  sum_t unary[t, y_t] + sum_t pairwise[y_{t-1}, y_t]
                   + sum_t w[y_{t-2}, y_{t-1}, y_t]

where triples without a weight score zero (`_triples.pyx`). The best prefix that ends in
the labels b, c at t - 1 and t has the score

    delta_t(b, c) = unary[t, c] + pairwise[b, c] + max_a delta_{t-1}(a, b) + w[a, b, c]

The maximum runs over whole vectors of c, one for each pair (a, b) that some weight
begins with, and one more for all other a. Most of them are left out: those of a whose
prefix scores so little that no weight makes up for it. Labelings are found from their
ends: with the scores of prefixes it is known how good a suffix can become, and the best
one is extended first. The k-th labeling is complete after at most k suffixes of each
length were extended, and no more than k have to wait.

Ties are those of `_viterbi.pyx` and `_topk.pyx`: the last label is the lowest
maximizer, and so is every label before it given those after it.
"""

import numpy as np

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove, memset

from sksstruct.utils._memory cimport reserve
from sksstruct.utils._simd cimport sks_axpy, sks_raise, sks_reaching

from sksstruct.utils._layout import aligned_zeros


cdef class SecondOrder:
    """Decoder of the K best labelings, with memory for one chain at a time.

    Parameters
    ----------
    triples : LabelTriples
        Triples that have a weight.
    """

    def __cinit__(self, LabelTriples triples):
        cdef Py_ssize_t k, cells = triples.n_labels * triples.ld
        cdef double[::1] memory = aligned_zeros(
            triples.n_rows * triples.ld + 2 * cells + 3 * triples.ld)
        cdef int32_t[::1] listed = np.zeros(triples.n_labels, dtype=np.int32)
        self._triples, self._arrays = triples, (memory, listed)
        self._n, self._ld = triples.n_labels, triples.ld
        self._rows, self._maxima = &memory[0], &memory[triples.n_rows * self._ld]
        self._nothing = self._maxima + cells
        self._range = self._nothing + cells
        self._rest = self._range + self._ld
        self._row = self._rest + self._ld
        self._listed = &listed[0]
        for k in range(cells):
            self._nothing[k] = -INFINITY

    def __dealloc__(self):
        free(self._best)
        free(self._taken)
        free(self._waiting)

    cdef Py_ssize_t decode(
            self, Py_ssize_t size, const double* theta, const double* table,
            Py_ssize_t table_step, const double* weights, Py_ssize_t k, double* scores,
            int32_t* labelings) except -1 nogil:
        """Write up to k best labelings (k, size) and their scores; return their number.

        There are at least two positions. Rows are padded to ld; theta is (size, ld),
        and position t + 1 uses table + t * table_step. Labelings of score -inf are not
        returned; if there are no others, the first one is written with any labels.
        """
        cdef Py_ssize_t count = 0, suffix, t
        self._size, self._theta = size, theta
        self._table, self._table_step = table, table_step
        self._spread_out(weights)
        self._find_prefixes()
        reserve(<void**> &self._waiting, &self._waiting_capacity, k, sizeof(Suffix))
        self._n_taken, self._n_waiting, self._most_waiting = 0, 0, k
        memset(labelings, 0, size * sizeof(int32_t))
        self._begin()
        while self._n_waiting > 0:
            reserve(<void**> &self._taken, &self._taken_capacity, self._n_taken + 1,
                    sizeof(Suffix))
            suffix = self._n_taken
            self._taken[suffix] = self._waiting[0]
            self._n_taken += 1
            self._n_waiting -= 1
            memmove(self._waiting, self._waiting + 1, self._n_waiting * sizeof(Suffix))
            if self._taken[suffix].start > 0:
                self._extend(suffix)
                continue
            scores[count] = self._taken[suffix].score
            for t in range(size):
                labelings[count * size + t] = self._taken[suffix].label
                suffix = self._taken[suffix].next
            count += 1
            self._most_waiting -= 1
        return count

    cdef void _spread_out(self, const double* weights) noexcept nogil:
        """Write weights to their rows, where all other entries stay zero."""
        cdef Py_ssize_t b, row, k
        cdef double low, high
        for b in range(self._n):
            low = high = 0.0
            row = self._triples.first_row[b]
            for row in range(row, self._triples.first_row[b + 1]):
                for k in range(self._triples.start[row], self._triples.stop[row]):
                    self._rows[self._triples.place[k]] = weights[k]
                    low, high = min(low, weights[k]), max(high, weights[k])
            self._range[b] = high - low

    cdef int _find_prefixes(self) except -1 nogil:
        """Find the scores of the best prefixes that end in each pair of labels."""
        cdef Py_ssize_t n = self._n, ld = self._ld, t, b, c
        cdef double* out
        reserve(<void**> &self._best, &self._best_capacity, self._size * n * ld,
                sizeof(double))
        for t in range(1, self._size):
            out = self._best + t * n * ld
            memcpy(out, self._table + (t - 1) * self._table_step,
                   n * ld * sizeof(double))
            for b in range(n):
                sks_axpy(ld, 1.0, self._theta + t * ld, out + b * ld)
                for c in range(n if t == 1 else 0):
                    out[b * ld + c] += self._theta[b]
            if t > 1:
                self._add_best(out - n * ld, out)
        return 0

    cdef void _add_best(self, const double* before, double* out) noexcept nogil:
        """Add the best prefixes that end in each label b to what follows it."""
        cdef Py_ssize_t n = self._n, ld = self._ld, a, b, k, count, row
        cdef double best
        memcpy(self._maxima, self._nothing, n * ld * sizeof(double))
        memcpy(self._rest, self._nothing, ld * sizeof(double))
        memcpy(self._row, self._nothing, ld * sizeof(double))
        for a in range(n):
            sks_raise(ld, 0.0, before + a * ld, self._row)
        # by how much a prefix may be worse than the best one that ends in b, of which
        # its score is the rest; a little more, for the rounding errors
        for b in range(n):
            best = self._row[b]
            self._row[b] = -INFINITY if best == -INFINITY else (
                self._range[b] + 1e-12 * (1.0 + fabs(best)) - best)
        for a in range(n):
            count = sks_reaching(n, before + a * ld, self._row, 0.0, self._listed)
            for k in range(count):
                b = self._listed[k]
                best, row = before[a * ld + b], self._triples.row[a * n + b]
                if row >= 0:
                    sks_raise(ld, best, self._rows + row * ld, self._maxima + b * ld)
                elif best > self._rest[b]:
                    self._rest[b] = best
        for b in range(n):
            if self._rest[b] > -INFINITY:
                row = self._triples.first_row[b + 1] - 1
                sks_raise(ld, self._rest[b], self._rows + row * ld,
                          self._maxima + b * ld)
            sks_axpy(ld, 1.0, self._maxima + b * ld, out + b * ld)

    # ---- suffixes ----

    cdef int _wait(self, Suffix suffix) except -1 nogil:
        """Let a suffix wait, if it is good enough."""
        cdef Py_ssize_t place = self._n_waiting
        if suffix.score == -INFINITY:
            return 0
        if place == self._most_waiting:
            if place == 0 or self._precedes(&self._waiting[place - 1], &suffix):
                return 0
            place -= 1
        else:
            self._n_waiting += 1
        while place > 0 and self._precedes(&suffix, &self._waiting[place - 1]):
            self._waiting[place] = self._waiting[place - 1]
            place -= 1
        self._waiting[place] = suffix
        return 0

    cdef bint _precedes(self, const Suffix* one, const Suffix* other) noexcept nogil:
        """Return whether a suffix is taken before another one."""
        cdef bint lower = False
        if one.score != other.score:
            return one.score > other.score
        # the last label that they do not share decides
        while one.start < other.start:
            one = &self._taken[one.next]
        while other.start < one.start:
            other = &self._taken[other.next]
        while True:
            if one.label != other.label:
                lower = one.label < other.label
            if one.next == other.next:
                return lower
            one, other = &self._taken[one.next], &self._taken[other.next]

    cdef int _begin(self) except -1 nogil:
        """Let all last pairs of labels wait."""
        cdef Py_ssize_t n = self._n, last = self._size - 1, b, c
        cdef const double* best = self._best + last * n * self._ld
        reserve(<void**> &self._taken, &self._taken_capacity, n, sizeof(Suffix))
        for c in range(n):
            self._taken[c] = Suffix(0.0, 0.0, -1, last, <int32_t> c)
        self._n_taken = n
        for c in range(n):
            for b in range(n):
                # most are out of the question
                if self._n_waiting == self._most_waiting and (
                        best[b * self._ld + c] < self._waiting[
                            self._n_waiting - 1].score):
                    continue
                self._wait(Suffix(
                    best[b * self._ld + c], 0.0, c, last - 1, <int32_t> b))
        return 0

    cdef int _extend(self, Py_ssize_t suffix) except -1 nogil:
        """Let all suffixes that are one label longer wait."""
        cdef Py_ssize_t n = self._n, ld = self._ld, a, row
        cdef Py_ssize_t b = self._taken[suffix].label, t = self._taken[suffix].start
        cdef Py_ssize_t c = self._taken[self._taken[suffix].next].label
        cdef const double* best = self._best + t * n * ld
        # the pair of b and c follows any label
        cdef double rest = (self._taken[suffix].rest + self._theta[(t + 1) * ld + c]
                            + self._table[t * self._table_step + b * ld + c]), triple
        for a in range(n):
            row = self._triples.row[a * n + b]
            triple = 0.0 if row < 0 else self._rows[row * ld + c]
            self._wait(Suffix(best[a * ld + b] + (rest + triple), rest + triple, suffix,
                              t - 1, <int32_t> a))
        return 0
