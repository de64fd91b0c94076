"""Variables of few neighbors are eliminated, and what is left falls into components."""

import heapq

import numpy as np

from sksstruct.inference.map.branch_and_bound._terms import FORBIDDEN

# Largest number of neighbors of a variable that is eliminated, and of entries of the
# table that it makes, where it has one to two, or three.
_NEIGHBORS = 3
_ENTRIES = {0: np.inf, 1: np.inf, 2: 40_000, 3: 200}


class Simplified:
    """What is left of a network without variables of few neighbors.

    Parameters
    ----------
    network : Network
        The network.
    scopes : list of tuples of int
        The variables of its factors.

    Attributes
    ----------
    constant : int
        Cost of all labelings.
    values : list of ndarrays
        The values of each variable that are left.
    components : list of tuples (variables, unaries, scopes, tables)
        The variables that are left, in parts that share no factor; scopes are places in
        `variables`.
    """

    def __init__(self, network, scopes):
        self.constant = network.c0
        self.values, unaries, tables = network.export()
        self._unaries = [row.copy() for row in unaries]
        self._sizes = [len(row) for row in unaries]
        self._tables = {}
        self._around = [set() for _ in unaries]
        for scope, table in zip(scopes, tables, strict=True):
            self._add(scope, table)
        self._eliminated = []
        self._eliminate()
        self.components = self._split()

    def _add(self, scope, table):
        """Add costs to some variables, without those that have one value."""
        open_ = [k for k, v in enumerate(scope) if self._sizes[v] > 1]
        table = table.reshape([table.shape[k] for k in open_])
        scope = tuple(scope[k] for k in open_)
        if not table.any():
            return
        if not scope:
            self.constant += int(table)
        elif len(scope) == 1:
            row = self._unaries[scope[0]]
            # what costs too much stays there, without running over
            self._unaries[scope[0]] = np.minimum(row + table, FORBIDDEN)
        else:
            old = self._tables.get(scope)
            total = table if old is None else old + table
            self._tables[scope] = np.minimum(total, FORBIDDEN)
            for v in scope:
                self._around[v].add(scope)

    def _eliminate(self):
        """Eliminate variables, those with few neighbors first."""
        heap = [(self._degree(v), v) for v in range(len(self._sizes))]
        heapq.heapify(heap)
        self._gone = [False] * len(self._sizes)
        while heap:
            degree, v = heapq.heappop(heap)
            if self._gone[v]:
                continue
            # degrees change: what is out of date goes back
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
            self._maximize_out(v, neighbors)
            for u in neighbors:
                heapq.heappush(heap, (self._degree(u), u))

    def _neighbors(self, v):
        return sorted({u for scope in self._around[v] for u in scope} - {v})

    def _degree(self, v):
        # variables with one value come first: they have no factors
        return len(self._neighbors(v))

    def _maximize_out(self, v, neighbors):
        """Replace a variable by the least costs for the values of its neighbors."""
        scope = (*neighbors, v)
        total = np.zeros([self._sizes[u] for u in scope], dtype=np.int64)
        total += self._unaries[v]
        for other in list(self._around[v]):
            table = self._tables.pop(other)
            for u in other:
                self._around[u].discard(other)
            # variables of a scope are in order, but for v, which is the last here
            table = np.moveaxis(table, other.index(v), -1)
            shape = [self._sizes[u] if u in other else 1 for u in scope]
            total = np.minimum(total + table.reshape(shape), FORBIDDEN)
        best = total.argmin(axis=-1)
        self._eliminated.append((v, neighbors, best))
        self._gone[v] = True
        self._add(tuple(neighbors), total.min(axis=-1))

    def _split(self):
        """The variables that are left, in parts that share no factor."""
        part, parts = {}, []
        for v, gone in enumerate(self._gone):
            if gone or v in part:
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
            # in the order of their first variables
            scopes = sorted({scope for v in members for scope in self._around[v]})
            out.append((
                members,
                [self._unaries[v] for v in members],
                [tuple(place[v] for v in scope) for scope in scopes],
                [self._tables[scope] for scope in scopes],
            ))  # fmt: skip
        return out

    def restrict(self, labeling, members):
        """Places of the states of some variables among the values that are left.

        Parameters
        ----------
        labeling : ndarray of shape (n_variables,)
            States.
        members : list of int
            The variables.

        Returns
        -------
        places : list of int, or None
            None where a state is not left.
        """
        places = []
        for v in members:
            k = int(np.searchsorted(self.values[v], labeling[v]))
            if k == len(self.values[v]) or self.values[v][k] != labeling[v]:
                return None
            places.append(k)
        return places

    def complete(self, parts):
        """The best labeling with given values of the variables that are left.

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
