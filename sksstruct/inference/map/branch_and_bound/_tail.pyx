"""Elimination of open variables with at most two neighbors, which need no branching.

At nodes with few open variables, `peel` eliminates variables with at most two open
neighbors, which become neighbors of each other (variable elimination during search;
Larrosa and Dechter, Boosting search with variable elimination in constraint
optimization, Constraints 8, 2003). The remaining variables are the core, and a search
branches on the core only. At a leaf the core is empty, and `solve` finds the best
values of all open variables by dynamic programming with tables of two variables.
"""

cimport cython
from libc.stdlib cimport free

from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport int32s, uint8s


@cython.final
cdef class Tail:
    """Elimination of the open variables of a network, with its workspace."""

    def __cinit__(self, arrays):
        self._owned = arrays
        self.core, self.value = uint8s(arrays.core), int32s(arrays.value)
        self._place = int32s(arrays.place)

    def __dealloc__(self):
        free(self._entries)
        free(self._unary)
        free(self._choices)

    cdef Py_ssize_t peel(self, Consistency network) noexcept nogil:
        """Find the core; return its size, or -1 if too many variables are open."""
        cdef Py_ssize_t variable, k, a, b, c, n_left
        # places number the open variables, so that the arrays of pairs stay small
        self._n_open = 0
        for variable in range(network.n_variables):
            self._place[variable] = -1
            if network.size[variable] > 1:
                if self._n_open == MOST_OPEN:
                    return -1
                self._place[variable] = self._n_open
                self._open[self._n_open] = variable
                self._n_open += 1
        self._connect(network)
        # repeat passes, as a variable that loses a neighbor may become eliminable
        n_left, self._n_gone, k = self._n_open, 0, -1
        while k != self._n_gone:
            k = self._n_gone
            for a in range(self._n_open):
                if self._degree[a] > 2 or self._degree[a] < 0:
                    continue
                # a single neighbor receives costs, a pair of neighbors receives a table
                b = self._neighbors[a][0] if self._degree[a] > 0 else -1
                c = self._neighbors[a][1] if self._degree[a] > 1 else -1
                self._order[self._n_gone] = a
                self._near[self._n_gone][0], self._near[self._n_gone][1] = b, c
                self._n_gone += 1
                if b >= 0:
                    self._unlink(b, a)
                if c >= 0:
                    self._unlink(c, a)
                    self._link(b, c)
                # later passes skip places of negative degree
                self._degree[a] = -1
                self.core[self._open[a]] = 0
                n_left -= 1
        return n_left

    cdef void _connect(self, Consistency network) noexcept nogil:
        """Link pairs of open variables; leave variables of larger factors in the core.
        """
        cdef Py_ssize_t a, b, i, k, variable, factor, n, first
        # the links of another node are dropped, as its open variables differ
        for a in range(self._n_open):
            self._degree[a] = 0
            for b in range(self._n_open):
                self._linked[a][b] = 0
        for a in range(self._n_open):
            variable = self._open[a]
            self.core[variable] = 1
            network.work += network.in_first[variable + 1] - network.in_first[variable]
            for i in range(network.in_first[variable], network.in_first[variable + 1]):
                factor, n, first = network.in_factor[i], 0, -1
                # a larger factor is a pair once the rest of its scope is decided
                for k in range(network.scope_first[factor],
                               network.scope_first[factor + 1]):
                    b = self._place[network.scope[k]]
                    if b >= 0 and b != a:
                        first, n = b, n + 1
                if n == 1:
                    self._link(a, first)
                elif n > 1:
                    # with three or more open variables in a factor, the degree prevents
                    # elimination
                    self._degree[a] += MOST_OPEN

    cdef void _link(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        """Make two places neighbors."""
        if self._linked[a][b]:
            return
        self._linked[a][b] = self._linked[b][a] = 1
        # variables of larger factors have a degree of at least MOST_OPEN; their lists
        # of neighbors are not read
        if self._degree[a] < MOST_OPEN:
            self._neighbors[a][self._degree[a]] = b
        if self._degree[b] < MOST_OPEN:
            self._neighbors[b][self._degree[b]] = a
        self._degree[a] += 1
        self._degree[b] += 1

    cdef void _unlink(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        """Remove b from the neighbors of a."""
        cdef Py_ssize_t i
        self._linked[a][b] = self._linked[b][a] = 0
        self._degree[a] -= 1
        if self._degree[a] >= MOST_OPEN - 1:
            return
        for i in range(self._degree[a]):
            # the last neighbor of the list replaces `b`
            if self._neighbors[a][i] == b:
                self._neighbors[a][i] = self._neighbors[a][self._degree[a]]
                break

    # ---- elimination ----

    cdef int64_t solve(self, Consistency network) except -1 nogil:
        """Find the best values of all variables, with an empty core; return their cost.
        """
        cdef int64_t total = network.c0
        cdef Py_ssize_t k
        # elimination changes copies of the costs: the network stays as it is
        self._load(network)
        for k in range(self._n_gone):
            total += self._eliminate(network, k)
            # costs are at least 0: the total can only rise
            if total >= network.limit:
                return total
        self._read_off(network)
        return total

    cdef int _load(self, Consistency network) except -1 nogil:
        """Copy the costs of all open variables and of the factors that link them."""
        cdef Py_ssize_t a, b, i, k, variable, factor, other
        # the memory is reused from leaf to leaf
        self._n_entries = self._n_choices = self._first[0] = 0
        for a in range(self._n_open):
            self._first[a + 1] = self._first[a] + network.size[self._open[a]]
            for b in range(self._n_open):
                self._offset[a][b] = -1
        reserve(<void**>&self._unary, &self._unary_capacity,
                self._first[self._n_open] + 1, sizeof(int64_t))
        for a in range(self._n_open):
            variable = self._open[a]
            # tables of this file are indexed by the positions of alive values in
            # `values`
            for k in range(network.size[variable]):
                self._unary[self._first[a] + k] = network.unary[
                    network.first[variable]
                    + network.values[network.first[variable] + k]]
            for i in range(network.in_first[variable], network.in_first[variable + 1]):
                factor, other = network.in_factor[i], -1
                for k in range(network.scope_first[factor],
                               network.scope_first[factor + 1]):
                    b = self._place[network.scope[k]]
                    if b >= 0 and b != a:
                        other = b
                # each factor once; with an empty core no factor is larger than a pair
                if a < other:
                    self._add_factor(network, factor, a, other)
        return 0

    cdef Py_ssize_t _table(self, Consistency network, Py_ssize_t a,
                           Py_ssize_t b) except -1 nogil:
        """Return the offset of the table of places a < b; a new table is all zeros."""
        cdef Py_ssize_t k, size
        if self._offset[a][b] < 0:
            size = network.size[self._open[a]] * network.size[self._open[b]]
            reserve(<void**>&self._entries, &self._capacity, self._n_entries + size,
                    sizeof(int64_t))
            self._offset[a][b] = self._n_entries
            for k in range(size):
                self._entries[self._n_entries + k] = 0
            self._n_entries += size
        return self._offset[a][b]

    cdef int _add_factor(self, Consistency network, Py_ssize_t factor,
                         Py_ssize_t a, Py_ssize_t b) except -1 nogil:
        """Add the costs of a factor with two open variables, a < b."""
        cdef Py_ssize_t begin = self._table(network, a, b), i, j, k, at, value, variable
        cdef Py_ssize_t va = self._open[a], vb = self._open[b]
        cdef int64_t cost
        for i in range(network.size[va]):
            for j in range(network.size[vb]):
                # decided variables have one alive value, at the first seat
                at = cost = 0
                for k in range(network.scope_first[factor],
                               network.scope_first[factor + 1]):
                    variable = network.scope[k]
                    value = network.values[network.first[variable] + (
                        i if variable == va else j if variable == vb else 0)]
                    at = at * (network.first[variable + 1] - network.first[variable])
                    at += value
                    cost -= network.delta[network.delta_first[k] + value]
                cost += network.tables[factor][at]
                self._entries[begin + i * network.size[vb] + j] += min(
                    cost, network.limit)
        network.work += network.size[va] * network.size[vb]
        return 0

    cdef inline int64_t _pair_cost(self, Consistency network,
                                   Py_ssize_t a, Py_ssize_t i,
                                   Py_ssize_t b, Py_ssize_t j) noexcept nogil:
        """Return the cost of values i and j of the variables at places a and b."""
        if a < b:
            return self._entries[
                self._offset[a][b] + i * network.size[self._open[b]] + j]
        return self._entries[self._offset[b][a] + j * network.size[self._open[a]] + i]

    cdef int64_t _eliminate(self, Consistency network, Py_ssize_t k) except -1 nogil:
        """Replace the variable that is k-th in the order by costs of its neighbors.

        Returns the variable's least cost if it has no neighbors, and 0 otherwise.
        """
        cdef Py_ssize_t a = self._order[k], b = self._near[k][0], c = self._near[k][1]
        cdef Py_ssize_t n = network.size[self._open[a]], i, j, h, begin, n_b, n_c
        cdef Py_ssize_t best
        cdef int64_t least, cost, part
        # tables have their lower place on the first axis
        if c >= 0 and c < b:
            b, c = c, b
            self._near[k][0], self._near[k][1] = b, c
        n_b = network.size[self._open[b]] if b >= 0 else 1
        n_c = network.size[self._open[c]] if c >= 0 else 1
        begin = self._table(network, b, c) if c >= 0 else 0
        # backpointers: the best value for each pair of values of the neighbors
        reserve(<void**>&self._choices, &self._choices_capacity,
                self._n_choices + n_b * n_c, sizeof(int32_t))
        self._choices_begin[k] = self._n_choices
        network.work += n * n_b * n_c
        least = 0
        for i in range(n_b):
            for j in range(n_c):
                least, best = network.limit, 0
                for h in range(n):
                    cost = self._unary[self._first[a] + h]
                    # unary cost, plus the costs of at most two tables
                    if b >= 0:
                        cost += self._pair_cost(network, a, h, b, i)
                    if c >= 0:
                        cost += self._pair_cost(network, a, h, c, j)
                    if cost < least:
                        least, best = cost, h
                self._choices[self._n_choices + i * n_c + j] = best
                # costs are capped at the limit, as sums of forbidden costs would
                # overflow
                if c >= 0:
                    part = self._entries[begin + i * n_c + j] + least
                    self._entries[begin + i * n_c + j] = min(part, network.limit)
                elif b >= 0:
                    self._unary[self._first[b] + i] += least
        # without neighbors the least cost is part of every labeling's cost
        self._n_choices += n_b * n_c
        return least if b < 0 else 0

    cdef void _read_off(self, Consistency network) noexcept nogil:
        """Follow the backpointers, from the variable eliminated last to the first."""
        cdef Py_ssize_t k, a, b, c, choice, variable
        # chosen value at each place, in the array of the degrees, which are not needed
        cdef int32_t* chosen = self._degree
        # decided variables have a single value
        for variable in range(network.n_variables):
            self.value[variable] = network.values[network.first[variable]]
        for k in range(self._n_gone - 1, -1, -1):
            a, b, c = self._order[k], self._near[k][0], self._near[k][1]
            choice = 0
            # neighbors were eliminated later, and have their values already
            if b >= 0:
                choice = chosen[b]
            if c >= 0:
                choice = choice * network.size[self._open[c]] + chosen[c]
            chosen[a] = self._choices[self._choices_begin[k] + choice]
            variable = self._open[a]
            self.value[variable] = network.values[network.first[variable] + chosen[a]]
