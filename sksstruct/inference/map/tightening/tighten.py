"""Rounds of sweeps and new clusters that lower a loose bound.

D. Sontag et al., UAI 2008 and 2012, cited in full in the kernels. This file decides
which triplets are added and when the rounds end; kernels find triplets and sweep.
"""

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

# Name of the rounds in the trace of a run.
_PART = "tightening"
# Largest number of pairs of sweeps in a round. The sweeps of a round end early if a
# pair lowers the bound by at most the share `_LEAST_PROGRESS` of the gap.
_SWEEPS, _LEAST_PROGRESS = 10, 0.002
# A round without new clusters is the last if the gap falls by at most this share.
_STALLED = 0.001
# A round adds at most max(_AT_ONCE, _SHARE times the number of variables) triplets,
# first from triangles; cycles are searched, by falling thresholds, until this number is
# reached. The tables of all triplets together have at most `_MOST_ENTRIES` entries.
_SHARE, _AT_ONCE, _MOST_ENTRIES = 0.5, 20, 10_000_000
# Least guaranteed decrease of the bound by a new triplet, relative to the gap.
_NOISE = 1e-5
# Least |weight| in searches for cycles, relative to `SignedGraph.threshold`.
_THRESHOLDS = 0.5, 0.1, 0.02
# Number of states of each variable that are split from all others.
_SPLITS = 6
# Largest work of a search for clusters: the work of `_SEARCH_SWEEPS` sweeps, but at
# least `_SEARCH_WORK` table entries.
_SEARCH_SWEEPS, _SEARCH_WORK = 20.0, 1e6
# Rounds before the first search for labelings; the interval grows by half each time.
_FIRST_SEARCH = 2


