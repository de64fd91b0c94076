"""Elimination of variables with few neighbors, and the components that remain."""

import heapq

import numpy as np

from sksstruct.inference.map.branch_and_bound._terms import FORBIDDEN

# Largest number of neighbors of an eliminated variable; and largest number of entries
# of the new table over these neighbors, by the number of neighbors.
_NEIGHBORS = 3
_ENTRIES = {0: np.inf, 1: np.inf, 2: 40_000, 3: 200}


class Simplified:
    """A network whose variables with few neighbors are eliminated.

    Parameters
    ----------
    network : Network
        The network.
    scopes : list of tuples of int
        The variables of each factor of the network.

    Attributes
    ----------
    constant : int
        Cost that all labelings share.
    values : list of ndarrays
        The remaining values of each variable.
    components : list of tuples (variables, unaries, scopes, tables)
        Connected components of the remaining variables; scopes are places in
        `variables`.
    """

    def __init__(self, network, scopes):
        self.constant = network.c0
        self.values, unaries, tables = network.export()
        self._unaries = [row.copy() for row in unaries]
        self._sizes = [len(row) for row in unaries]
        self._tables = {}
        self._scopes_of = [set() for _ in unaries]
        for scope, table in zip(scopes, tables, strict=True):
            self._add(scope, table)
        self._eliminated = []
        self._eliminate()
        self.components = self._split()

    def _add(self, scope, table):
        """Add a table without axes of decided variables; leave out tables of zeros."""
        open_ = [k for k, v in enumerate(scope) if self._sizes[v] > 1]
        table = table.reshape([table.shape[k] for k in open_])
        scope = tuple(scope[k] for k in open_)
        if not table.any():
            return
        if not scope:
            self.constant += int(table)
        elif len(scope) == 1:
            row = self._unaries[scope[0]]
            # costs are capped, as sums of forbidden costs would overflow
            self._unaries[scope[0]] = np.minimum(row + table, FORBIDDEN)
        else:
            old = self._tables.get(scope)
            total = table if old is None else old + table
            self._tables[scope] = np.minimum(total, FORBIDDEN)
            for v in scope:
                self._scopes_of[v].add(scope)

    def _eliminate(self):
        """Eliminate variables with few neighbors, those with the fewest first."""
        heap = [(self._degree(v), v) for v in range(len(self._sizes))]
        heapq.heapify(heap)
        self._is_eliminated = [False] * len(self._sizes)
        while heap:
            degree, v = heapq.heappop(heap)
            if self._is_eliminated[v]:
                continue
            # the degree in the heap is out of date: push the variable with its present
            # degree
            now = self._degree(v)
            if now > degree:
                heapq.heappush(heap, (now, v))
                continue
            if now > _NEIGHBORS:
                continue
            neighbors = self._neighbors(v)
            n_entries = np.prod([self._sizes[u] for u in neighbors])
            if n_entries > _ENTRIES[len(neighbors)]:
                continue
            self._minimize_out(v, neighbors)
            for u in neighbors:
                heapq.heappush(heap, (self._degree(u), u))

    def _neighbors(self, v):
        return sorted({u for scope in self._scopes_of[v] for u in scope} - {v})

    def _degree(self, v):
        # `_add` leaves no factor at variables with one value: their degree is 0
        return len(self._neighbors(v))

    def _minimize_out(self, v, neighbors):
        """Replace variable v by a table of v's least costs given the neighbors."""
        scope = (*neighbors, v)
        total = np.zeros([self._sizes[u] for u in scope], dtype=np.int64)
        total += self._unaries[v]
        for other in list(self._scopes_of[v]):
            table = self._tables.pop(other)
            for u in other:
                self._scopes_of[u].discard(other)
            # axes of tables are in the order of variables, but `v` is the last axis of
            # `total`
            table = np.moveaxis(table, other.index(v), -1)
            shape = [self._sizes[u] if u in other else 1 for u in scope]
            total = np.minimum(total + table.reshape(shape), FORBIDDEN)
        best = total.argmin(axis=-1)
        self._eliminated.append((v, neighbors, best))
        self._is_eliminated[v] = True
        self._add(tuple(neighbors), total.min(axis=-1))

    def _split(self):
        """Return the connected components of the remaining variables."""
        part, parts = {}, []
        for v, is_eliminated in enumerate(self._is_eliminated):
            if is_eliminated or v in part:
                continue
            part[v], members = len(parts), [v]
            for u in members:
                for w in self._neighbors(u):
                    if w not in part:
                        part[w] = len(parts)
                        members.append(w)
            parts.append(sorted(members))
        out = []
        for members in parts:
            place = {v: k for k, v in enumerate(members)}
            # list each scope once, in a fixed order
            scopes = sorted({scope for v in members for scope in self._scopes_of[v]})
            out.append((
                members,
                [self._unaries[v] for v in members],
                [tuple(place[v] for v in scope) for scope in scopes],
                [self._tables[scope] for scope in scopes],
            ))  # fmt: skip
        return out

    def restrict(self, labeling, members):
        """Return the index of each given variable's state among its remaining values.

        Parameters
        ----------
        labeling : ndarray of shape (n_variables,)
            States.
        members : list of int
            The variables.

        Returns
        -------
        places : list of int, or None
            None if a state has been removed.
        """
        places = []
        for v in members:
            k = int(np.searchsorted(self.values[v], labeling[v]))
            if k == len(self.values[v]) or self.values[v][k] != labeling[v]:
                return None
            places.append(k)
        return places

    def complete(self, parts):
        """Return the best labeling for given values of the remaining variables.

        Parameters
        ----------
        parts : list of arrays
            Places of the values of the variables of each component.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), int32
            States of all variables.
        """
        place = np.zeros(len(self.values), dtype=np.int64)
        for (members, *_), values in zip(self.components, parts, strict=True):
            place[members] = values
        for v, neighbors, best in reversed(self._eliminated):
            place[v] = best[tuple(place[u] for u in neighbors)]
        states = [keep[k] for keep, k in zip(self.values, place, strict=True)]
        return np.array(states, dtype=np.int32)
