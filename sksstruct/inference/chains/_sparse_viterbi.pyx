"""Max-product on chains with one sparse table of transitions; absent pairs score 0.

    max over y of  sum_t unary[t, y_t] + sum_t v[y_t, y_{t+1}]

over K labels at positions t; a and b are labels at neighboring positions. As in
`_viterbi.pyx`, the recursion is

    delta_t(b) = unary[t, b] + max_a delta_{t-1}(a) + v[a, b].

For nearly all b the maximum is M = max_a delta_{t-1}(a), attained at the same label m.
`_step` therefore sets all maxima to M, and corrects them. A maximum is lower if v[m, b]
is negative. A maximum can be higher if v[a, b] is positive in a row a for which
delta_{t-1}(a) plus the highest score of the row reaches the lowest maximum. The
positive scores of a row stay in descending order while scores change, so that the scan
of a row ends at the first score that is too small. No array of size K x K is made;
results and ties are those of `_viterbi.pyx`.
"""

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memset

from sksstruct.inference.chains._pair_index cimport PairIndex
from sksstruct.utils._memory cimport reserve, resize
from sksstruct.utils._pointers cimport const_doubles, doubles, int32s
from sksstruct.utils._simd cimport (
    sks_axpy,
    sks_block_maxima,
    sks_first,
    sks_max,
    sks_max_below,
    sks_prefetch,
    sks_reaching,
)

from numpy import empty

from sksstruct.inference.chains._sparse_tables import list_pairs
from sksstruct.utils._layout import aligned_zeros, pad_rows

# number of scores in each block of `sks_block_maxima`
cdef Py_ssize_t BLOCK = 64


cdef class ViterbiScratch:
    """Workspace of one thread for `SparseTransitions.decode`.

    Parameters
    ----------
    max_size : int
        Largest number of positions.
    ld : int
        Length of the rows of unary scores, with padding.
    """

    def __init__(self, Py_ssize_t max_size, Py_ssize_t ld):
        delta, labels = self._arrays = (
            aligned_zeros(3 * ld), empty((max_size + 2) * ld, dtype="i4"))
        self.delta, self.order = doubles(delta), int32s(labels)
        self.maxima = self.delta + 2 * ld
        self.rows, self.back = self.order + ld, self.order + 2 * ld


cdef int descending(const void* one, const void* other) noexcept nogil:
    """Compare two scores for `qsort`: the larger score comes first."""
    cdef double first = (<const PairScore*> one).value
    cdef double second = (<const PairScore*> other).value
    return (first < second) - (first > second)