class Tightening:
    """Relaxation of a graph with a growing number of triplets of variables.

    Parameters
    ----------
    run : MAPRun
        Holds a bound and the messages of TRW-S; receives bounds and labelings.

    Attributes
    ----------
    work : float
        Table entries read so far.
    bound : float
        Upper bound of the relaxation; the run may have a lower bound.
    n_triplets : int
        Number of triplets added so far.
    """

    def __init__(self, run):
        self.run, self.work, self.bound = run, 0.0, np.inf
        rows, scopes, tables = written_out(run.problem.graph)
        if run.messages is not None:
            rows, scopes, tables = run.messages.reparametrize(rows, scopes, tables)
        # Entries that are below the best entry of their table by more than twice the
        # gap are in no labeling that is better than the incumbent. These entries are
        # raised, because sums of smaller numbers are more precise.
        top = sum(float(term.max()) for term in (*rows, *tables))
        most = 2.0 * max(top - run.score, run.tol * max(1.0, abs(run.score)))
        rows, tables = (
            [np.maximum(term, term.max() - most) for term in terms]
            for terms in (rows, tables)
        )
        pairs, self._larger_factors, self._constant = {}, [], 0.0
        for scope, table in zip(scopes, tables, strict=True):
            if len(scope) > 2:
                # larger factors take no part in sweeps: each adds the maximum of its
                # table, from which TRW-S has moved scores to variables, to the bound
                self._larger_factors.append((scope, table))
                self._constant += float(table.max())
                continue
            u, v = (int(v) for v in scope)
            u, v, table = (u, v, table) if u < v else (v, u, table.T)
            pairs[u, v] = pairs[u, v] + table if (u, v) in pairs else table
        self._clusters = Clusters(run.problem, rows, pairs)
        self._added = set()
        self._rounds, self._next_search = 0, _FIRST_SEARCH

    @property
    def n_triplets(self):
        return len(self._clusters.triplets)

    def advance(self):
        """Make one round: sweeps, sometimes a search for labelings, and new triplets.

        Returns
        -------
        stop : bool
            Whether the run is to stop, or the gap has stalled without new clusters.
        """
        run = self.run
        gap = self.bound - run.score
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
        return gap < np.inf and gap - (self.bound - run.score) <= _STALLED * gap

    def _sweep(self):
        run, clusters = self.run, self._clusters
        for _ in range(_SWEEPS):
            before = clusters.bound
            clusters.sweep(True)
            bound = clusters.sweep() + self._constant
            self.work += 2.0 * clusters.sweep_work
            self.bound = min(self.bound, bound)
            # a round is an iteration of the solver, a sweep is not
            if run.report_between(_PART, bound):
                return
            if before - clusters.bound <= _LEAST_PROGRESS * (run.bound - run.score):
                return

    def beliefs(self):
        """Return a score of each state, in a flat array; large scores are promising."""
        return promising(self._clusters, spread(self._clusters))

    def _decode(self):
        """Search for labelings from the best states of each variable."""
        run, beliefs = self.run, self.beliefs()
        search = search_locally(run, run.problem.best_states(beliefs))
        search_promising(run, search, beliefs)
        run.report_between(_PART)

    # ---- clusters ----

    def _find(self):
        """Return new triplets, those with the largest guaranteed decreases first."""
        run, clusters = self.run, self._clusters
        least = _NOISE * (run.bound - run.score)
        tables = spread(clusters)
        budget = max(_SEARCH_WORK, _SEARCH_SWEEPS * clusters.sweep_work)
        triangles = Triangles(clusters, tables, least)
        triplets, scores = triangles.find(budget)
        self.work += triangles.work
        order = np.argsort(-scores, kind="stable")
        most = max(_AT_ONCE, int(_SHARE * run.problem.n_variables))
        new = [t for t in map(tuple, triplets[order].tolist()) if t not in self._added][
            :most
        ]
        if len(new) < most:
            new += self._find_cycles(tables, least, most - len(new), new, budget)
        sizes = clusters.n_states[np.array(new, dtype=np.intp).reshape(-1, 3)]
        entries = (sizes * np.roll(sizes, 1, axis=1)).sum(axis=1)
        room = _MOST_ENTRIES - clusters.n_entries
        new = new[: np.searchsorted(np.cumsum(entries), room, side="right")]
        self._added.update(new)
        return np.array(new, dtype=np.intp).reshape(-1, 3)

    def _find_cycles(self, tables, least, most, known, budget):
        """Return new triplets that triangulate contradictory cycles."""
        clusters, new = self._clusters, {}
        graph = SignedGraph(clusters, tables, _splits(clusters, tables))
        known, seen_cycles, top = {*known, *self._added}, set(), graph.threshold()
        for share in _THRESHOLDS:
            if top <= least or len(new) >= most:
                break
            walks = graph.cycles(max(least, share * top), self._rounds, budget)
            for cycle in (cycle for walk in walks for cycle in simple_cycles(walk)):
                key = frozenset(cycle)
                if key not in seen_cycles:
                    seen_cycles.add(key)
                    triplets = triangulate(cycle, clusters.place)
                    new.update((t, None) for t in triplets if t not in known)
        self.work += 4.0 * graph.work
        return list(new)

    # ---- for branch and bound ----

    def reparametrize(self, rows, scopes, tables):
        """Return the scores of variables and factors after all sweeps.

        Labelings worse than the incumbent may get other scores, which stay worse than
        the incumbent's.

        Parameters
        ----------
        rows, scopes, tables : list
            Scores of the graph, as in `written_out`.

        Returns
        -------
        rows, scopes, tables : list
            Reparametrized scores; labelings better than the incumbent keep their
            scores.
        """
        clusters = self._clusters
        moved = [*clusters.edge_tables().items(), *clusters.triplet_tables()]
        moved = [(scope, table) for scope, table in moved if table.any()]
        moved += self._larger_factors
        rows = np.split(clusters.beliefs, self.run.problem.graph.first_state[1:-1])
        return rows, [scope for scope, _ in moved], [table for _, table in moved]


def _splits(clusters, tables):
    """Return the most promising states, to be split from all others; -1: no state."""
    beliefs, sizes = promising(clusters, tables), clusters.n_states
    first = np.cumsum(sizes) - sizes
    n = 1 if sizes.max() <= 2 else _SPLITS
    out = np.full((len(sizes), n), -1, dtype=np.intp)
    for v, size in enumerate(sizes):
        # variables of two states have one split
        best = np.argsort(-beliefs[first[v] : first[v] + size], kind="stable")
        best = best[: {1: 0, 2: 1}.get(int(size), n)]
        out[v, : len(best)] = best
    return out


def simple_cycles(walk):
    """Cut a closed walk into simple cycles where the walk returns to a variable.

    A walk through different splits of a variable may be contradictory although no
    single cycle is. Triplets of these cycles may help nevertheless: tables of triplets
    distinguish all states.

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
    """Triangulate a cycle: triplets that contain all its edges.

    Parameters
    ----------
    cycle : list of int
        Different variables.
    edges : container of (int, int)
        The edges (u, v), u < v, of the graph.

    Returns
    -------
    triplets : list of tuples of int
        All contain the variable that has edges to most variables of the cycle.
    """
    n = len(cycle)

    def n_edges(k):
        pairs = ((cycle[k], cycle[k - j]) for j in range(2, n - 1))
        return sum((min(pair), max(pair)) in edges for pair in pairs)

    best = max(range(n), key=lambda k: (n_edges(k), -cycle[k]))
    ring = cycle[best:] + cycle[:best]
    return [tuple(sorted((ring[0], *ring[j : j + 2]))) for j in range(1, n - 1)]
