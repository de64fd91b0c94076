"""Hybrid best-first search: depth-first from the open node with the least bound.

D. Allouche, S. de Givry, G. Katsirelos, T. Schiex and M. Zytnicki, Anytime hybrid
best-first search with tree decomposition for weighted CSP, CP 2015. A depth-first
search has a number of dead ends; what it leaves open goes into a heap. That number
doubles if going to nodes takes more than a tenth of the work, and halves below a
twentieth.
"""

import heapq

import numpy as np

from sksstruct.inference.map.branch_and_bound._terms import (
    labeling_cost,
    sweep_until_stalled,
)
from sksstruct.inference.map.branch_and_bound.network import Network
from sksstruct.inference.map.branch_and_bound.search import DepthFirst

_MOST_DEAD_ENDS = 10_000
# Decisions of all open nodes together, beyond which the search is depth-first.
_MOST_DECISIONS = 20_000_000


class Component:
    """The search in one component.

    Parameters
    ----------
    unaries, scopes, tables : list
        Costs of the variables and factors.
    limit : int
        Labelings that cost so much are of no interest.
    grain : int
        Labelings that cost less by less than that need not be found.
    start : list of int or None
        Values of a labeling that is known, and that may cost more than the limit.

    Attributes
    ----------
    bound : int
        Lower bound of the costs, as far as they are of interest.
    best : ndarray or None
        The best values known.
    cost : int or None
        What they cost.
    closed : bool
        Whether nothing is left to search.
    """

    def __init__(self, unaries, scopes, tables, limit, grain, start, late):
        self.grain, self.closed, self.bound = grain, False, 0
        self.best = self.cost = None
        if start is not None:
            cost = labeling_cost(unaries, scopes, tables, start)
            # costs are exact below the limit only: others may be larger than they are
            # here, and say nothing of labelings below the limit
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
        """Begin at the root."""
        self._heap, self._count, self._held = [], 0, 0
        self._dead_ends, self._going, self._searching = 1, 0, 0
        self._running, self._left = False, 0
        self.search = DepthFirst(self.network, hint, self.grain)
        self._push(self.bound, [])

    @property
    def work(self):
        """Entries of tables that were looked at."""
        return self.network.work

    def _given(self, values):
        """Values in the order in which the variables were given."""
        return values

    def _note(self):
        """Keep the best values that the search has found."""
        search = self.search
        if search.found and (self.cost is None or search.best_cost < self.cost):
            self.best, self.cost = self._given(search.labeling.copy()), search.best_cost
            self.limit = min(self.limit, self.cost - self.grain + 1)

    def _close(self):
        self.closed = True
        self.bound = self.cost if self.cost is not None else self.limit

    def _push(self, bound, decisions):
        # the deepest of equal bounds first, then the oldest
        self._count += 1
        self._held += len(decisions)
        heapq.heappush(self._heap, (bound, -len(decisions), self._count, decisions))

    def lower_limit(self, limit):
        """Look only for labelings that cost less.

        Parameters
        ----------
        limit : int
            What they must cost less than.
        """
        if limit < self.limit and not self.closed:
            self.limit = limit
            self.search.lower_limit(limit)

    def prefer(self, values):
        """Prefer the values of a labeling, and note what it costs.

        Parameters
        ----------
        values : list of int
            The values.
        """
        if not self.closed:
            self.search.prefer(values)

    def advance(self, work):
        """Search on.

        Parameters
        ----------
        work : int
            Entries of tables to look at, about.
        """
        network, search = self.network, self.search
        end = network.work + work
        while not self.closed and network.work < end:
            if not self._running and not self._go_to_next():
                self._close()
                return
            before, dead_ends = network.work, search.n_dead_ends
            left = search.run(end - network.work, self._left)
            self._searching += network.work - before
            self._left -= search.n_dead_ends - dead_ends
            self._note()
            if not left:
                self._running = False
            elif self._left <= 0:
                self._hand_out()
        least = [self._heap[0][0]] if self._heap else []
        if self._running:
            least.append(self._base)
        self.bound = max(self.bound, min(least, default=self.bound))

    def _go_to_next(self):
        """Go to the open node with the least bound; False: there is none."""
        while self._heap:
            bound, _, _, decisions = heapq.heappop(self._heap)
            self._held -= len(decisions)
            if bound >= self.limit:
                continue
            before = self.network.work
            self.search.start(decisions)
            self._going += self.network.work - before
            self._running, self._base = True, bound
            self._left = self._dead_ends
            return True
        return False

    def _hand_out(self):
        """Leave the present node, with what is open below it."""
        if self._held > _MOST_DECISIONS:
            self._left = _MOST_DEAD_ENDS
            return
        for bound, decisions in self.search.open_nodes():
            self._push(max(bound, self._base), decisions)
        self._running = False
        if self._going > 0.1 * self._searching:
            self._dead_ends = min(2 * self._dead_ends, _MOST_DEAD_ENDS)
        elif self._going < 0.05 * self._searching:
            self._dead_ends = max(self._dead_ends // 2, 1)
