"""Depth-first branch and bound along a tree of clusters (BTD).

The variables of a cluster are decided first; then each cluster below it, whose
separator has values by now, is a problem of its own. What was found out about it is
kept for these values of the separator (`Goods`) and not searched again (Terrioux and
Jegou 2003; S. de Givry, T. Schiex and G. Verfaillie, Exploiting tree decomposition and
soft local consistency in weighted CSP, AAAI 2006).

Costs move across separators, so that bounds are noted for the costs as they were given:
what variables of a cluster and of those below it have moved to c0, plus what factors
there have moved to the values of the separator. While a cluster is searched, nothing
outside it and what is below changes; and the variables below it lose no value to its
limit, as another limit may hold when they are searched for other values of the rest.
"""

import numpy as np

cimport cython
from libc.stdint cimport int32_t, int64_t

from sksstruct.inference.map.core._index import offsets
from sksstruct.inference.map.branch_and_bound._consistency cimport Consistency
from sksstruct.inference.map.branch_and_bound._depth_first cimport DepthFirst
from sksstruct.inference.map.branch_and_bound._goods cimport Good, Goods


# How far a second search of a cluster goes at least: what is missing at the root,
# shifted by so much. No search of one goes further than that at the root.
cdef int LEAST_STEP = 10
# A cost above all others.
cdef int64_t FAR = 1 << 61


