"""Rounds of message passing and of new clusters, if the bound is loose."""

import numpy as np

from sksstruct.inference.map.core._decode import search_locally, search_promising
from sksstruct.inference.map.core._written import written_out
from sksstruct.inference.map.tightening.clusters import Clusters
from sksstruct.inference.map.tightening.cycles import (
    SignedGraph,
    Triangles,
    promising,
    spread,
)

# Sweeps in both directions between two searches for clusters, which end before where
# the bound falls by less than this share of the gap.
_SWEEPS, _LEAST_PROGRESS = 10, 0.002
# A round without new clusters is the last if the gap falls by less than this share.
_STALLED = 0.001
# Triplets for each variable and at least, above which no more triangles are added at
# once, and no cycles of smaller weight; and the numbers that all tables may have.
_SHARE, _AT_ONCE, _MOST_ENTRIES = 0.5, 20, 10_000_000
# Triplets are not added where they are certain to lower the bound by less than this
# share of the gap only.
_NOISE = 1e-5
# Cycles are first those of at least such a share of the largest smallest weight.
_THRESHOLDS = 0.5, 0.1, 0.02
# States that are split from the others, for each variable.
_SPLITS = 6
# Work of a search for clusters, in sweeps, and in entries of tables at least.
_SEARCH_SWEEPS, _SEARCH_WORK = 20.0, 1e6
# Rounds before the first search for labelings; then each time half as many again.
_FIRST_SEARCH = 2


class Tightening:
    """The relaxation of a graph with more and more triplets of variables.

    Parameters
    ----------
    run : MAPRun
        Has a bound and the messages that gave it; receives bounds and labelings.

    Attributes
    ----------
    work : float
        Entries of tables that were looked at.
    n_triplets : int
        Number of clusters.
    """

    def __init__(self, run):
        self.run, self.work = run, 0.0
        rows, scopes, tables = written_out(run.problem.graph)
        if run.messages is not None:
            rows, scopes, tables = run.messages.reparametrize(rows, scopes, tables)
        # what misses the best by more than twice the gap is in no better labeling, and
        # with less to miss sums are more precise
        top = sum(float(term.max()) for term in (*rows, *tables))
        most = 2.0 * max(top - run.score, run.tol * max(1.0, abs(run.score)))
        rows, tables = (
            [np.maximum(term, term.max() - most) for term in terms]
            for terms in (rows, tables)
        )
        pairs, self._rest, self._constant = {}, [], 0.0
        for scope, table in zip(scopes, tables, strict=True):
            if len(scope) > 2:
                # stays as it is: its messages have been moved to its variables
                self._rest.append((scope, table))
                self._constant += float(table.max())
                continue
            u, v = (int(v) for v in scope)
            u, v, table = (u, v, table) if u < v else (v, u, table.T)
            pairs[u, v] = pairs[u, v] + table if (u, v) in pairs else table
        self._clusters = Clusters(run.problem, rows, pairs)
        self._known = set()
        self._rounds, self._next_search = 0, _FIRST_SEARCH

    @property
    def n_triplets(self):
        return len(self._clusters.triplets)

    def advance(self):
        """Sweep, look for labelings, and add clusters.

        Returns
        -------
        stop : bool
            Whether the run is to stop, or neither sweeps nor clusters help any more.
        """
        run = self.run
        gap = run.bound - run.score
        self._sweep()
        self._rounds += 1
        if run.status is None and self._rounds >= self._next_search:
            self._next_search = int(1.5 * self._next_search) + 1
            self._decode()
        if run.status is not None:
            return True
        triplets = self._find()
        if len(triplets):
            self._clusters.add(triplets)
            return False
        return gap - (run.bound - run.score) <= _STALLED * gap

    def _sweep(self):
        run, clusters = self.run, self._clusters
        for _ in range(_SWEEPS):
            before = clusters.bound
            # the second sweep ends with all scores in the variables again
            clusters.sweep(True)
            bound = clusters.sweep() + self._constant
            self.work += 2.0 * clusters.sweep_work
            # what ends iterations is not what ends rounds of clusters
            if run.report_between(bound):
                return
            if before - clusters.bound <= _LEAST_PROGRESS * (run.bound - run.score):
                return

    def beliefs(self):
        """Scores of all states, flat; large ones are promising."""
        return promising(self._clusters, spread(self._clusters))

    def _decode(self):
        """Search from the best states."""
        run, beliefs = self.run, self.beliefs()
        search = search_locally(run, run.problem.best_states(beliefs))
        search_promising(run, search, beliefs)
        run.report_between()

    # ---- clusters ----

    def _find(self):
        """New triplets, those first that lower the bound most for certain."""
        run, clusters = self.run, self._clusters
        least = _NOISE * (run.bound - run.score)
        tables = spread(clusters)
        budget = max(_SEARCH_WORK, _SEARCH_SWEEPS * clusters.sweep_work)
        triangles = Triangles(clusters, tables, least)
        triplets, scores = triangles.find(budget)
        self.work += triangles.work
        order = np.argsort(-scores, kind="stable")
        most = max(_AT_ONCE, int(_SHARE * run.problem.n_variables))
        found = [
            t for t in map(tuple, triplets[order].tolist()) if t not in self._known
        ][:most]
        if len(found) < most:
            found += self._find_cycles(tables, least, most - len(found), found, budget)
        sizes = clusters.n_states[np.array(found, dtype=np.intp).reshape(-1, 3)]
        entries = (sizes * np.roll(sizes, 1, axis=1)).sum(axis=1)
        room = _MOST_ENTRIES - clusters.n_entries
        found = found[: np.searchsorted(np.cumsum(entries), room, side="right")]
        self._known.update(found)
        return np.array(found, dtype=np.intp).reshape(-1, 3)

    def _find_cycles(self, tables, least, most, taken, budget):
        """New triplets that make up contradictory cycles."""
        clusters, new = self._clusters, {}
        graph = SignedGraph(clusters, tables, _splits(clusters, tables))
        taken, seen, top = {*taken, *self._known}, set(), graph.threshold()
        for share in _THRESHOLDS:
            if top <= least or len(new) >= most:
                break
            walks = graph.cycles(max(least, share * top), self._rounds, budget)
            for cycle in (cycle for walk in walks for cycle in simple_cycles(walk)):
                key = frozenset(cycle)
                if key not in seen:
                    seen.add(key)
                    triplets = triangulate(cycle, clusters.place)
                    new.update((t, None) for t in triplets if t not in taken)
        self.work += 4.0 * graph.work
        return list(new)

    # ---- for branch and bound ----

    def reparametrize(self, rows, scopes, tables):
        """The scores as they have been moved, instead of those given.

        Labelings that are worse than the best one known may have other scores, which
        are not better.

        Parameters
        ----------
        rows, scopes, tables : list
            Scores of the graph, as of `written_out`.

        Returns
        -------
        rows, scopes, tables : list
            The same scores of all better labelings.
        """
        clusters = self._clusters
        moved = [*clusters.edge_tables().items(), *clusters.triplet_tables()]
        moved = [(scope, table) for scope, table in moved if table.any()]
        moved += self._rest
        rows = np.split(clusters.beliefs, self.run.problem.graph.first_state[1:-1])
        return rows, [scope for scope, _ in moved], [table for _, table in moved]


