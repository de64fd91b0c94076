"""Sorted lists of the entries of tables, made when they are asked for.

Huang et al. (2017), Section 3.2, find the best entry of a table outside of a few states
by lists that are sorted beforehand. Here a row or a column is sorted when it is first
asked for, eight entries deep and then at least twice as deep each time, once for all
factors that share the table. Tables given by a formula need no lists.
"""

import numpy as np

cimport cython
from libc.stdlib cimport calloc, free

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.core._tables cimport DENSE, POTTS, entry_of
from sksstruct.utils._memory cimport resize

# Depth of a new list: searches leave out a few states as a rule.
cdef Py_ssize_t FIRST_DEPTH = 8


@cython.final
cdef class Lists:
    """Lists of all tables of a problem.

    Parameters
    ----------
    problem : MAPProblem
        The graph; it must stay alive.
    sorted_lines : bool, default=True
        Whether to make lists; otherwise every search reads whole lines.

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
        # tables are the problem's, and are gone with it
        self._owners = [problem]
        self.specs = problem.specs
        self.of_table = <TableLists*>calloc(max(1, n_tables), sizeof(TableLists))
        if not self.of_table:
            raise MemoryError
        # for __dealloc__: only now is there anything to give back
        self._n_tables = n_tables
        for table in range(n_tables):
            spec = &self.specs[table]
            # in small tables reading a line is faster than looking after a list
            if sorted_lines and spec.kind == DENSE and spec.row_high != NULL:
                self._make_room(table)

    def _make_room(self, Py_ssize_t table):
        """Make empty lists for all lines of a table; sort rows by largest entry."""
        cdef const TableSpec* spec = &self.specs[table]
        cdef TableLists* lists = &self.of_table[table]
        cdef const double[::1] high = <double[:spec.rows]>spec.row_high
        ranked = np.argsort(-np.asarray(high), kind="stable")
        cdef int32_t[::1] order = ranked.astype(np.int32)
        self._owners.append(order)
        # a line is a length and a pointer, zero and NULL until somebody asks
        lists.by_high = &order[0]
        lists.rows = <Line*>calloc(spec.rows, sizeof(Line))
        lists.cols = <Line*>calloc(spec.cols, sizeof(Line))
        if not lists.rows or not lists.cols:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t table, k
        cdef TableLists* lists
        # NULL where a constructor did not get so far, which free takes
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
        """Find the best state of a row or a column among those without a slot.

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
        """Best state along a line among those without a slot; -1: all have one.

        With sign < 0 it is the state of the least entry, for edges with negative
        weights.
        """
        cdef const TableSpec* spec = &self.specs[table]
        cdef Py_ssize_t n = spec.rows if column else spec.cols
        # lists are in descending order, and no help where the least is wanted
        if spec.kind == DENSE and self.of_table[table].rows != NULL and sign > 0:
            return self._first_outside(table, column, line, slots)
        if spec.kind == POTTS:
            return _outside_potts(line, n, (spec.agree > spec.differ) == (sign > 0),
                                  slots)
        # dense tables without lists, a column being strided
        if spec.kind == DENSE and column:
            return _scan_outside(spec.data + line, spec.cols, n, sign, slots)
        if spec.kind == DENSE:
            return _scan_outside(spec.data + line * spec.cols, 1, n, sign, slots)
        # distances: the score falls with each step from the line, up to the limit
        if sign > 0:
            return _nearest_outside(line, n, slots)
        return _farthest_outside(spec, line, n, slots)

    cdef Py_ssize_t _first_outside(self, Py_ssize_t table, bint column, Py_ssize_t line,
                                   const int32_t* slots) except -2 nogil:
        """The first state of a list without a slot; the list gets as deep as needed."""
        cdef const TableSpec* spec = &self.specs[table]
        cdef Py_ssize_t n = spec.rows if column else spec.cols
        cdef Py_ssize_t k, depth = FIRST_DEPTH
        cdef Line* found
        while True:
            found = self._line_of(table, column, line, depth)
            # from its beginning: a deeper list may order equal entries otherwise
            for k in range(found.depth):
                if slots[found.top[k]] < 0:
                    return found.top[k]
            # all states of the line have slots
            if found.depth == n:
                return -1
            depth = 2 * found.depth

    cdef Line* _line_of(self, Py_ssize_t table, bint column, Py_ssize_t line,
                        Py_ssize_t depth) except NULL nogil:
        """The list of a line, made deeper where it is less deep than asked for."""
        cdef const TableSpec* spec = &self.specs[table]
        cdef TableLists* lists = &self.of_table[table]
        cdef Py_ssize_t n = spec.rows if column else spec.cols, wanted = FIRST_DEPTH
        cdef Line* found
        # the columns of a symmetric table are its rows, which are contiguous: both
        # share their lists
        column = column and not spec.symmetric
        found = (lists.cols if column else lists.rows) + line
        if found.depth >= min(depth, n):
            return found
        # powers of two, so that what all searches together sort is at most twice the
        # deepest list
        while wanted < depth:
            wanted *= 2
        wanted = min(wanted, n)
        resize(<void**>&found.top, wanted * sizeof(int32_t))
        self.stored += wanted - found.depth
        self.visited += n
        _select_top(spec, column, line, n, found.top, wanted)
        found.depth = wanted
        return found