@cython.final
cdef class SparseTransitions:
    """Scores of pairs of labels, zero for pairs that are not stored.

    Parameters
    ----------
    pairs : PairIndex
        Pairs that may have a score. The index may grow; tables may share an index.
    """

    def __cinit__(self, PairIndex pairs):
        cdef Py_ssize_t label
        self.n_labels, self.pairs = pairs.n_labels, pairs
        self._rows = <PairRow*> calloc(self.n_labels, sizeof(PairRow))
        self._highest = <double*> malloc(self.n_labels * sizeof(double))
        if self._rows == NULL or self._highest == NULL:
            raise MemoryError()
        for label in range(self.n_labels):
            self._highest[label] = -INFINITY

    def __dealloc__(self):
        cdef Py_ssize_t label
        if self._rows != NULL:
            for label in range(self.n_labels):
                free(self._rows[label].items)
        free(self._rows)
        free(self._highest)
        free(self._index_in_row)

    @staticmethod
    def of_table(table):
        """Return the scores of a sparse array of shape (n_labels, n_labels)."""
        n_labels, first, second, values = list_pairs(table)
        cdef PairIndex pairs = PairIndex(n_labels)
        pairs.extend(first, second)
        cdef SparseTransitions scores = SparseTransitions(pairs)
        scores.load(const_doubles(values), len(values))
        return scores

    # ---- stored scores ----

    cdef int load(self, const double* scores, Py_ssize_t n_pairs) except -1 nogil:
        """Set the scores of the first n_pairs pairs; all other pairs become absent."""
        cdef Py_ssize_t label, k
        cdef PairRow* row
        for label in range(self.n_labels):
            self._rows[label].size = 0
        self._reserve_indices()
        for k in range(self._n_indices):
            self._index_in_row[k] = -1
        # positive scores first; the positive scores are sorted below
        for k in range(n_pairs):
            if scores[k] > 0.0:
                self._append(k, scores[k])
        for label in range(self.n_labels):
            self._rows[label].n_positive = self._rows[label].size
        for k in range(n_pairs):
            if not scores[k] > 0.0:
                self._append(k, scores[k])
        for label in range(self.n_labels):
            row = &self._rows[label]
            if row.n_positive > 1:  # `items` is NULL in a row without pairs
                qsort(row.items, row.n_positive, sizeof(PairScore), descending)
            for k in range(row.n_positive):
                self._index_in_row[row.items[k].pair] = <int32_t> k
            self._highest[label] = row.items[0].value if row.n_positive else -INFINITY
        return 0

    cdef int _reserve_indices(self) except -1 nogil:
        """Make room for the index of every pair in its row."""
        cdef Py_ssize_t size = self.pairs._capacity, k
        if self._n_indices < size:
            resize(<void**> &self._index_in_row, size * sizeof(int32_t))
            for k in range(self._n_indices, size):
                self._index_in_row[k] = -1
            self._n_indices = size
        return 0

    cdef int _append(self, Py_ssize_t pair, double score) except -1 nogil:
        """Append a pair to the row of its first label, unsorted."""
        cdef PairRow* row = &self._rows[self.pairs._ends[2 * pair]]
        cdef PairScore item = PairScore(
            score, self.pairs._ends[2 * pair + 1], <int32_t> pair)
        reserve(<void**> &row.items, &row.capacity, row.size + 1, sizeof(PairScore))
        row.size += 1
        self._put(row, row.size - 1, item)
        return 0

    cdef void _put(self, PairRow* row, Py_ssize_t place,
                   PairScore item) noexcept nogil:
        """Write a pair and its score to a given index of the pair's row."""
        row.items[place] = item
        self._index_in_row[item.pair] = <int32_t> place

    cpdef int set(self, Py_ssize_t pair, double score) except -1 nogil:
        """Set the score of a pair, given by its number, and restore its row's order."""
        cdef PairRow* row = &self._rows[self.pairs._ends[2 * pair]]
        cdef PairScore item
        cdef Py_ssize_t place, last
        self._reserve_indices()
        if self._index_in_row[pair] < 0:
            self._append(pair, 0.0)
        place = self._index_in_row[pair]
        item, item.value = row.items[place], score
        # a score that becomes positive first moves to the end of the positive scores
        if score > 0.0 and place >= row.n_positive:
            self._put(row, place, row.items[row.n_positive])
            place = row.n_positive
            row.n_positive += 1
        last = row.n_positive - 1
        # insertion sort, from the old place on: most scores change by little
        while place < last and row.items[place + 1].value > score:
            self._put(row, place, row.items[place + 1])
            place += 1
        if score > 0.0:
            while place > 0 and row.items[place - 1].value < score:
                self._put(row, place, row.items[place - 1])
                place -= 1
        elif place == last:
            # the score is not positive any more and now follows all positive scores
            row.n_positive -= 1
        self._put(row, place, item)
        self._highest[self.pairs._ends[2 * pair]] = (
            row.items[0].value if row.n_positive else -INFINITY)
        return 0

    cdef double score(self, Py_ssize_t before, Py_ssize_t label) noexcept nogil:
        """Return v[before, label], which is zero for a pair that is not stored."""
        cdef Py_ssize_t pair = self.pairs.find(before, label)
        # several tables may share `pairs`, which then may have pairs that this table
        # does not store
        if pair < 0 or pair >= self._n_indices or self._index_in_row[pair] < 0:
            return 0.0
        return self._rows[before].items[self._index_in_row[pair]].value

    # ---- max-product ----

    def viterbi(self, unary):
        """Return the best labeling of unary scores (size, n_labels), and its score."""
        rows = pad_rows(unary)
        cdef Py_ssize_t size = rows.shape[0], ld = rows.shape[1]
        cdef ViterbiScratch scratch = ViterbiScratch(size, ld)
        labeling = empty(size, dtype="i4")
        cdef const double* scores = const_doubles(rows)
        cdef int32_t* labels = int32s(labeling)
        cdef double score
        with nogil:
            score = self.decode(scratch, size, ld, scores, labels)
        return labeling, score

    cdef double decode(self, ViterbiScratch scratch, Py_ssize_t size, Py_ssize_t ld,
                       const double* unary, int32_t* labeling) noexcept nogil:
        """Write the best labeling of unary scores (size x ld), and return its score.

        If every labeling is forbidden, the labels are all 0 and the score is -inf.
        """
        cdef const double* previous = unary
        cdef double* best
        cdef Py_ssize_t t, label
        cdef double score
        for t in range(1, size):
            best = scratch.delta + (t & 1) * ld
            self._step(scratch, previous, best, scratch.back + t * ld)
            sks_axpy(ld, 1.0, unary + t * ld, best)
            previous = best
        score = sks_max(self.n_labels, previous)
        if score == -INFINITY:
            # the backpointers of forbidden labels are arbitrary
            memset(labeling, 0, size * sizeof(int32_t))
            return score
        label = sks_first(self.n_labels, previous, score)
        for t in range(size - 1, -1, -1):
            labeling[t] = <int32_t> label
            if t:
                label = scratch.back[t * ld + label]
        return score

    cdef void _step(self, ViterbiScratch scratch, const double* previous,
                    double* best, int32_t* back) noexcept nogil:
        """Set best[b] to max_a previous[a] + v[a, b], back[b] to the lowest argmax."""
        cdef double top = sks_block_maxima(self.n_labels, previous, scratch.maxima)
        cdef double least
        cdef int32_t first
        cdef Py_ssize_t label
        for label in range(self.n_labels):
            best[label] = top
        # all prefixes are forbidden: the comparisons below would compare -inf with -inf
        if top == -INFINITY:
            memset(back, 0, self.n_labels * sizeof(int32_t))
            return
        first = <int32_t> sks_first(self.n_labels, previous, top)
        for label in range(self.n_labels):
            back[label] = first
        scratch.order[0], scratch.n_ordered = first, 1
        # only a sum that is at least the lowest maximum can raise a maximum
        least = self._lower(scratch, previous, best, back)
        self._raise(scratch, previous, least, best, back)

    cdef double _lower(self, ViterbiScratch scratch, const double* previous,
                       double* best, int32_t* back) noexcept nogil:
        """Correct maxima where the best previous label has a negative score.

        Positive scores of other labels are left to `_raise`. Returns the least of the
        corrected maxima.
        """
        cdef int32_t* order = scratch.order
        cdef PairRow* row = &self._rows[order[0]]
        cdef double top = previous[order[0]], least = top, value, score
        cdef Py_ssize_t k, rank
        cdef int32_t label
        for k in range(row.n_positive, row.size):
            if row.items[k].value == 0.0:
                continue
            label = row.items[k].label
            value = top + row.items[k].value
            # previous labels in descending order of prefix scores, up to the first
            # without a negative score
            for rank in range(1, self.n_labels):
                if rank == scratch.n_ordered:
                    order[rank] = next_best(
                        self.n_labels, previous, scratch.maxima, order[rank - 1])
                    scratch.n_ordered += 1
                if previous[order[rank]] < value:
                    break
                score = self.score(order[rank], label)
                if score > 0.0:
                    score = 0.0
                score += previous[order[rank]]
                if score > value or score == value and order[rank] < back[label]:
                    value, back[label] = score, order[rank]
                if score == previous[order[rank]]:
                    break
            best[label] = value
            if value < least:
                least = value
        return least

    cdef void _raise(self, ViterbiScratch scratch, const double* previous,
                     double least, double* best, int32_t* back) noexcept nogil:
        """Raise maxima by positive scores; all entries of best are at least `least`."""
        cdef PairScore* item
        cdef double base, value, former
        cdef int32_t before, label
        cdef int32_t higher
        cdef Py_ssize_t k
        cdef Py_ssize_t n_rows = sks_reaching(
            self.n_labels, previous, self._highest, least, scratch.rows)
        for k in range(n_rows):
            # rows are scattered in memory: prefetch later rows
            if k + 4 < n_rows:
                sks_prefetch(self._rows[scratch.rows[k + 4]].items, sizeof(PairScore))
            if k + 8 < n_rows:
                sks_prefetch(&self._rows[scratch.rows[k + 8]], sizeof(PairRow))
            before = scratch.rows[k]
            base, item = previous[before], self._rows[before].items
            for _ in range(self._rows[before].n_positive):
                value = base + item.value
                # no later score of the row is larger
                if value < least:
                    break
                # written without a branch: a branch would be mispredicted often
                former, label = best[item.label], back[item.label]
                higher = (value > former) | ((value == former) & (before < label))
                best[item.label] = value if value > former else former
                back[item.label] = label ^ ((label ^ before) & -higher)
                item += 1


