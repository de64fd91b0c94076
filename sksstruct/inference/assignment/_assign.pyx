"""Best assignments of rows to columns, and a search for the k best ones.

The rows are assigned one after the other, each along the shortest path to a free column
(Jonker and Volgenant, 1987, as Crouse, "On implementing 2D rectangular assignment
algorithms", IEEE Transactions on Aerospace and Electronic Systems 52(4), 2016, has it).
Ties are broken as by `scipy.optimize.linear_sum_assignment`, whose assignments these
are: a free column comes before others, and then the order of a list, which columns are
taken out of and filled up from its end.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.inference.assignment._paths cimport add_paths, paths_memory
from sksstruct.inference.search._bmmf cimport BestFirst

from sksstruct.utils._layout import aligned_zeros


cdef struct Labels:
    # Dual prices of rows and columns; of each column: the length of the shortest path
    # to it, the row before it on this path, and its own row, or -1; and the columns
    # that no path was completed to, with the others behind them.
    double* row_price
    double* column_price
    double* length
    Py_ssize_t* before
    Py_ssize_t* row
    Py_ssize_t* remaining


cdef Py_ssize_t assignment_memory(Py_ssize_t n_columns) noexcept nogil:
    """Return how many numbers of memory `assign` needs."""
    return 6 * n_columns


cdef Py_ssize_t shortest_path(Py_ssize_t n_columns, const double* scores,
                              Py_ssize_t start, Labels* labels) noexcept nogil:
    """Find the shortest path from a row to a free column; -1 if there is none.

    Columns that are on shorter paths are at the end of those remaining, the free one
    before them.
    """
    cdef Py_ssize_t n_remaining = n_columns, row = start, k, column, place
    cdef double reached = 0.0, length, least
    # in reverse order, so that equal scores give the identity
    for k in range(n_columns):
        labels.remaining[k] = n_columns - 1 - k
        labels.length[k] = INFINITY
    while True:
        least, place = INFINITY, -1
        for k in range(n_remaining):
            column = labels.remaining[k]
            length = (reached - scores[row * n_columns + column]
                      - labels.row_price[row] - labels.column_price[column])
            if length < labels.length[column]:
                labels.length[column], labels.before[column] = length, row
            if labels.length[column] < least or (
                    labels.length[column] == least and labels.row[column] < 0):
                least, place = labels.length[column], k
        if least == INFINITY:
            return -1
        reached, column = least, labels.remaining[place]
        n_remaining -= 1
        labels.remaining[place] = labels.remaining[n_remaining]
        labels.remaining[n_remaining] = column
        if labels.row[column] < 0:
            return n_remaining
        row = labels.row[column]


cdef bint assign(Py_ssize_t n_rows, Py_ssize_t n_columns, const double* scores,
                 double* memory, Py_ssize_t* columns) noexcept nogil:
    """Find the best assignment; False if none is allowed.

    Parameters
    ----------
    n_rows, n_columns : int
        Sizes; no more rows than columns.
    scores : double*
        Scores of pairs, row by row; -inf forbids a pair.
    memory : double*
        `assignment_memory` numbers.
    columns : Py_ssize_t*
        Written: the column of each row.
    """
    cdef Labels labels
    cdef Py_ssize_t start, k, first, column, row, last
    cdef double least
    labels.row_price, labels.column_price = memory, memory + n_columns
    labels.length = memory + 2 * n_columns
    labels.before = <Py_ssize_t*> (memory + 3 * n_columns)
    labels.row, labels.remaining = (
        labels.before + n_columns, labels.before + 2 * n_columns)
    for k in range(n_columns):
        labels.row_price[k] = labels.column_price[k] = 0.0
        labels.row[k] = -1
    for start in range(n_rows):
        first = shortest_path(n_columns, scores, start, &labels)
        if first < 0:
            return False
        last = labels.remaining[first]
        least = labels.length[last]
        # pairs on the path are as good as each other at these prices
        labels.row_price[start] += least
        for k in range(first + 1, n_columns):
            column = labels.remaining[k]
            labels.row_price[labels.row[column]] += least - labels.length[column]
            labels.column_price[column] -= least - labels.length[column]
        # every row on the path moves on to the next column of it
        while True:
            row = labels.before[last]
            labels.row[last] = row
            column = columns[row]
            columns[row] = last
            last = column
            if row == start:
                break
    return True


cdef class AssignmentSearch(BestFirst):
    """The k best assignments of scores, as `bmmf` finds them.

    Parameters
    ----------
    n_rows, n_columns : int
        Sizes.
    alone : bool
        Whether rows may stay without a column. This is the state n_columns then.
    """

    def __init__(self, Py_ssize_t n_rows, Py_ssize_t n_columns, bint alone):
        cdef Py_ssize_t row, n_states = n_columns + alone
        cdef double[::1] floats
        cdef Py_ssize_t[::1] columns
        cdef unsigned char[::1] taken
        self.n_rows, self.n_columns, self.alone = n_rows, n_columns, alone
        # a column of its own for each row that stays without one
        self._width = n_columns + n_rows if alone else n_columns
        size = n_rows * self._width
        n_paths = paths_memory(n_rows)
        floats = aligned_zeros(n_paths + size + assignment_memory(self._width))
        columns, taken = np.zeros(n_rows, np.intp), np.zeros(self._width, np.uint8)
        self._arrays = floats, columns, taken
        self._paths, self._extended = &floats[0], &floats[0] + <Py_ssize_t> n_paths
        self._memory = self._extended + <Py_ssize_t> size
        self._columns, self._taken = &columns[0], &taken[0]
        self.begin(n_rows, n_rows * n_states)
        for row in range(n_rows + 1):
            self.first[row] = row * n_states

    cdef bint _solve(self, const double* scores) noexcept nogil:
        """Find the best assignment, in columns of the extended scores."""
        cdef Py_ssize_t row, column, n_states = self.n_columns + self.alone
        # the last score of a row counts for all its extra columns
        for row in range(self.n_rows):
            for column in range(self._width):
                self._extended[row * self._width + column] = scores[
                    row * n_states + min(column, n_states - 1)]
        return assign(
            self.n_rows, self._width, self._extended, self._memory, self._columns)

    cdef double _total(self) noexcept nogil:
        """The score of the best assignment."""
        cdef Py_ssize_t row
        cdef double total = 0.0
        for row in range(self.n_rows):
            total += self._extended[row * self._width + self._columns[row]]
        return total

    cdef double max_product(self, const double* scores,
                            int32_t* labeling) except? -1 nogil:
        cdef Py_ssize_t row
        if not self._solve(scores):
            return -INFINITY
        for row in range(self.n_rows):
            labeling[row] = <int32_t> min(self._columns[row], self.n_columns)
        return self._total()

    cdef int max_marginals(self, const double* scores, double* table) except -1 nogil:
        cdef Py_ssize_t row, column, k, n_states = self.n_columns + self.alone
        for k in range(self.n_entries):
            table[k] = -INFINITY
        if not self._solve(scores):
            return 0
        add_paths(self.n_rows, self._width, self._extended, self._columns,
                  self._total(), self._taken, self._paths)
        # a row's extra columns are as good as each other: it is without in all of them
        for row in range(self.n_rows):
            for column in range(self._width):
                k = row * n_states + min(column, n_states - 1)
                table[k] = max(table[k], self._extended[row * self._width + column])
        return 0
