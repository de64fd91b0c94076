"""The K best labelings of a chain, by need.

Max-product gives the best prefix for every position and label. A further prefix that
ends in label b at position t is the next prefix of some label a at t - 1 with b put to
it; only the predecessor that was used last has to be asked for its next one. So the
k-th labeling is found by walking back along the one before it, and most labels at most
positions are never asked for a second prefix (recursive enumeration, Jimenez and
Marzal, 1999). The result is that of Algorithm 2 of Pillutla et al. (2018), which forms
the K best prefixes everywhere.

Ties: prefixes of equal score are taken in the order of their last label but one, then
of their rank there. Equal labelings come in the order of their last label, then the
last but one, and so on; the first is Viterbi's.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport abs, free, realloc
from libc.string cimport memcpy, memset

from sksstruct.inference.chains._viterbi cimport max_product_padded

from sksstruct.inference._checks import check_chain, check_k
from sksstruct.utils._layout import pad_rows, padded_length


cdef int grow(void** memory, size_t size) except -1 nogil:
    cdef void* larger = realloc(memory[0], size)
    if larger == NULL:
        raise MemoryError()
    memory[0] = larger
    return 0


cdef class TopK:
    def __dealloc__(self):
        free(self._slot)
        free(self._best)
        free(self._path)
        free(self._waiting)
        free(self._waiting_rank)
        free(self._count)
        free(self._capacity)
        free(self._start)
        free(self._pool)

    cdef int _reserve(self, Py_ssize_t slots) except -1 nogil:
        cdef Py_ssize_t row = max(self._row, self._ld)
        grow(<void**> &self._waiting, slots * row * sizeof(double))
        grow(<void**> &self._waiting_rank, slots * row * sizeof(int32_t))
        grow(<void**> &self._count, slots * sizeof(int32_t))
        grow(<void**> &self._capacity, slots * sizeof(int32_t))
        grow(<void**> &self._start, slots * sizeof(Py_ssize_t))
        self._slots, self._row = slots, row
        return 0

    cdef Py_ssize_t _take(self, Py_ssize_t count) except -1 nogil:
        """Room for some prefixes in the pool."""
        cdef Py_ssize_t start = self._taken, room = self._room
        if start + count > room:
            room = 2 * room + count + 64
            grow(<void**> &self._pool, room * sizeof(Prefix))
            self._room = room
        self._taken += count
        return start

    cdef double _edge(self, Py_ssize_t t, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        """Score of the pair of labels at t - 1 and t."""
        if t == self._size:
            return 0.0
        return self._table[(t - 1) * self._table_step + a * self._ld + b]

    cdef Py_ssize_t _first(self, Py_ssize_t t, Py_ssize_t b) noexcept nogil:
        """Last label but one of the best prefix that ends in b at t >= 1."""
        cdef Py_ssize_t node = t * self._n + b, a, best_label = 0
        cdef const double* before = self._delta + (t - 1) * self._ld
        cdef double best, candidate
        if self._best[node] >= 0:
            return self._best[node]
        best = before[0] + self._edge(t, 0, b)
        for a in range(1, self._n):
            candidate = before[a] + self._edge(t, a, b)
            if candidate > best:
                best = candidate
                best_label = a
        self._best[node] = <int32_t> best_label
        return best_label

    cdef Py_ssize_t _open(self, Py_ssize_t t, Py_ssize_t b) except -1 nogil:
        """Slot of a node, made with its best prefix when there is none yet."""
        cdef Py_ssize_t node = t * self._n + b, slot = self._slot[node], a
        cdef const double* before = self._delta + (t - 1) * self._ld
        cdef const double* column
        cdef double* waiting
        cdef Prefix* first
        if slot >= 0:
            return slot
        if self._used == self._slots:
            self._reserve(2 * self._slots)
        slot = self._used
        self._used += 1
        self._slot[node] = <int32_t> slot
        waiting = self._waiting + slot * self._ld
        if t == self._size:
            memcpy(waiting, before, self._n * sizeof(double))
        else:
            column = self._table + (t - 1) * self._table_step + b
            for a in range(self._n):
                waiting[a] = before[a] + column[a * self._ld]
        memset(self._waiting_rank + slot * self._ld, 0, self._ld * sizeof(int32_t))
        self._start[slot] = self._take(4)
        self._capacity[slot], self._count[slot] = 4, 1
        first = self._pool + self._start[slot]
        first.previous, first.rank = <int32_t> self._first(t, b), 0
        first.score = self._delta[t * self._ld + b] if (
            t < self._size) else waiting[first.previous]
        return slot

    cdef bint _next(self) except -1 nogil:
        """Find one more labeling, the next prefix that ends in the end of the chain."""
        cdef Py_ssize_t t = self._size, b = 0, slot, a, wanted, other, n = self._n
        cdef Py_ssize_t moved
        cdef double value, best
        cdef double* waiting
        cdef Prefix* last
        # Go back to where the next prefix is known, or cannot exist.
        while True:
            self._path[t] = <int32_t> b
            slot = self._open(t, b)
            if self._count[slot] < 0:
                value = -INFINITY
                t += 1
                break
            last = self._pool + self._start[slot] + self._count[slot] - 1
            a, wanted = last.previous, last.rank + 1
            if t == 1:
                value = -INFINITY
                break
            other = self._slot[(t - 1) * n + a]
            if other >= 0 and abs(self._count[other]) > wanted:
                value = self._pool[self._start[other] + wanted].score
                break
            t, b = t - 1, a
        # Come forward again.
        while t <= self._size:
            b = self._path[t]
            slot = self._slot[t * n + b]
            waiting = self._waiting + slot * self._ld
            last = self._pool + self._start[slot] + self._count[slot] - 1
            a = last.previous
            waiting[a] = value + self._edge(t, a, b)
            self._waiting_rank[slot * self._ld + a] = last.rank + 1
            best = waiting[0]
            a = 0
            for other in range(1, n):
                if waiting[other] > best:
                    best = waiting[other]
                    a = other
            if best == -INFINITY:
                self._count[slot] = -self._count[slot]
                value = best
            else:
                value = best if t == self._size else (
                    self._theta[t * self._ld + b] + best)
                if self._count[slot] == self._capacity[slot]:
                    moved = self._take(2 * self._count[slot])
                    memcpy(self._pool + moved, self._pool + self._start[slot],
                           self._count[slot] * sizeof(Prefix))
                    self._start[slot] = moved
                    self._capacity[slot] *= 2
                last = self._pool + self._start[slot] + self._count[slot]
                last.score = value
                last.previous = <int32_t> a
                last.rank = self._waiting_rank[slot * self._ld + a]
                self._count[slot] += 1
            t += 1
        return value > -INFINITY

    cdef Py_ssize_t decode(
            self, Py_ssize_t size, Py_ssize_t n, Py_ssize_t ld, const double* theta,
            double* delta, const double* table, Py_ssize_t table_step, Py_ssize_t k,
            double* scores, int32_t* labelings) except -1 nogil:
        """Up to k best labelings (k, size) with their scores; returns their number.

        delta (size, ld) becomes the best score of a prefix that ends in each label;
        labelings of score -inf are not returned. Rows are padded to ld.
        """
        cdef Py_ssize_t nodes = (size + 1) * n, count = 0, t, b, rank, slot, end
        cdef Prefix* prefix
        self._size, self._n, self._ld = size, n, ld
        self._theta, self._delta = theta, delta
        self._table, self._table_step = table, table_step
        if nodes > self._nodes:
            grow(<void**> &self._slot, nodes * sizeof(int32_t))
            grow(<void**> &self._best, nodes * sizeof(int32_t))
            grow(<void**> &self._path, nodes * sizeof(int32_t))
            self._nodes = nodes
        if self._slots == 0 or self._row < ld:
            self._reserve(max(self._slots, 2 * size + 1))
        memset(self._slot, 255, nodes * sizeof(int32_t))
        memset(self._best, 255, nodes * sizeof(int32_t))
        self._used = self._taken = 0
        memcpy(delta, theta, size * ld * sizeof(double))
        max_product_padded(size, n, ld, delta, table, table_step)
        end = self._open(size, 0)
        while count < k:
            if count == 0:
                if self._pool[self._start[end]].score == -INFINITY:
                    break
            elif not self._next():
                break
            scores[count] = self._pool[self._start[end] + count].score
            t, b, rank = size, 0, count
            while t > 0:
                slot = self._slot[t * n + b]
                if slot < 0:
                    b = self._first(t, b)
                else:
                    prefix = self._pool + self._start[slot] + rank
                    b, rank = prefix.previous, prefix.rank
                t -= 1
                labelings[count * size + t] = <int32_t> b
            count += 1
        return count


def _no_more_than_there_are(k, unary, pairwise):
    """k, or the number of allowed labelings where that is less and k is large."""
    size, n = unary.shape
    k = min(k, n ** min(size, 64), 2**31 - 1)
    if k * size < 10**6:
        return k
    tables = (pairwise > -np.inf).astype(float)
    ways = (unary[0] > -np.inf).astype(float)
    for t in range(1, size):
        table = tables[t - 1] if tables.ndim == 3 else tables
        ways = np.minimum(ways @ table, 1e15) * (unary[t] > -np.inf)
    return max(int(min(k, ways.sum())), 1)


def viterbi_topk(unary, pairwise, k):
    """The k best labelings of a chain, in order.

    Parameters
    ----------
    unary : array-like of shape (T, K)
        Score of each of K labels at each of T >= 1 positions; ``-inf`` forbids a
        label.
    pairwise : array-like of shape (K, K) or (T - 1, K, K)
        Score of each pair of neighbouring labels, from -> to: one table for all
        places, or one for each pair of positions. ``-inf`` forbids a pair.
    k : int
        Number of labelings.

    Returns
    -------
    labelings : ndarray of shape (n, T), int32
        The n <= k best labelings, all different; fewer than k where fewer are allowed.
        Labelings of equal score are in the order of their last label, then the last
        but one, and so on; the first is that of `viterbi`.
    scores : ndarray of shape (n,)
        Their scores, which do not increase.

    Raises
    ------
    ValueError
        If the shapes do not fit, an entry is NaN or ``+inf``, or k is not a positive
        integer.

    References
    ----------
    K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
    structured prediction models", NeurIPS 2018, Algorithm 2.
    V. M. Jimenez and A. Marzal, "Computing the K shortest paths: a new algorithm and an
    experimental comparison", WAE 1999.

    Examples
    --------
    >>> from sksstruct.inference import viterbi_topk
    >>> labelings, scores = viterbi_topk([[1, 0], [0, 0.5]], [[1, 0], [0, 1]], 3)
    >>> labelings.tolist(), scores.tolist()
    ([[0, 0], [0, 1], [1, 1]], [2.0, 1.5, 1.5])
    """
    unary, pairwise = check_chain(unary, pairwise)
    cdef Py_ssize_t size = unary.shape[0], n = unary.shape[1]
    cdef Py_ssize_t ld = padded_length(n)
    cdef Py_ssize_t most = _no_more_than_there_are(check_k(k), unary, pairwise)
    cdef double[:, ::1] theta = pad_rows(unary)
    cdef double[:, ::1] delta = np.empty((size, ld))
    cdef double[:, ::1] tables = pad_rows(
        pairwise.reshape(-1, n) if pairwise.size else np.zeros((n, n)))
    cdef Py_ssize_t step = n * ld if pairwise.ndim == 3 else 0
    labelings = np.empty((most, size), dtype=np.int32)
    scores = np.empty(most)
    cdef int32_t[:, ::1] labels = labelings
    cdef double[::1] values = scores
    cdef TopK decoder = TopK()
    cdef Py_ssize_t count
    with nogil:
        count = decoder.decode(size, n, ld, &theta[0, 0], &delta[0, 0], &tables[0, 0],
                               step, most, &values[0], &labels[0, 0])
    return labelings[:count].copy(), scores[:count].copy()
