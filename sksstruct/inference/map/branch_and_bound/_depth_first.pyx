"""Depth-first branch and bound over a consistent network.

The first branch of a node gives a variable one value, and the second branch removes
this value; a variable with many values is given the half that contains its best value.
The search branches on the variable with the fewest values relative to its weight, which
counts the dead ends of its factors (dom/wdeg; Boussemart et al., ECAI 2004); after a
dead end, it branches on the same variable again (last conflict; Lecoutre et al.,
Artificial Intelligence 173, 2009). The value is a cheapest one; ties go to the
incumbent's value. `Tail` eliminates variables with up to two open neighbors, without
branching.

A search stops after some work or some dead ends; then the search can continue, or
`open_nodes` returns the open nodes, each with its decisions.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from sksstruct.inference.map.branch_and_bound._consistency cimport Consistency
from sksstruct.inference.map.branch_and_bound._tail cimport Tail
from sksstruct.utils._pointers cimport (
    const_int32s, doubles, int32s, int64s, intps, uint8s,
)


# A variable with more values is given half of its values by a decision.
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
        self._root_mark, self._conflict = network.n_saved, -1

    def lower_limit(self, int64_t limit):
        """Search only for labelings that cost less than a limit."""
        self.network.limit = min(self.network.limit, limit)

    def go_to(self, decisions):
        """Restore the node at the end of a list of decisions."""
        cdef Consistency network = self.network
        network.undo(self._root_mark)
        network.forget()
        self.depth, self._conflict = 0, -1
        self.dead = False
        # propagation runs once, after all decisions
        for variable, values, keep in decisions:
            network.restrict(variable, const_int32s(values), len(values), keep)
            network.wake(variable)
            if not network.settle(variable):
                self.dead = True
                network.forget()
                return
        self.dead = not network.propagate()

    def run(self, int64_t work, Py_ssize_t dead_ends):
        """Continue until `work` entries are read or `dead_ends` are met.

        Returns whether open nodes are left.
        """
        cdef bint left
        with nogil:
            left = self._run(self.network, work, dead_ends)
        return left

    cdef bint _run(self, Consistency network, int64_t work,
                   Py_ssize_t dead_ends) except -1 nogil:
        """Branch until no node is open, or the work or the dead ends are used up."""
        cdef int64_t work_end = network.work + work
        cdef Py_ssize_t dead_end_limit = self.n_dead_ends + dead_ends, variable
        while True:
            # each turn begins a first or a second branch, or solves a leaf
            if self.dead:
                self.n_dead_ends += 1
                if not self._backtrack(network):
                    return False
            else:
                variable = self._choose(network)
                if variable >= 0:
                    self._decide(network, variable)
                else:
                    self._solve_leaf(network)
            # the search stops at open nodes only: `open_nodes` reports their bounds
            if not self.dead and (
                    network.work > work_end or self.n_dead_ends >= dead_end_limit):
                return True

    cdef int _solve_leaf(self, Consistency network) except -1 nogil:
        """Eliminate all open variables, and lower the limit by a new incumbent."""
        cdef int64_t cost = self._tail.solve(network)
        self.dead = True
        # from now on, a labeling has to be better by a grain
        if cost < network.limit:
            memcpy(self._hint, self._tail.value, network.n_variables * sizeof(int32_t))
            self.best_cost, self.found = cost, True
            network.limit = cost - self._grain + 1
        return 0

    cdef int _decide(self, Consistency network, Py_ssize_t variable) except -1 nogil:
        """Give a variable its best value or, if it has many values, the better half."""
        cdef Py_ssize_t depth = self.depth, n = 1
        cdef int32_t* chosen = &self._chosen[self._first[depth]]
        # removing one value of many would hardly raise the bound of the second branch
        if network.size[variable] > MANY_VALUES:
            n = self._better_half(network, variable, chosen)
        else:
            chosen[0] = self._best_value(network, variable)
        self._variable[depth], self._first[depth + 1] = variable, self._first[depth] + n
        # trail mark and bound, for backtracking to this node
        self._mark[depth], self._bound[depth] = network.n_saved, network.c0
        self._open[depth] = True
        self.depth += 1
        self._conflict = -1
        return self._apply(network, variable, chosen, n, True)

    cdef int _apply(self, Consistency network, Py_ssize_t variable,
                    const int32_t* chosen, Py_ssize_t n, bint keep) except -1 nogil:
        """Keep or remove the chosen values, and propagate."""
        # a decision counts as work even if nothing is propagated
        network.work += 8
        network.restrict(variable, chosen, n, keep)
        network.wake(variable)
        self.dead = not (network.settle(variable) and network.propagate())
        if self.dead:
            self._blame(network, variable)
        return 0

    cdef bint _backtrack(self, Consistency network) except -1 nogil:
        """Take the second branch of the last open decision; False: no decision is open.
        """
        cdef Py_ssize_t depth, variable
        while self.depth > self._lowest:
            depth = self.depth - 1
            # decisions whose bound has reached the limit are skipped
            if self._open[depth] and self._bound[depth] < network.limit:
                # the second branch has no mark: backtracking to a decision above undoes
                # both branches
                self._open[depth] = False
                variable = self._variable[depth]
                network.undo(self._mark[depth])
                network.forget()
                self._apply(network, variable, &self._chosen[self._first[depth]],
                            self._first[depth + 1] - self._first[depth], False)
                return True
            self.depth -= 1
        return False

    cdef void _blame(self, Consistency network, Py_ssize_t variable) noexcept nogil:
        """Raise the weights of all variables of the factor that led to a dead end."""
        cdef Py_ssize_t i, factor = network.culprit
        # last conflict: the next decisions are on this variable, until a decision
        # succeeds
        self._conflict = variable
        network.forget()
        if factor < 0:
            return
        for i in range(network.scope_first[factor], network.scope_first[factor + 1]):
            self._weight[network.scope[i]] += 1.0

    cdef Py_ssize_t _choose(self, Consistency network) noexcept nogil:
        """Return the variable to branch on; -1: all open variables can be eliminated.
        """
        cdef Py_ssize_t n_core = self._tail.peel(network)
        cdef bint any_one = n_core < 0
        # the core is empty: all open variables can be eliminated
        if n_core == 0:
            return -1
        if self._conflict >= 0 and network.size[self._conflict] > 1 and (
                any_one or self._tail.core[self._conflict]):
            return self._conflict
        return self._fewest_values(network, 0, network.n_variables, not any_one)

    cdef Py_ssize_t _fewest_values(self, Consistency network, Py_ssize_t begin,
                                   Py_ssize_t end, bint core) noexcept nogil:
        """Return the open variable with the fewest values divided by its weight, or -1.

        Only variables from `begin` to `end` - 1 are compared; with `core`, only those
        of the core.
        """
        cdef Py_ssize_t variable, best = -1
        cdef double cost, least = 0.0
        # the scan of the variables counts as work
        network.work += (end - begin) >> 3
        for variable in range(begin, end):
            if network.size[variable] == 1:
                continue
            # few values and many dead ends are preferred; ties go to the first variable
            cost = network.size[variable] / self._weight[variable]
            if (best < 0 or cost < least) and (not core or self._tail.core[variable]):
                best, least = variable, cost
        return best

    cdef Py_ssize_t _best_value(self, Consistency network,
                                Py_ssize_t variable) noexcept nogil:
        """Return a cheapest value, preferably the hint, then the existential support.
        """
        cdef Py_ssize_t first = network.first[variable], k, value
        cdef Py_ssize_t best = network.support[variable]
        cdef int64_t cost, least
        # if the existential support was removed, begin with any alive value
        if not network.alive(variable, best):
            best = network.values[first]
        least = network.unary[first + best]
        # the order of `values` is the same in every run
        for k in range(network.size[variable]):
            value = network.values[first + k]
            cost = network.unary[first + value]
            if cost < least or (cost == least and value == self._hint[variable]):
                best, least = value, cost
        return best

    cdef Py_ssize_t _better_half(self, Consistency network, Py_ssize_t variable,
                                 int32_t* out) noexcept nogil:
        """Write the half that contains the best value to `out`; return its size.

        The values are halved in their order, as costs of near values are often similar.
        """
        cdef Py_ssize_t first = network.first[variable], n = network.size[variable]
        cdef Py_ssize_t best = self._best_value(network, variable), k, value
        cdef Py_ssize_t n_below = 0, n_out = 0, middle = 0, n_values
        n_values = network.first[variable + 1] - first
        # `middle`: the first value of the upper half
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
