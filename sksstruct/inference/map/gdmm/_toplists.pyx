"""Sorted lists of the largest entries of tables, made on demand.

Huang et al. (2017), Section 3.2, use lists sorted in advance to find the best entry of
a table outside of a few states. Here a row or a column is sorted when a search first
needs it, eight entries deep, and at least twice as deep whenever a search needs more.
All factors that share a table share its lists. Tables given by a formula need no lists.
"""

import numpy as np

cimport cython
from libc.stdlib cimport calloc, free

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.core._tables cimport DENSE, POTTS, entry_of
from sksstruct.utils._memory cimport resize

# Depth of a new list: searches usually exclude few states.
cdef Py_ssize_t FIRST_DEPTH = 8


@cython.final
cdef class Lists:
    """Sorted lists of the largest entries in the lines of all tables of a problem.

    A line is a row or a column of a table.

    Parameters
    ----------
    problem : MAPProblem
        The graph. The lists refer to the tables of the problem, and keep the problem
        alive.
    sorted_lines : bool, default=True
        Whether to make lists; if not, every search reads whole lines.

    Attributes
    ----------
    visited : int
        Number of table entries read to make lists.
    stored : int
        Number of entries in lists.
    """

    def __cinit__(self, Problem problem, bint sorted_lines=True):
        cdef Py_ssize_t table, n_tables = len(problem.graph.tables)
        cdef const TableSpec* spec
        # the tables belong to the problem, which must stay alive
        self._owners = [problem]
        self.specs = problem.specs
        self.of_table = <TableLists*>calloc(max(1, n_tables), sizeof(TableLists))
        if not self.of_table:
            raise MemoryError
        # set after the allocation, as `__dealloc__` frees the lists of so many tables
        self._n_tables = n_tables
        for table in range(n_tables):
            spec = &self.specs[table]
            # in small tables reading a line is faster than keeping a list
            if sorted_lines and spec.kind == DENSE and spec.row_high != NULL:
                self._allocate_lists(table)

    def _allocate_lists(self, Py_ssize_t table):
        """Allocate empty lists for a table's lines; sort its rows by largest entry."""
        cdef const TableSpec* spec = &self.specs[table]
        cdef TableLists* lists = &self.of_table[table]
        cdef const double[::1] high = <double[:spec.rows]>spec.row_high
        ranked = np.argsort(-np.asarray(high), kind="stable")
        cdef int32_t[::1] order = ranked.astype(np.int32)
        self._owners.append(order)
        # an empty list is a depth of zero and a NULL pointer
        lists.by_high = &order[0]
        lists.rows = <Line*>calloc(spec.rows, sizeof(Line))
        lists.cols = <Line*>calloc(spec.cols, sizeof(Line))
        if not lists.rows or not lists.cols:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t table, k
        cdef TableLists* lists
        # pointers may be NULL after a failed constructor; free accepts NULL
        for table in range(self._n_tables):
            lists = &self.of_table[table]
            for k in range(self.specs[table].rows if lists.rows else 0):
                free(lists.rows[k].top)
            for k in range(self.specs[table].cols if lists.cols else 0):
                free(lists.cols[k].top)
            free(lists.rows)
            free(lists.cols)
        free(self.of_table)

    def best_outside(self, Py_ssize_t table, Py_ssize_t line, const int32_t[::1] slots,
                     bint column=False):
        """Find the largest entry of a row or a column among states without a slot.

        Parameters
        ----------
        table, line : int
            Table, and row or column.
        slots : ndarray of int32
            Slot of each state; states with a negative entry have none.
        column : bool, default=False
            Whether the line is a column.

        Returns
        -------
        state : int
            The state, or -1 if all states have a slot.
        """
        return self.outside(table, column, line, 1.0, &slots[0])

    cdef Py_ssize_t outside(self, Py_ssize_t table, bint column, Py_ssize_t line,
                            double sign, const int32_t* slots) except -2 nogil:
        """Return the state without a slot whose entry in a line is largest; -1 if none.

        With sign < 0, for edges with negative weights, the entry is the least one.
        """
        cdef const TableSpec* spec = &self.specs[table]
        cdef Py_ssize_t n = spec.rows if column else spec.cols
        # descending lists do not help to find the least entry
        if spec.kind == DENSE and self.of_table[table].rows != NULL and sign > 0:
            return self._first_outside(table, column, line, slots)
        if spec.kind == POTTS:
            return _outside_potts(line, n, (spec.agree > spec.differ) == (sign > 0),
                                  slots)
        # Read the whole line of a dense table that has no lists, or to find the least
        # entry. The entries of a column are `cols` apart.
        if spec.kind == DENSE and column:
            return _scan_outside(spec.data + line, spec.cols, n, sign, slots)
        if spec.kind == DENSE:
            return _scan_outside(spec.data + line * spec.cols, 1, n, sign, slots)
        # tables of distances: the score falls with each step from the line's state, up
        # to the limit
        if sign > 0:
            return _nearest_outside(line, n, slots)
        return _farthest_outside(spec, line, n, slots)

    cdef Py_ssize_t _first_outside(self, Py_ssize_t table, bint column, Py_ssize_t line,
                                   const int32_t* slots) except -2 nogil:
        """Return a list's first state without a slot; extend the list as needed."""
        cdef const TableSpec* spec = &self.specs[table]
        cdef Py_ssize_t n = spec.rows if column else spec.cols
        cdef Py_ssize_t k, depth = FIRST_DEPTH
        cdef Line* listed
        while True:
            listed = self._line_of(table, column, line, depth)
            # the search begins at the start of the list, as a longer list may order
            # equal entries differently
            for k in range(listed.depth):
                if slots[listed.top[k]] < 0:
                    return listed.top[k]
            # all states of the line have slots
            if listed.depth == n:
                return -1
            depth = 2 * listed.depth

    cdef Line* _line_of(self, Py_ssize_t table, bint column, Py_ssize_t line,
                        Py_ssize_t depth) except NULL nogil:
        """Return the list of a line, extended to at least `depth` entries."""
        cdef const TableSpec* spec = &self.specs[table]
        cdef TableLists* lists = &self.of_table[table]
        cdef Py_ssize_t n = spec.rows if column else spec.cols, wanted = FIRST_DEPTH
        cdef Line* listed
        # the columns of a symmetric table equal its rows, which are contiguous: rows
        # and columns share lists
        column = column and not spec.symmetric
        listed = (lists.cols if column else lists.rows) + line
        if listed.depth >= min(depth, n):
            return listed
        # powers of two, so that the total of all sorted depths is at most twice the
        # largest
        while wanted < depth:
            wanted *= 2
        wanted = min(wanted, n)
        resize(<void**>&listed.top, wanted * sizeof(int32_t))
        self.stored += wanted - listed.depth
        self.visited += n
        _select_top(spec, column, line, n, listed.top, wanted)
        listed.depth = wanted
        return listed


