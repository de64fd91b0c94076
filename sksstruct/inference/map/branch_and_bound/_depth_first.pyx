"""Depth-first branch and bound over a consistent network.

A node gives a variable one of its values, and takes that value away when it comes back;
where a variable has many values, it gets the half of them with the best, and then the
other.
The variable is the one with the fewest values for its weight, which counts the dead
ends that its factors have led to (dom/wdeg; Boussemart et al., ECAI 2004); after a dead
end, first the variable that led to it (last conflict; Lecoutre et al., Artificial
Intelligence 173, 2009). The value is one that costs least, and of several the one of
the best labeling known. Variables with up to two open neighbors wait for `Tail`.

A search stops after some work or some dead ends and can go on, or hand out the nodes
that it has left open, each a list of decisions (`open_nodes`).
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from sksstruct.inference.map.branch_and_bound._consistency cimport Consistency
from sksstruct.inference.map.branch_and_bound._tail cimport Tail
from sksstruct.utils._pointers cimport (
    const_int32s, doubles, int32s, int64s, intps, uint8s,
)


# Variables with more values are given half of them.
cdef Py_ssize_t MANY_VALUES = 10


cdef class Descent:
    """Depth-first search in the arrays of `DepthFirst` or `TreeSearch`."""

    def __init__(self, Consistency network, arrays, int64_t grain):
        self.network, self._owned, self._grain = network, arrays, grain
        self._tail = Tail(arrays)
        self._hint, self._weight = int32s(arrays.hint), doubles(arrays.weight)
        self._variable, self._chosen = int32s(arrays.variable), int32s(arrays.chosen)
        self._first, self._mark = intps(arrays.first), intps(arrays.mark)
        self._bound, self._open = int64s(arrays.bound), uint8s(arrays.open)
        self._root, self._last = network.n_saved, -1

    def lower_limit(self, int64_t limit):
        """Search for labelings that cost less than that."""
        self.network.limit = min(self.network.limit, limit)

    def go_to(self, decisions):
        """Start at the node that some decisions lead to."""
        cdef Consistency network = self.network
        network.undo(self._root)
        network.forget()
        self.depth, self._last = 0, -1
        self.dead = False
        # all at once: what follows from the last includes what follows from the others
        for variable, values, keep in decisions:
            network.restrict(variable, const_int32s(values), len(values), keep)
            network.wake(variable)
            if not network.settle(variable):
                self.dead = True
                network.forget()
                return
        self.dead = not network.propagate()

    def run(self, int64_t work, Py_ssize_t dead_ends):
        """Search on, for about so many entries of tables and so many dead ends at most.

        Returns whether something is left to search.
        """
        cdef bint left
        with nogil:
            left = self._run(self.network, work, dead_ends)
        return left

    cdef bint _run(self, Consistency network, int64_t work,
                   Py_ssize_t dead_ends) except -1 nogil:
        """Branch until nothing is left, or the work or the dead ends are used up."""
        cdef int64_t last = network.work + work
        cdef Py_ssize_t most = self.n_dead_ends + dead_ends, variable
        while True:
            # one decision in each turn, forward or back
            if self.dead:
                self.n_dead_ends += 1
                if not self._go_back(network):
                    return False
            else:
                variable = self._choose(network)
                if variable >= 0:
                    self._give(network, variable)
                else:
                    self._finish(network)
            # a dead end is left before the search stops, so that bounds are right
            if not self.dead and (network.work > last or self.n_dead_ends >= most):
                return True

    cdef int _finish(self, Consistency network) except -1 nogil:
        """Find the best values of all that is open, and look for what costs less."""
        cdef int64_t cost = self._tail.solve(network)
        self.dead = True
        # labelings that are not better by a grain are of no interest from here on
        if cost < network.limit:
            memcpy(self._hint, self._tail.value, network.n_variables * sizeof(int32_t))
            self.best_cost, self.found = cost, True
            network.limit = cost - self._grain + 1
        return 0

    cdef int _give(self, Consistency network, Py_ssize_t variable) except -1 nogil:
        """Give a variable its best value, or the better half of many."""
        cdef Py_ssize_t depth = self.depth, n = 1
        cdef int32_t* chosen = &self._chosen[self._first[depth]]
        # a single value of many leaves the bound of the other way as it was
        if network.size[variable] > MANY_VALUES:
            n = self._better_half(network, variable, chosen)
        else:
            chosen[0] = self._best_value(network, variable)
        self._variable[depth], self._first[depth + 1] = variable, self._first[depth] + n
        # all that is needed to come back to this node
        self._mark[depth], self._bound[depth] = network.n_saved, network.c0
        self._open[depth] = True
        self.depth += 1
        self._last = -1
        return self._follow(network, variable, chosen, n, True)

    cdef int _follow(self, Consistency network, Py_ssize_t variable,
                     const int32_t* chosen, Py_ssize_t n, bint keep) except -1 nogil:
        """Make a decision, and all that follows from it."""
        # decisions cost something even where nothing follows
        network.work += 8
        network.restrict(variable, chosen, n, keep)
        network.wake(variable)
        self.dead = not (network.settle(variable) and network.propagate())
        if self.dead:
            self._blame(network, variable)
        return 0

    cdef bint _go_back(self, Consistency network) except -1 nogil:
        """Take the other way at the last open decision; False: there is none."""
        cdef Py_ssize_t depth, variable
        while self.depth > self._lowest:
            depth = self.depth - 1
            # what costs too much by now is skipped
            if self._open[depth] and self._bound[depth] < network.limit:
                # the other way needs no mark: it ends with its parent
                self._open[depth] = False
                variable = self._variable[depth]
                network.undo(self._mark[depth])
                network.forget()
                self._follow(network, variable, &self._chosen[self._first[depth]],
                             self._first[depth + 1] - self._first[depth], False)
                return True
            self.depth -= 1
        return False

    cdef void _blame(self, Consistency network, Py_ssize_t variable) noexcept nogil:
        """Add to the weights of the variables of the factor that led to a dead end."""
        cdef Py_ssize_t i, factor = network.culprit
        # the next decision is about the same variable, until it succeeds
        self._last = variable
        network.forget()
        if factor < 0:
            return
        # all of its variables: any of them may be at fault
        for i in range(network.scope_first[factor], network.scope_first[factor + 1]):
            self._weight[network.scope[i]] += 1.0

    cdef Py_ssize_t _choose(self, Consistency network) noexcept nogil:
        """The variable to branch on; -1: the others are to be eliminated."""
        cdef Py_ssize_t n_core = self._tail.peel(network)
        cdef bint any_one = n_core < 0
        # what is open has at most two neighbors each
        if n_core == 0:
            return -1
        if self._last >= 0 and network.size[self._last] > 1 and (
                any_one or self._tail.core[self._last]):
            return self._last
        return self._fewest_values(network, 0, network.n_variables, not any_one)

    cdef Py_ssize_t _fewest_values(self, Consistency network, Py_ssize_t begin,
                                   Py_ssize_t end, bint core) noexcept nogil:
        """The open variable with the fewest values for its weight; -1: there is none.

        With `core` only those that are to be branched on.
        """
        cdef Py_ssize_t variable, best = -1
        cdef double cost, least = 0.0
        # a look at all variables is work as well
        network.work += (end - begin) >> 3
        for variable in range(begin, end):
            if network.size[variable] == 1:
                continue
            # few values and many dead ends first; of equals the first one
            cost = network.size[variable] / self._weight[variable]
            if (best < 0 or cost < least) and (not core or self._tail.core[variable]):
                best, least = variable, cost
        return best

    cdef Py_ssize_t _best_value(self, Consistency network,
                                Py_ssize_t variable) noexcept nogil:
        """The value that costs least; of equals the preferred one, or a supported one.
        """
        cdef Py_ssize_t first = network.first[variable], k, value
        cdef Py_ssize_t best = network.support[variable]
        cdef int64_t cost, least
        # costs of variables are at least 0, and one of them is
        if not network.alive(variable, best):
            best = network.values[first]
        least = network.unary[first + best]
        # in the order of the list, which is the same in every run
        for k in range(network.size[variable]):
            value = network.values[first + k]
            cost = network.unary[first + value]
            if cost < least or (cost == least and value == self._hint[variable]):
                best, least = value, cost
        return best

    cdef Py_ssize_t _better_half(self, Consistency network, Py_ssize_t variable,
                                 int32_t* out) noexcept nogil:
        """Write down the half of the values with the best one; their number.

        In the order of the values, as near ones are often alike.
        """
        cdef Py_ssize_t first = network.first[variable], n = network.size[variable]
        cdef Py_ssize_t best = self._best_value(network, variable), k, value
        cdef Py_ssize_t n_below = 0, n_out = 0, middle = 0, n_values
        n_values = network.first[variable + 1] - first
        # the first value of the upper half
        for middle in range(n_values):
            if n_below == n // 2:
                break
            n_below += network.alive(variable, middle)
        for k in range(n):
            value = network.values[first + k]
            if (value < middle) == (best < middle):
                out[n_out] = value
                n_out += 1
        return n_out