# ---- searches without a list ----

cdef Py_ssize_t _outside_potts(Py_ssize_t line, Py_ssize_t n, bint agree,
                               const int32_t* slots) noexcept nogil:
    """A state without a slot that agrees, or differs, with the line if there is one."""
    cdef Py_ssize_t k
    # all states that differ are equal: any of them will do
    if agree and slots[line] < 0:
        return line
    for k in range(n):
        if slots[k] < 0 and k != line:
            return k
    return line if slots[line] < 0 else -1


cdef Py_ssize_t _nearest_outside(Py_ssize_t line, Py_ssize_t n,
                                 const int32_t* slots) noexcept nogil:
    """The state without a slot that is nearest to the line; -1: there is none."""
    cdef Py_ssize_t distance
    # both sides are as good: the upper one is as good a choice as any
    for distance in range(n):
        if line + distance < n and slots[line + distance] < 0:
            return line + distance
        if line - distance >= 0 and slots[line - distance] < 0:
            return line - distance
    return -1


cdef Py_ssize_t _farthest_outside(const TableSpec* spec, Py_ssize_t line, Py_ssize_t n,
                                  const int32_t* slots) noexcept nogil:
    """The state without a slot with the least score by a formula; -1: there is none."""
    cdef Py_ssize_t k, best = -1
    cdef double score, least = 0.0
    for k in range(n):
        # states beyond the limit tie, and the first of them stays
        if slots[k] >= 0:
            continue
        score = entry_of(spec, line, k)
        if best < 0 or score < least:
            best, least = k, score
    return best


cdef Py_ssize_t _scan_outside(const double* entries, Py_ssize_t step, Py_ssize_t n,
                              double sign, const int32_t* slots) noexcept nogil:
    """The best state without a slot, by reading the whole line; -1: there is none."""
    cdef Py_ssize_t k, best = -1
    cdef double score, top = 0.0
    for k in range(n):
        if slots[k] >= 0:
            continue
        # negated, the least is the best
        score = sign * entries[k * step]
        if best < 0 or score > top:
            best, top = k, score
    return best


# ---- lists ----

cdef inline double _value(const TableSpec* spec, bint column, Py_ssize_t line,
                          Py_ssize_t k) noexcept nogil:
    """Entry k of a line of a dense table."""
    return spec.data[k * spec.cols + line if column else line * spec.cols + k]


cdef void _select_top(const TableSpec* spec, bint column, Py_ssize_t line, Py_ssize_t n,
                      int32_t* top, Py_ssize_t depth) noexcept nogil:
    """top = the indices of the `depth` largest of n entries, in descending order."""
    cdef Py_ssize_t k, i, size = 0
    cdef int32_t last
    cdef double value
    # a heap of the best so far, the least of them on top; earlier entries win ties
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
    # heapsort: the least of those left goes last each time, in the room that the heap
    # no longer needs
    while size > 1:
        size -= 1
        last = top[size]
        top[size] = top[0]
        _sift_down(spec, column, line, top, size, last)


cdef void _sift_down(const TableSpec* spec, bint column, Py_ssize_t line, int32_t* top,
                     Py_ssize_t size, int32_t k) noexcept nogil:
    """Replace the top of a heap by k."""
    cdef Py_ssize_t i = 0, child
    cdef double value = _value(spec, column, line, k)
    while True:
        # what is in the way moves up, until k fits
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
