"""Graphs of labeled nodes: forests, and graphs of two labels."""

import itertools
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.inference.trees._tree import Tree
from sksstruct.losses import PositionLoss
from sksstruct.models._compiled import CompiledModel
from sksstruct.models.graph.inputs import (
    Graph,
    TakesGraphs,
    check_graph,
    in_a_row,
    labels_of,
    plain,
    scaled,
    shaped,
    stack,
    total_weight,
    weights_of_nodes,
    with_nodes,
)
from sksstruct.models.graph.partial import (
    NodeLabels,
    compared,
    known_parts,
    observed_graphs,
    scored,
)
from sksstruct.models.graph.structure import Graphs, edge_columns
from sksstruct.models.graph.symmetry import TEXT, SymmetricEdges
from sksstruct.models.normalization import TEXTS, divisor, size_alpha
from sksstruct.models.tables._table import BoundTable
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import Array
from sksstruct.utils.typing import Examples
from sksstruct.utils.validation import LabelEncoder, check_labels


@fill_doc({**TEXTS, "edge_symmetry": TEXT})
@dataclass(eq=False, repr=False)
class GraphModel(SymmetricEdges, TakesGraphs, CompiledModel):
    """Labels for the nodes of a graph, whose edges score pairs of labels.

    An input is a tuple ``(node_features, edges)`` or ``(node_features, edges,
    edge_features)``: arrays of shape (n_nodes, n_features), (n_edges, 2), and
    (n_edges, n_edge_features); features may be CSR. A `Graph` may also have weights of
    its nodes, and a shape. An output is the list of the labels of the nodes, or, if
    the graph has a shape, an array of this shape.

    In training, a label may be None if it is unknown, or a set of labels of which one
    is right; every graph needs at least one label that is not None. With
    ``loss="log"``, training maximizes the likelihood of the known labels. The hinge
    losses complete the labels with the best ones that agree, and train again. Nodes
    with None or a set have no loss. Neither problem is convex, so ``dual_gap_`` is
    infinite.

    Parameters
    ----------
    pairwise : {"full", "potts"}, default="full"
        "full": the features of an edge (u, v) score each pair of labels of u and v;
        "potts": they add to the score if the two labels are equal.
    inference : {"auto", "tree", "cut"}, default="auto"
        "tree": max-product, for trees and forests. "cut": minimum cuts, for any graph
        with two labels and "potts". Edge features must then not be negative, and their
        weights are constrained to be nonnegative, so that equal labels never score less
        than different labels [1]_. "auto": "tree" if all graphs of the training data
        are forests, otherwise "cut".
    class_weight : dict or "balanced", default=None
        Cost of a wrong prediction for each true label, 1 for labels that are not in
        the dict. The loss is the sum over the nodes of the costs times the node
        weights, divided according to `loss_normalization`. "balanced" gives every label
        the same total cost in the training data.
    %(loss_normalization)s
        The size of a graph is the sum of its node weights, or the number of its nodes
        without node weights.
    fit_intercept : bool, default=True
        Whether labels have a bias.
    normalize : bool or "auto", default="auto"
        Whether all features, including the bias feature, are divided by the number of
        nodes of their graph, in training and in prediction. Scores are then means over
        the nodes, as losses are, so that one `alpha` suits graphs of any size. Without
        the division, features of large graphs are large, and the same `alpha` takes far
        more passes. "auto": if `inference_` is "cut".
    %(edge_symmetry)s

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    inference_ : str
        "tree" or "cut".
    normalize_ : bool
        Whether features are divided by the number of nodes.
    costs_ : ndarray of shape (n_classes,)
        Cost of missing each label.
    mean_size_ : float
        Mean size of the graphs of the training data: number, or weight, of the nodes.

    Notes
    -----
    A fitted `sksstruct.SSVMClassifier` has ``coef_`` (n_classes, n_features),
    ``intercept_`` (n_classes,), and ``edge_coef_``, of shape (n_edge_features,
    n_classes, n_classes) with "full" and (n_edge_features,) with "potts". Graphs
    without edge features get a single one, which is 1. With `normalize_` these are
    weights of the features divided by the number of nodes.

    References
    ----------
    .. [1] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. Dokania and S. Lacoste-Julien,
       "Minding the gaps for block Frank-Wolfe optimization of structured SVMs",
       ICML 2016, Sections H and I.3.

    Examples
    --------
    >>> from sksstruct import SSVMClassifier
    >>> X = [([[1.0], [0.0], [0.0]], [(0, 1), (1, 2)])]
    >>> y = [["a", "b", "b"]]
    >>> classifier = SSVMClassifier("graph", alpha=0.1, random_state=0).fit(X, y)
    >>> classifier.predict(X)[0].tolist()
    ['a', 'b', 'b']
    """

    pairwise: Literal["full", "potts"] = "full"
    _: KW_ONLY
    inference: Literal["auto", "tree", "cut"] = "auto"
    class_weight: dict | Literal["balanced"] | None = None
    loss_normalization: Literal["mean", "example"] | None = "example"
    fit_intercept: bool = True
    normalize: bool | Literal["auto"] = "auto"
    edge_symmetry: Literal["symmetric"] | Array | None = None

    _loss_parameters = ("class_weight",)
    _task_losses = (PositionLoss,)
    _class_weight_note = "has its own: pass GraphModel(class_weight=...)"
    _from_parts = {
        "classes_": "labels",
        "mean_size_": "mean",
        "mean_nodes_": "mean",
        "_counts_": "sum",
        "_cycles_": "sum",
    }
    # attributes of the training data; None before training
    n_edges_ = inference_ = mean_size_ = mean_nodes_ = None

    def check(self) -> None:
        super().check()
        if self.inference == "cut" and self.pairwise != "potts":
            raise ValueError("inference='cut' needs pairwise='potts'")

    def bounds(self) -> dict | None:
        # after training, "auto" may have become "cut"
        cut = (self.inference_ or self.inference) == "cut"
        return {"edge_coef": (0.0, None)} if cut else None

    @property
    def _has_marginals(self):
        # sums over the labelings of a graph with cycles are #P-hard
        return (self.inference_ or self.inference) != "cut"

    def _edge_weights(self, weights):
        return self._empty().views(weights)["edge_coef"]

    # ---- inputs and outputs ----

    def _input(self, x, name):
        known = self.n_edges_
        graph = check_graph(x, name, self.n_features_, known)
        if graph.edge_features is None and known is not None:
            raise ValueError(f"{name} must have {known} edge features, got none")
        if self.inference_ is not None:
            self._check_graph(graph, name)
        return graph

    def _check_graph(self, graph, name):
        rows = graph.edge_features
        if graph.cliques is not None:
            raise ValueError(f"{name} has cliques, which RelaxedGraphModel takes")
        if self.n_edges_ is None and rows is not None:
            raise ValueError(
                f"{name} must have no edge features, as in fit, got {rows.shape[1]}"
            )
        if self.inference_ == "tree":
            try:
                Tree(graph.node_features.shape[0], graph.edges)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        elif rows is not None and np.prod(rows.shape) and rows.min() < 0:
            raise ValueError(
                f"{name} has a negative edge feature, which inference='cut' cannot use"
            )

    def _learn(self, X, y, weight):
        edge_sizes = {
            None if x.edge_features is None else x.edge_features.shape[1] for x in X
        }
        for name, sizes in (
            ("node", {x.node_features.shape[1] for x in X}),
            ("edge", edge_sizes),
        ):
            if len(sizes) > 1:
                raise ValueError(
                    f"X has graphs of {sorted(sizes, key=str)} {name} features"
                )
        sizes = np.array([x.node_features.shape[0] for x in X])
        labels = NodeLabels.read(X, y)
        self.classes_ = labels.classes
        self.n_features_ = X[0].node_features.shape[1]
        self.n_edges_ = edge_sizes.pop()
        y = labels.by_graph()
        X = observed_graphs(X, y)
        counts = labels.counts(X, weight)
        self._counts_ = dict(zip(self.classes_.tolist(), counts.tolist(), strict=True))
        self._cycles_ = self._find_cycle(X)
        mean_size = float(np.average(list(map(total_weight, X)), weights=weight))
        # the mean is 0 if no node has a certain label, as other nodes have weight 0
        self.mean_size_ = mean_size or 1.0
        self.mean_nodes_ = float(np.average(sizes, weights=weight))
        return y

    def _outputs(self, X, y):
        return NodeLabels.read(X, y).with_classes(self.classes_).by_graph()

    def _bind_partial(self, X, y, weight, known):
        return super()._bind_partial(observed_graphs(X, y), y, weight, known)

    def _known_parts(self, X, y, weight):
        return known_parts(X, y, weight)

    def _learn_from(self, X, y, weight):
        X, y = super()._learn_from(X, y, weight)
        for i, x in enumerate(X):
            self._check_graph(x, f"X[{i}]")
        return X, y

    def _settle(self):
        # checked for all data, as a part may lack some labels
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has 1 label, {self.classes_.tolist()[0]!r:.80}: training needs 2"
            )
        self.inference_ = self._choose()
        auto = self.normalize == "auto"
        self.normalize_ = self.inference_ == "cut" if auto else bool(self.normalize)
        self.costs_ = self._costs()
        super()._settle()

    def _find_cycle(self, X):
        """A list of the name of the first graph that is no forest, or an empty list."""
        if self.inference == "tree":
            return []
        for i, x in enumerate(X):
            try:
                Tree(x.node_features.shape[0], x.edges)
            except ValueError:
                return [f"X[{i}]"]
        return []

    def _choose(self):
        if self.inference == "tree" or (self.inference == "auto" and not self._cycles_):
            return "tree"
        if self.pairwise != "potts" or len(self.classes_) != 2:
            what = "inference='cut'"
            if self._cycles_:
                what = f"{self._cycles_[0]} has a cycle"
            remedy = "RelaxedGraphModel takes any"
            if len(self.classes_) == 2:
                remedy = f"pass GraphModel('potts'); {remedy}"
            raise ValueError(
                f"{what}: minimum cuts need two labels and pairwise='potts', y has "
                f"{len(self.classes_)} labels and pairwise is {self.pairwise!r}; "
                f"{remedy}"
            )
        return "cut"

    def _costs(self):
        counts = np.array([self._counts_[label] for label in self.classes_.tolist()])
        costs = self._label_costs(self.classes_, counts)
        return np.ones(len(counts)) if costs is None else costs

    def _output(self, x, y, name):
        y = labels_of(x, y, name)
        flat = check_labels([y], [x.node_features.shape[0]], name=name, what="graph")
        labels = LabelEncoder(self.classes_).encode(flat, default=-1)
        if (labels < 0).any():
            bad = flat[int(np.flatnonzero(labels < 0)[0])]
            raise ValueError(
                f"{name} has the label {bad!r:.80}, which is not in classes_"
            )
        return labels

    def _labeling(self, x, y):
        return y

    def _shown(self, x, labeling):
        return shaped(x, self.classes_[labeling])

    @property
    def _n_columns(self):
        return len(self.classes_)

    def _features(self, x):
        return x.node_features

    def _rows(self, X):
        return stack([x.node_features for x in X])

    def _with_rows(self, X, rows):
        return with_nodes(X, rows, self._offsets(X))

    @property
    def auto_alpha(self) -> float:  # type: ignore[override]
        return size_alpha(
            self, self.mean_nodes_, self.normalize_, self.loss_normalization is None
        )

    def _bound(self, X, y_true, example_weights, nodes=None, known=None):
        offsets = self._offsets(X)
        sizes = np.diff(offsets)
        first = np.concatenate([[0], np.cumsum([len(x.edges) for x in X])])
        costs = None
        if y_true is not None:
            y_true = np.concatenate(y_true).astype(np.int32)
            total = np.array(list(map(total_weight, X)))
            # graphs without a known label have no loss; 1 avoids a division by zero
            total[total == 0.0] = 1.0
            costs = (
                self.costs_[y_true]
                * weights_of_nodes(X)
                / divisor(
                    self.loss_normalization, np.repeat(total, sizes), self.mean_size_
                )
            )
        rows = None
        if self.n_edges_ is not None:
            rows = stack([x.edge_features for x in X])
        has_bias = self.fit_intercept and nodes is None
        nodes = self._rows(X) if nodes is None else nodes
        scales = 1.0 / sizes if self.normalize_ else None
        blocks = self._blocks(nodes, offsets, rows, first, scales, has_bias)
        names = partial(self._named, has_bias and self.normalize_)
        structure = Graphs(
            sizes,
            y_true,
            int((sizes + np.diff(first)).max(initial=1)),
            len(self.classes_),
            np.concatenate([x.edges for x in X]),
            first,
            costs,
            potts=self.pairwise == "potts",
            shared=rows is None,
            forest=self.inference_ == "tree",
            known=known,
        )
        model = BoundTable(blocks, structure, example_weights, names)
        model.oracle_bounds = self.bounds()
        return model

    def _blocks(self, nodes, offsets, edge_rows, edge_offsets, scales, has_bias):
        """Blocks of weights, for the labels of nodes and for edges.

        Features may be scaled, by a factor for each graph. The bias is then the last
        feature of the nodes.
        """
        n_graphs = len(offsets) - 1
        # without edge features all edges of a graph share one row and one table
        if edge_rows is None:
            edge_rows, edge_offsets = np.ones((n_graphs, 1)), np.arange(n_graphs + 1)
        if scales is not None:
            nodes = scaled(nodes, np.repeat(scales, np.diff(offsets)), has_bias)
            edge_rows = scaled(edge_rows, np.repeat(scales, np.diff(edge_offsets)))
            has_bias = False
        n_labels = len(self.classes_)
        columns = 1 if self.pairwise == "potts" else edge_columns(n_labels)
        # edges have features, but no bias
        return [
            (nodes, offsets, n_labels, has_bias),
            (edge_rows, edge_offsets, columns, False),
        ]

    def _named(self, bias_is_feature, blocks, others):
        """Named weights of nodes and edges; the bias may be a weight of nodes."""
        (coef, intercept), (edge_coef, _) = blocks
        coef, n_labels = coef.T, len(self.classes_)
        if bias_is_feature:
            coef, intercept = coef[:, :-1], coef[:, -1]
        if self.pairwise == "potts":
            edge_coef = edge_coef[:, 0]
        else:
            # without the padding at the end of each row of labels
            edge_coef = edge_coef.reshape(len(edge_coef), n_labels, -1)[:, :, :n_labels]
        return {"coef": coef, "intercept": intercept, "edge_coef": edge_coef}

    def _marginals_of(self, structure, i, means):
        """Probability of each label of each node."""
        rows = means[: structure.sizes[i] * structure.ld].reshape(-1, structure.ld)
        return rows[:, : structure.n_labels].copy()

    # ---- methods of all models ----

    def loss(
        self, y: Examples, y_hat: Examples, node_weights: ArrayLike | None = None
    ) -> float:
        """Loss of predicting y_hat where y was observed.

        Parameters
        ----------
        y, y_hat : list or array
            Labels. Labels of y may be None, or sets, as in training; such labels have
            no loss.
        node_weights : array-like of shape (n_nodes,), default=None
            Weights of the graph's nodes; None: 1.

        Returns
        -------
        loss : float
            Not negative.
        """
        y_hat = in_a_row(y_hat)
        y, node_weights = compared(in_a_row(y), y_hat, node_weights)
        cost = dict(zip(self.classes_.tolist(), self.costs_.tolist(), strict=True))
        weights, size = itertools.repeat(1.0, len(y)), len(y)
        if node_weights is not None:
            weights = np.asarray(node_weights, dtype=np.float64).tolist()
            size = sum(weights) or 1.0
        missed = [
            cost.get(plain(a), 1.0) * weight
            for a, b, weight in zip(y, y_hat, weights, strict=True)
            if a != b
        ]
        return sum(missed) / divisor(self.loss_normalization, size, self.mean_size_)

    def _loss_at(self, x, y, y_hat):
        return self.loss(y, y_hat, Graph(*x).node_weights)

    def _score(self, X, y, predicted, sample_weight=None):
        y, sample_weight = scored(y, sample_weight)
        return super()._score(X, y, predicted, sample_weight)

    def labelings(self, x: Any) -> Iterable:
        x = self._input(x, "x")
        n = x.node_features.shape[0]
        codes = itertools.product(range(len(self.classes_)), repeat=n)
        return (self._shown(x, list(code)) for code in codes)

    def _smallest(self):
        nodes, edges = np.zeros((1, self.n_features_)), np.zeros((0, 2), dtype=np.intp)
        rows = None if self.n_edges_ is None else np.zeros((0, self.n_edges_))
        return Graph(nodes, edges, rows)
