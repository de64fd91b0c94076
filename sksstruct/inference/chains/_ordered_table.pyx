"""Indicator factors: tables of changing scores, searched for the best entry.

The score of a pair of labels is v(a, b), zero for pairs that are not stored. With
messages r to a few rows and c to a few columns, the factorwise maximization oracle of
Yen et al. (2016) is

    max over (a, b) of  v(a, b) + r(a) + c(b)

in four cases (Appendix C-1): (i) neither label has a message: the first entry of the
table in descending order of v; (ii), (iii) one label has a message: the first entry of
its row or column; (iv) both labels have messages: every such pair.

Entries are numbered in the order of insertion. A heap for each row, each column and the
whole table holds the entries in order of v. The index of each entry in its three heaps
is stored, so that a change of a score takes O(log n) time. The entries of a heap are
visited in descending order by means of a second heap, the frontier, which starts with
the first entry: after j visits the frontier has at most j + 1 entries. All entries that
are not stored tie at zero, between the positive and the negative scores. The search
skips rows and columns whose largest score, plus messages, does not exceed the value of
the best entry so far.

I. E. H. Yen et al., "Dual decomposed learning with factorwise oracles for structural
SVM of large output domain", NIPS 2016.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free

from sksstruct.inference.chains._pair_index cimport PairIndex
from sksstruct.utils._heap cimport Heap, HeapOrder, pop, push, restore
from sksstruct.utils._memory cimport reserve, resize


cdef inline bint is_in(const Side* side, int32_t label) noexcept nogil:
    """Whether a label is among the labels of rows (or columns) that have a message."""
    cdef Py_ssize_t k
    # few labels have messages: a linear search is fastest
    for k in range(side.n):
        if side.labels[k] == label:
            return True
    return False


cdef inline void set_best(Best* best, double value, Py_ssize_t row,
                          Py_ssize_t column) noexcept nogil:
    """Store an entry (row, column) and its value as the best entry so far."""
    best.value, best.found = value, True
    best.row, best.column = <int32_t> row, <int32_t> column


cdef inline int hand_over(const Best* best, int32_t* row, int32_t* column,
                          double* value) noexcept nogil:
    """Copy the best entry to the outputs; return whether the search found an entry."""
    value[0] = best.value
    # if no entry exceeds the floor, the outputs row and column stay as they are
    if best.found:
        row[0], column[0] = best.row, best.column
    return best.found


cdef inline Heap* heap_of(IndicatorTable table, int kind,
                          Py_ssize_t index) noexcept nogil:
    """The heap of a row, of a column, or of all entries."""
    # order of `_heaps`: the heaps of all rows, of all columns, the heap of the table
    if kind == ROWS:
        return table._heaps + index
    if kind == COLUMNS:
        return table._heaps + table.n_rows + index
    return table._heaps + table.n_rows + table.n_columns


cdef inline HeapOrder heap_order(IndicatorTable table, int kind) noexcept nogil:
    """Return the order of heaps of a kind (ROWS, COLUMNS, ALL): descending scores."""
    cdef HeapOrder order
    order.values, order.by_number = table._value, False
    # The three indices of an entry, one per kind of heap, are adjacent in memory, since
    # a changed score reads all three.
    order.places, order.stride = table._place + kind, 3
    return order


cdef inline bint is_stored(IndicatorTable table, int kind, Py_ssize_t index,
                           Py_ssize_t other) noexcept nogil:
    """Whether the entry in row (or column) `index` with label `other` is stored."""
    return table.find(index, other) >= 0 if kind == ROWS else (
        table.find(other, index) >= 0)


cdef class IndicatorTable:
    """Scores of pairs of labels, zero for entries that were never changed.

    Parameters
    ----------
    n_rows, n_columns : int
        Numbers of labels.

    Attributes
    ----------
    n_stored : int
        Number of entries that were ever changed.
    visited : int
        Number of entries that the oracles have read.
    """

    def __cinit__(self, Py_ssize_t n_rows, Py_ssize_t n_columns):
        if n_rows < 1 or n_columns < 1 or max(n_rows, n_columns) >= 2**31:
            raise ValueError(
                "n_rows and n_columns must be from 1 to 2**31 - 1, got "
                f"{n_rows} x {n_columns}")
        self.n_rows, self.n_columns = n_rows, n_columns
        self._pairs = PairIndex(max(n_rows, n_columns))
        self._heaps = <Heap*> calloc(n_rows + n_columns + 1, sizeof(Heap))
        self._sums = <double*> calloc(n_columns, sizeof(double))
        if self._heaps == NULL or self._sums == NULL:
            raise MemoryError()

    def __dealloc__(self):
        cdef Py_ssize_t k
        # `_heaps` is NULL if `__cinit__` has failed
        if self._heaps != NULL:
            for k in range(self.n_rows + self.n_columns + 1):
                free(self._heaps[k].items)
        free(self._heaps)
        free(self._value)
        free(self._place)
        free(self._frontier)
        free(self._sums)

    # ---- Python interface ----

    def add(self, rows, columns, amounts):
        """Add amounts to the scores of entries, in the given order.

        Parameters
        ----------
        rows, columns : array-like of shape (n,)
            Labels.
        amounts : array-like of shape (n,)
            Amount to add to the score of each entry (row, column).
        """
        cdef const int32_t[::1] row = np.ascontiguousarray(rows, dtype=np.int32)
        cdef const int32_t[::1] column = np.ascontiguousarray(columns, dtype=np.int32)
        cdef const double[::1] amount = np.ascontiguousarray(amounts, dtype=np.float64)
        cdef Py_ssize_t k
        if not row.shape[0] == column.shape[0] == amount.shape[0]:
            raise ValueError(
                f"rows, columns and amounts differ in length: {row.shape[0]}, "
                f"{column.shape[0]} and {amount.shape[0]}")
        # all entries are checked before any score changes
        for k in range(row.shape[0]):
            if not (0 <= row[k] < self.n_rows and 0 <= column[k] < self.n_columns):
                raise ValueError(
                    f"there is no entry ({row[k]}, {column[k]}), that of rows[{k}] and "
                    f"columns[{k}], in a table of shape {self.n_rows, self.n_columns}")
        with nogil:
            for k in range(row.shape[0]):
                self.change(self.insert(row[k], column[k]), amount[k])

    def entries(self):
        """Return rows, columns and scores of all stored entries, in insertion order.

        Returns
        -------
        rows, columns : ndarray of shape (n_stored,), int32
            Labels of the entries.
        scores : ndarray of shape (n_stored,)
            Scores of the entries.
        """
        cdef Py_ssize_t n = self.n_stored
        if not n:
            return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0)
        rows, columns = self._pairs.pairs()
        return rows, columns, np.array(<double[:n]> self._value)

    def maximum(self, rows, row_messages, columns, column_messages, *, linear=False):
        """Find the entry with the largest score plus messages to its labels.

        Parameters
        ----------
        rows, columns : array-like of shape (n,) and (m,)
            Labels that have messages, all different.
        row_messages, column_messages : array-like of shape (n,) and (m,)
            Amounts to add to the scores of the labels' entries.
        linear : bool, default=False
            Whether to read every pair of labels, instead of searching the heaps.

        Returns
        -------
        row, column : int
            The entry.
        value : float
            Score of the entry plus the messages to both of its labels.
        """
        # one label is appended, so that the first address exists if there are no
        # messages
        cdef const int32_t[::1] left = np.append(rows, 0).astype(np.int32)
        cdef const int32_t[::1] right = np.append(columns, 0).astype(np.int32)
        cdef const double[::1] to_left = np.append(row_messages, 0.0).astype(float)
        cdef const double[::1] to_right = np.append(column_messages, 0.0).astype(float)
        cdef Py_ssize_t n = left.shape[0] - 1, m = right.shape[0] - 1
        cdef int32_t row = -1, column = -1
        cdef double value = -INFINITY
        if linear:
            self.scan(n, &left[0], &to_left[0], m, &right[0], &to_right[0], -INFINITY,
                      &row, &column, &value)
        else:
            self.best(n, &left[0], &to_left[0], m, &right[0], &to_right[0], -INFINITY,
                      &row, &column, &value)
        return row, column, value

    # ---- entries ----

    cdef Py_ssize_t find(self, Py_ssize_t row, Py_ssize_t column) noexcept nogil:
        """Number of an entry, or -1 if the entry is not stored."""
        return self._pairs.find(row, column)

    cdef Py_ssize_t insert(self, Py_ssize_t row, Py_ssize_t column) except -1 nogil:
        """Number of an entry; an absent entry is stored first, with score zero."""
        cdef Py_ssize_t entry = self.find(row, column)
        if entry >= 0:
            return entry
        # memory is reserved first: a failure must not leave an entry in only some heaps
        self._reserve_entry()
        self._reserve_heap(ROWS, row)
        self._reserve_heap(COLUMNS, column)
        self._reserve_heap(ALL, 0)
        entry = self.n_stored
        self._value[entry] = 0.0
        self._pairs.add(row, column)
        self._ends = self._pairs._ends
        self._push(ROWS, row, <int32_t> entry)
        self._push(COLUMNS, column, <int32_t> entry)
        self._push(ALL, 0, <int32_t> entry)
        self.n_stored += 1
        return entry

    cdef int change(self, Py_ssize_t entry, double amount) except -1 nogil:
        """Add an amount to the score of an entry, and reorder the entry's heaps."""
        self._value[entry] += amount
        self._restore(ROWS, self._ends[2 * entry], entry)
        self._restore(COLUMNS, self._ends[2 * entry + 1], entry)
        self._restore(ALL, 0, entry)
        return 0

    cdef void _push(self, int kind, Py_ssize_t index, int32_t entry) noexcept nogil:
        """Add an entry to one of its heaps."""
        cdef HeapOrder order = heap_order(self, kind)
        push(heap_of(self, kind, index), &order, entry)

    cdef void _restore(self, int kind, Py_ssize_t index,
                       Py_ssize_t entry) noexcept nogil:
        """Move an entry, whose score was changed, to its position in a heap."""
        cdef HeapOrder order = heap_order(self, kind)
        restore(heap_of(self, kind, index), &order, self._place[3 * entry + kind])

    # ---- memory for one more entry ----

    cdef int _reserve_entry(self) except -1 nogil:
        """Make room for the score and the heap indices of one more entry."""
        cdef Py_ssize_t size = 2 * self._capacity if self._capacity else 64
        if self.n_stored < self._capacity:
            return 0
        resize(<void**> &self._value, size * sizeof(double))
        resize(<void**> &self._place, 3 * size * sizeof(int32_t))
        # each visit replaces an entry of the frontier by at most two: after j visits
        # the frontier has at most j + 1 entries
        resize(<void**> &self._frontier, (size + 1) * sizeof(int32_t))
        self._capacity = size
        return 0

    cdef int _reserve_heap(self, int kind, Py_ssize_t index) except -1 nogil:
        """Make room for one more entry in a heap."""
        cdef Heap* heap = heap_of(self, kind, index)
        # most heaps stay small: an initial capacity of four saves two reallocations
        return reserve(<void**> &heap.items, &heap.capacity, max(heap.size + 1, 4),
                       sizeof(int32_t))

    # ---- entries in descending order ----

    cdef Walk _walk(self, int kind, Py_ssize_t index) noexcept nogil:
        """Begin a traversal of the entries of a heap."""
        cdef Walk walk
        # All walks share one frontier array, as only one walk runs at a time: beginning
        # a walk allocates nothing, and most walks end after the first entry.
        walk.heap, walk.kind = heap_of(self, kind, index), kind
        walk.frontier.items, walk.frontier.size = self._frontier, 0
        if walk.heap.size:
            walk.frontier.items[0], walk.frontier.size = walk.heap.items[0], 1
        return walk

    cdef Py_ssize_t _next(self, Walk* walk, double floor) noexcept nogil:
        """Return the next entry of a walk, or -1 if no entry above floor is left."""
        cdef HeapOrder order
        cdef Py_ssize_t child, first_child
        cdef int32_t entry
        if walk.frontier.size == 0:
            return -1
        entry = walk.frontier.items[0]
        self.visited += 1
        if self._value[entry] <= floor:
            return -1
        # The children of an entry follow from its index in `walk.heap`, which `_place`
        # holds. Indices in the frontier are not needed, and not recorded.
        order.values, order.by_number = self._value, False
        order.places, order.stride = NULL, 0
        # All unvisited entries are descendants of frontier entries, and score no more.
        # The children of the popped entry therefore take its place in the frontier.
        pop(&walk.frontier, &order)
        first_child = 2 * self._place[3 * entry + walk.kind] + 1
        for child in range(first_child, min(first_child + 2, walk.heap.size)):
            push(&walk.frontier, &order, walk.heap.items[child])
        return entry

    cdef Py_ssize_t _first(self, const Query* query, int kind, Py_ssize_t index,
                           double floor) noexcept nogil:
        """Return the entry of a heap with the largest score above floor, or -1.

        Entries whose labels, except `index`, have a message are skipped.
        """
        cdef Walk walk = self._walk(kind, index)
        cdef Py_ssize_t entry
        while True:
            entry = self._next(&walk, floor)
            if entry < 0:
                return -1
            # Labels that must have no message: the column, in the heap of a row; the
            # row, in the heap of a column; row and column, in the heap of the table.
            if kind != ROWS and is_in(&query.rows, self._ends[2 * entry]):
                continue
            if kind != COLUMNS and is_in(&query.columns, self._ends[2 * entry + 1]):
                continue
            return entry

    cdef bint _zero_in(self, int kind, Py_ssize_t index, const Side* others,
                       int32_t* found) noexcept nogil:
        """Find an entry of a row or column that is not stored.

        The other label of the entry, which is written to `found`, must have no message.
        Returns whether there is such an entry.
        """
        cdef Py_ssize_t size = self.n_columns if kind == ROWS else self.n_rows
        cdef Py_ssize_t used = heap_of(self, kind, index).size, first, k, label
        if used + others.n >= size:
            # Perhaps no such entry exists: count the other labels whose entry is stored
            # or that have a message, none of these labels twice.
            for k in range(others.n):
                used += not is_stored(self, kind, index, others.labels[k])
            if used >= size:
                return False
        # The scan starts at a label that varies from call to call. With a fixed start
        # the first labels would all become stored, and each scan would read all of
        # them.
        first = (index * 7919 + self.n_stored) % size
        for k in range(first, first + size):
            label = k if k < size else k - size
            self.visited += 1
            if not is_stored(self, kind, index, label) and not is_in(
                    others, <int32_t> label):
                found[0] = <int32_t> label
                return True
        return False

    # ---- oracles ----

    cdef int best(
        self, Py_ssize_t n, const int32_t* rows, const double* row_messages,
        Py_ssize_t m, const int32_t* columns, const double* column_messages,
        double floor, int32_t* row, int32_t* column, double* value
    ) except -1 nogil:
        """Find the entry with the largest score plus messages, if it exceeds floor.

        Returns 1 if there is such an entry, else 0.
        """
        cdef Query query
        cdef Best best
        cdef Py_ssize_t k
        query.rows = Side(ROWS, n, rows, row_messages)
        query.columns = Side(COLUMNS, m, columns, column_messages)
        query.largest_column = 0.0
        best.value, best.found = floor, False
        for k in range(m):
            query.largest_column = max(query.largest_column, column_messages[k])
        # One walk through a row with a message serves columns with a message, case
        # (iv), and columns without, case (ii). Rows and columns with messages come
        # first: the best entry is likely there, and a large value ends later walks
        # early. Of entries with equal values, the one found first stays, so that the
        # result depends on the order of the walks.
        self._set_base(&query.columns)
        for k in range(n):
            self._in_row(&query, rows[k], row_messages[k], &best)
        for k in range(m):
            self._sums[columns[k]] = 0.0
        for k in range(m):
            self._in_column(&query, columns[k], column_messages[k], &best)
        self._in_rest(&query, &best)
        return hand_over(&best, row, column, value)

    cdef void _in_row(self, const Query* query, int32_t row, double message,
                      Best* best) noexcept nogil:
        """Search a row with a message, and all columns: cases (ii) and (iv)."""
        cdef const Side* columns = &query.columns
        cdef double largest = query.largest_column, candidate
        cdef Walk walk = self._walk(ROWS, row)
        cdef Py_ssize_t entry, k
        cdef int32_t column = 0
        self.visited += 1
        # visit stored entries in descending order, as long as the largest message to a
        # column could make one of them the best
        while True:
            entry = self._next(&walk, best.value - message - largest)
            if entry < 0:
                break
            column = self._ends[2 * entry + 1]
            # `_sums` has the message of each column: no search in `columns.labels`
            candidate = message + self._value[entry] + self._sums[column]
            if candidate > best.value:
                set_best(best, candidate, row, column)
        # Then visit entries that are not stored, which score zero: first those in
        # columns with messages, then one in a column without a message. Values are
        # compared before `find` is called, because the search of the hash table takes
        # longer.
        for k in range(columns.n if message + largest > best.value else 0):
            candidate = message + columns.messages[k]
            if candidate > best.value:
                self.visited += 1
                if self.find(row, columns.labels[k]) < 0:
                    set_best(best, candidate, row, columns.labels[k])
        if message > best.value and self._zero_in(ROWS, row, columns, &column):
            set_best(best, message, row, column)

    cdef void _in_column(self, const Query* query, int32_t column, double message,
                         Best* best) noexcept nogil:
        """Search a column with a message, and the rows without one: case (iii)."""
        cdef Heap* heap = heap_of(self, COLUMNS, column)
        cdef double top = self._value[heap.items[0]] if heap.size else 0.0
        cdef double floor = best.value - message
        cdef Py_ssize_t entry
        cdef int32_t row = 0
        self.visited += 1
        # the zero of an entry that is not stored may be the largest score
        if top < 0.0 and heap.size < self.n_rows:
            top = 0.0
        if message + top <= best.value:
            return
        # order of the search: positive scores, zeros of entries not stored, negative
        # scores
        entry = self._first(query, COLUMNS, column, max(floor, 0.0))
        if entry < 0 and message > best.value:
            if self._zero_in(COLUMNS, column, &query.rows, &row):
                set_best(best, message, row, column)
                return
            entry = self._first(query, COLUMNS, column, floor)
        if entry >= 0:
            set_best(best, message + self._value[entry], self._ends[2 * entry], column)

    cdef void _in_rest(self, const Query* query, Best* best) noexcept nogil:
        """Search the entries neither of whose labels has a message: case (i)."""
        # order of the search: positive scores, zeros of entries not stored, negative
        # scores
        cdef Py_ssize_t entry = self._first(query, ALL, 0, max(best.value, 0.0))
        if entry < 0 and best.value < 0.0:
            if self._zero_in_rest(query, best):
                return
            entry = self._first(query, ALL, 0, best.value)
        if entry >= 0:
            set_best(best, self._value[entry], self._ends[2 * entry],
                     self._ends[2 * entry + 1])

    cdef bint _zero_in_rest(self, const Query* query, Best* best) noexcept nogil:
        """Find an entry that is not stored and whose labels have no message."""
        cdef Py_ssize_t row
        cdef int32_t column = 0
        # the first row without a message nearly always has such an entry: the loop is
        # short
        for row in range(self.n_rows):
            if not is_in(&query.rows, <int32_t> row) and self._zero_in(
                    ROWS, row, &query.columns, &column):
                set_best(best, 0.0, row, column)
                return True
        return False

    cdef void _set_base(self, const Side* columns) noexcept nogil:
        """Write the messages of columns into `_sums`."""
        cdef Py_ssize_t k
        for k in range(columns.n):
            self._sums[columns.labels[k]] = columns.messages[k]

    cdef int scan(
        self, Py_ssize_t n, const int32_t* rows, const double* row_messages,
        Py_ssize_t m, const int32_t* columns, const double* column_messages,
        double floor, int32_t* row, int32_t* column, double* value
    ) except -1 nogil:
        """Do the same as `best` by reading the score of every pair of labels."""
        cdef Side side = Side(COLUMNS, m, columns, column_messages)
        cdef Py_ssize_t i, k
        cdef double message
        cdef Best best
        best.value, best.found = floor, False
        self._set_base(&side)
        for i in range(self.n_rows):
            message = 0.0
            for k in range(n):
                if rows[k] == i:
                    message = row_messages[k]
            self._scan_row(i, message, &best)
            # `_scan_row` has set some messages in `_sums` to zero: subtracting the
            # scores that it had added would leave rounding errors
            self._set_base(&side)
        for k in range(m):
            self._sums[columns[k]] = 0.0
        self.visited += self.n_rows * self.n_columns
        return hand_over(&best, row, column, value)

    cdef void _scan_row(self, Py_ssize_t row, double message,
                        Best* best) noexcept nogil:
        """Set best to the row's entry of largest value, if this value exceeds best."""
        cdef Heap* heap = heap_of(self, ROWS, row)
        cdef Py_ssize_t k, column
        cdef double highest
        # `_sums` has the messages of the columns; add the scores that the row stores
        for k in range(heap.size):
            self._sums[self._ends[2 * heap.items[k] + 1]] += self._value[heap.items[k]]
        # the maximum is found faster without its index, which a second loop finds
        highest = self._sums[0]
        for k in range(1, self.n_columns):
            highest = self._sums[k] if self._sums[k] > highest else highest
        if message + highest > best.value:
            column = 0
            while self._sums[column] != highest:
                column += 1
            set_best(best, message + highest, row, column)
        # reset `_sums` at the columns that the row stores, even at those with messages,
        # which the caller writes again
        for k in range(heap.size):
            self._sums[self._ends[2 * heap.items[k] + 1]] = 0.0
