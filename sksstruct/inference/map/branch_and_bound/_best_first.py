"""Hybrid best-first search: depth-first from the open node with the lowest bound.

D. Allouche, S. de Givry, G. Katsirelos, T. Schiex and M. Zytnicki, Anytime hybrid
best-first search with tree decomposition for weighted CSP, CP 2015. Each depth-first
search may run into a number of dead ends; then the heap receives the nodes that are
still open. The number of dead ends doubles if restoring nodes takes more than a tenth
of the work, and halves if it takes less than a twentieth.
"""

import heapq

import numpy as np

from sksstruct.inference.map.branch_and_bound._terms import (
    labeling_cost,
    sweep_until_stalled,
)
from sksstruct.inference.map.branch_and_bound.network import Network
from sksstruct.inference.map.branch_and_bound.search import ROOT, DepthFirst

# Largest number of dead ends of a depth-first search before its open nodes enter the
# heap.
_MOST_DEAD_ENDS = 10_000
# Largest number of decisions stored for open nodes in the heap. With more, the open
# nodes of depth-first searches do not enter the heap.
_MOST_DECISIONS = 20_000_000


class Component:
    """Hybrid best-first search in one connected component.

    Parameters
    ----------
    unaries, scopes, tables : list
        Costs of the variables and factors.
    limit : int
        Labelings that cost the limit or more are not searched for.
    grain : int
        Labelings that improve the cost by less than this need not be found.
    start : list of int or None
        Values of a known labeling, which may cost more than the limit.
    late : callable
        Whether the time of the run is over.

    Attributes
    ----------
    bound : int
        Lower bound on the cost of labelings that cost less than the limit. Once
        closed: the cost of `best`, or the limit without one.
    best : ndarray or None
        Values of the incumbent.
    cost : int or None
        Cost of the incumbent.
    closed : bool
        Whether the search is over.
    """

    def __init__(self, unaries, scopes, tables, limit, grain, start, late):
        self.grain, self.closed, self.bound = grain, False, 0
        self.best = self.cost = None
        if start is not None:
            cost = labeling_cost(unaries, scopes, tables, start)
            # costs at the limit or above are not exact, so that a labeling with such a
            # cost gives no incumbent
            if cost < limit:
                self.best, self.cost = self._given(np.array(start)), cost
                limit = cost - grain + 1
        self.limit = limit
        self.network = Network(unaries, scopes, tables, max(limit, 0))
        self.network.wake_all()
        if not (
            self.network.make_consistent() and sweep_until_stalled(self.network, late)
        ):
            self._close()
            return
        self.bound = self.network.c0
        self._begin(np.zeros(len(unaries)) if start is None else start)

    def _begin(self, hint):
        """Set up the search, with the root as the only open node."""
        self._heap, self._count, self._n_decisions = [], 0, 0
        self._dead_ends, self._restore_work, self._search_work = 1, 0, 0
        self._running, self._dead_ends_left = False, 0
        self.search = DepthFirst(self.network, hint, self.grain)
        self._push(self.bound, ROOT)

    @property
    def work(self):
        """Table entries read so far."""
        return self.network.work

    def _given(self, values):
        """Return values in the order in which the variables were given."""
        return values

    def _note(self):
        """Make the best labeling of the search the incumbent if its cost is lower."""
        search = self.search
        if search.found and (self.cost is None or search.best_cost < self.cost):
            self.best, self.cost = self._given(search.labeling.copy()), search.best_cost
            self.limit = min(self.limit, self.cost - self.grain + 1)

    def _close(self):
        self.closed = True
        self.bound = self.cost if self.cost is not None else self.limit

    def _push(self, bound, path):
        # the heap returns the lowest bound first, then the deepest, then the oldest
        # node
        self._count += 1
        self._n_decisions += path.length
        heapq.heappush(self._heap, (bound, -path.length, self._count, path))

    def lower_limit(self, limit):
        """Search only for labelings that cost less than a limit.

        Parameters
        ----------
        limit : int
            The limit.
        """
        if limit < self.limit and not self.closed:
            self.limit = limit
            self.search.lower_limit(limit)

    def prefer(self, values):
        """Prefer the values of a labeling when the search chooses values.

        Parameters
        ----------
        values : list of int
            The values.
        """
        if not self.closed:
            self.search.prefer(values)

    def advance(self, work):
        """Continue the search.

        Parameters
        ----------
        work : int
            Table entries to read, about.
        """
        network, search = self.network, self.search
        end = network.work + work
        while not self.closed and network.work < end:
            if not self._running and not self._go_to_next():
                self._close()
                return
            before, dead_ends = network.work, search.n_dead_ends
            left = search.run(end - network.work, self._dead_ends_left)
            self._search_work += network.work - before
            self._dead_ends_left -= search.n_dead_ends - dead_ends
            self._note()
            if not left:
                self._running = False
            elif self._dead_ends_left <= 0:
                self._hand_out()
        # nodes whose bound reached the limit are not in the heap
        least = [self.limit, *(node[0] for node in self._heap[:1])]
        if self._running:
            least.append(self._node_bound)
        self.bound = max(self.bound, min(least))

    def _go_to_next(self):
        """Restore the open node with the lowest bound; False: no node is open."""
        while self._heap:
            bound, _, _, path = heapq.heappop(self._heap)
            self._n_decisions -= path.length
            if bound >= self.limit:
                continue
            before = self.network.work
            self.search.start(path)
            self._restore_work += self.network.work - before
            self._running, self._node_bound = True, bound
            self._dead_ends_left = self._dead_ends
            return True
        return False

    def _hand_out(self):
        """Put the open nodes of the search into the heap, unless the heap is full."""
        if self._n_decisions > _MOST_DECISIONS:
            self._dead_ends_left = _MOST_DEAD_ENDS
            return
        for bound, path in self.search.open_nodes():
            self._push(max(bound, self._node_bound), path)
        self._running = False
        if self._restore_work > 0.1 * self._search_work:
            self._dead_ends = min(2 * self._dead_ends, _MOST_DEAD_ENDS)
        elif self._restore_work < 0.05 * self._search_work:
            self._dead_ends = max(self._dead_ends // 2, 1)