# ---- searches without a list ----

cdef Py_ssize_t _outside_potts(Py_ssize_t line, Py_ssize_t n, bint agree,
                               const int32_t* slots) noexcept nogil:
    """Return the best state without a slot in a line of a Potts table; -1 if none.

    `agree`: whether the state `line` itself is better than the other states.
    """
    cdef Py_ssize_t k
    # all states other than `line` have the same score
    if agree and slots[line] < 0:
        return line
    for k in range(n):
        if slots[k] < 0 and k != line:
            return k
    return line if slots[line] < 0 else -1


cdef Py_ssize_t _nearest_outside(Py_ssize_t line, Py_ssize_t n,
                                 const int32_t* slots) noexcept nogil:
    """Return the state without a slot nearest to state `line`; -1 if there is none."""
    cdef Py_ssize_t distance
    # states at equal distance have equal scores; the upper one is preferred
    for distance in range(n):
        if line + distance < n and slots[line + distance] < 0:
            return line + distance
        if line - distance >= 0 and slots[line - distance] < 0:
            return line - distance
    return -1


cdef Py_ssize_t _farthest_outside(const TableSpec* spec, Py_ssize_t line, Py_ssize_t n,
                                  const int32_t* slots) noexcept nogil:
    """Return the state without a slot whose entry is least; -1 if there is none.

    For a line of a table given by a formula of the distance.
    """
    cdef Py_ssize_t k, best = -1
    cdef double score, least = 0.0
    for k in range(n):
        # states beyond the limit tie; the first of them is returned
        if slots[k] >= 0:
            continue
        score = entry_of(spec, line, k)
        if best < 0 or score < least:
            best, least = k, score
    return best


cdef Py_ssize_t _scan_outside(const double* entries, Py_ssize_t step, Py_ssize_t n,
                              double sign, const int32_t* slots) noexcept nogil:
    """Return the best state without a slot by reading a line; -1 if there is none."""
    cdef Py_ssize_t k, best = -1
    cdef double score, top = 0.0
    for k in range(n):
        if slots[k] >= 0:
            continue
        # with sign -1 the least entry is the best
        score = sign * entries[k * step]
        if best < 0 or score > top:
            best, top = k, score
    return best


# ---- lists ----

cdef inline double _value(const TableSpec* spec, bint column, Py_ssize_t line,
                          Py_ssize_t k) noexcept nogil:
    """Return entry k of a line of a dense table."""
    return spec.data[k * spec.cols + line if column else line * spec.cols + k]


cdef void _select_top(const TableSpec* spec, bint column, Py_ssize_t line, Py_ssize_t n,
                      int32_t* top, Py_ssize_t depth) noexcept nogil:
    """Write the indices of a line's `depth` largest entries, descending, to `top`."""
    cdef Py_ssize_t k, i, size = 0
    cdef int32_t last
    cdef double value
    # a heap of the largest entries so far, the least on top; earlier entries win ties
    for k in range(n):
        value = _value(spec, column, line, k)
        if size < depth:
            i = size
            size += 1
            while i and _value(spec, column, line, top[(i - 1) // 2]) >= value:
                top[i] = top[(i - 1) // 2]
                i = (i - 1) // 2
            top[i] = k
        elif value > _value(spec, column, line, top[0]):
            _sift_down(spec, column, line, top, size, k)
    # heapsort: the least entry moves behind the shrinking heap
    while size > 1:
        size -= 1
        last = top[size]
        top[size] = top[0]
        _sift_down(spec, column, line, top, size, last)


cdef void _sift_down(const TableSpec* spec, bint column, Py_ssize_t line, int32_t* top,
                     Py_ssize_t size, int32_t k) noexcept nogil:
    """Replace the least entry, on top of the heap, by entry k of the line."""
    cdef Py_ssize_t i = 0, child
    cdef double value = _value(spec, column, line, k)
    while True:
        # smaller children move up until k fits
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and (_value(spec, column, line, top[child + 1])
                                 < _value(spec, column, line, top[child])):
            child += 1
        if _value(spec, column, line, top[child]) >= value:
            break
        top[i] = top[child]
        i = child
    top[i] = k