cdef int32_t next_best(Py_ssize_t n, const double* scores, double* maxima,
                       int32_t last) noexcept nogil:
    """Index of the entry that follows `last` in descending order of the scores.

    Entries of equal score are in ascending order. `maxima` holds the maxima of blocks,
    without the entries that were returned before.
    """
    cdef Py_ssize_t block = last // BLOCK, first = block * BLOCK, after = last + 1
    cdef Py_ssize_t end = min(first + BLOCK, n)
    cdef double highest
    # new maximum of the block: without `last` and the entries that precede `last`
    maxima[block] = sks_max_below(end - first, scores + first, scores[last])
    if sks_first(end - after, scores + after, scores[last]) < end - after:
        maxima[block] = scores[last]
    highest = sks_max((n + BLOCK - 1) // BLOCK, maxima)
    # all remaining entries are -inf, and so are the maxima of exhausted blocks
    if highest == -INFINITY:
        first = after if scores[last] == -INFINITY else 0
        return <int32_t> (first + sks_first(n - first, scores + first, highest))
    # an entry of the same score follows `last` in its block
    if highest == scores[last] and maxima[block] == highest:
        return <int32_t> (after + sks_first(end - after, scores + after, highest))
    block = sks_first((n + BLOCK - 1) // BLOCK, maxima, highest)
    first = block * BLOCK
    return <int32_t> (first + sks_first(n - first, scores + first, highest))
