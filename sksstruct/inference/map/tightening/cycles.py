"""Search for triangles and cycles on which best entries of edges disagree.

This file sets up the arrays of the kernels in `_cycles`, where the method is described.
"""

import numpy as np

from sksstruct.inference.map.core._index import places_by
from sksstruct.inference.map.tightening._cycles import (
    CycleSearch,
    TriangleSearch,
    add_maxima,
    add_shares,
    first_contradiction,
    weigh,
)


def spread(clusters):
    """Return the edge tables plus equal shares of the scores of their variables.

    Parameters
    ----------
    clusters : Clusters
        The scores.

    Returns
    -------
    tables : ndarray of shape (n_entries,)
        The tables, one after the other.
    """
    out = clusters.arrays.tables.copy()
    # shares of a variable add up to its scores: total scores stay the same
    degree = np.bincount(clusters.ends.ravel(), minlength=len(clusters.n_states))
    add_shares(clusters.sweeps, 1.0 / np.maximum(degree, 1), out)
    return out


def promising(clusters, tables):
    """Score each state by the best entries of the edges with this state.

    Parameters
    ----------
    clusters : Clusters
        The graph.
    tables : ndarray
        Tables of the graph's edges, from `spread`.

    Returns
    -------
    beliefs : ndarray of shape (n_states.sum(),)
        Score of each state, plus the best entries of all edges with this state.
    """
    out = clusters.beliefs.copy()
    most = int(np.max(clusters.n_states))
    add_maxima(clusters.sweeps, tables, np.empty(most), np.empty(most), out)
    return out


class Triangles:
    """Search for triangles of the graph that would lower the bound.

    Parameters
    ----------
    clusters : Clusters
        The graph.
    tables : ndarray
        Tables of the graph's edges, from `spread`.
    least : float
        Triangles with a smaller guaranteed decrease of the bound are left out.

    Attributes
    ----------
    work : float
        Approximate number of table entries read.
    """

    def __init__(self, clusters, tables, least):
        most = int(np.max(clusters.n_states))
        # maxima of edge tables, computed once for all triangles
        top = np.maximum.reduceat(tables, clusters.arrays.start[:-1])
        mark = np.full(len(clusters.n_states), -1, dtype=np.intp)
        self._kernel = TriangleSearch(
            clusters.sweeps, least, float(len(tables)), (tables, top, mark),
            np.empty((3, most)),
        )  # fmt: skip

    @property
    def work(self):
        return self._kernel.work

    def find(self, most_work):
        """Find triangles of the graph, and the decrease of the bound by each.

        Parameters
        ----------
        most_work : float
            Approximate number of table entries to read.

        Returns
        -------
        triplets : ndarray of shape (n, 3)
            The variables, in increasing order.
        scores : ndarray of shape (n,)
            Guaranteed decrease of the bound by each triangle.
        """
        found, scores = self._kernel.find(most_work)
        return np.array(found, dtype=np.intp).reshape(-1, 3), np.array(scores)


class SignedGraph:
    """Graph of the splits of variables, with signed weights on its edges.

    Parameters
    ----------
    clusters : Clusters
        The graph.
    tables : ndarray
        Tables of the graph's edges, from `spread`.
    chosen : ndarray of shape (n_variables, n_chosen)
        States that are split from all other states; -1: no state.

    Attributes
    ----------
    weights : ndarray of shape (n_weights,)
        Weights that are not zero, in decreasing order of |weight|.
    ends : ndarray of shape (n_weights, 2)
        Nodes of each weight: i * n_chosen + j is the j-th split of variable i.
    work : float
        Approximate number of weights read.
    """

    def __init__(self, clusters, tables, chosen):
        self._problem, self.work = clusters.problem, float(len(tables))
        n_chosen = self._n_chosen = chosen.shape[1]
        self._n_nodes = chosen.size
        ends, most = clusters.ends, int(np.max(clusters.n_states))
        weights = np.zeros((len(ends), n_chosen, n_chosen))
        weigh(
            clusters.sweeps, tables, chosen, n_chosen, weights, np.empty((3, most)),
            np.empty(most, dtype=np.intp),
        )  # fmt: skip
        # most weights are zero, and contradict no other weight
        edge, s, t = np.nonzero(weights)
        weights = weights[edge, s, t]
        nodes = np.stack(
            [ends[edge, 0] * n_chosen + s, ends[edge, 1] * n_chosen + t], 1
        )
        # a stable sort makes results repeatable
        order = np.argsort(-np.abs(weights), kind="stable")
        self.weights, self.ends = weights[order], nodes[order].astype(np.intp)

    def threshold(self):
        """Return the largest w such that weights of |weight| >= w have a contradiction.

        Returns
        -------
        threshold : float
            Largest value of the smallest |weight| of a contradictory cycle; 0 if there
            is no such cycle.
        """
        n = self._n_nodes
        parity = np.zeros(n, dtype=np.int8)
        return first_contradiction(self.weights, self.ends, np.arange(n), parity)

    def cycles(self, threshold, skip, most_work):
        """Yield a shortest contradictory closed walk through each node that is on one.

        Parameters
        ----------
        threshold : float
            Smallest |weight| to use.
        skip : int
            Determines the first root, for searches that `most_work` ends early.
        most_work : float
            Number of weights to read.

        Yields
        ------
        variables : list of int
            Variables of a closed walk, which may repeat.
        """
        # weights are in decreasing order of |weight|: the first `n_weights` are used
        n_weights = int((np.abs(self.weights) >= threshold).sum())
        search = CycleSearch(
            self._problem, self._n_nodes, self._connect(n_weights),
            self.work, self.work + most_work,
        )  # fmt: skip
        k = 0
        while k >= 0:
            k, path = search.go_on(k, skip)
            self.work = search.work
            if path:
                yield [node // self._n_chosen for node in path]

    def _connect(self, n_weights):
        """Return arrays for `CycleSearch`: the first weights by node, and workspace."""
        ends, negative = self.ends[:n_weights], self.weights[:n_weights] < 0
        # each weight is listed at both of its nodes
        both = np.concatenate([ends, ends[:, ::-1]])
        first, order = places_by(both[:, 0], self._n_nodes)
        negative = np.concatenate([negative, negative])[order].astype(np.int8)
        room = np.empty(2 * self._n_nodes, dtype=np.intp)
        return first, both[order, 1], negative, room, room.copy()
