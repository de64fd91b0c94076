"""Set-up of depth-first searches, and the open nodes that they leave.

The kernels decide and propagate; this file allocates the arrays of the kernels and
turns the path of a stopped search into nodes for the heap.
"""

from types import SimpleNamespace

import numpy as np

from sksstruct.inference.map.branch_and_bound._depth_first import Descent
from sksstruct.inference.map.branch_and_bound._tree_search import TreeDescent
from sksstruct.inference.map.core._index import offsets


class _Labeling:
    """Methods for the hint of a search: its best labeling, or else values to prefer."""

    @property
    def labeling(self):
        return self.arrays.hint

    def prefer(self, hint):
        """Prefer the values of another labeling when values are chosen.

        Parameters
        ----------
        hint : ndarray of shape (n_variables,)
            Values.
        """
        self.arrays.hint[:] = hint


class Path:
    """The decisions that lead to a node, as a linked list that nodes share in part.

    A search that stops at a depth of thousands leaves thousands of nodes open: with a
    list of decisions for each, some hundred of such searches would fill the memory.

    Parameters
    ----------
    above : Path or None
        The path to the node above; None for the root.
    decision : tuple (variable, values, keep) or None
        Values that a variable gets, or loses if keep is false.
    """

    __slots__ = ("above", "decision", "length")

    def __init__(self, above, decision):
        self.above, self.decision = above, decision
        self.length = 0 if above is None else above.length + 1

    def decisions(self):
        """Return the decisions as a list, from the root on."""
        found, path = [], self
        while path.above is not None:
            found.append(path.decision)
            path = path.above
        return found[::-1]


ROOT = Path(None, None)


class DepthFirst(_Labeling, Descent):
    """Depth-first search below one node of a network at a time.

    Parameters
    ----------
    network : Network
        The consistent network, whose present state is the root.
    hint : array-like of shape (n_variables,)
        Values to prefer among values of equal cost.
    grain : int, default=1
        Labelings that improve the cost by less than this are not searched for.

    Attributes
    ----------
    labeling : ndarray of shape (n_variables,), int32
        The best labeling found, if any.
    found : bool
        Whether a labeling was found.
    best_cost : int
        Cost of the labeling.
    n_dead_ends : int
        Number of dead ends so far.
    """

    def __init__(self, network, hint, grain=1):
        self.arrays, self._path = _arrays(network, hint), ROOT
        super().__init__(network, self.arrays, grain)

    def start(self, path):
        """Restore a node by propagating the decisions on its path.

        Parameters
        ----------
        path : Path
            The decisions that lead to the node.
        """
        self._path = path
        self.go_to(path.decisions())

    def open_nodes(self):
        """Return the open nodes of the search.

        Returns
        -------
        nodes : list of tuples (bound, path)
            Lower bound on the costs, and the decisions that lead to the node. The
            current node of the search comes first.
        """
        path, nodes, arrays, n = self._path, [], self.arrays, self.depth
        first = arrays.first[: n + 1].tolist()
        steps = zip(
            arrays.variable[:n].tolist(), arrays.bound[:n].tolist(),
            arrays.open[:n].tolist(), strict=True,
        )  # fmt: skip
        for k, (variable, bound, is_open) in enumerate(steps):
            values = arrays.chosen[first[k] : first[k + 1]].copy()
            # an open second branch is a node; the path follows the branch taken
            if is_open:
                nodes.append((bound, Path(path, (variable, values, False))))
            path = Path(path, (variable, values, bool(is_open)))
        # the current node itself, whose bound is c0
        if not self.dead:
            nodes.append((self.network.c0, path))
        return nodes[::-1]


class TreeSearch(_Labeling, TreeDescent):
    """Depth-first search along a tree of clusters.

    Parameters
    ----------
    network : Network
        The consistent network, whose present state is the root. The variables of a
        cluster are consecutive, followed by the variables of its descendants.
    hint : array-like of shape (n_variables,)
        Values to prefer among values of equal cost.
    grain : int
        Labelings of a cluster that improve the cost by less than this are not searched
        for.
    clusters : list of tuples (begin, own_end, end, parent, separator)
        Range of the cluster's own variables, end of the variables of its descendants,
        parent, and separator. A cluster comes before its descendants.
    top : int
        Values of descendants of the current cluster that cost this much are removed.
    most_goods : int
        Largest number of bounds of subproblems (goods and nogoods) to keep.

    Attributes
    ----------
    labeling, found, best_cost, n_dead_ends
        As in `DepthFirst`.
    full : bool
        Whether the search ended because it has stored `most_goods` bounds.
    """

    def __init__(self, network, hint, grain, clusters, top, most_goods):
        self.arrays = arrays = _arrays(network, hint)
        n, below = len(clusters), [[] for _ in clusters]
        for k, row in enumerate(clusters):
            if row[3] >= 0:
                below[row[3]].append(k)
        arrays.range = np.array([row[:3] for row in clusters], dtype=np.intp)
        arrays.child_first, arrays.child = _flatten(below, np.intp)
        arrays.separator_first, arrays.separator = _flatten(
            [row[4] for row in clusters], np.int32
        )
        arrays.place_first, arrays.places = _flatten(
            [_places_below(network.arrays, *row[:3], row[4]) for row in clusters],
            np.intp,
        )
        # stack of cluster searches: three indices and seven costs each
        arrays.call_indices = np.zeros((3, n), dtype=np.intp)
        arrays.call_costs = np.zeros((7, n), dtype=np.int64)
        arrays.call_values = np.zeros(network.n_variables, dtype=np.int32)
        super().__init__(network, arrays, grain)
        self.begin(top, most_goods)


def _arrays(network, hint):
    """Allocate the arrays of a search, with room for the decisions of a path."""
    n = network.n_variables
    # each decision of a path removes a value, at least, and lists at most twice as many
    # values as it removes
    room = len(network.arrays.values) + n + 1
    return SimpleNamespace(
        hint=np.array(hint, dtype=np.int32),
        # initial weights of dom/wdeg: 1, plus the number of factors of the variable
        weight=1.0 + np.diff(network.arrays.in_first),
        variable=np.zeros(room, dtype=np.int32),
        chosen=np.zeros(2 * room, dtype=np.int32),
        first=np.zeros(room, dtype=np.intp),
        mark=np.zeros(room, dtype=np.intp),
        bound=np.zeros(room, dtype=np.int64),
        open=np.zeros(room, dtype=np.uint8),
        # workspace of `Tail`
        core=np.zeros(n, dtype=np.uint8),
        value=np.zeros(n, dtype=np.int32),
        place=np.full(n, -1, dtype=np.int32),
    )


def _places_below(network, begin, own_end, end, separator):
    """Return places of separator variables in scopes of cluster and descendants."""
    places = []
    for variable in separator:
        around = slice(network.in_first[variable], network.in_first[variable + 1])
        # scopes are in order: the last variable is in the lowest cluster
        last = network.scope[network.scope_first[network.in_factor[around] + 1] - 1]
        places += network.in_place[around][(begin <= last) & (last < end)].tolist()
    return places


def _flatten(lists, dtype):
    """Return the offsets of lists in their concatenation, and the concatenation."""
    return offsets([len(row) for row in lists]), np.array(
        [x for row in lists for x in row], dtype=dtype
    )
