"""Reparametrized scores of variables, edges and triplets: arrays of the kernels."""

from types import SimpleNamespace

import numpy as np

from sksstruct.inference.map.core._index import offsets, places_by
from sksstruct.inference.map.tightening._clusters import Sweeps


class Clusters:
    """Scores of variables, edges and triplets, between which sweeps move scores.

    Sweeps do not change the total score of any labeling.

    Parameters
    ----------
    problem : MAPProblem
        The graph, which also checks the time limit.
    rows : list of ndarrays of shape (n_states[i],)
        Scores of the variables.
    pairs : dict of (int, int) to ndarray
        Tables of edges (u, v), u < v.

    Attributes
    ----------
    arrays : SimpleNamespace
        Flat arrays of scores and indices, for the kernels.
    sweeps : Sweeps
        The kernel on these arrays.
    place : dict of (int, int) to int
        Number of each edge.
    triplets : ndarray of shape (n_triplets, 3)
        Variables of the triplets, in increasing order.
    bound : float
        Upper bound of the last sweep.
    """

    def __init__(self, problem, rows, pairs):
        self.problem, self.bound = problem, np.inf
        states = np.array([len(row) for row in rows], dtype=np.intp)
        self.arrays = SimpleNamespace(
            beliefs=np.concatenate(rows), states=states, first=offsets(states),
            row=np.empty(int(np.max(states))), messages=np.zeros(0),
        )  # fmt: skip
        # without triplets, the relaxation has the consistency constraints of edges only
        self.triplets = np.zeros((0, 3), dtype=np.intp)
        self._set_edges(pairs)
        self._index()

    def _set_edges(self, pairs):
        """Order the edges, and concatenate their tables."""
        # sorted by the later variable: the order in which sweeps visit the edges
        keys = sorted(pairs, key=lambda pair: (pair[1], pair[0]))
        self.place = {key: edge for edge, key in enumerate(keys)}
        self._replace(
            ends=np.array(keys, dtype=np.intp).reshape(-1, 2),
            tables=np.concatenate([*(pairs[key].ravel() for key in keys), []]),
            start=offsets([pairs[key].size for key in keys]),
        )

    def _replace(self, **arrays):
        # a new namespace: the present kernel owns the old arrays that it points into
        self.arrays = SimpleNamespace(**{**vars(self.arrays), **arrays})

    def _index(self):
        """List the edges of each variable, and the triplets of each edge."""
        n, ends = len(self.n_states), self.ends
        # edges to earlier variables are contiguous, edges to later variables are listed
        lower, _ = places_by(ends[:, 1], n)
        upper, upper_edge = places_by(ends[:, 0], n)
        # the edges of triplet (a, b, c) in their order: (a, b), (a, c), (b, c)
        parts = [
            self.place[a, b]
            for t in self.triplets.tolist()
            for a, b in ((t[0], t[1]), (t[0], t[2]), (t[1], t[2]))
        ]
        # each edge of each triplet has a table
        parts = np.array(parts, dtype=np.intp)
        start = offsets(np.diff(self.arrays.start)[parts])
        # tables of new triplets come last and are zero
        messages = np.zeros(start[-1])
        messages[: self.n_entries] = self.arrays.messages
        # `in_place` has, for each edge, the numbers 3 t + s of the triplets t of which
        # the edge is part s
        in_, in_place = places_by(parts, len(ends))
        self._replace(
            lower=lower, upper=upper, upper_edge=upper_edge, parts=parts,
            start_message=start, messages=messages, in_=in_, in_place=in_place,
        )  # fmt: skip
        self.sweeps = Sweeps(self.problem, self.arrays)

    @property
    def beliefs(self):
        """Scores of the states of variables: ndarray of shape (n_states.sum(),)."""
        return self.arrays.beliefs

    @property
    def ends(self):
        """The variables of the edges: ndarray of shape (n_edges, 2)."""
        return self.arrays.ends

    @property
    def n_states(self):
        """Number of states of each variable."""
        return self.arrays.states

    @property
    def n_entries(self):
        """The number of entries of the tables of all triplets."""
        return len(self.arrays.messages)

    @property
    def sweep_work(self):
        """The approximate number of entries that a sweep reads."""
        sizes = self.n_states.astype(np.float64)[self.triplets]
        return 2.0 * sizes.prod(axis=1).sum() + 4.0 * len(self.arrays.tables)

    def add(self, triplets):
        """Add triplets, and edges of triplets that are missing, with scores of zero.

        Parameters
        ----------
        triplets : ndarray of shape (n, 3)
            New triplets; the variables of each are in increasing order.
        """
        # new edges change the places of all tables; calls are rare compared with sweeps
        pairs = self.edge_tables()
        for a, b, c in np.asarray(triplets).tolist():
            for u, v in ((a, b), (a, c), (b, c)):
                if (u, v) not in pairs:
                    pairs[u, v] = np.zeros(self.n_states[[u, v]])
        self._set_edges(pairs)
        self.triplets = np.concatenate([self.triplets, triplets])
        self._index()

    def edge_tables(self):
        """Return the current tables of all edges.

        Returns
        -------
        tables : dict of (int, int) to ndarray of shape (n_states[u], n_states[v])
            Views of the tables.
        """
        parts = np.split(self.arrays.tables, self.arrays.start[1 : len(self.place)])
        sizes = self.n_states
        return {
            (u, v): parts[e].reshape(sizes[u], sizes[v])
            for (u, v), e in self.place.items()
        }

    def triplet_tables(self):
        """Yield the current tables of all triplets.

        Yields
        ------
        triplet : tuple of int
            The variables.
        table : ndarray
            Scores of the triples of states.
        """
        arrays, n = self.arrays, len(self.triplets)
        parts = np.split(arrays.messages, arrays.start_message[1 : 3 * n])
        for t, scope in enumerate(self.triplets.tolist()):
            a, b, c = self.n_states[scope].tolist()
            shapes = (a, b, 1), (a, 1, c), (1, b, c)
            yield (
                tuple(scope),
                sum(parts[3 * t + s].reshape(shape) for s, shape in enumerate(shapes)),
            )

    def sweep(self, backward=False):
        """Visit all edges and variables once, and update the bound.

        Parameters
        ----------
        backward : bool, default=False
            Whether to visit the variables from the last to the first.

        Returns
        -------
        bound : float
            Upper bound on all scores; inf if time ran out before the end.
        """
        self.bound = self.sweeps.sweep(backward)
        return self.bound
