"""Trees of clusters: separators that split the search into independent problems.

Variables are eliminated in the order of minimum fill. Each variable and its neighbors
at that time are a cluster; the parent of a cluster is that of the neighbor that is
eliminated next. Clusters with a large separator, or with few variables, are merged with
their parent (P. Jegou, S. Ndiaye and C. Terrioux, Computing and exploiting
tree-decompositions for solving constraint networks, CP 2005).
"""

import heapq

import numpy as np

from sksstruct.inference.map.branch_and_bound._best_first import Component
from sksstruct.inference.map.branch_and_bound._terms import FORBIDDEN
from sksstruct.inference.map.branch_and_bound.search import TreeSearch

# No tree is built if an eliminated variable has more than `_MOST_NEIGHBORS` neighbors,
# or if more than `_MOST_PAIRS` pairs of neighbors are visited.
_MOST_NEIGHBORS, _MOST_PAIRS = 64, 4_000_000
# Largest number of tuples of values of a separator, and of variables in a separator.
_MOST_VALUES, _MOST_SEPARATOR = 2.0**40, 10
# A cluster that has fewer variables together with its descendants joins its parent.
_LEAST_VARIABLES = 6
# Table entries that the tree search reads before a search without clusters begins.
_ALONE = 5_000_000
# Largest number of bounds of subproblems in memory: some hundred MB.
_MOST_GOODS = 4_000_000
# The tree is used if its largest cluster has at most this share of the variables.
_LARGEST_SHARE = 0.5


def tree_of_clusters(sizes, scopes, late):
    """Build a rooted tree of clusters of variables.

    Parameters
    ----------
    sizes : list of int
        Number of values of each variable.
    scopes : list of tuples of int
        The variables of each factor; the graph of the factors is connected.
    late : callable
        Whether the time of the run is over.

    Returns
    -------
    order : list of int, or None
        The variables, cluster by cluster, each cluster before its descendants. None if
        eliminated variables have too many neighbors, or the time is over.
    clusters : list of tuples (begin, own_end, end, parent, separator)
        Variables of the cluster are at `begin` to `own_end` of the order, those of its
        descendants at `own_end` to `end`; `parent` is the number of the parent cluster
        or -1, and the separator is a list of places in the order.
    """
    eliminated = _eliminate(len(sizes), scopes, late)
    if eliminated is None:
        return None, []
    order, around = eliminated
    rank = {v: k for k, v in enumerate(order)}
    above = {v: min(around[v], key=rank.get, default=-1) for v in order}
    n_below, merged = dict.fromkeys(order, 1), {}
    # in the order of elimination, children come before their parents
    for v in order:
        if above[v] < 0:
            continue
        u, separator = above[v], around[v]
        n_values = np.prod([float(sizes[w]) for w in separator])
        merged[v] = (
            len(separator) == len(around[u]) + 1
            or len(separator) > _MOST_SEPARATOR
            or n_values > _MOST_VALUES
            or n_below[v] < _LEAST_VARIABLES
        )
        n_below[u] += n_below[v]
    below = {v: [] for v in order}
    for v in reversed(order):
        if above[v] >= 0:
            below[above[v]].append(v)
    return _number(order[-1], below, merged, around)


def _number(root, below, merged, around):
    """Number variables and clusters in depth-first order from the root."""
    order, place, clusters = [], {}, []
    waiting = [(root, -1)]
    while waiting:
        top, parent = waiting.pop()
        if parent == -2:
            # second visit of a cluster: all its descendants have their numbers
            clusters[top][2] = len(order)
            continue
        k, own = len(clusters), [top]
        waiting.append((k, -2))
        for v in own:
            for u in below[v]:
                if merged[u]:
                    own.append(u)
                else:
                    waiting.append((u, k))
        separator = sorted(place[u] for u in around[top])
        for v in own:
            place[v] = len(order)
            order.append(v)
        begin = len(order) - len(own)
        clusters.append([begin, len(order), 0, parent, separator])
    return order, [tuple(row) for row in clusters]


