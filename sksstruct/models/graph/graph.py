"""Graphs of labeled nodes: trees, forests, and grids of two labels."""

import itertools
from dataclasses import KW_ONLY, dataclass

import numpy as np
from scipy import sparse
from sklearn.utils.class_weight import compute_class_weight

from sksstruct.inference._checks import check_edges
from sksstruct.inference.trees._tree import Tree
from sksstruct.models._compiled import CompiledModel, check_features
from sksstruct.models.graph._graph import BoundGraph
from sksstruct.models.normalization import NORMALIZATIONS, TEXTS, divisor
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import StrOptions
from sksstruct.utils.validation import LabelEncoder, check_labels


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class GraphModel(CompiledModel):
    """Labels for the nodes of a graph, whose edges score pairs of labels.

    An input is a tuple ``(node_features, edges)`` or ``(node_features, edges,
    edge_features)``: arrays of shape (n_nodes, n_features), (n_edges, 2), and
    (n_edges, n_edge_features); features may be CSR. An output is the list of the
    labels of its nodes.

    Parameters
    ----------
    pairwise : {"full", "potts"}, default="full"
        "full": the features of an edge (u, v) score each pair of labels of u and v;
        "potts": they add to the score if the two labels are equal.
    inference : {"auto", "tree", "cut"}, default="auto"
        "tree": max-product, for trees and forests. "cut": minimum cuts, for any graph
        with two labels and "potts"; edge features must not be negative then, and their
        weights are kept at zero or above, so that equal labels never score less [1]_.
        "auto": "tree" where all graphs of the training data are forests, else "cut".
    class_weight : dict or "balanced", default=None
        Cost of missing each label. The loss is the sum of the costs over the nodes,
        divided as `loss_normalization` says. "balanced" gives every label the same
        total cost in the training data.
    %(loss_normalization)s
    fit_intercept : bool, default=True
        Whether labels have a bias.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    inference_ : str
        "tree" or "cut".
    costs_ : ndarray of shape (n_classes,)
        Cost of missing each label.
    mean_size_ : float
        Mean number of nodes of the training data.

    Notes
    -----
    A fitted `sksstruct.SSVMClassifier` has ``coef_`` (n_classes, n_features),
    ``intercept_`` (n_classes,), and ``edge_coef_``, of shape (n_edge_features,
    n_classes, n_classes) with "full" and (n_edge_features,) with "potts". Graphs
    without edge features get a single one, which is 1.

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

    pairwise: str = "full"
    _: KW_ONLY
    inference: str = "auto"
    class_weight: dict | str | None = None
    loss_normalization: str | None = "example"
    fit_intercept: bool = True

    _loss_parameters = ("class_weight",)
    _parameter_constraints = {
        "pairwise": [StrOptions({"full", "potts"})],
        "inference": [StrOptions({"auto", "tree", "cut"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "loss_normalization": NORMALIZATIONS,
        "fit_intercept": ["boolean"],
    }

    def check(self):
        super().check()
        if self.inference == "cut" and self.pairwise != "potts":
            raise ValueError("inference='cut' needs pairwise='potts'")

    def bounds(self):
        # with the training data "auto" may turn out to be "cut"
        cut = getattr(self, "inference_", self.inference) == "cut"
        return {"edge_coef": (0.0, None)} if cut else None

    # ---- inputs and outputs ----

    def _input(self, x, name):
        if not isinstance(x, (tuple, list)) or len(x) not in (2, 3):
            raise ValueError(
                f"{name} must be a tuple (node_features, edges) or (node_features, "
                "edges, edge_features)"
            )
        sizes = getattr(self, "n_features_", None), getattr(self, "n_edges_", None)
        nodes = _rows(x[0], f"{name}: node_features", sizes[0])
        if nodes.shape[0] < 1:
            raise ValueError(f"{name} has no nodes")
        try:
            edges = check_edges(x[1], nodes.shape[0])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        rows = None
        if len(x) == 3 and x[2] is not None:
            empty = not len(edges) and not np.size(x[2]) and np.ndim(x[2]) < 2
            given = np.zeros((0, sizes[1] or 0)) if empty else x[2]
            rows = _rows(given, f"{name}: edge_features", sizes[1])
            if rows.shape[0] != len(edges):
                raise ValueError(
                    f"{name} has {len(edges)} edges and {rows.shape[0]} rows of edge "
                    "features"
                )
        elif sizes[1] is not None:
            raise ValueError(f"{name} has no edge features, {sizes[1]} were expected")
        if hasattr(self, "inference_"):
            self._check_graph(nodes, edges, rows, name)
        return nodes, edges, rows

    def _check_graph(self, nodes, edges, rows, name):
        if self.n_edges_ is None and rows is not None:
            raise ValueError(f"{name} has edge features, none were expected")
        if self.inference_ == "tree":
            try:
                Tree(nodes.shape[0], edges)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        elif rows is not None and np.prod(rows.shape) and rows.min() < 0:
            raise ValueError(
                f"{name} has a negative edge feature, which inference='cut' cannot use"
            )

    def _learn(self, X, y, weight):
        edge_sizes = {None if x[2] is None else x[2].shape[1] for x in X}
        for name, sizes in (
            ("node", {x[0].shape[1] for x in X}),
            ("edge", edge_sizes),
        ):
            if len(sizes) > 1:
                raise ValueError(
                    f"X has graphs of {sorted(sizes, key=str)} {name} features"
                )
        sizes = np.array([x[0].shape[0] for x in X])
        flat = check_labels(y, sizes)
        encoder = LabelEncoder.from_labels(flat)
        self.classes_ = encoder.classes_
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has 1 label, {self.classes_.tolist()[0]!r}: training needs 2"
            )
        labels = encoder.encode(flat)
        self.n_features_, self.n_edges_ = X[0][0].shape[1], edge_sizes.pop()
        self.inference_ = self._choose(X)
        for i, x in enumerate(X):
            self._check_graph(*x, f"X[{i}]")
        self.mean_size_ = float(np.average(sizes, weights=weight))
        self.costs_ = self._costs(labels, np.repeat(weight, sizes))
        return np.split(labels, np.cumsum(sizes)[:-1])

    def _choose(self, X):
        if self.inference == "tree":
            return "tree"
        cycle = None
        for i, (nodes, edges, _) in enumerate(X):
            try:
                Tree(nodes.shape[0], edges)
            except ValueError:
                cycle = i
                break
        if self.inference == "auto" and cycle is None:
            return "tree"
        if self.pairwise != "potts" or len(self.classes_) != 2:
            what = f"X[{cycle}] has a cycle" if cycle is not None else "inference='cut'"
            raise ValueError(
                f"{what}: minimum cuts need two labels and pairwise='potts', y has "
                f"{len(self.classes_)} labels and pairwise is {self.pairwise!r}; "
                "RelaxedGraphModel takes any"
            )
        return "cut"

    def _costs(self, labels, weight):
        known = self.class_weight
        if isinstance(known, dict):
            known = {k: v for k, v in known.items() if k in set(self.classes_.tolist())}
            costs = [float(known.get(label, 1.0)) for label in self.classes_.tolist()]
        else:
            costs = compute_class_weight(
                known,
                classes=np.arange(len(self.classes_)),
                y=labels,
                sample_weight=weight,
            )
        costs = np.array(costs, dtype=np.float64)
        if not (np.isfinite(costs).all() and (costs >= 0).all() and costs.any()):
            raise ValueError("class_weight must be finite, not negative and not all 0")
        return costs

    def _output(self, x, y, name):
        flat = check_labels([y], [x[0].shape[0]], name=name)
        labels = LabelEncoder(self.classes_).encode(flat, default=-1)
        if (labels < 0).any():
            bad = flat[int(np.flatnonzero(labels < 0)[0])]
            raise ValueError(f"{name} has the label {bad!r}, which is not in classes_")
        return labels

    def _labeling(self, x, y):
        return y

    def _shown(self, x, labeling):
        return self.classes_[labeling]

    @property
    def _n_columns(self):
        return len(self.classes_)

    def _offsets(self, X):
        return np.concatenate([[0], np.cumsum([x[0].shape[0] for x in X])])

    def _rows(self, X):
        return _stack([x[0] for x in X])

    def _bound(self, X, y_true, example_weights, nodes=None):
        offsets = self._offsets(X)
        first = np.concatenate([[0], np.cumsum([len(x[1]) for x in X])])
        costs = None
        if y_true is not None:
            y_true = np.concatenate(y_true).astype(np.int32)
            sizes = np.diff(offsets)
            costs = self.costs_[y_true] / divisor(
                self.loss_normalization, np.repeat(sizes, sizes), self.mean_size_
            )
        rows = None
        if self.n_edges_ is not None:
            rows = _stack([x[2] for x in X])
        model = BoundGraph.bind(
            self._rows(X) if nodes is None else nodes,
            offsets,
            np.concatenate([x[1] for x in X]),
            first,
            rows,
            len(self.classes_),
            y_true,
            example_weights,
            costs,
            potts=self.pairwise == "potts",
            forest=self.inference_ == "tree",
            fit_intercept=self.fit_intercept and nodes is None,
        )
        model.oracle_bounds = self.bounds()
        return model

    def _marginals_of(self, model, i, means):
        """Probability of each label of each node."""
        rows = means[: model.sizes[i] * model.ld].reshape(-1, model.ld)
        return rows[:, : model.n_labels].copy()

    # ---- the methods of any model ----

    def loss(self, y, y_hat):
        y, y_hat = list(y), list(y_hat)
        if len(y) != len(y_hat):
            raise ValueError(f"expected {len(y)} labels, got {len(y_hat)}")
        cost = dict(zip(self.classes_.tolist(), self.costs_.tolist(), strict=True))
        missed = [
            cost.get(_plain(a), 1.0) for a, b in zip(y, y_hat, strict=True) if a != b
        ]
        return sum(missed) / divisor(
            self.loss_normalization, len(y), getattr(self, "mean_size_", None)
        )

    def labelings(self, x):
        n = self._input(x, "x")[0].shape[0]
        codes = itertools.product(range(len(self.classes_)), repeat=n)
        return (self.classes_[list(code)] for code in codes)

    def _attributes(self, weights, views=None):
        nodes = (np.zeros((1, self.n_features_)), np.zeros((0, 2), dtype=np.intp))
        rows = None if self.n_edges_ is None else np.zeros((0, self.n_edges_))
        model = self._bound([(*nodes, rows)], None, None)
        return {"classes_": self.classes_, **self._views(model, weights)}


def _plain(label):
    return label.item() if isinstance(label, np.generic) else label


def _rows(values, name, n_features):
    if not sparse.issparse(values):
        return check_features(values, name, 2, n_features)
    values = sparse.csr_array(values, dtype=np.float64)
    if not values.has_canonical_format:
        values = values.copy()
        values.sum_duplicates()
    check_features(values.data, name, 1)
    if n_features is not None and values.shape[1] != n_features:
        raise ValueError(
            f"{name} has {values.shape[1]} features, {n_features} were expected"
        )
    return values


def _stack(rows):
    if any(sparse.issparse(each) for each in rows):
        return sparse.vstack([sparse.csr_array(each) for each in rows], format="csr")
    return np.concatenate(rows)
