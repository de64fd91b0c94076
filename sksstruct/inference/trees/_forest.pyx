"""Max-product, K best, sum-product and max-marginals on trees and forests.

Messages go up once (max-product, K best) and down once (marginals); a variable's
message to a child sums its other messages anew, from both ends of the list of
children, so that nothing is subtracted: that would cost digits, and has no meaning
for -inf.

Ties in max-product: each root takes its lowest maximising state, then each variable,
given its neighbour on the way to the root, the lowest. On a chain 0, 1, ..., T-1 that
is Viterbi's rule.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.trees._tree cimport Tree
from sksstruct.utils._simd cimport sks_axpy, sks_logplus, sks_maxplus

from sksstruct.inference._checks import check_sums, check_tables, check_variables
from sksstruct.utils._layout import aligned_zeros, padded_length


cdef class Forest(Tree):
    """Potentials on a forest, packed for message passing.

    Parameters
    ----------
    unary, edges, pairwise
        As `max_product` takes them.
    both : bool
        Whether messages go down too.
    """

    cdef readonly object unary
    cdef readonly Py_ssize_t table_entries
    cdef Py_ssize_t[::1] _size, _ld, _first
    cdef double[::1] _theta, _tables
    cdef Py_ssize_t[::1] _up, _down

    def __init__(self, unary, edges, pairwise, bint both=False):
        self.unary = check_variables(unary)
        Tree.__init__(self, len(self.unary), edges)
        n = self.n_variables
        sizes = np.array([len(row) for row in self.unary] + [1], dtype=np.intp)
        tables, which = check_tables(pairwise, self.edges, sizes)
        flat = np.concatenate(self.unary)
        check_sums("unary and pairwise", 4 * n, flat, *tables)
        self._size = sizes
        ld = np.array([padded_length(int(size)) for size in sizes], dtype=np.intp)
        self._ld = ld
        first = np.concatenate([[0], np.cumsum(ld)]).astype(np.intp)
        self._first = first
        self._theta = theta = aligned_zeros(first[n + 1])
        where = np.repeat(first[:n] - np.cumsum(sizes[:n]) + sizes[:n], sizes[:n])
        theta[where + np.arange(len(flat))] = flat
        self._pack(tables, which, both)

    def _pack(self, tables, which, both):
        """Each table once in each direction that messages take through it."""
        n = self.n_variables
        edge, parent = np.asarray(self._edge)[:n], np.asarray(self._parent)[:n]
        up, down = np.zeros(n + 1, dtype=np.intp), np.zeros(n + 1, dtype=np.intp)
        # at 0: zeros for the edges to the root of roots
        place = max(4 * max(self._size), max(self._ld))
        child = np.flatnonzero(parent != self.root)
        forward = self.edges[edge[child], 0] == child if len(child) else edge[:0] > 0
        packed = {}
        for target, turned in ((up, ~forward), (down, forward))[:2 if both else 1]:
            keys = 2 * which[edge[child]] + turned
            distinct, inverse = np.unique(keys, return_inverse=True)
            offsets = np.zeros(len(distinct), dtype=np.intp)
            for k, key in enumerate(distinct.tolist()):
                if key not in packed:
                    table = tables[key // 2].T if key % 2 else tables[key // 2]
                    packed[key] = place, table
                    place += table.shape[0] * padded_length(table.shape[1])
                offsets[k] = packed[key][0]
            target[child] = offsets[inverse]
        self.table_entries = place
        self._tables = memory = aligned_zeros(place)
        for offset, table in packed.values():
            rows, columns = table.shape
            ld = padded_length(columns)
            memory[offset:offset + rows * ld].reshape(rows, ld)[:, :columns] = table
        self._up, self._down = up, down

    cdef double* _row(self, double* values, Py_ssize_t v) noexcept nogil:
        return values + self._first[v]

    cdef void _send_up(self, double* delta) noexcept nogil:
        """Max-product towards the root: delta becomes best scores of subtrees."""
        cdef Py_ssize_t k, v, p
        for k in range(self.n_variables, 0, -1):
            v = self._order[k]
            p = self._parent[v]
            sks_maxplus(self._size[v], self._ld[p], self._row(delta, v),
                        &self._tables[self._up[v]], self._row(delta, p))

    def max_product(self):
        """Best labeling and its score."""
        cdef double[::1] memory = np.array(self._theta)
        cdef Py_ssize_t n = self.n_variables, k, v, a, b, best_state
        cdef double* delta = &memory[0]
        cdef double* row
        cdef const double* column
        cdef double best, value
        labeling = np.zeros(n + 1, dtype=np.int32)
        cdef int32_t[::1] labels = labeling
        with nogil:
            self._send_up(delta)
            for k in range(1, n + 1):
                v = self._order[k]
                b = labels[self._parent[v]]
                row = self._row(delta, v)
                column = &self._tables[self._up[v]] + b
                best = -INFINITY
                best_state = 0
                for a in range(self._size[v]):
                    value = row[a] + column[a * self._ld[self._parent[v]]]
                    if value > best:
                        best = value
                        best_state = a
                labels[v] = <int32_t> best_state
        return labeling[:n], float(memory[self._first[n]])

    def two_passes(self, bint sums, bint pairs=False):
        """Beliefs of all variables, padded and flat; scores of pairs too if asked.

        With sums, by log-sum-exp; else by maxima. Pairs come as one table for each
        edge, in its direction.
        """
        cdef double[::1] up_memory = np.array(self._theta)      # own and from below
        cdef double[::1] belief_memory = np.array(self._theta)  # and from above
        cdef Py_ssize_t n = self.n_variables, widest = max(self._ld), j, k, v, p, c, m
        cdef Py_ssize_t a, b, sp, sc, lp
        # messages of the children of one variable, and sums of those before each
        cdef Py_ssize_t[::1] place = np.zeros(n + 1, dtype=np.intp)
        cdef Py_ssize_t total = 0
        for v in range(n):
            place[v] = total
            total += self._ld[self._parent[v]]
        cdef double[::1] message = aligned_zeros(total + 1)
        cdef double[::1] scratch = aligned_zeros((self.most_children + 2) * widest)
        cdef double* up = &up_memory[0]
        cdef double* belief = &belief_memory[0]
        cdef double* before = &scratch[0]
        cdef double* after
        cdef double* cavity
        cdef double* to_child
        cdef const double* table
        cdef double[:, ::1] out
        results = [None] * len(self.edges)
        with nogil:
            for k in range(n, 0, -1):
                v = self._order[k]
                p = self._parent[v]
                self._step(sums, v, p, self._row(up, v), self._up[v],
                           &message[place[v]])
                sks_add(self._ld[p], &message[place[v]], self._row(up, p))
            for k in range(n + 1):
                p = self._order[k]
                lp, sp = self._ld[p], self._size[p]
                # belief holds what the variable has of its own and from above
                m = self._children[p + 1] - self._children[p]
                memcpy(before, self._row(belief, p), lp * sizeof(double))
                for j in range(m):
                    c = self._child_of[self._children[p] + j]
                    memcpy(before + (j + 1) * lp, before + j * lp, lp * sizeof(double))
                    sks_add(lp, &message[place[c]], before + (j + 1) * lp)
                memcpy(self._row(belief, p), before + m * lp, lp * sizeof(double))
                after = before + (m + 1) * lp
                memset(after, 0, lp * sizeof(double))
                for j in range(m - 1, -1, -1):
                    c = self._child_of[self._children[p] + j]
                    cavity = before + j * lp
                    sks_add(lp, after, cavity)
                    sks_add(lp, &message[place[c]], after)
                    self._step(sums, p, c, cavity, self._down[c],
                               self._row(belief, c))
                    if pairs and self._edge[c] >= 0:
                        sc = self._size[c]
                        table = &self._tables[self._up[c]]
                        with gil:
                            array = np.empty((sc, sp))
                            forward = self.edges[self._edge[c]][0] == c
                            results[self._edge[c]] = array if forward else array.T
                            out = array
                        to_child = self._row(up, c)
                        for a in range(sc):
                            for b in range(sp):
                                out[a, b] = to_child[a] + table[a * lp + b] + cavity[b]
        return belief_memory, results, float(belief_memory[self._first[n]])

    cdef void _step(self, bint sums, Py_ssize_t source, Py_ssize_t target,
                    const double* values, Py_ssize_t table, double* out) noexcept nogil:
        if sums:
            sks_logplus(self._size[source], self._ld[target], values,
                        &self._tables[table], out)
        else:
            sks_maxplus(self._size[source], self._ld[target], values,
                        &self._tables[table], out)

    def topk(self, Py_ssize_t k):
        """The k best labelings and their scores, from the k best of every subtree."""
        cdef Py_ssize_t n = self.n_variables, v, p, c, j, q, t, state, count, rank
        cdef Py_ssize_t cells = 0, pairs = 0, i, a, b, step, widest = 1
        cdef Py_ssize_t n_message, n_merged, n_heap
        # No list is longer than there are labelings below.
        cdef Py_ssize_t[::1] most = np.ones(n + 1, dtype=np.intp)
        cdef Py_ssize_t[::1] at = np.zeros(n + 1, dtype=np.intp)
        cdef Py_ssize_t[::1] back = np.zeros(n + 1, dtype=np.intp)
        for step in range(n, 0, -1):
            c = self._order[step]
            p = self._parent[c]
            most[p] = min(k, most[p] * min(k, self._size[c] * most[c]))
        for v in range(n + 1):
            at[v] = cells
            cells += self._size[v] * most[v]
            if v < n:
                back[v] = pairs
                pairs += self._size[self._parent[v]] * most[self._parent[v]]
                widest = max(widest, min(k, self._size[v] * most[v]))
        # of each state the best subtrees; of each child and state of its parent how
        # they were put together: rank before, and state and rank of the child
        cdef double[::1] score = np.empty(cells)
        cdef Py_ssize_t[::1] first = np.concatenate(
            [[0], np.cumsum(self._size)]).astype(np.intp)
        cdef int32_t[::1] known = np.zeros(first[n + 1], dtype=np.int32)
        cdef int32_t[:, ::1] made = np.empty((max(pairs, 1), 3), dtype=np.int32)
        cdef int32_t[::1] state_of = np.empty(widest, dtype=np.int32)
        cdef int32_t[::1] rank_of = np.empty(widest, dtype=np.int32)
        cdef double[::1] message = np.empty(widest)
        cdef double[::1] merged = np.empty(max(most))
        cdef double[::1] head = np.empty(max(self._size))
        cdef int32_t[::1] pointer = np.empty(max(self._size), dtype=np.int32)
        cdef double[::1] heap = np.empty(max(most) + 2)
        cdef int32_t[:, ::1] heap_at = np.empty((max(most) + 2, 2), dtype=np.int32)
        cdef const double* table
        cdef double best
        with nogil:
            for v in range(n + 1):
                for a in range(self._size[v]):
                    score[at[v] + a * most[v]] = self._theta[self._first[v] + a]
                    known[first[v] + a] = self._theta[self._first[v] + a] > -INFINITY
            for step in range(n, 0, -1):
                # a variable is complete when its turn comes: send its lists up
                c = self._order[step]
                p = self._parent[c]
                table = &self._tables[self._up[c]]
                for b in range(self._size[p]):
                    q = back[c] + b * most[p]
                    t = at[p] + b * most[p]
                    n_message = 0
                    for a in range(self._size[c]):
                        pointer[a] = 0
                        head[a] = -INFINITY
                        if known[first[c] + a]:
                            head[a] = (score[at[c] + a * most[c]]
                                       + table[a * self._ld[p] + b])
                    while n_message < k:
                        best = -INFINITY
                        state = -1
                        for a in range(self._size[c]):
                            if head[a] > best:
                                best = head[a]
                                state = a
                        if state < 0:
                            break
                        message[n_message] = best
                        state_of[n_message] = <int32_t> state
                        rank_of[n_message] = pointer[state]
                        n_message += 1
                        pointer[state] += 1
                        head[state] = -INFINITY
                        if pointer[state] < known[first[c] + state]:
                            head[state] = (
                                score[at[c] + state * most[c] + pointer[state]]
                                + table[state * self._ld[p] + b])
                    # sums of an entry of the list so far and one of the message
                    n_merged = n_heap = 0
                    if known[first[p] + b] and n_message:
                        n_heap = push(heap, heap_at, 0, score[t] + message[0], 0, 0)
                    while n_merged < k and n_heap:
                        merged[n_merged] = heap[0]
                        i, j = heap_at[0, 0], heap_at[0, 1]
                        n_heap = pop(heap, heap_at, n_heap)
                        made[q + n_merged, 0] = <int32_t> i
                        made[q + n_merged, 1] = state_of[j]
                        made[q + n_merged, 2] = rank_of[j]
                        n_merged += 1
                        if j + 1 < n_message:
                            n_heap = push(heap, heap_at, n_heap,
                                          score[t + i] + message[j + 1], i, j + 1)
                        if j == 0 and i + 1 < known[first[p] + b]:
                            n_heap = push(heap, heap_at, n_heap,
                                          score[t + i + 1] + message[0], i + 1, 0)
                    known[first[p] + b] = <int32_t> n_merged
                    for i in range(n_merged):
                        score[t + i] = merged[i]
        count = known[first[n]]
        labelings = np.zeros((count, n + 1), dtype=np.int32)
        cdef int32_t[:, ::1] labels = labelings
        cdef Py_ssize_t[::1] current = np.zeros(n + 1, dtype=np.intp)
        with nogil:
            for i in range(count):
                current[n] = i
                # what was put together last is taken apart first
                for step in range(1, n + 1):
                    c = self._order[step]
                    p = self._parent[c]
                    q = back[c] + labels[i, p] * most[p]
                    rank = current[p]
                    labels[i, c] = made[q + rank, 1]
                    current[c] = made[q + rank, 2]
                    current[p] = made[q + rank, 0]
        return labelings[:, :n], np.array(score[at[n]:at[n] + count])

    def split(self, flat):
        """The rows of all variables from flat padded ones."""
        flat = np.asarray(flat)
        return [flat[self._first[v]:self._first[v] + self._size[v]]
                for v in range(self.n_variables)]


cdef inline void sks_add(Py_ssize_t ld, const double* row, double* out) noexcept nogil:
    sks_axpy(ld, 1.0, row, out)


cdef inline bint precedes(double[::1] heap, int32_t[:, ::1] at, Py_ssize_t x,
                          Py_ssize_t y) noexcept nogil:
    """Whether entry x comes out first: higher, then of lower ranks."""
    if heap[x] != heap[y]:
        return heap[x] > heap[y]
    return at[x, 0] < at[y, 0] or (at[x, 0] == at[y, 0] and at[x, 1] < at[y, 1])


cdef inline void swap(double[::1] heap, int32_t[:, ::1] at, Py_ssize_t x,
                      Py_ssize_t y) noexcept nogil:
    heap[x], heap[y] = heap[y], heap[x]
    at[x, 0], at[y, 0] = at[y, 0], at[x, 0]
    at[x, 1], at[y, 1] = at[y, 1], at[x, 1]


cdef Py_ssize_t push(double[::1] heap, int32_t[:, ::1] at, Py_ssize_t n,
                     double value, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    heap[n] = value
    at[n, 0], at[n, 1] = <int32_t> i, <int32_t> j
    cdef Py_ssize_t x = n
    while x > 0 and precedes(heap, at, x, (x - 1) // 2):
        swap(heap, at, x, (x - 1) // 2)
        x = (x - 1) // 2
    return n + 1


cdef Py_ssize_t pop(double[::1] heap, int32_t[:, ::1] at, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t x = 0, y
    n -= 1
    swap(heap, at, 0, n)
    while True:
        y = 2 * x + 1
        if y >= n:
            return n
        if y + 1 < n and precedes(heap, at, y + 1, y):
            y += 1
        if not precedes(heap, at, y, x):
            return n
        swap(heap, at, x, y)
        x = y
