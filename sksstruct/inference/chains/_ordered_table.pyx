"""Tables of scores that change, with the best entry under messages: indicator factors.

The score of a pair of labels is v(a, b), zero where nothing is stored. With messages to
a few labels the factorwise maximisation oracle of Yen et al. (2016) is

    max over (a, b) of  v(a, b) + r(a) + c(b)

in four cases (Appendix C-1): (i) neither label has a message: the first of all entries
in descending order of v; (ii), (iii) one has: the first entry of its row or column;
(iv) both have: every pair. Here the orders are kept by heaps, one for each row, each
column and the whole table, in which an entry knows its place, so that a changed score
costs O(log n); the entries of a heap are visited in descending order by a second heap
of candidates, which starts at its root. Entries that are not stored are one tie at
zero, which is met between the positive and the negative scores. What cannot beat the
best so far is left out: its bound is the largest score of its row or column.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset


cdef inline bint is_in(Py_ssize_t n, const int32_t* items, int32_t x) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        if items[k] == x:
            return True
    return False


cdef inline Py_ssize_t hashed(Py_ssize_t a, Py_ssize_t b, Py_ssize_t columns,
                              Py_ssize_t size) noexcept nogil:
    """Where the search for a pair begins; size is a power of two."""
    cdef uint64_t key = (<uint64_t> a) * (<uint64_t> columns) + (<uint64_t> b)
    key *= <uint64_t> 0x9E3779B97F4A7C15
    key ^= key >> 32
    return <Py_ssize_t> (key & <uint64_t> (size - 1))


cdef void* resized(void* old, size_t size) except NULL nogil:
    cdef void* new = realloc(old, size)
    if new == NULL:
        with gil:
            raise MemoryError()
    return new


cdef class IndicatorTable:
    """Scores of pairs of labels, zero but for those that were changed.

    Parameters
    ----------
    n_rows, n_columns : int
        Numbers of labels.

    Attributes
    ----------
    n_stored : int
        Entries that were ever changed.
    visited : int
        Entries that the oracles looked at.
    """

    def __cinit__(self, Py_ssize_t n_rows, Py_ssize_t n_columns):
        if n_rows < 1 or n_columns < 1 or max(n_rows, n_columns) >= 2**31:
            raise ValueError(f"a table cannot be {n_rows} x {n_columns}")
        self.n_rows, self.n_columns = n_rows, n_columns
        self._heaps = <Heap*> calloc(n_rows + n_columns + 1, sizeof(Heap))
        self._hash_size = 64
        self._hash = <int32_t*> calloc(self._hash_size, sizeof(int32_t))
        self._base = <double*> calloc(n_columns, sizeof(double))
        if self._heaps == NULL or self._hash == NULL or self._base == NULL:
            raise MemoryError()

    def __dealloc__(self):
        cdef Py_ssize_t k
        if self._heaps != NULL:
            for k in range(self.n_rows + self.n_columns + 1):
                free(self._heaps[k].items)
        free(self._heaps)
        free(self._hash)
        free(self._value)
        free(self._ends)
        free(self._place)
        free(self._frontier)
        free(self._base)

    # ---- what Python sees ----

    def add(self, rows, columns, amounts):
        """Add amounts to entries, one after the other.

        Parameters
        ----------
        rows, columns : array-like of shape (n,)
            Labels.
        amounts : array-like of shape (n,)
            What is added to their scores.
        """
        cdef const int32_t[::1] a = np.ascontiguousarray(rows, dtype=np.int32)
        cdef const int32_t[::1] b = np.ascontiguousarray(columns, dtype=np.int32)
        cdef const double[::1] x = np.ascontiguousarray(amounts, dtype=np.float64)
        cdef Py_ssize_t k
        if not a.shape[0] == b.shape[0] == x.shape[0]:
            raise ValueError("rows, columns and amounts differ in length")
        for k in range(a.shape[0]):
            if not (0 <= a[k] < self.n_rows and 0 <= b[k] < self.n_columns):
                raise ValueError(f"there is no entry ({a[k]}, {b[k]})")
        with nogil:
            for k in range(a.shape[0]):
                self.change(self.insert(a[k], b[k]), x[k])

    def entries(self):
        """Rows, columns and scores of the entries, in the order they came.

        Returns
        -------
        rows, columns : ndarray of shape (n_stored,), int32
            Labels.
        scores : ndarray of shape (n_stored,)
            Their scores.
        """
        cdef Py_ssize_t n = self.n_stored
        if not n:
            return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0)
        ends = np.array(<int32_t[:n, :2]> self._ends)
        return ends[:, 0], ends[:, 1], np.array(<double[:n]> self._value)

    def maximum(self, rows, row_messages, columns, column_messages, *, linear=False):
        """The best entry under messages.

        Parameters
        ----------
        rows, columns : array-like of shape (n,) and (m,)
            Labels that have messages, all different.
        row_messages, column_messages : array-like of shape (n,) and (m,)
            What is added to the scores of the labels' entries.
        linear : bool, default=False
            Whether every entry is looked at.

        Returns
        -------
        row, column : int
            The entry.
        value : float
            Its score with the messages.
        """
        cdef const int32_t[::1] a = np.append(rows, 0).astype(np.int32)
        cdef const int32_t[::1] b = np.append(columns, 0).astype(np.int32)
        cdef const double[::1] r = np.append(row_messages, 0.0).astype(np.float64)
        cdef const double[::1] c = np.append(column_messages, 0.0).astype(np.float64)
        cdef int32_t row = -1, column = -1
        cdef double value = -INFINITY
        if linear:
            self.scan(a.shape[0] - 1, &a[0], &r[0], b.shape[0] - 1, &b[0], &c[0],
                      -INFINITY, &row, &column, &value)
        else:
            self.best(a.shape[0] - 1, &a[0], &r[0], b.shape[0] - 1, &b[0], &c[0],
                      -INFINITY, &row, &column, &value)
        return row, column, value

    # ---- entries ----

    cdef Heap* _heap(self, int kind, Py_ssize_t index) noexcept nogil:
        if kind == ROWS:
            return self._heaps + index
        if kind == COLUMNS:
            return self._heaps + self.n_rows + index
        return self._heaps + self.n_rows + self.n_columns

    cdef Py_ssize_t find(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        """Number of an entry, or -1 where none is stored."""
        cdef Py_ssize_t k = hashed(a, b, self.n_columns, self._hash_size), entry
        while self._hash[k]:
            entry = self._hash[k] - 1
            if self._ends[2 * entry] == a and self._ends[2 * entry + 1] == b:
                return entry
            k = (k + 1) & (self._hash_size - 1)
        return -1

    cdef double lookup(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        cdef Py_ssize_t entry = self.find(a, b)
        self.visited += 1
        return self._value[entry] if entry >= 0 else 0.0

    cdef Py_ssize_t insert(self, Py_ssize_t a, Py_ssize_t b) except -1 nogil:
        """Number of an entry, which is stored from now on."""
        cdef Py_ssize_t entry = self.find(a, b), k, e, size
        if entry >= 0:
            return entry
        entry = self.n_stored
        if entry == self._room:
            size = 2 * self._room if self._room else 64
            self._value = <double*> resized(self._value, size * sizeof(double))
            self._ends = <int32_t*> resized(self._ends, 2 * size * sizeof(int32_t))
            self._place = <int32_t*> resized(self._place, 3 * size * sizeof(int32_t))
            self._frontier = <int32_t*> resized(self._frontier,
                                                (size + 2) * sizeof(int32_t))
            self._room = size
        if 2 * (entry + 1) > self._hash_size:
            size = 2 * self._hash_size
            self._hash = <int32_t*> resized(self._hash, size * sizeof(int32_t))
            self._hash_size = size
            memset(self._hash, 0, size * sizeof(int32_t))
            for e in range(entry):
                k = hashed(self._ends[2 * e], self._ends[2 * e + 1], self.n_columns,
                           size)
                while self._hash[k]:
                    k = (k + 1) & (size - 1)
                self._hash[k] = <int32_t> (e + 1)
        self._ends[2 * entry], self._ends[2 * entry + 1] = <int32_t> a, <int32_t> b
        self._value[entry] = 0.0
        self._push(self._heap(ROWS, a), ROWS, <int32_t> entry)
        self._push(self._heap(COLUMNS, b), COLUMNS, <int32_t> entry)
        self._push(self._heap(ALL, 0), ALL, <int32_t> entry)
        k = hashed(a, b, self.n_columns, self._hash_size)
        while self._hash[k]:
            k = (k + 1) & (self._hash_size - 1)
        self._hash[k] = <int32_t> (entry + 1)
        self.n_stored += 1
        return entry

    cdef int change(self, Py_ssize_t entry, double amount) except -1 nogil:
        """Add to a score, and put the entry in its place in the three heaps."""
        self._value[entry] += amount
        self._settle(self._heap(ROWS, self._ends[2 * entry]), ROWS,
                     self._place[3 * entry])
        self._settle(self._heap(COLUMNS, self._ends[2 * entry + 1]), COLUMNS,
                     self._place[3 * entry + 1])
        self._settle(self._heap(ALL, 0), ALL, self._place[3 * entry + 2])
        return 0

    cdef int _push(self, Heap* heap, int kind, int32_t entry) except -1 nogil:
        if heap.size == heap.room:
            heap.room = 2 * heap.room if heap.room else 4
            heap.items = <int32_t*> resized(heap.items, heap.room * sizeof(int32_t))
        heap.items[heap.size] = entry
        self._place[3 * entry + kind] = heap.size
        heap.size += 1
        self._settle(heap, kind, heap.size - 1)
        return 0

    cdef void _settle(self, Heap* heap, int kind, Py_ssize_t k) noexcept nogil:
        """Move the item at k up or down to where it belongs."""
        cdef int32_t entry = heap.items[k]
        cdef double value = self._value[entry]
        cdef Py_ssize_t other
        while k > 0 and self._value[heap.items[(k - 1) // 2]] < value:
            heap.items[k] = heap.items[(k - 1) // 2]
            self._place[3 * heap.items[k] + kind] = <int32_t> k
            k = (k - 1) // 2
        while 2 * k + 1 < heap.size:
            other = 2 * k + 1
            if (other + 1 < heap.size
                    and self._value[heap.items[other + 1]]
                    > self._value[heap.items[other]]):
                other += 1
            if self._value[heap.items[other]] <= value:
                break
            heap.items[k] = heap.items[other]
            self._place[3 * heap.items[k] + kind] = <int32_t> k
            k = other
        heap.items[k] = entry
        self._place[3 * entry + kind] = <int32_t> k

    # ---- oracles ----

    cdef Py_ssize_t _next(self, Heap* heap, int kind, double floor,
                          Py_ssize_t* waiting) noexcept nogil:
        """The next entry of a heap in descending order, or -1 if it is not above floor.

        The candidates are in the frontier, the root to begin with: waiting 0 is that.
        """
        cdef int32_t* front = self._frontier
        cdef Py_ssize_t size = waiting[0], k, child, c
        cdef int32_t top, entry
        cdef double value
        if size == 0:
            if not heap.size:
                return -1
            front[0], size = 0, 1
        elif size < 0:
            return -1
        entry = heap.items[front[0]]
        self.visited += 1
        if self._value[entry] <= floor:
            return -1
        # the last candidate takes the root's place, and the two children come in
        size -= 1
        top = front[size]
        k = 0
        while 2 * k + 1 < size:
            child = 2 * k + 1
            if (child + 1 < size
                    and self._value[heap.items[front[child + 1]]]
                    > self._value[heap.items[front[child]]]):
                child += 1
            if self._value[heap.items[front[child]]] <= self._value[heap.items[top]]:
                break
            front[k] = front[child]
            k = child
        if size:
            front[k] = top
        for c in range(2):
            child = 2 * self._place[3 * entry + kind] + 1 + c
            if child >= heap.size:
                break
            value = self._value[heap.items[child]]
            k = size
            size += 1
            while k and self._value[heap.items[front[(k - 1) // 2]]] < value:
                front[k] = front[(k - 1) // 2]
                k = (k - 1) // 2
            front[k] = <int32_t> child
        waiting[0] = size if size else -1
        return entry

    cdef Py_ssize_t _first(
        self, Heap* heap, int kind, Py_ssize_t n, const int32_t* rows, Py_ssize_t m,
        const int32_t* columns, double floor
    ) noexcept nogil:
        """The first entry above floor, in descending order, without these labels."""
        cdef Py_ssize_t waiting = 0, entry
        while True:
            entry = self._next(heap, kind, floor, &waiting)
            if entry < 0:
                return -1
            if not ((kind != ROWS and is_in(n, rows, self._ends[2 * entry]))
                    or (kind != COLUMNS
                        and is_in(m, columns, self._ends[2 * entry + 1]))):
                return entry

    cdef bint _zero_in(
        self, int kind, Py_ssize_t index, Py_ssize_t n, const int32_t* taken,
        int32_t* found
    ) noexcept nogil:
        """A label whose entry in a row or column is not stored, and is not taken."""
        cdef Py_ssize_t size = self.n_columns if kind == ROWS else self.n_rows
        cdef Py_ssize_t used = self._heap(kind, index).size, k, x
        cdef bint stored
        if used + n >= size:
            # there may be none: taken labels that are stored were counted twice
            for k in range(n):
                stored = (self.find(index, taken[k]) if kind == ROWS
                          else self.find(taken[k], index)) >= 0
                used += not stored
            if used >= size:
                return False
        # any place does to begin with; it should not always be the same
        x = (index * 7919 + self.n_stored) % size
        for _k in range(size):
            self.visited += 1
            stored = (self.find(index, x) if kind == ROWS
                      else self.find(x, index)) >= 0
            if not stored and not is_in(n, taken, <int32_t> x):
                found[0] = <int32_t> x
                return True
            x = x + 1 if x + 1 < size else 0
        return False

    cdef int best(
        self, Py_ssize_t n, const int32_t* rows, const double* row_messages,
        Py_ssize_t m, const int32_t* columns, const double* column_messages,
        double floor, int32_t* a, int32_t* b, double* value
    ) except -1 nogil:
        """The best entry above floor, into a, b and value; 0 where there is none."""
        cdef Py_ssize_t i, j, entry, waiting
        cdef Heap* heap
        cdef double top, candidate, best = floor, side, most = 0.0
        cdef int32_t found = 0
        cdef bint any = False
        for j in range(m):
            most = column_messages[j] if column_messages[j] > most else most
        for j in range(m):
            self._base[columns[j]] = column_messages[j]
        # (iv) and (ii), a row with a message at a time
        for i in range(n):
            heap = self._heap(ROWS, rows[i])
            self.visited += 1
            # what is stored, as long as the largest message could make it the best
            waiting = 0
            while True:
                entry = self._next(heap, ROWS, best - row_messages[i] - most, &waiting)
                if entry < 0:
                    break
                candidate = (row_messages[i] + self._value[entry]
                             + self._base[self._ends[2 * entry + 1]])
                if candidate > best:
                    best, any = candidate, True
                    a[0], b[0] = rows[i], self._ends[2 * entry + 1]
            # and what is not
            for j in range(m if row_messages[i] + most > best else 0):
                candidate = row_messages[i] + column_messages[j]
                if candidate > best:
                    self.visited += 1
                    if self.find(rows[i], columns[j]) < 0:
                        best, any = candidate, True
                        a[0], b[0] = rows[i], columns[j]
            if row_messages[i] > best:
                if self._zero_in(ROWS, rows[i], m, columns, &found):
                    best, any = row_messages[i], True
                    a[0], b[0] = rows[i], found
        for j in range(m):
            self._base[columns[j]] = 0.0
        # (iii)
        for j in range(m):
            heap = self._heap(COLUMNS, columns[j])
            self.visited += 1
            top = self._value[heap.items[0]] if heap.size else 0.0
            if top < 0.0 and heap.size < self.n_rows:
                top = 0.0
            if column_messages[j] + top <= best:
                continue
            side = best - column_messages[j]
            entry = self._first(heap, COLUMNS, n, rows, m, columns,
                                side if side > 0.0 else 0.0)
            if entry >= 0:
                best, any = column_messages[j] + self._value[entry], True
                a[0], b[0] = self._ends[2 * entry], columns[j]
                continue
            if column_messages[j] <= best:
                continue
            if self._zero_in(COLUMNS, columns[j], n, rows, &found):
                best, any = column_messages[j], True
                a[0], b[0] = found, columns[j]
                continue
            entry = self._first(heap, COLUMNS, n, rows, m, columns,
                                best - column_messages[j])
            if entry >= 0:
                best, any = column_messages[j] + self._value[entry], True
                a[0], b[0] = self._ends[2 * entry], columns[j]
        # (i)
        heap = self._heap(ALL, 0)
        entry = self._first(heap, ALL, n, rows, m, columns, best if best > 0.0 else 0.0)
        if entry >= 0:
            best, any = self._value[entry], True
            a[0], b[0] = self._ends[2 * entry], self._ends[2 * entry + 1]
        elif best < 0.0:
            for i in range(self.n_rows):
                if is_in(n, rows, <int32_t> i):
                    continue
                if self._zero_in(ROWS, i, m, columns, &found):
                    best, any = 0.0, True
                    a[0], b[0] = <int32_t> i, found
                    break
            if best < 0.0:
                entry = self._first(heap, ALL, n, rows, m, columns, best)
                if entry >= 0:
                    best, any = self._value[entry], True
                    a[0], b[0] = self._ends[2 * entry], self._ends[2 * entry + 1]
        value[0] = best
        return any

    cdef int scan(
        self, Py_ssize_t n, const int32_t* rows, const double* row_messages,
        Py_ssize_t m, const int32_t* columns, const double* column_messages,
        double floor, int32_t* a, int32_t* b, double* value
    ) except -1 nogil:
        """The same by looking at every pair of labels."""
        cdef Py_ssize_t i, j, k
        cdef double best = floor, row, candidate
        cdef bint any = False
        cdef double* base = self._base
        cdef Heap* heap
        for k in range(m):
            base[columns[k]] = column_messages[k]
        for i in range(self.n_rows):
            row = 0.0
            for k in range(n):
                if rows[k] == i:
                    row = row_messages[k]
            heap = self._heap(ROWS, i)
            for k in range(heap.size):
                base[self._ends[2 * heap.items[k] + 1]] += self._value[heap.items[k]]
            candidate = base[0]
            for j in range(1, self.n_columns):
                candidate = base[j] if base[j] > candidate else candidate
            if row + candidate > best:
                best, any = row + candidate, True
                a[0], b[0] = <int32_t> i, 0
                while base[b[0]] != candidate:
                    b[0] += 1
            for k in range(heap.size):
                base[self._ends[2 * heap.items[k] + 1]] = 0.0
            for k in range(m):
                base[columns[k]] = column_messages[k]
        for k in range(m):
            base[columns[k]] = 0.0
        self.visited += self.n_rows * self.n_columns
        value[0] = best
        return any
