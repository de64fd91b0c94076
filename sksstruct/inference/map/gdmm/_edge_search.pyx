"""The search (8) of Algorithm 1: the entry of steepest descent of one edge.

X. Huang et al. (2017), Section 3.2. The descent of entry (j, k) of y_f is theta_f(j, k)
- d_uf(j) - d_vf(k), where the gradients d are zero for states without a slot. There are
four kinds of entries: active ones; pairs of states with slots; pairs with one slot, for
which sorted lists have the best partner; and pairs without slots, of which the best by
the lists suffices. The kinds are searched in this order, each as far as it may contain
a better entry than the best so far. The ends u and v of the edge are sides 0 and 1.
"""

import numpy as np

cimport cython
from libc.math cimport INFINITY

from sksstruct.inference.map.core._tables cimport DENSE, POTTS, entry_of


@cython.final
cdef class EntrySearch:
    """Search for the entry of steepest descent (8) in the table of an edge.

    Parameters
    ----------
    problem : MAPProblem
        The graph.
    lists : Lists
        Sorted lists of the graph's tables.

    Attributes
    ----------
    looked_up : int
        Number of table entries read.
    """

    def __cinit__(self, Problem problem, Lists lists):
        self._lists = lists
        # workspace: slots of one end in ascending order of gradients
        self._order = np.empty(problem.max_states, dtype=np.int32)

    cdef int run(self, SlotState state, Problem problem, Py_ssize_t edge,
                 const double* first, const double* second,
                 Search* search) except -1 nogil:
        """Write an edge's entry of largest descent to `search`.

        The descent of entry (j, k) is theta_f(j, k) - first(j) - second(k).
        """
        cdef Py_ssize_t side, variable
        search.table_index = problem.table_of[edge]
        search.table = &problem.specs[search.table_index]
        search.weight = problem.weight(edge)
        search.sign = 1.0 if search.weight >= 0 else -1.0
        search.bounded = (self._lists.of_table[search.table_index].rows != NULL
                          and search.weight > 0)
        search.gradient[0], search.gradient[1] = first, second
        search.best, search.row, search.col = -INFINITY, 0, 0
        for side in range(2):
            variable = problem.ends[edge][side]
            search.n_states[side] = problem.states[variable]
            search.n_slots[side] = state._n_slots[variable]
            search.state[side] = state._state[variable]
            search.slot[side] = &state._slot[problem.first[variable]]
        # active entries are first, because one of them usually is close to the best
        # entry: bounds then end the other searches early
        _search_active(search, &state._active[edge])
        self._search_slots(search)
        for side in range(2):
            if search.n_slots[1 - side] < search.n_states[1 - side]:
                self._search_half_slots(search, side)
        if (search.n_slots[0] < search.n_states[0]
                and search.n_slots[1] < search.n_states[1]):
            self._search_rest(search)
        return 0

    cdef void _search_slots(self, Search* search) noexcept nogil:
        """Search the entries (j, k) where both states have slots."""
        cdef const TableSpec* table = search.table
        cdef const double* second = search.gradient[1]
        cdef const int32_t* cols = search.state[1]
        cdef Py_ssize_t i, j, k, row, n = search.n_slots[1]
        cdef double weight = search.weight, first, high, low, score
        # states of the second end are in ascending order of gradients: the search of a
        # row ends at the first state whose upper bound is not above the best descent so
        # far
        self._sort(second, n)
        low = second[self._order[0]]
        for i in range(search.n_slots[0]):
            row, first = search.state[0][i], search.gradient[0][i]
            high = weight * table.row_high[row] - first if search.bounded else INFINITY
            # no entry of this row has a larger descent than the best one so far
            if high - low <= search.best:
                continue
            for k in range(n):
                j = self._order[k]
                if high - second[j] <= search.best:
                    break
                score = weight * entry_of(table, row, cols[j]) - first - second[j]
                _offer(search, score, row, cols[j])
            self.looked_up += k + 1

    cdef int _search_half_slots(self, Search* search, Py_ssize_t side) except -1 nogil:
        """Search the entries whose state at `side` has a slot, and the other one none.
        """
        cdef const double* high = (search.table.row_high if side == 0
                                   else search.table.col_high)
        # a line is the row of a state of the first end (side 0), or the column of a
        # state of the second end (side 1)
        cdef Py_ssize_t i, line, other, row, col
        cdef double gradient
        for i in range(search.n_slots[side]):
            line, gradient = search.state[side][i], search.gradient[side][i]
            if search.bounded and search.weight * high[line] - gradient <= search.best:
                continue
            # states without slots at the other side have gradient zero, so that the
            # largest table entry of the line among them has the largest descent
            other = self._lists.outside(search.table_index, side == 1, line,
                                        search.sign, search.slot[1 - side])
            self.looked_up += 1
            if other >= 0:
                row, col = (line, other) if side == 0 else (other, line)
                _offer(search, search.weight * entry_of(search.table, row, col)
                       - gradient, row, col)
        return 0

    cdef int _search_rest(self, Search* search) except -1 nogil:
        """Search the entries (j, k) where neither state has a slot."""
        cdef const TableSpec* table = search.table
        cdef Py_ssize_t k, row, col
        for k in range(search.n_states[0]):
            # rows are read in descending order of their largest entries, if the largest
            # entries are known
            row = k
            if search.bounded:
                row = self._lists.of_table[search.table_index].by_high[k]
            if search.slot[0][row] >= 0:
                continue
            # the largest entries of all later rows are no larger
            if search.bounded and search.weight * table.row_high[row] <= search.best:
                return 0
            col = self._lists.outside(search.table_index, False, row, search.sign,
                                      search.slot[1])
            self.looked_up += 1
            if col < 0:
                continue
            _offer(search, search.weight * entry_of(table, row, col), row, col)
            # a table given by a formula has no row bounds: the search ends at an entry
            # that is the formula's maximum
            if search.sign > 0 and _is_best_of_formula(table, row, col):
                return 0
        return 0

    cdef void _sort(self, const double* values, Py_ssize_t n) noexcept nogil:
        """Write the indices of the values, in ascending order of values, to `_order`.
        """
        # Shell sort: in place, and fast for some dozens of values
        cdef Py_ssize_t gap = 1, i, k
        cdef int32_t* order = &self._order[0]
        cdef int32_t index
        # begin with the identity, as the last order belongs to another edge
        for i in range(n):
            order[i] = i
        while gap < n // 3:
            gap = 3 * gap + 1
        while gap > 0:
            for i in range(gap, n):
                index = order[i]
                k = i
                while k >= gap and values[order[k - gap]] > values[index]:
                    order[k] = order[k - gap]
                    k -= gap
                order[k] = index
            gap //= 3


