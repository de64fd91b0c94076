"""Graphs as factors, for training by dual decomposition.

Scores are as in `_graph.pyx`. In the terms of Yen et al. (2016), Section 3.2, nodes are
unigram factors with inner-product scores, and edges are bigram factors:

    `TableFactors`        "full" with many labels, where an edge has at most one feature
                          that is not zero, which is positive: indicator factors, with a
                          table for each feature
    `PottsFactors`        "potts": indicators of equal labels
    `EdgeRowFactors`      "full" with any features of edges: inner-product factors

The training objective maximizes over the LP relaxation; see `relaxation.py`.
"""

import numpy as np
from scipy import sparse

from sksstruct.factor_graphs import Potts
from sksstruct.inference.chains._ordered_table import IndicatorTable
from sksstruct.models.graph._factors import EdgeRowKernel, PottsKernel, TableKernel
from sksstruct.models.graph.relaxation import relaxed_maxima
from sksstruct.models.tables._feature_rows import FeatureRows
from sksstruct.utils._layout import aligned_zeros, padded_length
from sksstruct.utils.packed import PackedSequences

# Forming the table of a clique takes about as long as reading this number of scores.
WORK_OF_CLIQUE = 1000


def single_features(edge_rows):
    """Return the feature of each edge that has a single, positive one, and its value.

    Returns
    -------
    feature : ndarray of shape (n_edges,), int32
        Number of the feature; -1 if an edge has several features, or a negative one; if
        an edge has none, the number of features, with a value of one.
    value : ndarray of shape (n_edges,)
        The value of the feature.
    """
    rows = sparse.csr_array(edge_rows)
    rows.eliminate_zeros()
    n, d = rows.shape
    counts = np.diff(rows.indptr)
    feature = np.where(counts > 0, -1, d).astype(np.int32)
    value = np.ones(n)
    first = rows.indptr[:n][counts == 1]
    feature[counts == 1], value[counts == 1] = rows.indices[first], rows.data[first]
    feature[value <= 0.0] = -1
    # a spare entry, as a buffer must not be empty
    return np.append(feature, d).astype(np.int32), np.append(value, 1.0)


