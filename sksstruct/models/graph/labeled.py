"""Labeled graphs in one set of arrays, for training by dual decomposition."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sksstruct.models.graph.factors import (
    EdgeRowFactors,
    PottsFactors,
    TableFactors,
    single_features,
)
from sksstruct.models.graph.inputs import check_graph, in_a_row, plain, scaled, stack
from sksstruct.models.protocols._cliques import Cliques
from sksstruct.models.python.python import BoundPython

# Above this number of labels, tables of ordered entries are faster than vectorized
# searches of whole tables.
FEW_LABELS = 128


@dataclass
class LabeledGraphs:
    """Consecutive graphs, whose nodes and edges are numbered over all graphs.

    Parameters
    ----------
    nodes, edge_rows : ndarray or CSR of shape (n_nodes or n_edges, n_features)
        Features of nodes and of edges. If nodes are scaled and there is a bias, their
        last feature is the bias.
    first_node, first_edge : ndarray of shape (n_graphs + 1,), intp
        First node and first edge of each graph.
    edges : ndarray of shape (n_edges, 2)
        Pairs of nodes.
    y_true : ndarray of shape (n_nodes,), int32
        Observed labels.
    costs : ndarray of shape (n_nodes,)
        Loss of missing each label.
    example_weights : ndarray of shape (n_graphs,)
        The p_i.
    n_labels, n_weights : int
        Numbers of labels and of weights.
    fit_intercept : bool
        Whether there is a bias that is not a feature.
    blocks : callable
        ``blocks(weights)`` returns views of flat weights: of nodes, (n_features,
        n_labels), of the bias, or None, and of edges. Weights of cliques are last.
    cliques : Cliques, default=None
        Factors of three and more nodes.
    """

    nodes: Any
    edge_rows: Any
    first_node: Any
    first_edge: Any
    edges: Any
    y_true: Any
    costs: Any
    example_weights: Any
    n_labels: int
    n_weights: int
    fit_intercept: bool
    blocks: Callable
    cliques: Cliques | None = None


def graph_factors(graphs, *, potts):
    """Return the factors of labeled graphs, of the class that suits them.

    Parameters
    ----------
    graphs : LabeledGraphs
        Graphs, labels and features.
    potts : bool
        Whether edges score equal labels only.
    """
    if potts:
        return PottsFactors(graphs)
    is_ordered = graphs.n_labels > FEW_LABELS
    if is_ordered and (single_features(graphs.edge_rows)[0] >= 0).all():
        return TableFactors(graphs)
    return EdgeRowFactors(graphs)


def forest_factors(model):
    """The nodes and edges of bound `Graphs` as a `FactorModel`."""
    graphs, (nodes, edge_rows) = model.structure, model.features
    graph, edges = graphs.all_edges()
    # if features are scaled, the bias is the last feature of the nodes
    coef = model.views(np.zeros(model.n_weights))["coef"]
    bias_is_feature = nodes.shape[1] > coef.shape[1]

    def blocks(w):
        views = model.views(w)
        bias = views["intercept"] if bias_is_feature or model.has_bias[0] else None
        return views["coef"].T, bias, views["edge_coef"]

    labeled = LabeledGraphs(
        nodes=nodes,
        edge_rows=edge_rows[graph] if graphs.shared else edge_rows,
        first_node=graphs.starts,
        first_edge=graphs.first_edge,
        edges=edges,
        y_true=graphs.labels,
        costs=graphs.costs,
        example_weights=model.example_weights,
        n_labels=graphs.n_labels,
        n_weights=model.n_weights,
        fit_intercept=model.has_bias[0],
        blocks=blocks,
    )
    return graph_factors(labeled, potts=graphs.potts)


class BoundRelaxedGraph(BoundPython):
    """A `RelaxedGraphModel` bound to data: factors, and an oracle in Python."""

    # other solvers decode each graph in each pass, which may take a linear program
    preferred_solver = "gdmm"

    @property
    def oracles(self):
        names = (*super().oracles, "factors")
        return names if self.completion is None else ("completion", *names)


def relaxed_factors(model):
    """The nodes, edges and cliques of a `BoundRelaxedGraph` as a `FactorModel`."""
    spec = model.spec
    graphs = labeled_graphs(spec, model.X, model.Y, model.example_weights)
    return graph_factors(graphs, potts=spec.pairwise == "potts")


def labeled_graphs(spec, X, Y, example_weights):
    """The `LabeledGraphs` of a prepared `RelaxedGraphModel`."""
    graphs = [check_graph(x, f"X[{i}]") for i, x in enumerate(X)]
    sizes = np.array([graph.node_features.shape[0] for graph in graphs])
    n_edges = np.array([len(graph.edges) for graph in graphs])
    first_node, first_edge = (
        np.concatenate([[0], np.cumsum(count)]) for count in (sizes, n_edges)
    )
    nodes = stack([graph.node_features for graph in graphs])
    rows = stack(
        [
            np.ones((len(graph.edges), 1))
            if graph.edge_features is None
            else graph.edge_features
            for graph in graphs
        ]
    )
    if spec.normalize:
        nodes = scaled(nodes, np.repeat(1.0 / sizes, sizes), spec.fit_intercept)
        rows = scaled(rows, np.repeat(1.0 / sizes, n_edges))
    edges = np.concatenate([graph.edges for graph in graphs])
    costs = []
    for graph, size in zip(graphs, sizes, strict=True):
        weights, divided_by = spec._weights(size, graph.node_weights)
        costs.append(weights / divided_by)
    labels = np.array(
        [spec._codes[plain(label)] for y in Y for label in in_a_row(y)], dtype=np.int32
    )
    return LabeledGraphs(
        nodes=nodes,
        edge_rows=rows,
        first_node=first_node,
        first_edge=first_edge,
        edges=edges + np.repeat(first_node[:-1], n_edges)[:, None],
        y_true=labels,
        costs=np.concatenate(costs) * spec.costs_[labels],
        example_weights=example_weights,
        n_labels=len(spec.classes_),
        n_weights=spec.n_weights_,
        fit_intercept=spec.fit_intercept and not spec.normalize,
        blocks=spec._blocks,
        cliques=_cliques(spec, graphs, first_node),
    )


def _cliques(spec, graphs, first_node):
    """The cliques of all graphs, or None."""
    if not spec.orders_:
        return None
    sizes = np.diff(first_node)
    kinds = list(zip(*(graph.cliques for graph in graphs), strict=True))
    return Cliques(
        [
            np.concatenate(
                [rows + first for rows, first in zip(kind, first_node, strict=False)]
            )
            for kind in kinds
        ],
        [np.repeat(np.arange(len(graphs)), list(map(len, kind))) for kind in kinds],
        1.0 / sizes if spec.normalize else np.ones(len(graphs)),
        len(spec.classes_),
    )