def _eliminate(n, scopes, late):
    """Return an order of minimum fill, and the neighbors of each eliminated variable.

    Returns None if there are too many neighbors, or the time is over.
    """
    around = [set() for _ in range(n)]
    for scope in scopes:
        for v in scope:
            around[v].update(scope)
    for v in range(n):
        around[v].discard(v)
    # computing the initial fills takes this many steps, without a check of the time
    n_pairs = sum(min(len(near), len(around[u])) for near in around for u in near)
    if n_pairs > _MOST_PAIRS:
        return None
    heap = [(_fill(around, v), v) for v in range(n)]
    heapq.heapify(heap)
    order, gone, n_pairs = [], {}, 0
    while heap:
        fill, v = heapq.heappop(heap)
        if v in gone:
            continue
        n_pairs += len(around[v]) ** 2
        now = _fill(around, v)
        # the fill in the heap is out of date: push the variable with its present fill
        if now > fill:
            heapq.heappush(heap, (now, v))
            continue
        if len(around[v]) > _MOST_NEIGHBORS or n_pairs > _MOST_PAIRS or late():
            return None
        gone[v] = around[v]
        order.append(v)
        for u in around[v]:
            around[u] |= around[v]
            around[u] -= {u, v}
        for u in around[v]:
            n_pairs += len(around[u]) ** 2
            heapq.heappush(heap, (_fill(around, u), u))
    return order, gone


def _fill(around, v):
    """Return the number of pairs of neighbors that eliminating v would link."""
    near = around[v]
    return sum(len(near) - 1 - len(around[u] & near) for u in near) // 2


class TreeComponent(Component):
    """The search in one component, along a tree of clusters.

    After a while the tree search takes turns with a search without clusters, whose
    lower bound is higher until the tree search ends.

    Parameters
    ----------
    order, clusters : list
        Order and clusters from `tree_of_clusters`.
    unaries, scopes, tables, limit, grain, start, late
        As in `Component`.
    """

    def __init__(
        self, order, clusters, unaries, scopes, tables, limit, grain, start, late
    ):
        self._order, self._clusters = np.array(order), clusters
        self._place = place = np.argsort(self._order)
        self._costs, self._late = (unaries, scopes, tables), late
        self._partner, self._memory_full = None, False
        scopes = [place[list(scope)] for scope in scopes]
        axes = [np.argsort(scope) for scope in scopes]
        # a tuple that costs the limit or more is in no labeling that costs less
        tables = [
            np.where(table >= limit, FORBIDDEN, table).transpose(axis)
            for table, axis in zip(tables, axes, strict=True)
        ]
        scopes = [tuple(np.sort(scope).tolist()) for scope in scopes]
        if start is not None:
            start = [start[v] for v in order]
        super().__init__(
            [unaries[v] for v in order], scopes, tables, limit, grain, start, late
        )

    def _begin(self, hint):
        # each cluster may miss an improvement of less than a grain: the losses add up
        grain = 1 + (self.grain - 1) // len(self._clusters)
        self.search = TreeSearch(
            self.network, hint, grain, self._clusters, FORBIDDEN // 2, _MOST_GOODS
        )

    @property
    def work(self):
        """Number of table entries that the searches with and without clusters read."""
        partner = self._partner
        return self.network.work + (0 if partner is None else partner.network.work)

    def _given(self, values):
        return values[self._place]

    def lower_limit(self, limit):
        super().lower_limit(limit)
        if self._partner is not None:
            self._partner.lower_limit(limit)

    def prefer(self, values):
        super().prefer([values[v] for v in self._order])
        if self._partner is not None:
            self._partner.prefer(values)

    def advance(self, work):
        if not self._memory_full:
            self._advance_tree(work if self._partner is None else work // 4)
        if not self.closed and (self.network.work > _ALONE or self._memory_full):
            self._advance_partner(work if self._memory_full else 3 * work // 4)

    def _advance_tree(self, work):
        left = self.search.run(work, 0)
        self._note()
        if not left:
            self._close()
        self._memory_full = self.search.full

    def _advance_partner(self, work):
        """Continue the search without clusters, and use its incumbent and bound."""
        if self._partner is None:
            best = None if self.best is None else self.best.tolist()
            self._partner = Component(
                *self._costs, self.limit, self.grain, best, self._late
            )
        partner = self._partner
        partner.lower_limit(self.limit)
        if not partner.closed:
            partner.advance(work)
        if partner.cost is not None and (self.cost is None or partner.cost < self.cost):
            self.best, self.cost = partner.best, partner.cost
            super().lower_limit(partner.limit)
        self.bound = max(self.bound, partner.bound)
        if partner.closed:
            self._close()


def make_component(unaries, scopes, tables, limit, grain, start, late):
    """Set up the search in one component, along a tree of clusters if one is built.

    Parameters
    ----------
    unaries, scopes, tables, limit, grain, start, late
        As in `Component`.

    Returns
    -------
    component : Component
        The search.
    """
    order, clusters = tree_of_clusters([len(row) for row in unaries], scopes, late)
    rest = unaries, scopes, tables, limit, grain, start, late
    if order is not None:
        largest = max(own_end - begin for begin, own_end, *_ in clusters)
        if largest <= _LARGEST_SHARE * len(order):
            return TreeComponent(order, clusters, *rest)
    return Component(*rest)
