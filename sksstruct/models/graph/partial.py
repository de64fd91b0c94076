"""Graphs in which some nodes have no single observed label, but None or a set.

These nodes have no loss, as if they had weight zero.
"""

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from sksstruct.models.graph.inputs import in_a_row, labels_of, weights_of_nodes
from sksstruct.models.structured import as_list
from sksstruct.models.tables.completion import Partial
from sksstruct.utils._layout import padded_length
from sksstruct.utils.observed import check_any_known, observed
from sksstruct.utils.validation import (
    LabelEncoder,
    check_labels,
    check_weight,
    encode_choices,
)


@dataclass
class NodeLabels:
    """Labels of the nodes of many consecutive graphs.

    Parameters
    ----------
    sizes : ndarray of shape (n_graphs,)
        Numbers of nodes.
    classes, codes, known, choices : objects
        The result of `encode_choices`.
    """

    sizes: np.ndarray
    classes: np.ndarray
    codes: np.ndarray
    known: np.ndarray | None
    choices: Any

    @classmethod
    def read(cls, X, y):
        """Check the labels of checked graphs."""
        sizes = np.array([x.node_features.shape[0] for x in X])
        if len(y) == len(X):
            pairs = enumerate(zip(X, y, strict=True))
            y = [labels_of(x, z, f"y[{i}]") for i, (x, z) in pairs]
        return cls(sizes, *encode_choices(y, sizes, what="graph"))

    def counts(self, X, weight):
        """Weight of the nodes with each label: graph weights times node weights."""
        weights = np.repeat(weight, self.sizes) * weights_of_nodes(X)
        return np.bincount(self.codes, weights, len(self.classes))

    def with_classes(self, classes):
        """The same labels as numbers of other classes, which contain all of these
        labels.
        """
        numbers = LabelEncoder(classes).encode(self.classes.tolist())
        choices = self.choices
        if choices is not None:
            parts = choices.data, numbers[choices.indices], choices.indptr
            choices = sparse.csr_array(parts, (len(self.codes), len(classes)))
        codes = numbers[self.codes]
        return replace(self, classes=classes, codes=codes, choices=choices)

    def by_graph(self):
        """For each graph the numbers of its labels, or a `Partial` if some of its nodes
        have no single label.
        """
        ends = np.cumsum(self.sizes)[:-1]
        rows = np.split(self.codes, ends)
        if self.known is None:
            return rows
        n_labels = len(self.classes)
        shape = len(self.codes), padded_length(n_labels)
        allowed = np.zeros(shape, dtype=np.uint8)
        allowed[:, :n_labels] = 1
        certain = np.flatnonzero(self.known)
        allowed[certain] = 0
        allowed[certain, self.codes[certain]] = 1
        if self.choices is not None:
            listed = self.choices.tocoo()
            allowed[np.unique(listed.row)] = 0
            allowed[listed.row, listed.col] = 1
        parts, known = np.split(allowed, ends), np.split(self.known, ends)
        return [
            row if known_nodes.all() else Partial(i, part)
            for i, (row, part, known_nodes) in enumerate(
                zip(rows, parts, known, strict=True)
            )
        ]


def is_certain(partial):
    """Whether each node of a `Partial` has a single allowed label."""
    return partial.allowed.sum(axis=1) == 1


def observed_graphs(X, y):
    """Graphs in which nodes without a single label have no weight."""
    out = list(X)
    for i, each in enumerate(y):
        if isinstance(each, Partial):
            weights = is_certain(each).astype(np.float64)
            if X[i].node_weights is not None:
                weights *= X[i].node_weights
            out[i] = X[i]._replace(node_weights=weights)
    return out


def known_parts(X, y, weight):
    """The subgraphs of the nodes with single labels, as separate graphs.

    Parameters
    ----------
    X : list of Graph
        Checked graphs.
    y : list of ndarray or Partial
        Labels of the graphs.
    weight : ndarray of shape (n_graphs,)
        The p_i.

    Returns
    -------
    X, y, weight : objects
        Parts, labels and weights of the graphs in which a label was observed.

    Raises
    ------
    ValueError
        If no label was observed.
    """
    parts, labels, kept = [], [], []
    for i, (x, each) in enumerate(zip(X, y, strict=True)):
        if isinstance(each, Partial):
            nodes = np.flatnonzero(is_certain(each))
            if not len(nodes):
                continue
            x, each = induced(x, nodes), each.allowed[nodes].argmax(axis=1)
        parts.append(x)
        labels.append(each)
        kept.append(i)
    if not kept:
        raise ValueError(
            "y has no node with a single label: the hinge losses need some to begin "
            "with, except on trees and forests"
        )
    return parts, labels, weight[kept] / weight[kept].sum()


def induced(x, nodes):
    """The subgraph of some nodes of a checked graph, with the edges and cliques that
    have only these nodes.
    """
    places = np.full(x.node_features.shape[0], -1, dtype=np.intp)
    places[nodes] = np.arange(len(nodes))
    edges = places[x.edges]
    inside = (edges >= 0).all(axis=1)
    cliques = x.cliques
    if cliques is not None:
        rows = [places[each] for each in cliques]
        cliques = [each[(each >= 0).all(axis=1)] for each in rows]
    return x._replace(
        node_features=x.node_features[nodes],
        edges=edges[inside],
        edge_features=None if x.edge_features is None else x.edge_features[inside],
        node_weights=None if x.node_weights is None else x.node_weights[nodes],
        shape=None,
        cliques=cliques,
    )


# ---- scores of partly observed outputs ----


def compared(y, y_hat, node_weights):
    """Labels to compare predictions with, and node weights, zero for unknown labels.

    Parameters
    ----------
    y, y_hat : list
        Observed and predicted labels.
    node_weights : array-like of shape (n_nodes,) or None
        Weights of the nodes.

    Returns
    -------
    y : list
        Labels, the result of `observed`.
    node_weights : array-like of shape (n_nodes,) or None
        Zero where a label is None.
    """
    if len(y) != len(y_hat):
        raise ValueError(f"y has {len(y)} labels, y_hat has {len(y_hat)}")
    # few types of labels occur, so that this check takes little time
    if not any(issubclass(kind, (type(None), Set)) for kind in set(map(type, y))):
        return y, node_weights
    flat = check_labels([y], [len(y)], unknown=True, sets=True, what="graph")
    y, known = observed(flat, y_hat)
    if not known.all():
        weights = np.ones(len(y)) if node_weights is None else np.asarray(node_weights)
        node_weights = weights * known
    return y, node_weights


def scored(y, sample_weight):
    """A list of outputs, and weights that are zero for outputs without known labels."""
    y = as_list("y", y)
    has_known = [_has_known_label(each) for each in y]
    if all(has_known):
        return y, sample_weight
    check_any_known(has_known, "y")
    return y, check_weight(sample_weight, len(y)) * has_known


def _has_known_label(y):
    """Whether some label of a graph is known."""
    if isinstance(y, np.ndarray) and y.dtype != object:
        return True
    return any(label is not None for label in in_a_row(y))
