"""Graphs as factors, for training by dual decomposition.

The score is that of `_graph.pyx`. In the terms of Yen et al. (2016), Section 3.2, nodes
are unigram factors with inner-product scores, and edges are bigram factors:

    `TableFactors`        "full" with many labels, where an edge has at most one feature
                          that is not zero, which is positive: indicator factors, with a
                          table for each feature
    `PottsFactors`        "potts": indicators of equal labels, in `_potts_factors.pyx`
    `EdgeRowFactors`      "full" with any features of edges: inner-product factors

Entry a ld + b of the last is outcome (a, b); ordered tables number theirs as they come.
The loss is that of the LP relaxation; see `relaxation.py`.
"""

import numpy as np
from scipy import sparse

from cpython.object cimport PyObject
from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memset

from sksstruct.inference.chains._ordered_table cimport IndicatorTable
from sksstruct.models.protocols._factors cimport Messages, Outcome
from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.models.tables._row_factors cimport RowFactors
from sksstruct.utils._memory cimport resize
from sksstruct.utils._simd cimport sks_max, sks_maxplus

from sksstruct.models.graph.relaxation import relaxed_maxima
from sksstruct.utils._layout import aligned_zeros, padded_length
from sksstruct.utils.packed import PackedSequences


# The objective forms a table for each clique: as long as a visit to so many scores.
WORK_OF_CLIQUE = 1000


