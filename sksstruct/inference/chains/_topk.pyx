"""The K best labelings of a chain, by recursive enumeration.

Max-product gives the best prefix for every position and label. The next prefix that
ends in label b at position t extends a prefix that ends in some label a at t - 1; only
for the predecessor a that was used last is the next prefix not yet known. The k-th
labeling is therefore found by a walk back along the (k-1)-th one, and most labels at
most positions never need a second prefix (Jimenez and Marzal, 1999). The result is that
of Algorithm 2 of Pillutla et al. (2018), which forms the K best prefixes at all nodes.

Ties: prefixes of equal score are ordered by their last label but one, then by their
rank at that label. Labelings of equal score are ordered by their last label, then by
the last but one, and so on; the first labeling is Viterbi's.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from sksstruct.inference.chains._viterbi cimport max_product_padded
from sksstruct.inference.trees._messages cimport best_state, best_state_given
from sksstruct.utils._memory cimport reserve, resize
from sksstruct.utils._pointers cimport const_doubles, doubles, int32s


cdef class TopK:
    """Decoder of the K best labelings of a chain, with memory for one chain."""

    def __dealloc__(self):
        free(self._slot)
        free(self._best)
        free(self._path)
        free(self._list_first)
        free(self._list_count)
        free(self._list_capacity)
        free(self._next_score)
        free(self._next_rank)
        free(self._pool)

    # ---- memory ----

    cdef int _reserve_nodes(self) except -1 nogil:
        """Reserve the arrays of nodes; a node is a label at a position."""
        cdef Py_ssize_t n_nodes = (self._size + 1) * self._n
        if n_nodes <= self._node_capacity:
            return 0
        resize(<void**> &self._slot, n_nodes * sizeof(int32_t))
        resize(<void**> &self._best, n_nodes * sizeof(int32_t))
        resize(<void**> &self._path, n_nodes * sizeof(int32_t))
        self._node_capacity = n_nodes
        return 0

    cdef int _reserve_slots(self, Py_ssize_t n_slots) except -1 nogil:
        """Reserve the arrays of slots; a slot has the list of prefixes of one node."""
        # One decoder serves chains with different numbers of labels. Rows keep the
        # largest length so far, so that arrays are not reallocated when these numbers
        # alternate.
        cdef Py_ssize_t row = max(self._row_capacity, self._ld)
        if n_slots <= self._slot_capacity and row <= self._row_capacity:
            return 0
        n_slots = max(n_slots, self._slot_capacity)
        resize(<void**> &self._next_score, n_slots * row * sizeof(double))
        resize(<void**> &self._next_rank, n_slots * row * sizeof(int32_t))
        resize(<void**> &self._list_first, n_slots * sizeof(Py_ssize_t))
        resize(<void**> &self._list_count, n_slots * sizeof(int32_t))
        resize(<void**> &self._list_capacity, n_slots * sizeof(int32_t))
        # after all allocations: a failed allocation must not leave a capacity without
        # memory
        self._slot_capacity, self._row_capacity = n_slots, row
        return 0

    cdef Py_ssize_t _reserve_prefixes(self, Py_ssize_t count) except -1 nogil:
        """Reserve consecutive prefixes in the pool; return the index of the first."""
        # All lists share one pool, which is emptied at once: no list is freed alone.
        # The pool's address changes as it grows, so that lists hold indices.
        cdef Py_ssize_t first = self._n_prefixes
        reserve(<void**> &self._pool, &self._pool_capacity, first + count,
                sizeof(Prefix))
        self._n_prefixes += count
        return first

    # ---- lists ----

    cdef const double* _column(self, Py_ssize_t t, Py_ssize_t label) noexcept nogil:
        """Scores of pairs at t - 1 and t that end in a label; entries are ld apart."""
        return self._table + (t - 1) * self._table_step + label

    cdef Py_ssize_t _first(self, Py_ssize_t t, Py_ssize_t label) noexcept nogil:
        """Last label but one of the best prefix that ends in a label at t >= 1."""
        cdef Py_ssize_t node = t * self._n + label
        cdef const double* before = self._delta + (t - 1) * self._ld
        # The label is stored: finding it reads a column of a table, and the K best
        # labelings share most nodes.
        if self._best[node] < 0:
            self._best[node] = <int32_t> (
                best_state(self._n, before) if t == self._size
                else best_state_given(self._n, before, self._column(t, label), self._ld)
            )
        return self._best[node]

    cdef Py_ssize_t _begin(self, Py_ssize_t t, Py_ssize_t label) except -1 nogil:
        """Begin the list of a node with its best prefix; return the slot."""
        cdef Py_ssize_t slot = self._n_slots, previous, i
        cdef const double* before = self._delta + (t - 1) * self._ld
        cdef const double* column
        cdef double* next_scores
        if slot == self._slot_capacity:
            self._reserve_slots(2 * self._slot_capacity)
        next_scores = self._next_score + slot * self._ld
        # scores of the prefixes that extend the best prefix (rank 0) of each
        # predecessor
        memset(self._next_rank + slot * self._ld, 0, self._ld * sizeof(int32_t))
        if t == self._size:
            memcpy(next_scores, before, self._n * sizeof(double))
        else:
            column = self._column(t, label)
            for i in range(self._n):
                next_scores[i] = before[i] + column[i * self._ld]
        previous = self._first(t, label)
        self._list_first[slot] = self._reserve_prefixes(4)
        self._list_count[slot], self._list_capacity[slot] = 0, 4
        # `delta` has the score as rounded by max-product; the sum above may differ
        self._append(slot,
                     next_scores[previous] if t == self._size
                     else self._delta[t * self._ld + label], previous, 0)
        # The node gets its slot last: a failed allocation above must not leave a node
        # whose list has no prefix.
        self._slot[t * self._n + label] = <int32_t> slot
        self._n_slots += 1
        return slot

    cdef int _append(self, Py_ssize_t slot, double score, Py_ssize_t previous,
                     int32_t rank) except -1 nogil:
        """Append a prefix to a list; a full list moves to twice as much memory."""
        cdef Py_ssize_t count = self._list_count[slot], first
        # the old memory of a list is not used again: in total, it is less than the new
        # memory
        if count == self._list_capacity[slot]:
            first = self._reserve_prefixes(2 * count)
            memcpy(self._pool + first, self._pool + self._list_first[slot],
                   count * sizeof(Prefix))
            self._list_first[slot] = first
            self._list_capacity[slot] *= 2
        self._pool[self._list_first[slot] + count] = Prefix(
            score, <int32_t> previous, rank)
        self._list_count[slot] += 1
        return 0

    # ---- one more labeling ----

    cdef bint _next(self) except -1 nogil:
        """Find the next best labeling; return whether there is one."""
        cdef double score = -INFINITY
        # The next labeling is the next prefix of the end node. The next prefix of a
        # node needs at most one new prefix, the next one of the predecessor used last.
        # The nodes that need a new prefix lie on a path: walk back to the first of
        # these nodes, then forward.
        cdef Py_ssize_t t = self._go_back(&score)
        while t <= self._size:
            self._advance(t, &score)
            t += 1
        return score > -INFINITY

    cdef Py_ssize_t _go_back(self, double* score) except -1 nogil:
        """Return the position at which the path of nodes with a new prefix begins."""
        cdef Py_ssize_t t = self._size, label = 0, slot, before
        cdef Prefix* last
        # On return `_path` holds the labels from the returned position on, whose lists
        # each miss one prefix; score is that of the next prefix that ends before this
        # position, or -inf if there is none.
        score[0] = -INFINITY
        while True:
            self._path[t] = <int32_t> label
            slot = self._slot[t * self._n + label]
            if slot < 0:
                slot = self._begin(t, label)
            if self._list_capacity[slot] == 0:
                return t + 1
            # only the predecessor used last may have a next prefix that is not yet
            # known
            last = self._pool + self._list_first[slot] + self._list_count[slot] - 1
            if t == 1:
                return t    # at position 0 each label has only one prefix
            before = self._slot[(t - 1) * self._n + last.previous]
            if before >= 0 and self._list_count[before] > last.rank + 1:
                score[0] = self._pool[self._list_first[before] + last.rank + 1].score
                return t
            t, label = t - 1, last.previous

    cdef int _advance(self, Py_ssize_t t, double* score) except -1 nogil:
        """Find the next prefix that ends in the label that `_path` has at t."""
        cdef Py_ssize_t label = self._path[t]
        cdef Py_ssize_t slot = self._slot[t * self._n + label]
        cdef double* next_scores = self._next_score + slot * self._ld
        cdef int32_t* rank = self._next_rank + slot * self._ld
        cdef Prefix* last = (
            self._pool + self._list_first[slot] + self._list_count[slot] - 1)
        cdef Py_ssize_t previous
        # On entry, score is that of the next prefix through the predecessor used last;
        # on return, that of the prefix found, or -inf if there is none. For all other
        # predecessors `_next_score` is still valid.
        score[0] += 0.0 if t == self._size else (
            self._column(t, label)[last.previous * self._ld])
        next_scores[last.previous] = score[0]
        rank[last.previous] = last.rank + 1
        # the lowest label wins ties, as the order of equal labelings requires
        previous = best_state(self._n, next_scores)
        score[0] = next_scores[previous]
        if score[0] == -INFINITY:
            self._list_capacity[slot] = 0
            return 0
        if t < self._size:
            score[0] = self._theta[t * self._ld + label] + score[0]
        return self._append(slot, score[0], previous, rank[previous])

    # ---- the chain ----

    cdef void _read(self, Py_ssize_t rank, int32_t* labeling) noexcept nogil:
        """Write the labeling of a rank, from its last label to its first."""
        cdef Py_ssize_t t = self._size, label = 0, slot
        cdef Prefix* prefix
        while t > 0:
            slot = self._slot[t * self._n + label]
            if slot < 0:
                label = self._first(t, label)   # the node has no list: rank is 0
            else:
                prefix = self._pool + self._list_first[slot] + rank
                label, rank = prefix.previous, prefix.rank
            t -= 1
            labeling[t] = <int32_t> label

    cdef Py_ssize_t decode(
            self, Py_ssize_t size, Py_ssize_t n, Py_ssize_t ld, const double* theta,
            double* delta, const double* table, Py_ssize_t table_step, Py_ssize_t k,
            double* scores, int32_t* labelings) except -1 nogil:
        """Write up to k best labelings (k, size) and their scores; return their number.

        delta (size, ld) becomes the best score of a prefix that ends in each label;
        labelings of score -inf are not returned. Rows are padded to ld.
        """
        cdef Py_ssize_t n_nodes = (size + 1) * n, count = 0, end
        cdef Prefix* last
        self._size, self._n, self._ld = size, n, ld
        self._theta, self._delta = theta, delta
        self._table, self._table_step = table, table_step
        self._reserve_nodes()
        # a labeling begins at most one list per position; few chains need more than two
        # lists per position
        if self._slot_capacity == 0 or self._row_capacity < ld:
            self._reserve_slots(2 * size + 1)
        # 255 in each byte makes every int32 -1
        memset(self._slot, 255, n_nodes * sizeof(int32_t))
        memset(self._best, 255, n_nodes * sizeof(int32_t))
        self._n_slots = self._n_prefixes = 0
        memcpy(delta, theta, size * ld * sizeof(double))
        max_product_padded(size, n, ld, delta, table, table_step)
        # The end of the chain is a node with one label after the last position:
        # prefixes that end there are labelings.
        end = self._begin(size, 0)
        while count < k:
            if count and not self._next():
                break
            last = self._pool + self._list_first[end] + count
            if last.score == -INFINITY:
                break
            scores[count] = last.score
            self._read(count, labelings + count * size)
            count += 1
        return count


def find_topk(Py_ssize_t n, theta, delta, tables, Py_ssize_t step, scores, labelings):
    """Write the k best labelings of a chain and their scores; return their number.

    theta has padded unary scores, delta is scratch of its shape, and tables are as in
    `viterbi_padded`. k is the length of `scores` and of `labelings`.
    """
    cdef TopK decoder = TopK()
    cdef Py_ssize_t size = theta.shape[0], ld = theta.shape[1], k = len(scores), count
    cdef const double* unary = const_doubles(theta)
    cdef double* prefixes = doubles(delta)
    cdef const double* table = const_doubles(tables)
    cdef double* values = doubles(scores)
    cdef int32_t* labels = int32s(labelings)
    with nogil:
        count = decoder.decode(
            size, n, ld, unary, prefixes, table, step, k, values, labels)
    return count