class GraphFactors:
    """Nodes and edges of labeled graphs; a second base class scores the edges.

    Parameters
    ----------
    graphs : LabeledGraphs
        Graphs, labels and features.
    """

    def __init__(self, graphs):
        if graphs.n_labels**2 >= 2**31:
            # kernels number pairs of labels by int32
            raise ValueError(
                f"y has {graphs.n_labels} labels, whose pairs are more than 32-bit "
                "indices can tell apart: at most 46340 labels are possible"
            )
        self.costs = np.ascontiguousarray(graphs.costs, dtype=np.float64)
        self.set_factors(
            graphs.first_node,
            graphs.first_edge,
            graphs.edges,
            graphs.y_true,
            self.costs,
            graphs.example_weights,
            graphs.n_labels,
        )
        self._nodes, self.edge_rows = graphs.nodes, graphs.edge_rows
        self._blocks, self._n_weights = graphs.blocks, graphs.n_weights
        self.set_rows(
            PackedSequences(graphs.nodes, graphs.first_node),
            graphs.fit_intercept,
            np.zeros(self.n_variables, dtype=np.uint8),
        )
        squares = sparse.csr_array(self.edge_rows).power(2)
        norms = np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
        self.cliques = graphs.cliques
        pair_norm = norms.max(initial=0.0)
        # in a graph without cycles, a factor of r nodes counts as r - 1 edges
        joins = np.diff(self.first_pair)
        if self.cliques is not None:
            pair_norm = max(pair_norm, self.cliques.norm)
            joins = joins + self.per_example(self.cliques.orders - 1)
        # a graph with as many edges as nodes has a cycle
        loopy = bool((joins >= np.diff(self.first_variable)).any())
        self.set_edges(norms, aligned_zeros(2 * self.ld), pair_norm, loopy)
        self.start()

    def per_example(self, values):
        """Return, for each example, the sum of the values of its cliques."""
        sums = np.concatenate([[0], np.cumsum(values)])
        return np.diff(sums[self.cliques.first_clique])

    # ---- weights ----

    def start(self):
        self.start_rows()
        if self.cliques is not None:
            self.cliques.start()

    def edge_weights(self):
        """Return the weights of the edges, (n_edge_features, K, K) or
        (n_edge_features,)."""
        raise NotImplementedError

    def weights(self):
        out = np.zeros(self._n_weights)
        coef, intercept, edge_coef = self._blocks(out)
        n = len(coef)
        coef[...] = self.row_weights[:n, : self.n_labels]
        if intercept is not None:
            # the bias follows the features, also if it is a scaled feature
            intercept[...] = self.row_weights[n, : self.n_labels]
        edge_coef[...] = self.edge_weights()
        if self.cliques is not None:
            out[-len(self.cliques.weights) :] = self.cliques.weights
        return out

    def square_with(self, pairs, left, right, amounts):
        edges = self.edge_weights() + self.changes(pairs, left, right, amounts)
        return float((self.row_weights**2).sum()) + float((edges**2).sum())

    def changes(self, pairs, left, right, amounts):
        """Return the change of `edge_weights` from changes of dual variables of edges.

        The features of edge pairs[k], for the labels left[k] and right[k] of its ends,
        are added amounts[k] times.
        """
        K = self.n_labels
        # csr_array sums the amounts of an edge and a pair of labels that occur twice
        entries = sparse.csr_array(
            (amounts, (pairs, left.astype(np.int64) * K + right)),
            shape=(self.n_pairs, K * K),
        )
        rows = sparse.csr_array(self.edge_rows)
        return (rows.T @ entries).toarray().reshape(-1, K, K)

    def views(self, weights):
        """Return named views of flat weights."""
        coef, intercept, edge_coef = self._blocks(weights)
        views = {"coef": coef.T, "edge_coef": edge_coef}
        return views if intercept is None else {**views, "intercept": intercept}

    # ---- the objective ----

    def work_of_maxima(self):
        # The message passing of `maxima` reads all entries of the edges' tables, unless
        # they are Potts tables, but in SIMD vectors, which takes far less time than
        # visits of single scores: an edge counts as four scores per label.
        return (
            self.n_variables + 4 * self.n_pairs
        ) * self.n_labels + self.work_of_cliques()

    def work_of_cliques(self):
        """Return about the number of scores of cliques that the objective reads."""
        if self.cliques is None:
            return 0
        return int((WORK_OF_CLIQUE + 2 * self.cliques.outcomes).sum())

    # number of scores of an edge in the objective: messages, and unshared tables
    @property
    def scores_of_edge(self):
        return self.n_labels

    def maxima(self, weights, n_jobs=None, multipliers=None):
        coef, intercept, edge_coef = self._blocks(weights)
        # if features are scaled, the bias is the last feature
        if intercept is not None and self.n_features > len(coef):
            coef, intercept = np.vstack([coef, intercept[None]]), None

        def node_scores(start, stop):
            scores = self._nodes[start:stop] @ coef
            return scores if intercept is None else scores + intercept

        cliques = None
        if self.cliques is not None:
            cliques = weights[-len(self.cliques.weights) :]
        return relaxed_maxima(
            self, node_scores, self.edge_tables(edge_coef), cliques, n_jobs, multipliers
        )

    def edge_tables(self, edge_coef):
        """Return a function that forms tables of edges; see `relaxation.py`."""
        raise NotImplementedError

    # ---- messages ----

    def maximum(self, pair, labels, messages, *, floor=-np.inf, linear=False):
        """Find the best outcome of an edge, given messages to its ends; for tests.

        Parameters
        ----------
        pair : int
            The edge.
        labels, messages : pair of array-like
            For each end, labels that have a message, and their messages.
        floor : float, default=-inf
            Lower limit of the value.
        linear : bool, default=False
            Whether to read every outcome.

        Returns
        -------
        outcome : tuple (int, int, float) or None
            Labels of the two ends, and their value; None if no value is above floor.
        """
        # a spare entry, so that addresses are valid
        names = [np.append(each, 0).astype(np.int32) for each in labels]
        values = [np.append(each, 0.0) for each in messages]
        return self.best_outcome(pair, names, values, floor, linear)


