"""Graphs with cycles and any number of labels, through the LP relaxation."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sksstruct.factor_graphs import FactorGraph, Potts
from sksstruct.inference import max_product_topk
from sksstruct.inference._checks import check_k
from sksstruct.inference.map import MAPSolver, resolve_map_solver
from sksstruct.inference.map.highs import solve_relaxation
from sksstruct.inference.search._partition import topk_by_partition
from sksstruct.inference.trees._tree import Tree
from sksstruct.losses import PositionLoss
from sksstruct.models.graph.inputs import (
    Graph,
    TakesGraphs,
    check_graph,
    in_a_row,
    plain,
    shaped,
    total_weight,
    with_nodes,
)
from sksstruct.models.graph.labeled import BoundRelaxedGraph
from sksstruct.models.graph.partial import (
    NodeLabels,
    compared,
    observed_graphs,
    scored,
)
from sksstruct.models.graph.relaxed_completion import RelaxedCompletion
from sksstruct.models.graph.symmetry import TEXT, SymmetricEdges
from sksstruct.models.normalization import TEXTS, divisor, size_alpha
from sksstruct.models.scale import ColumnMoments
from sksstruct.models.structured import StructuredModel
from sksstruct.models.tables.completion import known_of
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import Array, Constrained
from sksstruct.utils.progress import Status


@fill_doc({**TEXTS, "edge_symmetry": TEXT})
@dataclass(eq=False, repr=False)
class RelaxedGraphModel(SymmetricEdges, TakesGraphs, Constrained, StructuredModel):
    """Labels for the nodes of a graph with cycles, whose edges score pairs of labels.

    Inputs and outputs are as in `GraphModel`. Training maximizes over the local
    polytope instead of the labelings. If the LP relaxation is not tight, the oracle
    returns a fractional labeling, which has features and a loss like any other
    labeling. The objective is therefore an upper bound on the structured hinge, and the
    duality gap is a certificate for this bound. Predictions are labelings.

    With ``solver="auto"``, `sksstruct.solvers.GDMM` trains the model without maximizing
    over a whole graph. The oracle of the other solvers is a Python function that solves
    a linear program if message passing does not find the maximum. For trees, and for
    two labels whose edges favor equal labels, use `GraphModel`.

    As with `GraphModel`, labels of y may be None, or sets. Predictions by `solver`
    complete these labels. Every graph needs a node with a single label.

    Parameters
    ----------
    pairwise : {"full", "potts"}, default="full"
        As in `GraphModel`.
    solver : str or MAPSolver, default="auto"
        Solver for predictions; see `sksstruct.LPMAPPredictor`.
    class_weight : dict or "balanced", default=None
        Cost of a wrong prediction for each true label, as in `GraphModel`.
    %(loss_normalization)s
        The size of a graph is the sum of its node weights, or the number of its nodes
        without node weights.
    fit_intercept : bool, default=True
        Whether labels have a bias.
    normalize : bool, default=False
        Whether all features, including the bias feature, are divided by the number of
        nodes of their graph, as in `GraphModel`.
    %(edge_symmetry)s

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    costs_ : ndarray of shape (n_classes,)
        Cost of missing each label.
    mean_size_ : float
        Mean size of the graphs of the training data: number, or weight, of the nodes.

    Notes
    -----
    A fitted `sksstruct.SSVMClassifier` has ``coef_``, ``intercept_`` and
    ``edge_coef_``, as with `GraphModel`, and with cliques ``clique_coef_``, a list with
    a table for each kind of cliques, with an axis of n_classes for each node. The flat
    weights are the weights of nodes, (n_features, n_classes), the biases, and the
    weights of edges and cliques. The relaxation is the local polytope, in which cliques
    agree with their nodes.

    Examples
    --------
    >>> from sksstruct import SSVMClassifier
    >>> from sksstruct.models import RelaxedGraphModel
    >>> X = [([[1.0], [0.0], [-1.0]], [(0, 1), (1, 2), (2, 0)])]
    >>> y = [["a", "b", "c"]]
    >>> classifier = SSVMClassifier(RelaxedGraphModel(), alpha=0.1, random_state=0)
    >>> classifier.fit(X, y).predict(X)[0]
    ['a', 'b', 'c']
    """

    pairwise: Literal["full", "potts"] = "full"
    _: KW_ONLY
    solver: str | MAPSolver = "auto"
    class_weight: dict | Literal["balanced"] | None = None
    loss_normalization: Literal["mean", "example"] | None = "example"
    fit_intercept: bool = True
    normalize: bool = False
    edge_symmetry: Literal["symmetric"] | Array | None = None

    _oracle_note = (
        "sums over the labelings of a graph with cycles are #P-hard; use loss='hinge', "
        "or GraphModel for trees and forests"
    )

    _loss_parameters = ("class_weight",)
    _class_weight_note = "has its own: pass RelaxedGraphModel(class_weight=...)"
    _task_losses = (PositionLoss,)

    # attributes of the training data; None before training
    n_features_ = n_edges_ = orders_ = mean_size_ = mean_nodes_ = cast(Any, None)

    # ---- inputs ----

    def _parts(self, x, name="x"):
        graph = check_graph(x, name, self.n_features_, self.n_edges_)
        rows = graph.edge_features
        if rows is None:
            rows = np.ones((len(graph.edges), 1))
            known = self.n_edges_
            if known not in (None, 1):
                raise ValueError(f"{name} has 1 edge features, {known} were expected")
        nodes, rows = (
            part.toarray() if sparse.issparse(part) else part
            for part in (graph.node_features, rows)
        )
        cliques = [] if graph.cliques is None else graph.cliques
        orders = [rows.shape[1] for rows in cliques]
        if self.orders_ is not None and orders != self.orders_:
            raise ValueError(
                f"{name} has cliques of the orders {orders}, {self.orders_} were "
                "expected"
            )
        return graph._replace(node_features=nodes, edge_features=rows, cliques=cliques)

    def prepare(self, X: Any, Y: Any) -> None:
        resolve_map_solver(self.solver).check()
        parts = [self._parts(x, f"X[{i}]") for i, x in enumerate(X)]
        for name, where in (("node", 0), ("edge", 2)):
            sizes = {part[where].shape[1] for part in parts}
            if len(sizes) > 1:
                raise ValueError(f"X has graphs of {sorted(sizes)} {name} features")
        orders = [[rows.shape[1] for rows in part.cliques] for part in parts]
        for i, found in enumerate(orders):
            if found != orders[0]:
                raise ValueError(
                    f"X[{i}] has cliques of the orders {found}, X[0] of {orders[0]}; "
                    "arrays may be empty"
                )
        self._learn_labels(parts, Y, np.ones(len(parts)))
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has 1 label, {self.classes_.tolist()[0]!r:.80}: training needs 2"
            )
        self._codes = {label: k for k, label in enumerate(self.classes_.tolist())}
        K = len(self.classes_)
        self.n_features_ = parts[0][0].shape[1]
        self.n_edges_ = parts[0][2].shape[1]
        self.orders_ = orders[0]
        per_edge = 1 if self.pairwise == "potts" else K * K
        self._first_clique = (
            K * (self.n_features_ + self.fit_intercept) + self.n_edges_ * per_edge
        )
        self.n_weights_ = self._first_clique + sum(K**order for order in self.orders_)

    def _learn_labels(self, parts, y, weight):
        """Learn labels, their costs, and the mean size."""
        labels = NodeLabels.read(parts, y)
        self.classes_ = labels.classes
        parts = observed_graphs(parts, labels.by_graph())
        self.mean_size_ = float(
            np.average(list(map(total_weight, parts)), weights=weight)
        )
        counts = labels.counts(parts, weight)
        costs = self._label_costs(self.classes_, counts)
        self.costs_ = np.ones(len(counts)) if costs is None else costs

    # training on data in parts is not supported, as labels and kinds of cliques
    # determine the layout of weights, and a part may lack some
    _from_parts = None

    def _learn_from(self, X, y, weight):
        self.prepare(X, y)
        parts = [self._parts(x) for x in X]
        self._learn_labels(parts, y, weight)
        graphs = [
            Graph(*x)._replace(node_features=part.node_features)
            for x, part in zip(X, parts, strict=True)
        ]
        n_nodes = [len(x.node_features) for x in graphs]
        self.mean_nodes_ = float(np.average(n_nodes, weights=weight))
        if not self.follows_scale:
            return X, y
        rows = np.concatenate([x.node_features for x in graphs])
        self._learn_scale(ColumnMoments.of(rows, np.repeat(weight, n_nodes)))
        offsets = np.concatenate([[0], np.cumsum(n_nodes)])
        return with_nodes(graphs, self._over_scale(rows), offsets), y

    @property
    def auto_alpha(self) -> float:  # type: ignore[override]
        is_sum = self.loss_normalization is None
        return size_alpha(self, self.mean_nodes_, self.normalize, is_sum)

    def _own_units(self, weights):
        weights = super()._own_units(weights)
        coef, bias, _ = self._blocks(weights)
        coef /= self.intercept_scaling_
        if bias is not None:
            bias -= self._off_centers(coef.T)
        return weights

    def _bind(self, examples):
        X, y, weight = examples
        parts = [self._parts(x) for x in X]
        labels = NodeLabels.read(parts, y).with_classes(self.classes_).by_graph()
        if known_of(labels) is None:
            return BoundRelaxedGraph(self, X, y, weight)
        completion = RelaxedCompletion(self, parts, labels, weight)
        model = completion.model
        model.completion = completion
        return model

    def _blocks(self, w):
        """Views of the weights of nodes, biases or None, and weights of edges."""
        K, n = len(self.classes_), self.n_features_
        nodes, rest = w[: n * K].reshape(n, K), w[n * K :]
        bias = rest[:K] if self.fit_intercept else None
        edges = w[n * K + (K if self.fit_intercept else 0) : self._first_clique]
        return (
            nodes,
            bias,
            edges if self.pairwise == "potts" else edges.reshape(self.n_edges_, K, K),
        )

    def _edge_weights(self, weights):
        return self._blocks(weights)[2]

    def _attributes(self, weights, views=None):
        coef, bias, edge_coef = self._blocks(weights)
        attributes = {
            "classes_": self.classes_,
            "coef_": coef.T.copy(),
            "intercept_": np.zeros(len(coef.T)) if bias is None else bias.copy(),
            "edge_coef_": edge_coef.copy(),
        }
        if self.orders_:
            tables = self._clique_tables(weights)
            attributes["clique_coef_"] = [table.copy() for table in tables]
        return attributes

    def _clique_tables(self, w):
        """Views of the weights of cliques, one table for each kind."""
        K, first, tables = len(self.classes_), self._first_clique, []
        for order in self.orders_:
            tables.append(w[first : first + K**order].reshape((K,) * order))
            first += K**order
        return tables

    def _scale(self, nodes):
        """Factor of all features of a graph."""
        return 1.0 / len(nodes) if self.normalize else 1.0

    def _graph(self, x, w, extra=0.0):
        parts = self._parts(x)
        nodes, edges, rows = parts[:3]
        w = np.asarray(w) * self._scale(nodes)
        coef, bias, edge_coef = self._blocks(w)
        K = len(self.classes_)
        unaries = nodes @ coef + extra
        if bias is not None:
            unaries += bias
        kinds = zip(parts.cliques, self._clique_tables(w), strict=True)
        factors = [(scope, table) for rows_, table in kinds for scope in rows_]
        if not len(edges):
            return FactorGraph(unaries, factors=factors)
        if self.pairwise == "potts":
            weights = rows @ edge_coef
            return FactorGraph(
                unaries, edges, Potts(K), edge_weights=weights, factors=factors
            )
        tables = (rows @ edge_coef.reshape(-1, K * K)).reshape(-1, K, K)
        return FactorGraph(unaries, edges, tables, factors=factors)

    def _marginals(self, y):
        """Marginals of the nodes, (n_nodes, n_classes), of a labeling, for which they
        are 0 or 1, or of a fractional labeling.
        """
        if isinstance(y, dict):
            return y["nodes"]
        # label K stands for labels that are not in the training data: a row of zeros
        K = len(self.classes_)
        return np.eye(K + 1, K)[self._numbers(y)]

    def _labels(self, y):
        """Numbers of labels; an error if training has not seen one of them."""
        numbers = self._numbers(y)
        if (numbers == len(self.classes_)).any():
            p = int(np.argmax(numbers == len(self.classes_)))
            raise ValueError(
                f"y[{p}] is {plain(in_a_row(y)[p])!r:.80}, which is not a label of the "
                "training data"
            )
        return numbers

    def _numbers(self, y):
        """Numbers of labels; len(classes_) for labels that training has not seen."""
        unseen = len(self.classes_)
        rows = [self._codes.get(plain(label), unseen) for label in in_a_row(y)]
        return np.array(rows, np.intp)

    def _edge_marginals(self, x, y):
        """Marginals of the tables of the edges, flat; sparse for a labeling."""
        K = len(self.classes_)
        if isinstance(y, dict):
            return y["edges"].reshape(-1, K * K)
        u, v = self._labels(y)[np.asarray(x[1], dtype=np.intp).reshape(-1, 2).T]
        n_edges = len(u)
        return sparse.csr_array(
            (np.ones(n_edges), u * K + v, np.arange(n_edges + 1)), (n_edges, K * K)
        )

    def _clique_counts(self, cliques, y):
        """Number of cliques of each kind with each labeling, flat."""
        if not self.orders_:
            return []
        if isinstance(y, dict):
            return y["cliques"]
        K, labels = len(self.classes_), self._labels(y)
        counts = []
        for rows, order in zip(cliques, self.orders_, strict=True):
            places = labels[rows] @ K ** np.arange(order)[::-1]
            counts.append(np.bincount(places, minlength=K**order).astype(float))
        return counts

    # ---- methods of all models ----

    def joint_feature(self, x: Any, y: Any) -> Any:
        inputs = self._parts(x)
        nodes, _, rows = inputs[:3]
        of_nodes = self._marginals(y)
        if len(of_nodes) != len(nodes):
            raise ValueError(f"x has {len(nodes)} nodes, y has {len(of_nodes)} labels")
        parts = [(nodes.T @ of_nodes).ravel()]
        if self.fit_intercept:
            parts.append(of_nodes.sum(axis=0))
        of_edges = self._edge_marginals(x, y)
        if self.pairwise == "potts":
            # equal labels are on the diagonal of the tables
            of_edges = of_edges[:, :: len(self.classes_) + 1].sum(axis=1)
        parts.append((of_edges.T @ rows).T.ravel())
        parts += self._clique_counts(inputs.cliques, y)
        return self._scale(nodes) * np.concatenate(parts)

    def loss(self, y: Any, y_hat: Any, node_weights: ArrayLike | None = None) -> float:
        """Loss of predicting y_hat where y was observed.

        Parameters
        ----------
        y, y_hat : list, array or dict
            Labels, or marginals of fractional labelings. Labels of y may be None, or
            sets, as in training; such labels have no loss.
        node_weights : array-like of shape (n_nodes,), default=None
            Weights of the graph's nodes; None: 1.

        Returns
        -------
        loss : float
            Not negative.
        """
        if not isinstance(y, dict) and not isinstance(y_hat, dict):
            y_hat = in_a_row(y_hat)
            y, node_weights = compared(in_a_row(y), y_hat, node_weights)
        y_true, predicted = self._marginals(y), self._marginals(y_hat)
        if len(y_true) != len(predicted):
            raise ValueError(f"y has {len(y_true)} labels, y_hat has {len(predicted)}")
        weights, divided_by = self._weights(len(y_true), node_weights)
        weights = weights * self._costs_of(y_true)
        right = (weights[:, None] * (y_true * predicted)).sum()
        return float(weights.sum() - right) / divided_by

    def _loss_at(self, x, y, y_hat):
        return self.loss(y, y_hat, Graph(*x).node_weights)

    def _score(self, X, y, predicted, sample_weight=None):
        y, sample_weight = scored(y, sample_weight)
        return super()._score(X, y, predicted, sample_weight)

    def _weights(self, n_nodes, node_weights):
        """Weights of the nodes, and the divisor of their sum."""
        if node_weights is None:
            node_weights = np.ones(n_nodes)
        weights = np.asarray(node_weights, dtype=np.float64)
        size = weights.sum() or 1.0
        return weights, divisor(self.loss_normalization, size, self.mean_size_)

    def _costs_of(self, y_true):
        """Costs of missing labels; 1 for labels that training has not seen."""
        return 1.0 - y_true.sum(axis=1) + y_true @ self.costs_

    def loss_augmented_decode(self, x: Any, y: Any, w: np.ndarray) -> Any:
        y_true = self._marginals(y)
        weights, divided_by = self._weights(len(y_true), Graph(*x).node_weights)
        weights = weights * self._costs_of(y_true)
        graph = self._graph(x, w, (1.0 - y_true) * weights[:, None] / divided_by)
        # if the relaxation is tight, message passing usually finds the maximum
        name = "mplp" if graph.n_factors else "trws"
        result = resolve_map_solver(name, tol=1e-9, max_iter=100).solve(
            graph, random_state=0
        )
        if result.status is Status.OPTIMAL:
            return self._answer(x, result.labeling)
        nodes, edges, factors = solve_relaxation(graph)
        # rounded, so that outputs that differ by rounding errors have equal
        # fingerprints
        answer = {"nodes": np.round(nodes, 9), "edges": np.round(edges, 9)}
        if not self.orders_:
            return answer
        # `factors` has the marginals of all cliques, sorted by kind
        sizes = [len(rows) for rows in self._parts(x).cliques]
        ends = np.cumsum([0, *sizes])
        counts = [
            np.round(sum(factors[a:b], np.zeros(len(self.classes_) ** order)), 9)
            for a, b, order in zip(ends[:-1], ends[1:], self.orders_, strict=True)
        ]
        return {**answer, "cliques": counts}

    def decode(self, x: Any, w: np.ndarray) -> Any:
        return self._answer(x, self._best(x, w))

    def _best(self, x, w, allowed=True):
        """Numbers of the labels of the best labeling with allowed labels only."""
        solver = resolve_map_solver(self.solver)
        extra = np.where(allowed, 0.0, -np.inf)
        return solver.solve(self._graph(x, w, extra), random_state=0).labeling

    def decode_topk(self, x: Any, w: np.ndarray, k: int) -> list:
        """The k outputs with the highest scores.

        On trees and forests they are exact. On graphs with cycles one MAP problem is
        solved for each node and output. The outputs are exact if `solver` proves its
        labelings optimal, as the default does on small graphs and on graphs of small
        width; otherwise they are the best outputs found.

        Parameters
        ----------
        x : tuple
            Input.
        w : ndarray of shape (n_weights,)
            Weights.
        k : int
            Number of outputs.

        Returns
        -------
        outputs : list
            Different outputs, the best first; fewer if there are no more.
        """
        k, graph = check_k(k), self._graph(x, w)
        try:
            if graph.n_factors:
                raise ValueError
            Tree(graph.n_variables, graph.edges)
        except ValueError:
            labelings = self._topk_of_cycles(x, w, k, graph.n_states)
        else:
            weights = graph.edge_weights
            weights = np.ones(graph.n_edges) if weights is None else weights
            tables = [
                weight * graph.tables[t].dense()
                for weight, t in zip(weights, graph.edge_tables, strict=True)
            ]
            unaries = graph.unaries.reshape(graph.n_variables, -1)
            labelings = max_product_topk(unaries, graph.edges, tables, k)[0]
        return [self._answer(x, labeling) for labeling in labelings]

    def _topk_of_cycles(self, x, w, k, sizes):
        solver = resolve_map_solver(self.solver)

        def solve(allowed):
            graph = self._graph(x, w, np.where(allowed, 0.0, -np.inf))
            result = solver.solve(graph, random_state=0)
            return result.labeling, result.score, result.bound

        return topk_by_partition(solve, sizes, k).labelings

    def _answer(self, x, labeling):
        labels = shaped(Graph(*x), self.classes_[labeling])
        # in a list, labels keep their types
        return labels if labels.ndim > 1 else labels.tolist()