@cython.final
cdef class TreeSearch(DepthFirst):
    """A search along a tree of clusters.

    Parameters
    ----------
    network : Consistency
        The network, already consistent. Its current state is the root. The variables of
        a cluster follow each other, and those of the clusters below it come next.
    hint : array-like of shape (n_variables,)
        Values to prefer among equals.
    grain : int
        Labelings of a cluster that improve the cost by less than this are not searched
        for.
    clusters : list of tuples (begin, own_end, end, parent, separator)
        Range of its own variables, the end of the variables below it, its parent and
        its separator. A cluster comes before those below it.
    top : int
        A cost that no labeling has.
    most_goods : int
        Largest number of goods and nogoods to keep.

    Attributes
    ----------
    full : bool
        Whether there are so many that the search ended.
    """

    cdef readonly Py_ssize_t n_clusters
    cdef int64_t _step
    cdef Py_ssize_t _most_goods
    cdef Goods _goods
    cdef Py_ssize_t[:, ::1] _range                  # begin, own_end, end of a cluster
    cdef Py_ssize_t[::1] _child_first, _child
    cdef Py_ssize_t[::1] _separator_first
    cdef int32_t[::1] _separator
    # places of separators in the scopes of the factors below
    cdef Py_ssize_t[::1] _place_first, _place
    # of the calls, one in the other: the cluster, where it began, and what it looks for
    cdef Py_ssize_t _n_calls
    cdef Py_ssize_t[::1] _cluster, _call_mark, _call_lowest
    cdef int64_t[::1] _call_code, _call_shift, _call_limit, _call_start
    cdef int64_t[::1] _call_above, _call_least, _call_best
    cdef int32_t[::1] _call_values

    def __init__(self, Consistency network, hint, grain, clusters, top,
                 most_goods):
        cdef Py_ssize_t variable
        DepthFirst.__init__(self, network, hint, grain)
        self._goods = Goods()
        self.n_clusters = n = len(clusters)
        self._range = np.array([row[:3] for row in clusters], dtype=np.intp)
        below = [[] for _ in clusters]
        for k, row in enumerate(clusters):
            if row[3] >= 0:
                below[row[3]].append(k)
        self._child_first, self._child = _flatten(below, np.intp)
        self._separator_first, self._separator = _flatten(
            [row[4] for row in clusters], np.int32)
        self._place_first, self._place = _flatten(
            [self._places_below(network, *row[:3], row[4]) for row in clusters],
            np.intp)
        self._cluster, self._call_mark, self._call_lowest = (
            np.zeros(n, dtype=np.intp) for _ in range(3))
        (self._call_code, self._call_shift, self._call_limit, self._call_start,
         self._call_above, self._call_least, self._call_best) = (
            np.zeros(n, dtype=np.int64) for _ in range(7))
        self._call_values = np.zeros(network.n_variables, dtype=np.int32)
        network.top, self._most_goods = top, most_goods
        self._step = (network.limit - network.c0) >> LEAST_STEP
        self._n_calls = 0
        # the root has no separator, and its costs are all costs
        self._call(network, 0, 0, 0, network.limit)
        for variable in range(network.n_variables):
            # nothing is left with values that are the only ones of their variables
            self._dead = not network.settle(variable) or self._dead

    def _places_below(self, Consistency network, begin, own_end, end, separator):
        """Find a separator in the scopes of factors of a cluster and below it."""
        cdef Py_ssize_t i, variable, last
        places = []
        for variable in separator:
            for i in range(network.in_first[variable], network.in_first[variable + 1]):
                # scopes are in order, and so the last variable is the lowest one
                last = network.scope[
                    network.scope_first[network.in_factor[i] + 1] - 1]
                if begin <= last < end:
                    places.append(network.in_place[i])
        return places

    @property
    def full(self):
        return self._goods.n >= self._most_goods

    def lower_limit(self, int64_t limit):
        """Search for labelings that cost less than before.

        Parameters
        ----------
        limit : int
            Labelings must cost less than this.
        """
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
        self._n_calls, self._lowest = k + 1, self._depth
        self._look_at(network, cluster)
        network.limit = limit
        self._last = -1
        self._dead = not network.propagate()
        return 0

    cdef void _look_at(self, Consistency network, Py_ssize_t cluster) noexcept nogil:
        network.focus(self._range[cluster, 0], self._range[cluster, 1],
                      self._range[cluster, 2])

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
            self._goods.keep(good, &self._call_values[self._range[cluster, 0]],
                             self._range[cluster, 1] - self._range[cluster, 0])
        network.undo(self._call_mark[k])
        self._depth, self._lowest = self._lowest, self._call_lowest[k]
        self._look_at(network, self._cluster[k - 1])
        network.limit = self._call_limit[k - 1]
        self._dead = False
        return 0

    cdef int64_t _own(self, Consistency network, Py_ssize_t cluster) noexcept nogil:
        """Costs of a cluster and those below that are certain, as they were given."""
        cdef Py_ssize_t i, place, variable
        cdef int64_t total = 0
        for i in range(self._range[cluster, 0], self._range[cluster, 2]):
            total += network.settled[i]
        network.work += (self._range[cluster, 2] - self._range[cluster, 0]) >> 2
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
            self._dead = True
            return 0
        if next_child >= 0:
            # as much as is left, above what is known
            return self._call(network, next_child, next_code, next_own,
                              network.c0 + next_lower - next_own
                              + max(room, network.limit - low))
        # goods are the best there is, up to their grain
        self._dead = True
        self._call_least[call] = min(self._call_least[call], low)
        if high < network.limit:
            self._call_best[call] = high
            for i in range(self._range[cluster, 0], self._range[cluster, 1]):
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
        for i in range(self._range[0, 1]):
            self._hint[i] = self._call_values[i]
        for cluster in range(1, self.n_clusters):
            code = 0
            for i in range(self._separator_first[cluster],
                           self._separator_first[cluster + 1]):
                variable = self._separator[i]
                code = code * (network.first[variable + 1] - network.first[variable])
                code += self._hint[variable]
            # what led here is known for all of them
            good = self._goods.find(cluster, code)
            k = self._range[cluster, 0]
            for i in range(k, self._range[cluster, 1]):
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
            if self._dead:
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


def _flatten(lists, dtype):
    """Return where each list begins, and all lists one after the other."""
    return offsets([len(row) for row in lists]), np.array(
        [x for row in lists for x in row], dtype=dtype)