def single_features(edge_rows):
    """Return the feature of each edge that has a single, positive one, and its value.

    Returns
    -------
    feature : ndarray of shape (n_edges,), int32
        Its number. -1 if an edge has several features, or a negative one. If an edge
        has none: the number of features, with a value of one.
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
    # one entry more, so that no edges at all are no empty buffers
    return np.append(feature, d).astype(np.int32), np.append(value, 1.0)


cdef class GraphFactors(RowFactors):
    """Nodes and edges of labeled graphs; subclasses score the edges.

    Parameters
    ----------
    graphs : LabeledGraphs
        Graphs, labels and features.
    """

    def __init__(self, graphs):
        if graphs.n_labels ** 2 >= 2**31:
            # entries are kept as int32
            raise ValueError(f"{graphs.n_labels} labels are too many for tables")
        self.set_factors(
            graphs.first_node, graphs.first_edge, graphs.edges, graphs.y_true,
            graphs.costs, graphs.example_weights, graphs.n_labels)
        self._nodes, self.edge_rows = graphs.nodes, graphs.edge_rows
        self._blocks, self._n_weights = graphs.blocks, graphs.n_weights
        self.set_rows(PackedSequences(graphs.nodes, graphs.first_node),
                      graphs.fit_intercept, np.zeros(self.n_variables, dtype=np.uint8))
        squares = sparse.csr_array(self.edge_rows).power(2)
        norms = np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
        self.cliques = graphs.cliques
        self.pair_norm = norms.max(initial=0.0)
        # one entry too many, so that no edges at all are no empty buffer
        self._edge_norms = np.append(norms, 0.0)
        # a factor of r nodes joins as many as r - 1 edges do
        joins = np.diff(self.first_pair)
        if self.cliques is not None:
            self.pair_norm = max(self.pair_norm, self.cliques.norm)
            joins = joins + self.per_example(self.cliques.orders - 1)
        # as many edges as nodes make a cycle
        self.loopy = bool((joins >= np.diff(self.first_variable)).any())
        self._told = aligned_zeros(2 * self.ld).reshape(2, -1)
        self.start()

    def per_example(self, values):
        """Return the sums over the cliques of each example."""
        sums = np.concatenate([[0], np.cumsum(values)])
        return np.diff(sums[self.cliques.first_clique])

    # ---- weights ----

    def start_rows(self):
        RowFactors.start_rows(self)
        if self.cliques is not None:
            self.cliques.start()

    def edge_weights(self):
        """Return the weights of the edges, (n_edge_features, K, K) or less."""
        raise NotImplementedError

    def start(self):
        self.start_rows()

    def weights(self):
        out = np.zeros(self._n_weights)
        coef, intercept, edge_coef = self._blocks(out)
        n = len(coef)
        coef[...] = self._weights[:n, :self.n_labels]
        if intercept is not None:
            # the bias follows the features, and is one of them where these are scaled
            intercept[...] = self._weights[n, :self.n_labels]
        edge_coef[...] = self.edge_weights()
        if self.cliques is not None:
            out[-len(self.cliques.weights):] = self.cliques.weights
        return out

    def square_with(self, pairs, left, right, amounts):
        edges = self.edge_weights() + self.changes(pairs, left, right, amounts)
        return float((self._weights ** 2).sum()) + float((edges ** 2).sum())

    def changes(self, pairs, left, right, amounts):
        """Return changes of `edge_weights` after changes of the scores of outcomes."""
        K = self.n_labels
        # entries of the same outcome add up
        entries = sparse.csr_array(
            (amounts, (pairs, left.astype(np.int64) * K + right)),
            shape=(self.n_pairs, K * K))
        rows = sparse.csr_array(self.edge_rows)
        return (rows.T @ entries).toarray().reshape(-1, K, K)

    def views(self, weights):
        """Return named views of flat weights."""
        coef, intercept, edge_coef = self._blocks(weights)
        views = {"coef": coef.T, "edge_coef": edge_coef}
        return views if intercept is None else {**views, "intercept": intercept}

    # ---- the objective ----

    def work_of_maxima(self):
        # sweeps look at all entries of tables, by vectors
        return ((self.n_variables + 4 * self.n_pairs) * self.n_labels
                + self.work_of_cliques())

    def work_of_cliques(self):
        """Return about how many scores of cliques the objective reads."""
        if self.cliques is None:
            return 0
        return int((WORK_OF_CLIQUE + 2 * self.cliques.outcomes).sum())

    @property
    def costs(self):
        """The cost of missing the label of each node."""
        return np.asarray(self._cost)

    # messages of an edge in the evaluation, and its table where it has one of its own
    @property
    def scores_of_edge(self):
        return self.n_labels

    def maxima(self, weights, n_jobs=None, multipliers=None):
        coef, intercept, edge_coef = self._blocks(weights)
        # the bias is one of the features where these are scaled
        if intercept is not None and self.n_features > len(coef):
            coef, intercept = np.vstack([coef, intercept[None]]), None

        def node_scores(start, stop):
            scores = self._nodes[start:stop] @ coef
            return scores if intercept is None else scores + intercept

        cliques = None
        if self.cliques is not None:
            cliques = weights[-len(self.cliques.weights):]
        return relaxed_maxima(self, node_scores, self.edge_tables(edge_coef), cliques,
                              n_jobs, multipliers)

    def edge_tables(self, edge_coef):
        """Return a function that forms tables of edges; see `relaxation.py`."""
        raise NotImplementedError

    # ---- messages ----

    def maximum(self, Py_ssize_t pair, labels, messages, *, floor=-np.inf,
                bint linear=False):
        """Find the best outcome of an edge, given messages to its ends; for tests.

        Parameters
        ----------
        pair : int
            The edge.
        labels, messages : pair of array-like
            For each end, labels that have a message, and their messages.
        floor : float, default=-inf
            The value has to be above this number.
        linear : bool, default=False
            Whether to read every outcome.

        Returns
        -------
        outcome : tuple (int, int, float) or None
            Labels of the two ends, and their value; None if no value is above floor.
        """
        cdef Messages told[2]
        cdef Outcome outcome
        cdef const int32_t[::1] names
        cdef const double[::1] values
        cdef int side
        kept = []
        for side in range(2):
            # one too many, so that there is an address
            names = np.append(labels[side], 0).astype(np.int32)
            values = np.append(messages[side], 0.0).astype(np.float64)
            kept.append((names, values))
            told[side].size = len(labels[side])
            told[side].labels, told[side].values = &names[0], &values[0]
        if self.find_pair(pair, linear, told, floor, &outcome):
            return outcome.labels[0], outcome.labels[1], outcome.value
        return None

    def outcome_score(self, Py_ssize_t pair, first_label, second_label):
        """Return the score of an outcome of an edge; for tests."""
        cdef int32_t entry = <int32_t> self.entry(pair, first_label, second_label)
        cdef double score, norm
        self.pair_scores(pair, 1, &entry, &score, &norm)
        return score

    cdef void _tell(self, const Messages* messages) noexcept nogil:
        """Write messages to the row of all labels of each end."""
        cdef Py_ssize_t k
        cdef int side
        for side in range(2):
            for k in range(messages[side].size):
                self._told[side, messages[side].labels[k]] = messages[side].values[k]

    cdef void _forget(self, const Messages* messages) noexcept nogil:
        """Make what `_tell` wrote zero again."""
        cdef Py_ssize_t k
        cdef int side
        for side in range(2):
            for k in range(messages[side].size):
                self._told[side, messages[side].labels[k]] = 0.0


# ---- a table for each feature ----

cdef class TableFactors(GraphFactors):
    """Edges that each read one table, times a number: indicator factors."""

    cdef readonly list tables
    cdef PyObject** _addresses
    # of each edge: its table, and what the scores are multiplied by
    cdef const int32_t[::1] _table
    cdef const double[::1] _factor
    cdef object table_of, factors
    cdef Py_ssize_t _n_tables
    # messages divided by the factor
    cdef double[:, ::1] _divided

    def __init__(self, graphs):
        self.table_of, self.factors = single_features(graphs.edge_rows)
        self._table, self._factor = self.table_of, self.factors
        # edges without any feature read a table more, which stays zero
        self._n_tables = graphs.edge_rows.shape[1] + 1
        GraphFactors.__init__(self, graphs)
        self._divided = np.empty((2, self.n_labels))

    def start(self):
        cdef Py_ssize_t t
        # new tables: what is not stored scores nothing, and is not visited either
        K = self.n_labels
        self.tables = [IndicatorTable(K, K) for _ in range(self._n_tables)]
        resize(<void**> &self._addresses, self._n_tables * sizeof(PyObject*))
        for t in range(self._n_tables):
            # borrowed from the list, so that kernels can call them without the GIL
            self._addresses[t] = <PyObject*> self.tables[t]
        self.start_rows()

    def __dealloc__(self):
        free(self._addresses)

    def edge_weights(self):
        K = self.n_labels
        out = np.zeros((self._n_tables - 1, K, K))
        for dense, table in zip(out, self.tables):
            rows, columns, values = table.entries()
            dense[rows, columns] = values
        return out

    def edge_tables(self, edge_coef):
        return shared_tables(edge_coef, self.table_of, self.factors)

    cdef int find_pair(self, Py_ssize_t pair, bint linear, const Messages* messages,
                       double floor, Outcome* outcome) except -1 nogil:
        cdef PyObject* table = self._addresses[self._table[pair]]
        cdef double factor = self._factor[pair]
        cdef const double* left = messages[0].values
        cdef const double* right = messages[1].values
        cdef int found
        # max f v(a, b) + r(a) + c(b) is f times the maximum of v + r / f + c / f
        if factor != 1.0:
            left = self._divide(0, &messages[0], factor)
            right = self._divide(1, &messages[1], factor)
        # the table counts for itself what it looks at
        (<IndicatorTable> table).visited = 0
        if linear:
            found = (<IndicatorTable> table).scan(
                messages[0].size, messages[0].labels, left, messages[1].size,
                messages[1].labels, right, floor / factor, &outcome.labels[0],
                &outcome.labels[1], &outcome.value)
        else:
            found = (<IndicatorTable> table).best(
                messages[0].size, messages[0].labels, left, messages[1].size,
                messages[1].labels, right, floor / factor, &outcome.labels[0],
                &outcome.labels[1], &outcome.value)
        self.visited += (<IndicatorTable> table).visited
        outcome.value *= factor
        return found

    cdef const double* _divide(self, int side, const Messages* messages,
                               double factor) noexcept nogil:
        """Return the messages to one end, divided by the factor of an edge."""
        cdef Py_ssize_t k
        for k in range(messages.size):
            self._divided[side, k] = messages.values[k] / factor
        return &self._divided[side, 0]

    cdef Py_ssize_t entry(self, Py_ssize_t pair, Py_ssize_t first_label,
                          Py_ssize_t second_label) except -1 nogil:
        return (<IndicatorTable> self._addresses[self._table[pair]]).insert(
            first_label, second_label)

    cdef int pair_scores(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                         double* scores, double* norms) except -1 nogil:
        cdef const double* values = (
            <IndicatorTable> self._addresses[self._table[pair]])._value
        cdef Py_ssize_t k
        self.visited += n
        for k in range(n):
            scores[k] = self._factor[pair] * values[entries[k]]
            norms[k] = self._edge_norms[pair]
        return 0

    cdef int add_pairs(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil:
        cdef PyObject* table = self._addresses[self._table[pair]]
        cdef Py_ssize_t k
        # an edge without features changes nothing
        if self._edge_norms[pair] == 0.0:
            return 0
        for k in range(n):
            # each change looks for the entry's place in three heaps
            if changes[k] != 0.0:
                (<IndicatorTable> table).change(
                    entries[k], self._factor[pair] * changes[k])
        return 0


# ---- any features of edges ----

cdef class EdgeRowFactors(GraphFactors):
    """Edges whose features score all pairs of labels: inner-product factors.

    Every oracle reads all outcomes, by vectors. For an edge with a single, positive
    feature, it reads a table of weights. For any other edge, it forms the table.
    """

    # weights (n_edge_features, K, ld), the tables `_step` apart; a table of scores
    cdef FeatureRows _edge_features
    cdef object _table_weights, _table_buffer
    cdef Py_ssize_t _step
    cdef double* _first_table_weight
    cdef double* _table
    # of each edge: its only feature or -1, and the value of that
    cdef const int32_t[::1] _single
    cdef const double[::1] _factor
    cdef bint _shares_tables
    # messages to the first end, and values of the labels of the second
    cdef double[:, ::1] _row

    def __init__(self, graphs):
        self._edge_features = edge_features(graphs.edge_rows)
        GraphFactors.__init__(self, graphs)
        self._single, self._factor = single_features(graphs.edge_rows)
        self._shares_tables = min(self._single) >= 0
        self._row = aligned_zeros(2 * self.ld).reshape(2, -1)

    def start(self):
        # whole vectors, and cache lines, as in `feature_weights`
        self._step = padded_length(self.n_labels * self.ld)
        # a table more, of zeros, is that of edges without features
        self._table_weights = aligned_zeros(
            (self.edge_rows.shape[1] + 1) * self._step)
        self._table_buffer = aligned_zeros(self._step)
        self._first_table_weight = (
            <double*> <size_t> self._table_weights.ctypes.data)
        self._table = <double*> <size_t> self._table_buffer.ctypes.data
        self.start_rows()

    def edge_weights(self):
        K = self.n_labels
        tables = self._table_weights.reshape(-1, self._step)[:, :K * self.ld]
        return tables.reshape(-1, K, self.ld)[:self.edge_rows.shape[1], :, :K]

    @property
    def scores_of_edge(self):
        # a table of its own
        return self.n_labels * (1 if self._shares_tables else self.n_labels + 1)

    def work_of_maxima(self):
        # as the oracles look at all entries too
        return (2 * self.n_pairs * self.n_labels ** 2
                + self.n_variables * self.n_labels + self.work_of_cliques())

    def edge_tables(self, edge_coef):
        K = self.n_labels
        feature, value = np.asarray(self._single), np.asarray(self._factor)
        if self._shares_tables:
            return shared_tables(edge_coef, feature, value)
        flat = edge_coef.reshape(-1, K * K)

        def tables(start, stop):
            scores = self.edge_rows[start:stop] @ flat
            return list(scores.reshape(-1, K, K)), np.arange(stop - start), None

        return tables

    cdef int find_pair(self, Py_ssize_t pair, bint linear, const Messages* messages,
                       double floor, Outcome* outcome) except -1 nogil:
        cdef Py_ssize_t ld = self.ld, a, b = 0, best = 0
        cdef double* prev = &self._row[0, 0]
        cdef double* out = &self._row[1, 0]
        cdef double factor = 1.0
        cdef const double* table = self._table
        if self._single[pair] >= 0:
            table = self._first_table_weight + self._single[pair] * self._step
            factor = self._factor[pair]
        else:
            self._edge_features.scores(pair, self._first_table_weight, self._step,
                                       self._zero_table(), self._table)
        self.visited += self.n_labels * self.n_labels
        # max f v(a, b) + r(a) + c(b) is f times the maximum of v + r / f + c / f
        self._tell(messages)
        for a in range(self.n_labels):
            prev[a], out[a] = self._told[0, a] / factor, self._told[1, a] / factor
        # the padding must not win
        for a in range(self.n_labels, ld):
            out[a] = -INFINITY
        self._forget(messages)
        sks_maxplus(self.n_labels, ld, prev, table, out)
        outcome.value = sks_max(ld, out) * factor
        if outcome.value <= floor:
            return 0
        # where the maximum is, which few callers ask for
        while out[b] * factor != outcome.value:
            b += 1
        for a in range(1, self.n_labels):
            if prev[a] + table[a * ld + b] > prev[best] + table[best * ld + b]:
                best = a
        outcome.labels[0], outcome.labels[1] = <int32_t> best, <int32_t> b
        return 1

    cdef const double* _zero_table(self) noexcept nogil:
        """Return the table of scores after it was made zero."""
        memset(self._table, 0, self._step * sizeof(double))
        return self._table

    cdef Py_ssize_t entry(self, Py_ssize_t pair, Py_ssize_t first_label,
                          Py_ssize_t second_label) except -1 nogil:
        # rows are padded, so that the entry is where the weights are
        return first_label * self.ld + second_label

    cdef int pair_scores(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                         double* scores, double* norms) except -1 nogil:
        cdef Py_ssize_t k
        self.visited += n
        for k in range(n):
            scores[k] = self._edge_features.column_score(
                pair, self._first_table_weight + entries[k], self._step)
            norms[k] = self._edge_norms[pair]
        return 0

    cdef int add_pairs(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil:
        cdef Py_ssize_t k
        for k in range(n):
            if changes[k] != 0.0:
                self._edge_features.add_to_column(
                    pair, changes[k], self._first_table_weight + entries[k],
                    self._step)
        return 0


def shared_tables(edge_coef, feature, value):
    """Return a function that forms the tables of edges with a single feature each."""
    tables = [np.ascontiguousarray(table) for table in edge_coef]
    # of edges without features: any table, times zero
    scales = np.where(feature < len(tables), value, 0.0)
    index = np.minimum(feature, len(tables) - 1)
    return lambda start, stop: (tables, index[start:stop], scales[start:stop])


def edge_features(rows):
    """Return rows of features of edges in the form that kernels read."""
    return FeatureRows(PackedSequences(rows, [0, rows.shape[0]]))