class TableFactors(GraphFactors, TableKernel):
    """Edges that each read one table, times a factor: indicator factors."""

    def __init__(self, graphs):
        self.table_of, self.factors = single_features(graphs.edge_rows)
        # edges without features read an extra table, which stays zero
        self._n_tables = graphs.edge_rows.shape[1] + 1
        super().__init__(graphs)

    def start(self):
        # new tables: old ones would keep their entries, and searches would visit these
        # entries even after they are set to zero
        K = self.n_labels
        self.tables = [IndicatorTable(K, K) for _ in range(self._n_tables)]
        addresses = np.array([id(table) for table in self.tables], dtype=np.intp)
        self.set_tables(
            self.tables, addresses, self.table_of, self.factors, np.empty(2 * K)
        )
        super().start()

    def edge_weights(self):
        K = self.n_labels
        out = np.zeros((self._n_tables - 1, K, K))
        for dense, table in zip(out, self.tables, strict=False):
            rows, columns, values = table.entries()
            dense[rows, columns] = values
        return out

    def edge_tables(self, edge_coef):
        return shared_tables(edge_coef, self.table_of, self.factors)


class EdgeRowFactors(GraphFactors, EdgeRowKernel):
    """Edges whose features score all pairs of labels: inner-product factors.

    Every oracle reads all outcomes, in SIMD vectors. An edge with a single, positive
    feature reads the table of weights of this feature; for any other edge the oracle
    forms a table of scores.
    """

    def __init__(self, graphs):
        self._features = edge_features(graphs.edge_rows)
        self._single = single_features(graphs.edge_rows)
        self._shares_tables = self._single[0].min() >= 0
        super().__init__(graphs)

    def start(self):
        # tables begin on cache lines and are whole vectors, as in `feature_weights`
        step = padded_length(self.n_labels * self.ld)
        # an extra table of zeros is for edges without features
        weights = aligned_zeros((self.edge_rows.shape[1] + 1) * step)
        self._table_weights = weights.reshape(-1, step)
        self.set_rows_of_edges(
            self._features,
            *self._single,
            weights,
            aligned_zeros(step),
            aligned_zeros(2 * self.ld),
        )
        super().start()

    def edge_weights(self):
        K = self.n_labels
        tables = self._table_weights[:, : K * self.ld]
        return tables.reshape(-1, K, self.ld)[: self.edge_rows.shape[1], :, :K]

    @property
    def scores_of_edge(self):
        # messages, and a table of scores for each edge unless tables are shared
        return self.n_labels * (1 if self._shares_tables else self.n_labels + 1)

    def work_of_maxima(self):
        # every oracle reads all entries of a table, too
        return (
            2 * self.n_pairs * self.n_labels**2
            + self.n_variables * self.n_labels
            + self.work_of_cliques()
        )

    def edge_tables(self, edge_coef):
        K = self.n_labels
        if self._shares_tables:
            return shared_tables(edge_coef, *self._single)
        flat = edge_coef.reshape(-1, K * K)

        def tables(start, stop):
            scores = self.edge_rows[start:stop] @ flat
            return list(scores.reshape(-1, K, K)), np.arange(stop - start), None

        return tables


class PottsFactors(GraphFactors, PottsKernel):
    """Edges whose features score equal labels: indicator factors."""

    def __init__(self, graphs):
        self._features = edge_features(graphs.edge_rows)
        super().__init__(graphs)
        # entries of pairs of labels are int32
        if self.n_labels > 46340:
            raise ValueError(
                f"y has {self.n_labels} labels, whose pairs are more than 32-bit "
                "indices can tell apart: at most 46340 labels are possible"
            )

    def start(self):
        # a spare entry, as a buffer must not be empty
        self._edge_weights = np.zeros(self.edge_rows.shape[1] + 1)
        self.set_rows_of_edges(self._features, self._edge_weights)
        super().start()

    def edge_weights(self):
        return self._edge_weights[: self.edge_rows.shape[1]].copy()

    def changes(self, pairs, left, right, amounts):
        equal = left == right
        by_edge = np.bincount(pairs[equal], amounts[equal], minlength=self.n_pairs)
        return self.edge_rows.T @ by_edge

    def edge_tables(self, edge_coef):
        table, weights = Potts(self.n_labels), self.edge_rows @ edge_coef
        return lambda start, stop: (
            [table],
            np.zeros(stop - start, dtype=np.intp),
            weights[start:stop],
        )


def shared_tables(edge_coef, feature, value):
    """Return a function that forms the tables of edges with a single feature each."""
    tables = [np.ascontiguousarray(table) for table in edge_coef]
    # edges without features read any table, times zero
    scales = np.where(feature < len(tables), value, 0.0)
    index = np.minimum(feature, len(tables) - 1)
    return lambda start, stop: (tables, index[start:stop], scales[start:stop])


def edge_features(rows):
    """Return rows of features of edges, for kernels."""
    return FeatureRows(PackedSequences(rows, [0, rows.shape[0]]))
