"""Depth-first branch and bound along a tree of clusters (BTD).

The variables of a cluster are decided first; then each cluster below it, whose
separator has values by now, is a problem of its own. What was found out about it is
kept for these values of the separator (`Goods`) and not searched again (C. Terrioux and
P. Jegou, Hybrid backtracking bounded by tree-decomposition of constraint networks,
Artificial Intelligence 146, 2003; S. de Givry, T. Schiex and G. Verfaillie, Exploiting
tree decomposition and soft local consistency in weighted CSP, AAAI 2006).

Costs move across separators, so that bounds are noted for the costs as they were given:
what variables of a cluster and of those below it have moved to c0, plus what factors
there have moved to the values of the separator. While a cluster is searched, nothing
outside it and what is below changes; and the variables below it lose no value to its
limit, as another limit may hold when they are searched for other values of the rest.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from sksstruct.inference.map.branch_and_bound._consistency cimport Consistency
from sksstruct.inference.map.branch_and_bound._depth_first cimport Descent
from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport const_int32s, const_intps, int32s, int64s, intps

# How far a second search of a cluster goes at least: what is missing at the root,
# shifted by so much. No search of one goes further than that at the root.
cdef int LEAST_STEP = 10
# A cost above all others.
cdef int64_t FAR = 1 << 61

# begin, own_end, end of a cluster
ctypedef Py_ssize_t[3] Range


# Bounds of the costs of a cluster and all below it, for some values of its separator.
cdef struct Good:
    int64_t code
    # lower bound, and the cost of the best values
    int64_t lower, upper
    # where the best values of the cluster begin; -1: they are not known
    Py_ssize_t at
    # the cluster, and how often it was searched for these values
    int32_t cluster, n_searches


@cython.final
cdef class Goods:
    """Hash table of bounds: goods have the best values and their cost, nogoods a lower
    bound only."""

    cdef Good* goods
    cdef int32_t* values
    cdef readonly Py_ssize_t n
    cdef Py_ssize_t _capacity, _n_values, _values_capacity
    # open addressing: numbers of goods, or -1
    cdef int32_t* _slots
    cdef Py_ssize_t _n_slots, _slots_capacity

    def __cinit__(self):
        self._grow()

    def __dealloc__(self):
        free(self.goods)
        free(self.values)
        free(self._slots)

    cdef Py_ssize_t _slot(self, Py_ssize_t cluster, int64_t code) noexcept nogil:
        """The slot of a key, or the free one where it belongs."""
        cdef uint64_t mixed = (<uint64_t>code + 1) * <uint64_t>0x9E3779B97F4A7C15
        cdef Py_ssize_t slot
        # high bits depend on all of the key
        mixed = (mixed ^ (mixed >> 32) ^ <uint64_t>cluster) * (
            <uint64_t>0xD6E8FEB86659FD93)
        slot = <Py_ssize_t>(mixed >> 32) & (self._n_slots - 1)
        # there is a free one always
        while self._slots[slot] >= 0 and (
                self.goods[self._slots[slot]].cluster != cluster
                or self.goods[self._slots[slot]].code != code):
            slot = (slot + 1) & (self._n_slots - 1)
        return slot

    cdef Good* find(self, Py_ssize_t cluster, int64_t code) noexcept nogil:
        """What is known of a key; NULL: nothing."""
        cdef int32_t k = self._slots[self._slot(cluster, code)]
        return &self.goods[k] if k >= 0 else NULL

    cdef Good* insert(self, Py_ssize_t cluster, int64_t code) except NULL nogil:
        """Room for what is known of a key, with a lower bound of its own if it is new.
        """
        cdef Py_ssize_t slot = self._slot(cluster, code)
        cdef Good* good
        if self._slots[slot] < 0:
            # at most half full, so that slots are found at once
            if 2 * (self.n + 1) > self._n_slots:
                self._grow()
                slot = self._slot(cluster, code)
            reserve(<void**>&self.goods, &self._capacity, self.n + 1, sizeof(Good))
            good = &self.goods[self.n]
            good.cluster, good.code, good.at = <int32_t>cluster, code, -1
            good.n_searches = 0
            # the first bound that is known is above it
            good.lower = good.upper = -(1 << 62)
            self._slots[slot] = <int32_t>self.n
            self.n += 1
        return &self.goods[self._slots[slot]]

    cdef int keep(self, Good* good, const int32_t* values,
                  Py_ssize_t n) except -1 nogil:
        """Keep the best values of a cluster."""
        reserve(<void**>&self.values, &self._values_capacity, self._n_values + n,
                sizeof(int32_t))
        # once for each key: what is best stays best
        memcpy(&self.values[self._n_values], values, n * sizeof(int32_t))
        good.at = self._n_values
        self._n_values += n
        return 0

    cdef int _grow(self) except -1 nogil:
        """Twice as many slots."""
        cdef Py_ssize_t n = max(2 * self._n_slots, 1024), k
        reserve(<void**>&self._slots, &self._slots_capacity, n, sizeof(int32_t))
        # all keys get a new slot
        self._n_slots = n
        memset(self._slots, 255, n * sizeof(int32_t))
        for k in range(self.n):
            self._slots[self._slot(self.goods[k].cluster, self.goods[k].code)] = (
                <int32_t>k)
        return 0


cdef class TreeDescent(Descent):
    """A search along a tree of clusters, in the arrays of `TreeSearch`."""

    cdef Py_ssize_t _n_clusters
    cdef int64_t _step
    cdef Py_ssize_t _most_goods
    cdef Goods _goods
    cdef const Range* _range
    cdef const Py_ssize_t* _child_first
    cdef const Py_ssize_t* _child
    cdef const Py_ssize_t* _separator_first
    cdef const int32_t* _separator
    # places of separators in the scopes of the factors below
    cdef const Py_ssize_t* _place_first
    cdef const Py_ssize_t* _place
    # of the calls, one in the other: the cluster, where it began, and what it looks for
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
        # a row for each of them
        self._cluster, self._call_mark, self._call_lowest = (
            indices, indices + n, indices + 2 * n)
        self._call_code, self._call_shift, self._call_limit, self._call_start = (
            costs, costs + n, costs + 2 * n, costs + 3 * n)
        self._call_above, self._call_least, self._call_best = (
            costs + 4 * n, costs + 5 * n, costs + 6 * n)

    def begin(self, int64_t top, Py_ssize_t most_goods):
        """Begin at the root, which has no separator, and whose costs are all costs."""
        cdef Consistency network = self.network
        cdef Py_ssize_t variable
        network.top, self._most_goods = top, most_goods
        self._step = (network.limit - network.c0) >> LEAST_STEP
        self._call(network, 0, 0, 0, network.limit)
        for variable in range(network.n_variables):
            # nothing is left with values that are the only ones of their variables
            self.dead = not network.settle(variable) or self.dead

    @property
    def full(self):
        return self._goods.n >= self._most_goods

    def lower_limit(self, int64_t limit):
        """Search for labelings that cost less than that."""
        cdef Py_ssize_t k
        cdef int64_t part = limit
        # what is missing above is missing below
        for k in range(self._n_calls):
            if k:
                part = self._call_start[k] - (
                    self._call_above[k] - self._call_limit[k - 1])
            self._call_limit[k] = min(self._call_limit[k], part)
        if self._n_calls:
            self.network.limit = self._call_limit[self._n_calls - 1]

    # ---- clusters ----

    cdef int _call(self, Consistency network, Py_ssize_t cluster, int64_t code,
                   int64_t own, int64_t limit) except -1 nogil:
        """Search a cluster for what costs less, all else as it is; `own` is the part of
        c0 that it and those below have by now."""
        cdef Py_ssize_t k = self._n_calls
        self._cluster[k], self._call_code[k] = cluster, code
        self._call_mark[k], self._call_lowest[k] = network.n_saved, self._lowest
        # from c0 to the costs of the cluster as they were given
        self._call_shift[k] = own - network.c0 if k else 0
        self._call_limit[k] = self._call_start[k] = limit
        self._call_above[k] = self._call_limit[k - 1] if k else 0
        self._call_least[k] = self._call_best[k] = FAR
        self._n_calls, self._lowest = k + 1, self.depth
        self._look_at(network, cluster)
        network.limit = limit
        self._last = -1
        self.dead = not network.propagate()
        return 0

    cdef void _look_at(self, Consistency network, Py_ssize_t cluster) noexcept nogil:
        network.focus(self._range[cluster][0], self._range[cluster][1],
                      self._range[cluster][2])

    cdef int _return(self, Consistency network) except -1 nogil:
        """Note what is known of the cluster that was searched, and leave it."""
        cdef Py_ssize_t k = self._n_calls - 1, cluster = self._cluster[k]
        cdef int64_t shift = self._call_shift[k]
        cdef Good* good
        self._n_calls = k
        if k == 0:
            return 0
        good = self._goods.insert(cluster, self._call_code[k])
        good.n_searches += 1
        # all that was passed over costs at least the limit, or as much as a leaf
        good.lower = max(good.lower,
                         min(self._call_limit[k], self._call_least[k]) + shift)
        # where the limit fell below them later, they may not be the best
        if (self._call_best[k] < FAR
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

    cdef int64_t _own(self, Consistency network, Py_ssize_t cluster) noexcept nogil:
        """Costs of a cluster and those below that are certain, as they were given."""
        cdef Py_ssize_t i, place, variable
        cdef int64_t total = 0
        for i in range(self._range[cluster][0], self._range[cluster][2]):
            total += network.settled[i]
        network.work += (self._range[cluster][2] - self._range[cluster][0]) >> 2
        for i in range(self._place_first[cluster], self._place_first[cluster + 1]):
            place = self._place[i]
            variable = network.scope[place]
            # of the value that the separator has
            total += network.delta[network.delta_first[place]
                                   + network.values[network.first[variable]]]
        network.work += (
            self._place_first[cluster + 1] - self._place_first[cluster]) >> 1
        return total

    cdef int64_t _code(self, Consistency network, Py_ssize_t cluster) noexcept nogil:
        """A number for the values of the separator of a cluster."""
        cdef Py_ssize_t i, variable
        cdef int64_t code = 0
        for i in range(self._separator_first[cluster],
                       self._separator_first[cluster + 1]):
            variable = self._separator[i]
            code = code * (network.first[variable + 1] - network.first[variable])
            code += network.values[network.first[variable]]
        return code

    cdef int _descend(self, Consistency network) except -1 nogil:
        """With all variables of a cluster decided: on to one below, or note the best.
        """
        cdef Py_ssize_t call = self._n_calls - 1, cluster = self._cluster[call], i
        cdef Py_ssize_t child, next_child = -1
        cdef int64_t low = network.c0, high = network.c0, own, lower
        cdef int64_t code, next_code = 0, next_own = 0, next_lower = 0, room = 0
        cdef Good* good
        for i in range(self._child_first[cluster], self._child_first[cluster + 1]):
            child = self._child[i]
            own, code = self._own(network, child), self._code(network, child)
            good = self._goods.find(child, code)
            lower = own
            if good != NULL:
                lower = max(own, good.lower)
            low += lower - own
            if good != NULL and good.at >= 0:
                high += good.upper - own
            elif next_child < 0:
                next_child, next_code, next_own = child, code, own
                next_lower = lower
                # who comes back for a little more would come back again and again
                if good != NULL:
                    room = self._step << min(good.n_searches, LEAST_STEP)
        if low >= network.limit:
            self.dead = True
            return 0
        if next_child >= 0:
            # as much as is left, above what is known
            return self._call(network, next_child, next_code, next_own,
                              network.c0 + next_lower - next_own
                              + max(room, network.limit - low))
        # goods are the best there is, up to their grain
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
        """Give all variables their best values, from the root down."""
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
            # what led here is known for all of them
            good = self._goods.find(cluster, code)
            k = self._range[cluster][0]
            for i in range(k, self._range[cluster][1]):
                self._hint[i] = self._goods.values[good.at + i - k]
        self.best_cost, self.found = cost, True

    # ---- the search ----

    cdef bint _run(self, Consistency network, int64_t work,
                   Py_ssize_t dead_ends) except -1 nogil:
        """Branch until nothing is left, or the work is used up."""
        cdef int64_t last = network.work + work
        cdef Py_ssize_t variable
        while self._n_calls:
            # one decision in each turn, forward or back, or one cluster
            if self.dead:
                self.n_dead_ends += 1
                if not self._go_back(network):
                    self._return(network)
            else:
                variable = self._choose(network)
                if variable >= 0:
                    self._give(network, variable)
                else:
                    self._descend(network)
            if network.work > last or self._goods.n >= self._most_goods:
                return self._n_calls > 0
        return False

    cdef Py_ssize_t _choose(self, Consistency network) noexcept nogil:
        """The variable of the cluster to branch on; -1: all are decided."""
        if (network.begin <= self._last < network.own_end
                and network.size[self._last] > 1):
            return self._last
        return self._fewest_values(network, network.begin, network.own_end, False)
