"""Symmetric and antisymmetric weights of edge features.

Let sigma map weights V_f[a, b] of an edge feature f to s_f V_f[b, a], with s_f = 1 for
symmetric and -1 for antisymmetric features. The mirror of a graph has the edge (v, u)
for each edge (u, v), with features s_f G_f. A labeling has the same score in the mirror
with weights w as in the graph with weights sigma(w). Training uses each graph and its
mirror, so that its convex objective P satisfies P(w) = P(sigma(w)): the optimum is
symmetric, w = sigma(w). Among symmetric weights, P is the objective without mirrors.
Fitted weights are (w + sigma(w)) / 2, for which P is at most P(w): the objective and
the duality gap that the solver returns are bounds for them too.
"""

from collections.abc import Set
from typing import Any

import numpy as np
from scipy import sparse

from sksstruct.models.graph.inputs import check_graph, in_a_row
from sksstruct.models.structured import StructuredModel
from sksstruct.utils.labels import is_missing
from sksstruct.utils.validation import check_weight

TEXT = """
edge_symmetry : "symmetric" or array-like of shape (n_edge_features,), default=None
    Ties of the weights of labels (a, b) and (b, a), for ``pairwise="full"``. An array
    has 1 for each edge feature whose weights are equal, and -1 for each whose weights
    are the negative of each other, such as a difference that changes its sign with the
    direction of the edge. "symmetric": 1 for all, so that the direction of edges does
    not matter. For a feature without ties, pass its column twice, with 1 and -1.
    Training uses each graph in both directions, and takes twice as long. Every node
    then needs a single label. `objective_` is never below that of the tied weights.
"""


class SymmetricEdges(StructuredModel):
    """Base of the models of graphs whose weights of edge features can be tied."""

    edge_symmetry: Any = None

    def check(self) -> None:
        super().check()
        if self.edge_symmetry is None:
            return
        if self.pairwise != "full":
            raise ValueError(
                "edge_symmetry needs pairwise='full': the weights of 'potts' are "
                "symmetric"
            )
        if isinstance(self.edge_symmetry, str):
            return
        signs = np.asarray(self.edge_symmetry)
        if signs.ndim != 1 or not np.isin(signs, (-1, 1)).all():
            raise ValueError(
                "edge_symmetry must be 'symmetric' or have 1 or -1 for each edge "
                f"feature, got {self.edge_symmetry!r:.80}"
            )

    def _set_score(self, score_function):
        if self.edge_symmetry is not None:
            raise ValueError(
                "edge_symmetry needs a convex objective, which a score_function does "
                "not have"
            )
        super()._set_score(score_function)

    def _read(self, X, y, sample_weight, seen):
        if self.edge_symmetry is not None:
            X, y = self._pairs(X, y)
            weight = check_weight(sample_weight, len(X))
            X, y, sample_weight = self._with_mirrors(X, y, weight)
        return super()._read(X, y, sample_weight, seen)

    def _part(self, X, y, sample_weight):
        X, y, weight = super()._part(X, y, sample_weight)
        if self.edge_symmetry is None or not len(X):
            return X, y, weight
        return self._with_mirrors(X, y, weight)

    def _with_mirrors(self, X, y, weight):
        """Graphs and their mirrors, with half of the weight each."""
        graphs = [check_graph(x, f"X[{i}]") for i, x in enumerate(X)]
        for i, labels in enumerate(y):
            if any(isinstance(a, Set) or is_missing(a) for a in in_a_row(labels)):
                raise ValueError(
                    f"y[{i}] has a missing label, or a set: with edge_symmetry every "
                    "node needs a single label"
                )
        mirrors = [self._mirror(x, f"X[{i}]") for i, x in enumerate(graphs)]
        return [*graphs, *mirrors], [*y, *y], np.tile(weight / 2.0, 2)

    def _mirror(self, graph, name):
        """The mirror of a graph: reversed edges, with features times their signs."""
        rows = graph.edge_features
        signs = self._signs(1 if rows is None else rows.shape[1], name)
        if rows is None and signs[0] < 0:
            raise ValueError(f"{name} has no edge features, which -1 needs")
        if rows is not None:
            rows = rows * signs if not sparse.issparse(rows) else rows.multiply(signs)
        if sparse.issparse(rows):
            rows = sparse.csr_array(rows)
        return graph._replace(edges=graph.edges[:, ::-1], edge_features=rows)

    def _signs(self, n_features, name="edge_symmetry"):
        """A sign for each edge feature."""
        if isinstance(self.edge_symmetry, str):
            return np.ones(n_features)
        signs = np.asarray(self.edge_symmetry, dtype=np.float64)
        if len(signs) != n_features:
            raise ValueError(
                f"edge_symmetry has {len(signs)} entries, but {name} has {n_features} "
                "edge features"
            )
        return signs

    def _own_units(self, weights):
        weights = super()._own_units(weights)
        if self.edge_symmetry is not None:
            coef = self._edge_weights(weights)
            signs = self._signs(len(coef))[:, None, None]
            coef[...] = 0.5 * (coef + signs * coef.transpose(0, 2, 1))
        return weights
