"""Sorted lists of the entries of tables, made when they are asked for.

Huang et al. (2017), Section 3.2, find the best entry of a table outside of a few states
by lists that are sorted beforehand. Here a row or a column is sorted when it is first
asked for, eight entries deep and then twice as deep each time, once for all factors
that share the table. Tables given by a formula need no lists.
"""

import numpy as np

from libc.stdlib cimport calloc, free, realloc

from sksstruct.inference.lp.core._problem cimport DENSE, POTTS, MAPProblem, entry_of


cdef inline double _value(const TableSpec* t, bint column, Py_ssize_t line,
                          Py_ssize_t k) noexcept nogil:
    return t.data[k * t.cols + line] if column else t.data[line * t.cols + k]


cdef class Lists:
    """Lists of all tables of a problem.

    Parameters
    ----------
    problem : Problem
        The graph; it must stay alive.
    sorted_lines : bool, default=True
        Whether lists are made at all; else every search reads whole lines.

    Attributes
    ----------
    visited : int
        Entries of tables that were looked at to make lists.
    stored : int
        Entries of lists.
    """

    def __cinit__(self, MAPProblem problem, bint sorted_lines=True):
        cdef Py_ssize_t t, n = len(problem.graph.tables)
        cdef int32_t[::1] order
        cdef const double[::1] high
        self._keep = [problem]
        self.specs = problem.specs
        self.n_tables = n
        self.lists = <TopLists*>calloc(max(1, n), sizeof(TopLists))
        if not self.lists:
            raise MemoryError
        for t in range(n):
            if (self.specs[t].kind != DENSE or self.specs[t].row_high == NULL
                    or not sorted_lines):
                continue
            high = <double[:self.specs[t].rows]>self.specs[t].row_high
            order = np.argsort(-np.asarray(high), kind="stable").astype(np.int32)
            self._keep.append(order)
            self.lists[t].by_high = &order[0]
            self.lists[t].rows = <Line*>calloc(self.specs[t].rows, sizeof(Line))
            self.lists[t].cols = <Line*>calloc(self.specs[t].cols, sizeof(Line))
            if not self.lists[t].rows or not self.lists[t].cols:
                raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t t, k
        if not self.lists:
            return
        for t in range(self.n_tables):
            if self.lists[t].rows:
                for k in range(self.specs[t].rows):
                    free(self.lists[t].rows[k].top)
            if self.lists[t].cols:
                for k in range(self.specs[t].cols):
                    free(self.lists[t].cols[k].top)
            free(self.lists[t].rows)
            free(self.lists[t].cols)
        free(self.lists)

    def best_outside(self, Py_ssize_t table, Py_ssize_t line, const int32_t[::1] slots,
                     bint column=False):
        """Best state along a row or a column among those without a slot.

        Parameters
        ----------
        table, line : int
            Table, and row or column.
        slots : ndarray of int32
            Not negative for states that are left out.
        column : bool, default=False
            Whether the line is a column.

        Returns
        -------
        state : int
            The state, or -1 where all are left out.
        """
        return self.outside(table, column, line, 1.0, &slots[0])

    cdef Line* line_of(self, Py_ssize_t t, bint column, Py_ssize_t line,
                       Py_ssize_t depth) noexcept nogil:
        """A line's list, at least so deep; NULL where memory is out."""
        cdef const TableSpec* spec = &self.specs[t]
        cdef Py_ssize_t n = spec.rows if column else spec.cols
        cdef Py_ssize_t k, i, size, wanted = 8
        cdef int32_t* top
        cdef int32_t last
        cdef double c
        if spec.symmetric:
            column = False
        cdef Line* lists = (self.lists[t].cols if column
                            else self.lists[t].rows) + line
        if lists.depth >= min(depth, n):
            return lists
        while wanted < depth:
            wanted *= 2
        wanted = min(wanted, n)
        top = <int32_t*>realloc(lists.top, wanted * sizeof(int32_t))
        if not top:
            return NULL
        lists.top = top
        self.stored += wanted - lists.depth
        self.visited += n
        # a heap of the best so far, the least of them on top; earlier entries win ties
        size = 0
        for k in range(n):
            c = _value(spec, column, line, k)
            if size < wanted:
                i = size
                size += 1
                while i and _value(spec, column, line, top[(i - 1) // 2]) >= c:
                    top[i] = top[(i - 1) // 2]
                    i = (i - 1) // 2
                top[i] = k
            elif c > _value(spec, column, line, top[0]):
                _sift(spec, column, line, top, size, k)
        # and in descending order
        while size > 1:
            size -= 1
            last = top[size]
            top[size] = top[0]
            _sift(spec, column, line, top, size, last)
        lists.depth = wanted
        return lists

    cdef Py_ssize_t outside(self, Py_ssize_t t, bint column, Py_ssize_t line,
                            double sign, const int32_t* slots) noexcept nogil:
        """Best state along a line among those without a slot; -1: all have one.

        With sign < 0 it is the state of the least entry, for tables of two values.
        """
        cdef const TableSpec* spec = &self.specs[t]
        cdef Py_ssize_t n = spec.rows if column else spec.cols
        cdef Py_ssize_t k, d, depth = 8, best = -1
        cdef double c, top = 0.0
        cdef Line* found
        if spec.kind == DENSE and self.lists[t].rows != NULL and sign > 0:
            k = 0
            while True:
                found = self.line_of(t, column, line, depth)
                if found == NULL:
                    return -1
                while k < found.depth:
                    if slots[found.top[k]] < 0:
                        return found.top[k]
                    k += 1
                if found.depth == n:
                    return -1
                # deeper lists may have another order among equal entries
                k, depth = 0, 2 * found.depth
        if spec.kind == POTTS:
            if (spec.a > spec.b) == (sign > 0) and slots[line] < 0:
                return line
            for k in range(n):
                if slots[k] < 0:
                    if k != line:
                        return k
                    best = k
            return best
        if spec.kind != DENSE and sign > 0:
            # the nearest state
            for d in range(n):
                if line + d < n and slots[line + d] < 0:
                    return line + d
                if line - d >= 0 and slots[line - d] < 0:
                    return line - d
            return -1
        for k in range(n):
            if slots[k] >= 0:
                continue
            c = sign * (entry_of(spec, k, line) if column
                        else entry_of(spec, line, k))
            if best < 0 or c > top:
                best, top = k, c
        return best


cdef void _sift(const TableSpec* spec, bint column, Py_ssize_t line, int32_t* top,
                Py_ssize_t size, int32_t k) noexcept nogil:
    """Put k in the place of the heap's top."""
    cdef Py_ssize_t i = 0, child
    cdef double c = _value(spec, column, line, k)
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and (_value(spec, column, line, top[child + 1])
                                 < _value(spec, column, line, top[child])):
            child += 1
        if _value(spec, column, line, top[child]) >= c:
            break
        top[i] = top[child]
        i = child
    top[i] = k
