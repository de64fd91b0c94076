"""Variables that need no branching: eliminated one by one, at most two neighbors each.

Where few variables are open, those with at most two open neighbors go, and link these
(variable elimination during search; Larrosa and Dechter, Boosting search with variable
elimination in constraint optimization, Constraints 8, 2003). What is left is the core:
a search branches on it only. Where nothing is left, the best values of all are found by
elimination, in tables of two variables.
"""

cimport cython
from libc.stdlib cimport free

from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport int32s, uint8s


@cython.final
cdef class Tail:
    """Scratch for the open variables of a network."""

    def __cinit__(self, arrays):
        self._owned = arrays
        self.core, self.value = uint8s(arrays.core), int32s(arrays.value)
        self._place = int32s(arrays.place)

    def __dealloc__(self):
        free(self._entries)
        free(self._unary)
        free(self._choices)

    cdef Py_ssize_t peel(self, Consistency network) noexcept nogil:
        """Find the core; its size, or -1 where too many variables are open."""
        cdef Py_ssize_t variable, k, a, b, c, n_left
        # places number the open variables, so that what follows is small
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
        # in passes: who loses a neighbor may go in the next one
        n_left, self._n_gone, k = self._n_open, 0, -1
        while k != self._n_gone:
            k = self._n_gone
            for a in range(self._n_open):
                if self._degree[a] > 2 or self._degree[a] < 0:
                    continue
                # one neighbor gets a cost, two get a table of both
                b = self._around[a][0] if self._degree[a] > 0 else -1
                c = self._around[a][1] if self._degree[a] > 1 else -1
                self._gone[self._n_gone] = a
                self._next[self._n_gone][0], self._next[self._n_gone][1] = b, c
                self._n_gone += 1
                if b >= 0:
                    self._unlink(b, a)
                if c >= 0:
                    self._unlink(c, a)
                    self._link(b, c)
                # gone: no pass looks at it again
                self._degree[a] = -1
                self.core[self._open[a]] = 0
                n_left -= 1
        return n_left

    cdef void _connect(self, Consistency network) noexcept nogil:
        """Link open variables that share a factor; those in larger ones stay."""
        cdef Py_ssize_t a, b, i, k, variable, factor, n, first
        # from scratch at every node, as fewer variables are open each time
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
                # factors of any size are pairs once the rest of their scope is decided
                for k in range(network.scope_first[factor],
                               network.scope_first[factor + 1]):
                    b = self._place[network.scope[k]]
                    if b >= 0 and b != a:
                        first, n = b, n + 1
                if n == 1:
                    self._link(a, first)
                elif n > 1:
                    # too many neighbors, whatever they are
                    self._degree[a] += MOST_OPEN

    cdef void _link(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        """Make two places neighbors."""
        if self._linked[a][b]:
            return
        # both ways, so that either end can be asked
        self._linked[a][b] = self._linked[b][a] = 1
        # lists of variables in larger factors are not read
        if self._degree[a] < MOST_OPEN:
            self._around[a][self._degree[a]] = b
        if self._degree[b] < MOST_OPEN:
            self._around[b][self._degree[b]] = a
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
            # the last one takes its seat
            if self._around[a][i] == b:
                self._around[a][i] = self._around[a][self._degree[a]]
                break

    # ---- elimination ----

    cdef int64_t solve(self, Consistency network) except -1 nogil:
        """Give all variables their best values, where there is no core; their cost."""
        cdef int64_t total = network.c0
        cdef Py_ssize_t k
        # tables are copies: the network stays as it is
        self._load(network)
        for k in range(self._n_gone):
            total += self._eliminate(network, k)
            # whatever comes next only adds to it
            if total >= network.limit:
                return total
        self._read_off(network)
        return total

    cdef int _load(self, Consistency network) except -1 nogil:
        """Copy the costs of all open variables and of the factors between them."""
        cdef Py_ssize_t a, b, i, k, variable, factor, other
        # room is kept from one leaf to the next
        self._n_entries = self._n_choices = self._first[0] = 0
        for a in range(self._n_open):
            self._first[a + 1] = self._first[a] + network.size[self._open[a]]
            for b in range(self._n_open):
                self._begin[a][b] = -1
        reserve(<void**>&self._unary, &self._unary_capacity,
                self._first[self._n_open] + 1, sizeof(int64_t))
        for a in range(self._n_open):
            variable = self._open[a]
            # in the order of the values that are alive, as all tables here
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
                # each factor once; there are no larger ones
                if a < other:
                    self._add_factor(network, factor, a, other)
        return 0

    cdef Py_ssize_t _table(self, Consistency network, Py_ssize_t a,
                           Py_ssize_t b) except -1 nogil:
        """Where the table of two places begins, the first one lower; zeros if new."""
        cdef Py_ssize_t k, size
        # made when the first cost is added
        if self._begin[a][b] < 0:
            size = network.size[self._open[a]] * network.size[self._open[b]]
            reserve(<void**>&self._entries, &self._capacity, self._n_entries + size,
                    sizeof(int64_t))
            self._begin[a][b] = self._n_entries
            for k in range(size):
                self._entries[self._n_entries + k] = 0
            self._n_entries += size
        return self._begin[a][b]

    cdef int _add_factor(self, Consistency network, Py_ssize_t factor,
                         Py_ssize_t a, Py_ssize_t b) except -1 nogil:
        """Add the costs of a factor with two open variables, a < b."""
        cdef Py_ssize_t begin = self._table(network, a, b), i, j, k, at, value, variable
        cdef Py_ssize_t va = self._open[a], vb = self._open[b]
        cdef int64_t cost
        for i in range(network.size[va]):
            for j in range(network.size[vb]):
                # decided variables have one value, which comes first
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

    cdef inline int64_t _pair(self, Consistency network, Py_ssize_t a, Py_ssize_t i,
                              Py_ssize_t b, Py_ssize_t j) noexcept nogil:
        """Cost of two places with values at i and j."""
        if a < b:
            return self._entries[
                self._begin[a][b] + i * network.size[self._open[b]] + j]
        return self._entries[self._begin[b][a] + j * network.size[self._open[a]] + i]

    cdef int64_t _eliminate(self, Consistency network, Py_ssize_t k) except -1 nogil:
        """Move the least costs of the variable that goes next to its neighbors.

        Returns the cost of all labelings, where it has no neighbors.
        """
        cdef Py_ssize_t a = self._gone[k], b = self._next[k][0], c = self._next[k][1]
        cdef Py_ssize_t n = network.size[self._open[a]], i, j, h, begin, n_b, n_c
        cdef Py_ssize_t best
        cdef int64_t least, cost, part
        # tables have their lower place first
        if c >= 0 and c < b:
            b, c = c, b
            self._next[k][0], self._next[k][1] = b, c
        n_b = network.size[self._open[b]] if b >= 0 else 1
        n_c = network.size[self._open[c]] if c >= 0 else 1
        begin = self._table(network, b, c) if c >= 0 else 0
        # what is best for each pair of values of the neighbors, for the way back
        reserve(<void**>&self._choices, &self._choices_capacity,
                self._n_choices + n_b * n_c, sizeof(int32_t))
        self._begin_choices[k] = self._n_choices
        network.work += n * n_b * n_c
        least = 0
        for i in range(n_b):
            for j in range(n_c):
                least, best = network.limit, 0
                for h in range(n):
                    cost = self._unary[self._first[a] + h]
                    # its own cost and those of at most two tables
                    if b >= 0:
                        cost += self._pair(network, a, h, b, i)
                    if c >= 0:
                        cost += self._pair(network, a, h, c, j)
                    if cost < least:
                        least, best = cost, h
                self._choices[self._n_choices + i * n_c + j] = best
                # what costs too much stays there, without running over
                if c >= 0:
                    part = self._entries[begin + i * n_c + j] + least
                    self._entries[begin + i * n_c + j] = min(part, network.limit)
                elif b >= 0:
                    self._unary[self._first[b] + i] += least
        # without neighbors it is a cost of all labelings
        self._n_choices += n_b * n_c
        return least if b < 0 else 0

    cdef void _read_off(self, Consistency network) noexcept nogil:
        """Give the variables their values, the last one that went first."""
        cdef Py_ssize_t k, a, b, c, at, variable
        cdef int32_t* chosen = self._degree     # by place; degrees are not needed now
        # decided variables first
        for variable in range(network.n_variables):
            self.value[variable] = network.values[network.first[variable]]
        for k in range(self._n_gone - 1, -1, -1):
            a, b, c = self._gone[k], self._next[k][0], self._next[k][1]
            at = 0
            # neighbors went later, and so have their values by now
            if b >= 0:
                at = chosen[b]
            if c >= 0:
                at = at * network.size[self._open[c]] + chosen[c]
            chosen[a] = self._choices[self._begin_choices[k] + at]
            variable = self._open[a]
            self.value[variable] = network.values[network.first[variable] + chosen[a]]
