"""Graphs with cycles and any number of labels, through the LP relaxation."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from scipy import sparse

from sksstruct.factor_graphs import FactorGraph, Potts
from sksstruct.inference import max_product_topk
from sksstruct.inference._checks import check_edges, check_k
from sksstruct.inference.lp import MAPSolver, resolve_map_solver
from sksstruct.inference.lp.highs import solve_relaxation
from sksstruct.inference.search._partition import topk_by_partition
from sksstruct.inference.trees._tree import Tree
from sksstruct.models._compiled import check_features
from sksstruct.models.normalization import NORMALIZATIONS, TEXTS, divisor
from sksstruct.models.structured import StructuredModel
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import StrOptions
from sksstruct.utils.progress import Status
from sksstruct.utils.validation import LabelEncoder, check_labels


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class RelaxedGraphModel(StructuredModel):
    """Labels for the nodes of a graph with cycles, whose edges score pairs of labels.

    Inputs and outputs are those of `GraphModel`. Training maximises over the local
    polytope instead of the labelings: where the LP relaxation is not tight, the oracle
    returns a fractional labeling, which has features and a loss like any other. So the
    objective is an upper bound of the structured hinge, and the duality gap is a
    certificate for this bound. Predictions are labelings.

    The oracle is a Python function, so that training is slower than with `GraphModel`,
    which is the model for trees and for two labels that attract.

    Parameters
    ----------
    pairwise : {"full", "potts"}, default="full"
        As in `GraphModel`.
    solver : str or MAPSolver, default="auto"
        Solver for predictions; see `sksstruct.LPMAPPredictor`.
    %(loss_normalization)s
    fit_intercept : bool, default=True
        Whether labels have a bias.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    mean_size_ : float
        Mean number of nodes of the training data.

    Notes
    -----
    The flat weights are the weights of nodes, (n_features, n_classes); the biases; and
    the weights of edges, (n_edge_features, n_classes, n_classes) or
    (n_edge_features,).

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

    pairwise: str = "full"
    _: KW_ONLY
    solver: str | MAPSolver = "auto"
    loss_normalization: str | None = "example"
    fit_intercept: bool = True

    _oracle_note = (
        "sums over the labelings of a graph with cycles are #P-hard; use loss='hinge', "
        "or GraphModel for trees and forests"
    )
    _parameter_constraints = {
        "pairwise": [StrOptions({"full", "potts"})],
        "solver": [str, MAPSolver],
        "loss_normalization": NORMALIZATIONS,
        "fit_intercept": ["boolean"],
    }

    # ---- inputs ----

    def _parts(self, x, name="x"):
        if not isinstance(x, (tuple, list)) or len(x) not in (2, 3):
            raise ValueError(
                f"{name} must be a tuple (node_features, edges) or (node_features, "
                "edges, edge_features)"
            )
        nodes = x[0].toarray() if sparse.issparse(x[0]) else x[0]
        nodes = check_features(nodes, f"{name}: node_features", 2,
                               getattr(self, "n_features_", None))  # fmt: skip
        try:
            edges = check_edges(x[1], len(nodes))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if len(x) == 2 or x[2] is None:
            rows = np.ones((len(edges), 1))
        else:
            rows = x[2].toarray() if sparse.issparse(x[2]) else x[2]
            rows = check_features(rows, f"{name}: edge_features", 2)
            if len(rows) != len(edges):
                raise ValueError(
                    f"{name} has {len(edges)} edges and {len(rows)} rows of edge "
                    "features"
                )
        known = getattr(self, "n_edges_", rows.shape[1])
        if rows.shape[1] != known:
            raise ValueError(
                f"{name} has {rows.shape[1]} edge features, {known} were expected"
            )
        return nodes, edges, rows

    def prepare(self, X, Y):
        resolve_map_solver(self.solver).check()
        parts = [self._parts(x, f"X[{i}]") for i, x in enumerate(X)]
        for name, where in (("node", 0), ("edge", 2)):
            sizes = {part[where].shape[1] for part in parts}
            if len(sizes) > 1:
                raise ValueError(f"X has graphs of {sorted(sizes)} {name} features")
        sizes = [len(part[0]) for part in parts]
        self.mean_size_ = float(np.mean(sizes))
        flat = check_labels(Y, sizes)
        self.classes_ = LabelEncoder.from_labels(flat).classes_
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has 1 label, {self.classes_.tolist()[0]!r}: training needs 2"
            )
        self._codes = {label: k for k, label in enumerate(self.classes_.tolist())}
        K = len(self.classes_)
        self.n_features_ = parts[0][0].shape[1]
        self.n_edges_ = parts[0][2].shape[1]
        per_edge = 1 if self.pairwise == "potts" else K * K
        self.n_weights_ = (
            K * (self.n_features_ + self.fit_intercept) + self.n_edges_ * per_edge
        )

    def _split(self, w):
        """Weights of nodes, biases, and of edges."""
        K, n = len(self.classes_), self.n_features_
        nodes = w[: n * K].reshape(n, K)
        rest = w[n * K :]
        bias = rest[:K] if self.fit_intercept else np.zeros(K)
        return nodes, bias, rest[K if self.fit_intercept else 0 :]

    def _graph(self, x, w, extra=0.0):
        nodes, edges, rows = self._parts(x)
        coef, bias, edge_coef = self._split(np.asarray(w))
        K = len(self.classes_)
        unaries = nodes @ coef + bias + extra
        if not len(edges):
            return FactorGraph(unaries)
        if self.pairwise == "potts":
            weights = rows @ edge_coef
            return FactorGraph(unaries, edges, Potts(K), edge_weights=weights)
        return FactorGraph(
            unaries, edges, (rows @ edge_coef.reshape(-1, K * K)).reshape(-1, K, K)
        )

    def _marginals(self, y, x=None):
        """Marginals of the nodes, and of the edges of x."""
        if isinstance(y, dict):
            return y["nodes"], y["edges"]
        codes = np.array([self._codes[_plain(label)] for label in y], dtype=np.intp)
        eye = np.eye(len(self.classes_))
        nodes = eye[codes]
        if x is None:
            return nodes, None
        u, v = np.asarray(x[1], dtype=np.intp).reshape(-1, 2).T
        return nodes, nodes[u][:, :, None] * nodes[v][:, None, :]

    # ---- the model ----

    def joint_feature(self, x, y):
        nodes, _, rows = self._parts(x)
        of_nodes, of_edges = self._marginals(y, x)
        if len(of_nodes) != len(nodes):
            raise ValueError(f"expected {len(nodes)} labels, got {len(of_nodes)}")
        parts = [(nodes.T @ of_nodes).ravel()]
        if self.fit_intercept:
            parts.append(of_nodes.sum(axis=0))
        if self.pairwise == "potts":
            parts.append(rows.T @ np.trace(of_edges, axis1=1, axis2=2))
        else:
            tables = of_edges.reshape(len(rows), len(self.classes_) ** 2)
            parts.append((rows.T @ tables).ravel())
        return np.concatenate(parts)

    def loss(self, y, y_hat):
        y_true, found = self._marginals(y)[0], self._marginals(y_hat)[0]
        if len(y_true) != len(found):
            raise ValueError(f"expected {len(y_true)} labels, got {len(found)}")
        return float(len(y_true) - (y_true * found).sum()) / self._divisor(y_true)

    def _divisor(self, y_true):
        return divisor(
            self.loss_normalization, len(y_true), getattr(self, "mean_size_", None)
        )

    def loss_augmented_decode(self, x, y, w):
        y_true = self._marginals(y)[0]
        graph = self._graph(x, w, (1.0 - y_true) / self._divisor(y_true))
        # message passing shows where the relaxation is tight
        result = resolve_map_solver("trws", tol=1e-9, max_iter=100).solve(
            graph, random_state=0
        )
        if result.status is Status.OPTIMAL:
            return self.classes_[result.labeling].tolist()
        nodes, edges = solve_relaxation(graph)
        # equal answers look equal
        return {"nodes": np.round(nodes, 9), "edges": np.round(edges, 9)}

    def decode(self, x, w):
        solver = resolve_map_solver(self.solver)
        result = solver.solve(self._graph(x, w), random_state=0)
        return self.classes_[result.labeling].tolist()

    def decode_topk(self, x, w, k):
        """The k outputs of highest score.

        On trees and forests they are exact. On graphs with cycles one MAP problem is
        solved for each node and output, and they are exact where `solver` proves its
        labelings optimal, as the default does on small graphs and on those of small
        width; elsewhere they are the best that it finds.

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
            Different outputs, the best first; fewer where there are no more.
        """
        k, graph = check_k(k), self._graph(x, w)
        try:
            Tree(graph.n_variables, graph.edges)
        except ValueError:
            found = self._topk_of_cycles(x, w, k, graph.n_states)
        else:
            weights = graph.edge_weights
            weights = np.ones(graph.n_edges) if weights is None else weights
            tables = [
                weight * graph.tables[t].dense()
                for weight, t in zip(weights, graph.edge_tables, strict=True)
            ]
            unaries = graph.unaries.reshape(graph.n_variables, -1)
            found = max_product_topk(unaries, graph.edges, tables, k)[0]
        return self.classes_[np.array(found)].tolist()

    def _topk_of_cycles(self, x, w, k, sizes):
        solver = resolve_map_solver(self.solver)

        def solve(allowed):
            graph = self._graph(x, w, np.where(allowed, 0.0, -np.inf))
            result = solver.solve(graph, random_state=0)
            return result.labeling, result.score, result.bound

        return topk_by_partition(solve, sizes, k).labelings


def _plain(label):
    return label.item() if isinstance(label, np.generic) else label
