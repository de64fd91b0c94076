"""Depth-first branch and bound along a tree of clusters (BTD).

The search decides the variables of a cluster first; then the separators of its children
have values, and each child with its descendants is an independent subproblem. `Goods`
stores the bounds of a subproblem for these values of the separator, so that the
subproblem is not searched again (C. Terrioux and P. Jegou, Hybrid backtracking bounded
by tree-decomposition of constraint networks, Artificial Intelligence 146, 2003; S. de
Givry, T. Schiex and G. Verfaillie, Exploiting tree decomposition and soft local
consistency in weighted CSP, AAAI 2006).

Propagation moves costs across separators, so that goods are in terms of the given
costs: the cost that variables of the subproblem have moved to c0, plus the cost that
its factors have moved to the values of the separator. The search of a cluster changes
nothing outside the subproblem. The limit of this search removes no values of the
descendants, which may be searched with another limit for other values of the cluster.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from sksstruct.inference.map.branch_and_bound._consistency cimport Consistency
from sksstruct.inference.map.branch_and_bound._depth_first cimport Descent
from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport const_int32s, const_intps, int32s, int64s, intps

# The limit of a repeated search of a subproblem exceeds the subproblem's lower bound by
# at least the gap at the root, shifted right by this number; each repetition doubles
# the step, up to the gap.
cdef int STEP_SHIFT = 10
# A cost above all limits.
cdef int64_t INFINITE_COST = 1 << 61

# `begin`, `own_end`, `end` of a cluster
ctypedef Py_ssize_t[3] Range


# Bounds on the cost of a subproblem (a cluster with its descendants) for one tuple of
# values of its separator; `code` is the number of the tuple.
cdef struct Good:
    int64_t code
    # lower bound, and cost of the best values
    int64_t lower, upper
    # offset of the cluster's best values in `Goods.values`; -1: unknown values
    Py_ssize_t values_begin
    # the cluster, and the number of its searches for this tuple
    int32_t cluster, n_searches


@cython.final
cdef class Goods:
    """Hash table of bounds of subproblems, by cluster and code of separator values.

    Goods have best values and their cost, nogoods only a lower bound.
    """

    cdef Good* goods
    cdef int32_t* values
    cdef readonly Py_ssize_t n
    cdef Py_ssize_t _capacity, _n_values, _values_capacity
    # open addressing: indices of `goods`, or -1
    cdef int32_t* _slots
    cdef Py_ssize_t _n_slots, _slots_capacity

    def __cinit__(self):
        self._grow()

    def __dealloc__(self):
        free(self.goods)
        free(self.values)
        free(self._slots)

    cdef Py_ssize_t _slot(self, Py_ssize_t cluster, int64_t code) noexcept nogil:
        """Return the slot of a cluster and a code, or a free slot for this key."""
        cdef uint64_t mixed = (<uint64_t>code + 1) * <uint64_t>0x9E3779B97F4A7C15
        cdef Py_ssize_t slot
        # the high bits depend on all bits of the key
        mixed = (mixed ^ (mixed >> 32) ^ <uint64_t>cluster) * (
            <uint64_t>0xD6E8FEB86659FD93)
        slot = <Py_ssize_t>(mixed >> 32) & (self._n_slots - 1)
        # the loop ends, as at most half of the slots are full
        while self._slots[slot] >= 0 and (
                self.goods[self._slots[slot]].cluster != cluster
                or self.goods[self._slots[slot]].code != code):
            slot = (slot + 1) & (self._n_slots - 1)
        return slot

    cdef Good* find(self, Py_ssize_t cluster, int64_t code) noexcept nogil:
        """Return the good of a cluster and a code, or NULL."""
        cdef int32_t k = self._slots[self._slot(cluster, code)]
        return &self.goods[k] if k >= 0 else NULL

    cdef Good* insert(self, Py_ssize_t cluster, int64_t code) except NULL nogil:
        """Return the good of a cluster and a code; a missing good is created."""
        cdef Py_ssize_t slot = self._slot(cluster, code)
        cdef Good* good
        if self._slots[slot] < 0:
            # at most half full, so that probing is short
            if 2 * (self.n + 1) > self._n_slots:
                self._grow()
                slot = self._slot(cluster, code)
            reserve(<void**>&self.goods, &self._capacity, self.n + 1, sizeof(Good))
            good = &self.goods[self.n]
            good.cluster, good.code, good.values_begin = <int32_t>cluster, code, -1
            good.n_searches = 0
            # the bounds of a new good are below every cost
            good.lower = good.upper = -(1 << 62)
            self._slots[slot] = <int32_t>self.n
            self.n += 1
        return &self.goods[self._slots[slot]]

    cdef int keep(self, Good* good, const int32_t* values,
                  Py_ssize_t n) except -1 nogil:
        """Store the best values of a cluster in its good."""
        reserve(<void**>&self.values, &self._values_capacity, self._n_values + n,
                sizeof(int32_t))
        # called once for each good: best values are final
        memcpy(&self.values[self._n_values], values, n * sizeof(int32_t))
        good.values_begin = self._n_values
        self._n_values += n
        return 0

    cdef int _grow(self) except -1 nogil:
        """Double the number of slots."""
        cdef Py_ssize_t n = max(2 * self._n_slots, 1024), k
        reserve(<void**>&self._slots, &self._slots_capacity, n, sizeof(int32_t))
        # every key gets a new slot
        self._n_slots = n
        memset(self._slots, 255, n * sizeof(int32_t))
        for k in range(self.n):
            self._slots[self._slot(self.goods[k].cluster, self.goods[k].code)] = (
                <int32_t>k)
        return 0


cdef class TreeDescent(Descent):
    """Depth-first search along a tree of clusters, in the arrays of `TreeSearch`."""

    cdef Py_ssize_t _n_clusters
    cdef int64_t _step
    cdef Py_ssize_t _most_goods
    cdef Goods _goods
    cdef const Range* _range
    cdef const Py_ssize_t* _child_first
    cdef const Py_ssize_t* _child
    cdef const Py_ssize_t* _separator_first
    cdef const int32_t* _separator
    # places of separator variables in the scopes of the subproblem's factors
    cdef const Py_ssize_t* _place_first
    cdef const Py_ssize_t* _place
    # stack of cluster searches: cluster, trail mark and `_lowest` at the start of the
    # search, code of the separator's values, shift from c0 to the good's costs, limit
    # now, limit at the start, limit of the parent at that time, least leaf cost, cost
    # of the best values
    cdef Py_ssize_t _n_calls
    cdef Py_ssize_t* _cluster
    cdef Py_ssize_t* _call_mark
    cdef Py_ssize_t* _call_lowest
    cdef int64_t* _call_code
    cdef int64_t* _call_shift
    cdef int64_t* _call_limit
    cdef int64_t* _call_start
    cdef int64_t* _call_above
    cdef int64_t* _call_least
    cdef int64_t* _call_best
    cdef int32_t* _call_values

    def __init__(self, Consistency network, arrays, grain):
        cdef Py_ssize_t n = len(arrays.range)
        cdef Py_ssize_t* indices = intps(arrays.call_indices)
        cdef int64_t* costs = int64s(arrays.call_costs)
        Descent.__init__(self, network, arrays, grain)
        self._goods, self._n_clusters = Goods(), n
        self._range = <const Range*>const_intps(arrays.range)
        self._child_first, self._child = (
            const_intps(arrays.child_first), const_intps(arrays.child))
        self._separator_first = const_intps(arrays.separator_first)
        self._separator = const_int32s(arrays.separator)
        self._place_first, self._place = (
            const_intps(arrays.place_first), const_intps(arrays.places))
        self._call_values = int32s(arrays.call_values)
        # each array of the stack is a row of `call_indices` or `call_costs`
        self._cluster, self._call_mark, self._call_lowest = (
            indices, indices + n, indices + 2 * n)
        self._call_code, self._call_shift, self._call_limit, self._call_start = (
            costs, costs + n, costs + 2 * n, costs + 3 * n)
        self._call_above, self._call_least, self._call_best = (
            costs + 4 * n, costs + 5 * n, costs + 6 * n)

    def begin(self, int64_t top, Py_ssize_t most_goods):
        """Begin the search of the root cluster, which has no separator."""
        cdef Consistency network = self.network
        cdef Py_ssize_t variable
        network.top, self._most_goods = top, most_goods
        self._step = (network.limit - network.c0) >> STEP_SHIFT
        self._call(network, 0, 0, 0, network.limit)
        for variable in range(network.n_variables):
            # variables with a single value may hold costs: `settle` moves them to c0
            self.dead = not network.settle(variable) or self.dead

    @property
    def full(self):
        return self._goods.n >= self._most_goods

    def lower_limit(self, int64_t limit):
        """Search only for labelings that cost less than a limit."""
        cdef Py_ssize_t k
        cdef int64_t part = limit
        # if the limit of a cluster falls, the limits of its descendants fall by as much
        for k in range(self._n_calls):
            if k:
                part = self._call_start[k] - (
                    self._call_above[k] - self._call_limit[k - 1])
            self._call_limit[k] = min(self._call_limit[k], part)
        if self._n_calls:
            self.network.limit = self._call_limit[self._n_calls - 1]

    # ---- clusters ----

    cdef int _call(self, Consistency network, Py_ssize_t cluster, int64_t code,
                   int64_t cluster_cost, int64_t limit) except -1 nogil:
        """Begin the search of a cluster for values that cost less than `limit`.

        `cluster_cost` is a lower bound on the subproblem's cost (see `_certain`).
        """
        cdef Py_ssize_t k = self._n_calls
        self._cluster[k], self._call_code[k] = cluster, code
        self._call_mark[k], self._call_lowest[k] = network.n_saved, self._lowest
        # the subproblem's cost in terms of the given costs, minus c0
        self._call_shift[k] = cluster_cost - network.c0 if k else 0
        self._call_limit[k] = self._call_start[k] = limit
        self._call_above[k] = self._call_limit[k - 1] if k else 0
        self._call_least[k] = self._call_best[k] = INFINITE_COST
        self._n_calls, self._lowest = k + 1, self.depth
        self._look_at(network, cluster)
        network.limit = limit
        self._conflict = -1
        self.dead = not network.propagate()
        return 0

    cdef void _look_at(self, Consistency network, Py_ssize_t cluster) noexcept nogil:
        network.focus(self._range[cluster][0], self._range[cluster][1],
                      self._range[cluster][2])

    cdef int _return(self, Consistency network) except -1 nogil:
        """End the search of a cluster: store a good, and return to the parent."""
        cdef Py_ssize_t k = self._n_calls - 1, cluster = self._cluster[k]
        cdef int64_t shift = self._call_shift[k]
        cdef Good* good
        self._n_calls = k
        if k == 0:
            return 0
        good = self._goods.insert(cluster, self._call_code[k])
        good.n_searches += 1
        # values that were not searched cost at least the limit or the least leaf cost
        good.lower = max(good.lower,
                         min(self._call_limit[k], self._call_least[k]) + shift)
        # `lower_limit` may have cut off cheaper values: then the best values are
        # unknown
        if (self._call_best[k] < INFINITE_COST
                and self._call_limit[k] == self._call_best[k] - self._grain + 1):
            good.upper = self._call_best[k] + shift
            self._goods.keep(good, &self._call_values[self._range[cluster][0]],
                             self._range[cluster][1] - self._range[cluster][0])
        network.undo(self._call_mark[k])
        self.depth, self._lowest = self._lowest, self._call_lowest[k]
        self._look_at(network, self._cluster[k - 1])
        network.limit = self._call_limit[k - 1]
        self.dead = False
        return 0

    cdef int64_t _certain(self, Consistency network, Py_ssize_t cluster) noexcept nogil:
        """Return a lower bound on a subproblem's cost, in terms of the given costs."""
        cdef Py_ssize_t i, place, variable
        cdef int64_t total = 0
        for i in range(self._range[cluster][0], self._range[cluster][2]):
            total += network.settled[i]
        network.work += (self._range[cluster][2] - self._range[cluster][0]) >> 2
        for i in range(self._place_first[cluster], self._place_first[cluster + 1]):
            place = self._place[i]
            variable = network.scope[place]
            # the delta of the separator's value: cost moved out of the subproblem
            total += network.delta[network.delta_first[place]
                                   + network.values[network.first[variable]]]
        network.work += (
            self._place_first[cluster + 1] - self._place_first[cluster]) >> 1
        return total

    cdef int64_t _code(self, Consistency network, Py_ssize_t cluster) noexcept nogil:
        """Return the number of the tuple of values of a cluster's separator."""
        cdef Py_ssize_t i, variable
        cdef int64_t code = 0
        for i in range(self._separator_first[cluster],
                       self._separator_first[cluster + 1]):
            variable = self._separator[i]
            code = code * (network.first[variable + 1] - network.first[variable])
            code += network.values[network.first[variable]]
        return code

    cdef int _descend(self, Consistency network) except -1 nogil:
        """Begin the search of a child of a decided cluster, or store a leaf's cost.
        """
        cdef Py_ssize_t call = self._n_calls - 1, cluster = self._cluster[call], i
        cdef Py_ssize_t child, next_child = -1
        cdef int64_t low = network.c0, high = network.c0, certain, lower
        cdef int64_t code, next_code = 0, next_certain = 0, next_lower = 0, room = 0
        cdef Good* good
        for i in range(self._child_first[cluster], self._child_first[cluster + 1]):
            child = self._child[i]
            certain, code = self._certain(network, child), self._code(network, child)
            good = self._goods.find(child, code)
            lower = certain
            if good != NULL:
                lower = max(certain, good.lower)
            low += lower - certain
            if good != NULL and good.values_begin >= 0:
                high += good.upper - certain
            elif next_child < 0:
                next_child, next_code, next_certain = child, code, certain
                next_lower = lower
                # each repeated search of a child gets a larger step, as many
                # repetitions with slightly higher limits would be slow
                if good != NULL:
                    room = self._step << min(good.n_searches, STEP_SHIFT)
        if low >= network.limit:
            self.dead = True
            return 0
        if next_child >= 0:
            # the limit: the child's lower bound, plus the larger of the gap that is
            # left and the step
            return self._call(network, next_child, next_code, next_certain,
                              network.c0 + next_lower - next_certain
                              + max(room, network.limit - low))
        # all children have goods: their best values are known, up to their grains
        self.dead = True
        self._call_least[call] = min(self._call_least[call], low)
        if high < network.limit:
            self._call_best[call] = high
            for i in range(self._range[cluster][0], self._range[cluster][1]):
                self._call_values[i] = network.values[network.first[i]]
            network.limit = self._call_limit[call] = high - self._grain + 1
            if call == 0:
                self._read_off(network, high)
        return 0

    cdef void _read_off(self, Consistency network, int64_t cost) noexcept nogil:
        """Write the best values of all variables to the hint, from the root down."""
        cdef Py_ssize_t cluster, i, k, variable
        cdef int64_t code
        cdef Good* good
        for i in range(self._range[0][1]):
            self._hint[i] = self._call_values[i]
        for cluster in range(1, self._n_clusters):
            code = 0
            for i in range(self._separator_first[cluster],
                           self._separator_first[cluster + 1]):
                variable = self._separator[i]
                code = code * (network.first[variable + 1] - network.first[variable])
                code += self._hint[variable]
            # the cluster has a good for these values of its separator
            good = self._goods.find(cluster, code)
            k = self._range[cluster][0]
            for i in range(k, self._range[cluster][1]):
                self._hint[i] = self._goods.values[good.values_begin + i - k]
        self.best_cost, self.found = cost, True

    # ---- the search ----

    cdef bint _run(self, Consistency network, int64_t work,
                   Py_ssize_t dead_ends) except -1 nogil:
        """Branch until all cluster searches end, or the work or memory is used up."""
        cdef int64_t work_end = network.work + work
        cdef Py_ssize_t variable
        while self._n_calls:
            # each turn makes one decision, begins or ends the search of a cluster, or
            # stores the cost of a leaf
            if self.dead:
                self.n_dead_ends += 1
                if not self._backtrack(network):
                    self._return(network)
            else:
                variable = self._choose(network)
                if variable >= 0:
                    self._decide(network, variable)
                else:
                    self._descend(network)
            if network.work > work_end or self._goods.n >= self._most_goods:
                return self._n_calls > 0
        return False

    cdef Py_ssize_t _choose(self, Consistency network) noexcept nogil:
        """Return the variable of the cluster to branch on; -1: all are decided."""
        if (network.begin <= self._conflict < network.own_end
                and network.size[self._conflict] > 1):
            return self._conflict
        return self._fewest_values(network, network.begin, network.own_end, False)