cdef inline void _offer(Search* search, double score, Py_ssize_t row,
                        Py_ssize_t col) noexcept nogil:
    """Make (row, col) the best entry so far if its descent, `score`, is larger."""
    # of entries with equal descent the earlier one stays, so that searches are
    # reproducible
    if score > search.best:
        search.best, search.row, search.col = score, row, col


cdef void _search_active(Search* search, const Active* active) noexcept nogil:
    """Search the active entries of the edge's marginals y_f."""
    cdef Py_ssize_t k, i, j, row, col
    # active entries are few, and contain the best entry at convergence
    for k in range(active.count):
        i, j = active.slot[2 * k], active.slot[2 * k + 1]
        row, col = search.state[0][i], search.state[1][j]
        _offer(search, search.weight * entry_of(search.table, row, col)
               - search.gradient[0][i] - search.gradient[1][j], row, col)


cdef inline bint _is_best_of_formula(const TableSpec* table, Py_ssize_t row,
                                     Py_ssize_t col) noexcept nogil:
    """Return whether a table is given by a formula that is largest at (row, col)."""
    if table.kind == DENSE:
        return False
    if table.kind == POTTS:
        return (row == col) == (table.agree > table.differ)
    # entries fall with the distance of the two states, which is zero on the diagonal
    return row == col