def _splits(clusters, tables):
    """The states to split from all others, -1 for none."""
    beliefs, sizes = promising(clusters, tables), clusters.n_states
    first = np.cumsum(sizes) - sizes
    n = 1 if sizes.max() <= 2 else _SPLITS
    out = np.full((len(sizes), n), -1, dtype=np.intp)
    for v, size in enumerate(sizes):
        # of two states one is enough: the other is what is left
        best = np.argsort(-beliefs[first[v] : first[v] + size], kind="stable")
        best = best[: {1: 0, 2: 1}.get(int(size), n)]
        out[v, : len(best)] = best
    return out


def simple_cycles(walk):
    """The cycles of a closed walk, cut where it comes back to a variable.

    Through different splits of one variable it may contradict itself although no single
    cycle does. Triplets of its cycles help nevertheless: they see all states.

    Parameters
    ----------
    walk : list of int
        Variables; the last one is followed by the first.

    Yields
    ------
    cycle : list of int
        At least three different variables.
    """
    path = []
    for v in walk:
        if v in path:
            begin = path.index(v)
            if len(path) - begin > 2:
                yield path[begin:]
            del path[begin:]
        path.append(v)
    if len(path) > 2:
        yield path


def triangulate(cycle, edges):
    """Triplets that make up a cycle.

    Parameters
    ----------
    cycle : list of int
        Different variables.
    edges : container of (int, int)
        Edges (u, v), u < v, that there are.

    Returns
    -------
    triplets : list of tuples of int
        All have the variable in common that has edges to most of the others.
    """
    n = len(cycle)

    def n_edges(k):
        pairs = ((cycle[k], cycle[k - j]) for j in range(2, n - 1))
        return sum((min(pair), max(pair)) in edges for pair in pairs)

    best = max(range(n), key=lambda k: (n_edges(k), -cycle[k]))
    ring = cycle[best:] + cycle[:best]
    return [tuple(sorted((ring[0], *ring[j : j + 2]))) for j in range(1, n - 1)]
