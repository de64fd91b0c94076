"""Chains bound to data: emission, bias, start, end and transition weights.

Score of labels y for features F (size x n_features), Osokin et al. (2016), I.1-I.2:

    sum_t <F_t, W[:, y_t]> + bias[y_t] + start[y_1] + end[y_size]
        + sum_t transitions[y_t, y_{t+1}]

Positions are t and s, labels a and b, their number is K. Rows of all tables have
ld >= K entries; entries beyond K are padding. Flat weights are n_features emission
rows (the columns of coef_), then the tail: bias, start and end, then K rows of
transitions, from -> to, and then weights of features on pairs of labels if there are
any (`_pair_features.pyx`), so that each position has its own table of transitions. The
last weights are weights of triples of consecutive labels, which first-order chains do
not have.

Mean parameters of example i have keys t * ld + label for nodes,
size_i * ld + from * ld + to for edges, and after all keys of edges a key for each
triple. The layout of `models/tables` has one block, the emission rows and the bias;
weights of transitions, of features on pairs and of triples are its cells. With K_i = F
F' (size x size), a change d of the node means and d_e of the edge means (triples
included) satisfies

    |A_i^T d|^2 = sum_{t,s} (K_i[t,s] + 1) <d_t, d_s> + |d_1|^2 + |d_size|^2 + |d_e|^2

the 1 being the bias, and d_1, d_size the features of the start and of the end.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.chains._topk cimport TopK
from sksstruct.inference.chains._triples cimport LabelTriples
from sksstruct.inference.chains._viterbi cimport viterbi_padded
from sksstruct.models.chain._constraints cimport ChainConstraints
from sksstruct.models.chain._pair_features cimport PairFeatures
from sksstruct.models.chain._workspace cimport (
    BIAS, END, START, TRANSITIONS, ChainScratch, ChainWorkspace,
)
from sksstruct.models.protocols._bound_model cimport (
    TINY, BoundModel, Workspace, in_range,
)
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.models.tables._blocks cimport WeightBlocks
from sksstruct.models.tables._change cimport (
    Change, Changes, add_cell, add_cells, clear_cells, plus_cells, set_mean,
)
from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.utils._simd cimport sks_add_table, sks_axpy, sks_dot, sks_prefetch

from sksstruct.models.chain._factors import position_costs
from sksstruct.models.chain.constraints import parts_of_mask, without_missing
from sksstruct.models.chain.pair_support import no_support
from sksstruct.models.protocols._entropy_dual import dual_bytes
from sksstruct.models.tables._box import fill_bounds
from sksstruct.utils._layout import file_zeros, padded_length

# All oracles of chains; `BoundChain.oracles` has those that a given model offers.
ORACLES = ("max", "topk", "exp", "projection", "factors")


cdef inline double end_product(int32_t y, int32_t other,
                               int32_t observed) noexcept nogil:
    """Return <e_y - e_observed, e_other - e_observed>, where e_a indicates label a."""
    return (y == other) - (y == observed) - (other == observed) + 1.0


def chain_views(w, n_labels, n_features, pairs=None, triples=None):
    """Return named views of flat weights, with the weights of each `PairSupport`."""
    rows = w.reshape(-1, padded_length(n_labels))[:, :n_labels]
    views = {
        "coef": rows[:n_features].T,
        "intercept": rows[n_features + BIAS],
        "start": rows[n_features + START],
        "end": rows[n_features + END],
        "transitions": rows[n_features + TRANSITIONS:][:n_labels],
    }
    last = w[(n_features + TRANSITIONS + n_labels) * padded_length(n_labels):]
    if pairs is not None:
        views["transition_coef"] = last[:pairs.n_weights]
        last = last[pairs.n_weights:]
    if triples is not None:
        views["triples"] = last[:triples.n_weights]
    return views


cdef class BoundChain(BoundModel):
    """A chain bound to packed sequences.

    Parameters
    ----------
    X : PackedSequences
        Features.
    n_labels : int
        Number of labels K.
    labels : ndarray of shape (n_positions,), int32, or None
        Observed labels; None for prediction.
    example_weights : ndarray of shape (n_sequences,) or None
        The p_i, which sum to one.
    label_costs : ndarray of shape (n_labels,) or None
        Loss of missing each label, before the division by the length.
    loss_length : float or None
        Divisor of the sum over the positions of a sequence; None: the number of its
        positions.
    fit_intercept, boundary : bool
        Whether there is a bias, and whether there are start and end weights. Otherwise
        they stay zero.
    known : ndarray of shape (n_positions,), bool, or None
        Positions with an observed label. Other positions have no loss, and do not
        count in the length of a sequence.
    mask : ndarray of shape (2 + n_labels, ld) or None
        Constraints as scores of 0 or -inf: first labels, last labels, transitions.
    forbidden_labels : ndarray of shape (n_positions, n_labels), uint8, or None
        Labels that are not allowed at a position.
    feature_scale : float
        Factor of all features in X, but not of bias, ends and transitions.
    pairs : PairSupport or None
        Weights of features on pairs of labels.
    triples : PairSupport or None
        Weights of triples of labels; the label two positions before is the feature.
    neighbor_costs : NeighborCosts or None
        Loss of pairs of neighboring labels, added to the loss of single labels. Each
        position has its own table of transitions then.
    pair_index, n_forbidden, ends, n_slots : objects
        Only for a `SparseBoundChain`.

    Attributes
    ----------
    numbers : ndarray of shape (n_sequences,), int, or None
        Numbers of the sequences in error messages.
    unknown : ndarray of shape (n_positions,), bool, or None
        Positions without an observed label, over which the likelihood sums.
    choices : csr_array of shape (n_positions, n_labels) or None
        Labels that some unknown positions may have; other positions may have all.
    support : ndarray of int or None
        Flat weights that exist, if some are missing; for losses with a gradient.
    stored_pairs : tuple of ndarray or None
        Pairs of labels whose weights come first in the factors.
    """

    prefers_topk = True
    on_disk = property(lambda self: self.packed.is_mapped)

    @property
    def oracles(self):
        # the oracles "projection" and "factors" support neither triples of labels nor
        # losses of pairs of labels
        if self.triple_support is not None or self._costs_pairs:
            return ORACLES[:3]
        # dual decomposition needs one table of transitions for all positions
        if self.pair_features is None:
            return ORACLES
        return tuple(each for each in ORACLES if each != "factors")

    @property
    def oracle_note(self):
        if self._costs_pairs:
            return (
                "its cost is of pairs of neighboring labels, and its duals know the "
                "cost of single labels; use cost=None")
        if self.triple_support is not None:
            return "its duals are made of labels and of pairs of labels; use order=1"
        if self.pair_features is not None:
            return (
                "dual decomposition needs transitions that are the same everywhere, "
                "without transition_features")

    def __cinit__(self, X, Py_ssize_t n_labels, labels=None, example_weights=None,
                  label_costs=None, bint fit_intercept=True, bint boundary=True,
                  known=None, mask=None, forbidden_labels=None, loss_length=None,
                  double feature_scale=1.0, pairs=None, triples=None, pair_index=None,
                  n_forbidden=0, ends=None, n_slots=None, neighbor_costs=None):
        offsets = np.ascontiguousarray(X.offsets, dtype=np.intp)
        self.packed = X
        self.fit_intercept, self.boundary = fit_intercept, boundary
        self.n_labels, self.n_features = n_labels, X.n_features
        # ld is n_labels rounded up to whole SIMD vectors, so that loops over labels
        # have no remainder
        self.ld = padded_length(n_labels)
        self.first_pair = (self.n_features + TRANSITIONS + n_labels) * self.ld
        self.n_weights = self.first_pair
        if pairs is not None:
            self.n_pair_weights = pairs.n_weights
            # each position has its own table of transitions
            self._table_step = n_labels * self.ld
            self.pair_support = pairs
            self.pair_features = PairFeatures(X, pairs, self.ld, feature_scale)
        elif neighbor_costs is not None:
            # costs of pairs need a table for each position, even if no feature has
            # weights on pairs of labels
            self._table_step = n_labels * self.ld
            self.pair_features = PairFeatures(
                X, no_support(self.n_features, n_labels), self.ld)
        self.triple_support = triples
        # the support is empty if no triple of labels was seen in training
        if triples is not None and triples.n_weights:
            self.n_triples = triples.n_weights
            self.triples = LabelTriples(triples.keys, n_labels)
        self._first_triple = n_labels * self.ld + self.n_pair_weights
        # n_weights is rounded up to whole rows: solvers handle weights row by row
        self.n_weights += self.n_pair_weights + self.n_triples + self.ld - 1
        self.n_weights -= self.n_weights % self.ld
        sizes = np.diff(offsets)
        if example_weights is None:
            example_weights = np.full(len(sizes), 1.0 / max(len(sizes), 1))
        self.set_sizes(sizes, example_weights)
        self.feature_scale = feature_scale
        # a labeling has a key for each node, edge and triple
        self.max_keys = (2 if self.triples is None else 3) * self.max_size
        # keys of edges begin at size_i * ld: the longest sequence has the largest keys
        self.key_space = (
            self.max_size * self.ld + self._edge_cells(self.max_size) + self.n_triples)
        # Viterbi reads a table of transitions at every position; tables of positions
        # are first written, which doubles the work
        self.visit_work = sizes.mean() * self.ld * n_labels * (
            2.0 if self._table_step else 1.0) + 2 * self.n_triples
        self._labeled = labels is not None
        if self._labeled:
            self._bind_labels(labels, label_costs, known, loss_length)
            if neighbor_costs is not None:
                self._bind_pairs(neighbor_costs)
        self.mask = mask
        self._constraints = ChainConstraints(
            mask, forbidden_labels, n_positions=self.starts[len(sizes)],
            n_labels=n_labels, ld=self.ld, n_rows=2 + n_labels)
        # training copies features for faster reading, unless they are mapped from a
        # file
        self._layout = WeightBlocks(
            [(X, offsets, n_labels, fit_intercept)], self.n_examples, 0,
            self._labeled and not self.on_disk, feature_scale)
        self._rows = <FeatureRows> self._layout.blocks.rows
        self._layout.first_cell = (self.n_features + TRANSITIONS) * self.ld
        self._layout.n_cells = self._first_triple + self.n_triples
        self._changes = Changes(
            self._layout, self.n_examples, self.max_size, self.on_disk,
            needs_grams=True)

    def _bind_labels(self, labels, label_costs, known, loss_length):
        """Store the observed labels, and the loss of missing each of them."""
        self._labels, self.label_costs, self.known = labels, label_costs, known
        self.loss_length = loss_length
        # `ChainFactors` calls `position_costs`, too, so that its loss agrees
        self._cost = position_costs(
            labels, self.sizes, self.starts[:self.n_examples], self.n_labels,
            label_costs, known, loss_length, file_zeros if self.on_disk else np.zeros)

    def _bind_pairs(self, costs):
        """Store the costs of pairs of neighboring labels at each position."""
        self._pair_group, self._pair_factor = costs.of_positions(
            self.labels, self.sizes, self.starts[:self.n_examples], self.known,
            self.loss_length)
        self._pair_cost, self._costs_pairs = costs.padded(self.ld), True

    @property
    def labels(self):
        """The observed labels of all positions."""
        return np.asarray(self._labels)

    @property
    def costs(self):
        """The loss of missing the label of each position."""
        return np.asarray(self._cost)

    @property
    def is_constrained(self):
        """Whether some labelings are not allowed."""
        return self._constraints.exist

    # ---- requests of solvers and estimators ----

    @property
    def entropy_dual_size(self):
        if self._costs_pairs:
            return None
        n_rows = int(self.starts[self.n_examples]) + self.n_examples * self.n_labels
        return self.ld * n_rows + self.n_examples * self.n_triples + self._n_read()

    @property
    def entropy_dual_bytes(self):
        # the duals also store an int32 list of the weights of features on pairs that
        # each sequence reads
        if self._costs_pairs:
            return None
        return dual_bytes(self) + 4 * self._n_read()

    def _n_read(self):
        """Return the number of weights of features on pairs that a sequence reads,
        summed over all sequences.
        """
        if self.pair_features is None:
            return 0
        return len(self.pair_features.of_sequences(self.starts)[1])

    @property
    def oracle_cost(self):
        """The cost of a visit with the oracle, relative to a visit of known labelings.

        Oracle calls and visits read the features, which dominate the time if they are
        dense.
        """
        cdef Py_ssize_t n_positions = self._starts[self.n_examples]
        if self._rows.sparse or not self.n_features:
            return 2.0
        return 1.0 + min(self.visit_work * self.n_examples / (
            float(n_positions) * self.n_features * self.ld), 1.0)

    def forbidden(self):
        """Return forbidden pairs of labels, and scores of first and last labels."""
        return parts_of_mask(self.mask)

    def topk(self, Workspace workspace, Py_ssize_t i, Py_ssize_t k):
        cdef TopK decoder = TopK()
        cdef double[::1] values = np.empty(k)
        cdef int32_t[:, ::1] rows = np.empty((k, self._sizes[i]), dtype=np.int32)
        cdef Py_ssize_t count
        with nogil:
            count = self._best_labelings(
                workspace, decoder, i, k, &values[0], &rows[0, 0])
        return np.asarray(rows)[:count], np.asarray(values)[:count]

    @property
    def first_other(self):
        """Index of the first flat weight after the emission weights and biases."""
        return (self.n_features + START) * self.ld

    def views(self, w):
        return chain_views(w, self.n_labels, self.n_features, self.pair_support,
                           self.triple_support)

    def flatten_bounds(self, bounds):
        flat = [np.full(self.n_weights, limit) for limit in (-np.inf, np.inf)]
        for array in flat:
            # the padding after the last weight stays zero, as the padding of rows does
            array[self.first_pair + self.n_pair_weights + self.n_triples:] = 0.0
        views = [self.views(array) for array in flat]
        fill_bounds(*views, bounds)
        return without_missing(self, flat, views)

    def _workspace(self, training):
        # keys, and the sums of keys that kernels form, are int32
        if self.key_space + self.max_keys > np.iinfo(np.int32).max:
            raise ValueError(
                f"{self.n_labels} labels and sequences of up to {self.max_size} "
                "positions are more than 32-bit indices can tell apart: split the "
                "longest sequences of X")
        cdef ChainWorkspace workspace = ChainWorkspace(
            max_size=self.max_size, n_labels=self.n_labels, ld=self.ld,
            n_features=self.n_features, masked=self.mask is not None,
            paired=self._table_step != 0, n_pair_weights=self.n_pair_weights,
            triples=self.triples)
        # predictions prepare no change, whose buffers would be as long as the weights
        if training:
            self._changes.prepare(
                workspace, &workspace._scratch.change, self.max_size * self.ld)
        return workspace

    def workspace_of_rows(self, emission, tail, pair_weights=None):
        """Return a workspace for predictions that reads weights in parts.

        See `ChainWorkspace.read_rows`.
        """
        cdef ChainWorkspace workspace = self._workspace(False)
        workspace.n_weights, workspace.loss_scale = self.n_weights, 1.0
        workspace.read_rows(emission, tail, pair_weights)
        return workspace

    # ---- predictions ----

    def predict(self, Workspace workspace, Py_ssize_t start, Py_ssize_t stop,
                int32_t[::1] labels, double[::1] scores):
        """Decode sequences start <= i < stop into flat labels and their scores."""
        cdef Py_ssize_t i
        # threads share the arrays; each thread has its own sequences and workspace
        with nogil:
            for i in range(start, stop):
                self.potentials(workspace, i)
                self.decode(workspace, i, &labels[self._starts[i]], &scores[i])

    def predict_topk(self, Workspace workspace, Py_ssize_t start, Py_ssize_t stop,
                     Py_ssize_t k, int32_t[::1] labels, double[:, ::1] scores,
                     Py_ssize_t[::1] counts):
        """Find the k best labelings of sequences start <= i < stop.

        The counts[i] labelings of sequence i begin at index k * starts[i] of `labels`.
        """
        cdef TopK decoder = TopK()
        cdef Py_ssize_t i
        with nogil:
            for i in range(start, stop):
                counts[i] = self._best_labelings(
                    workspace, decoder, i, k, &scores[i, 0],
                    &labels[k * self._starts[i]])

    cdef Py_ssize_t _best_labelings(
        self, Workspace workspace, TopK decoder, Py_ssize_t i, Py_ssize_t k,
        double* scores, int32_t* labelings
    ) except -1 nogil:
        """Write the k best labelings of an example, one after the other, and their
        values; return their number, which is below k if fewer labelings exist."""
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t rank, count
        self.potentials(workspace, i)
        if self._has_triples(i):
            count = (<ChainWorkspace> workspace).decoder.decode(
                self._sizes[i], ws.theta, self._transitions(ws), self._table_step,
                ws.triple_weights, k, scores, labelings)
        else:
            count = decoder.decode(
                self._sizes[i], self.n_labels, self.ld, ws.theta, ws.delta,
                self._transitions(ws), self._table_step, k, scores, labelings)
        # the decoders' scores lack the constant that the loss adds to all labelings
        for rank in range(count):
            scores[rank] += ws.constant
        return count

    # ---- potentials and labelings ----

    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil:
        cdef Py_ssize_t first = self._starts[i]
        self._changes.prefetch(i, soon)
        # labels and costs are small: they are prefetched early, with the pointers
        if self._labeled and not soon:
            sks_prefetch(&self._labels[first], self._sizes[i] * sizeof(int32_t))
            sks_prefetch(&self._cost[first], self._sizes[i] * sizeof(double))

    cdef int potentials(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t first = self._starts[i], size = self._sizes[i], t
        cdef Py_ssize_t ld = self.ld
        cdef double constant = 0.0, cost
        # scores begin with the bias row, which is zero without an intercept
        self._rows.scores_of_rows(
            first, size, ws.emission, ld, (self.n_labels + 3) // 4 * 4,
            ws.tail + BIAS * ld, ws.theta)
        if self.boundary:
            sks_axpy(ld, 1.0, ws.tail + START * ld, ws.theta)
            sks_axpy(ld, 1.0, ws.tail + END * ld, ws.theta + (size - 1) * ld)
        # Hamming loss: all labels gain the cost except the observed one. Subtracting
        # the cost from the observed label, and adding it to the constant, changes only
        # one entry of a row.
        if self._labeled:
            for t in range(size):
                cost = workspace.loss_scale * self._cost[first + t]
                ws.theta[t * ld + self._labels[first + t]] -= cost
                constant += cost
        ws.constant = constant
        # forbid labels last, so that -inf overwrites their scores
        if self._constraints.exist:
            self._constraints.forbid_labels(first, size, ws.theta)
        # form the tables of all positions once, so that oracle calls read no features
        if self._table_step:
            ws.shared = self._shared_transitions(ws)
            self.pair_features.form_tables(
                first, size, ws.pair_weights, ws.shared, ws.tables)
            for t in range(1, size if self._costs_pairs else 1):
                cost = workspace.loss_scale * self._pair_factor[first + t]
                sks_add_table(
                    self._table_step, cost,
                    &self._pair_cost[self._pair_group[first + t], 0, 0],
                    ws.tables + (t - 1) * self._table_step)
        return 0

    cdef Py_ssize_t _edge_cells(self, Py_ssize_t size) noexcept nogil:
        """Return the number of keys of edges: the cells of the shared table, or of the
        tables of all positions.
        """
        return self._table_step * (size - 1) if self._table_step else (
            self.n_labels * self.ld)

    cdef bint _has_triples(self, Py_ssize_t i) noexcept nogil:
        """Return whether triples have weights and the sequence contains a triple."""
        return self.n_triples > 0 and self._sizes[i] > 2

    cdef void add_triples(self, Py_ssize_t i, const int32_t* y, double change,
                          double* out) noexcept nogil:
        """Add `change` to the entry of `out` of each triple of y that has a weight."""
        cdef Py_ssize_t t, k
        for t in range(self._sizes[i] - 2 if self.n_triples else 0):
            k = self.triples.find(y + t)
            if k >= 0:
                out[k] += change

    cdef const double* _transitions(self, ChainScratch* ws) noexcept nogil:
        """Return transition scores: the shared table, or tables of the sequence."""
        return ws.tables if self._table_step else self._shared_transitions(ws)

    cdef const double* _shared_transitions(self, ChainScratch* ws) noexcept nogil:
        """Return the shared table, with -inf for forbidden transitions."""
        return self._constraints.transitions(ws.tail + TRANSITIONS * self.ld, ws.table)

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t size = self._sizes[i]
        if self._has_triples(i):
            if not (<ChainWorkspace> workspace).decoder.decode(
                    size, ws.theta, self._transitions(ws), self._table_step,
                    ws.triple_weights, 1, value, y):
                value[0] = -INFINITY
            value[0] += ws.constant
            return 0
        # Viterbi overwrites unary scores with prefix scores; later calls read theta
        memcpy(ws.delta, ws.theta, size * self.ld * sizeof(double))
        value[0] = ws.constant + viterbi_padded(
            size, self.n_labels, self.ld, ws.delta, self._transitions(ws),
            self._table_step, y)
        return 0

    cdef int y_true(self, Py_ssize_t i, int32_t* y) except -1 nogil:
        memcpy(y, &self._labels[self._starts[i]], self._sizes[i] * sizeof(int32_t))
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef Py_ssize_t first = self._starts[i], t
        cdef double total = 0.0
        # `position_costs` has divided the costs by the length already
        for t in range(self._sizes[i]):
            if y[t] != self._labels[first + t]:
                total += self._cost[first + t]
        for t in range(1, self._sizes[i] if self._costs_pairs else 1):
            total += self._pair_factor[first + t] * self._pair_cost[
                self._pair_group[first + t], y[t - 1], y[t]]
        value[0] = total
        return 0

    cdef double _expected_pairs(self, Py_ssize_t i, const double* edges) noexcept nogil:
        """Return the expected loss of pairs of neighboring labels, given edge means."""
        cdef Py_ssize_t ld = self.ld, t, a
        cdef double total = 0.0, row
        for t in range(self._starts[i] + 1,
                       self._starts[i + 1] if self._costs_pairs else 0):
            row = 0.0
            for a in range(self.n_labels):
                row += sks_dot(ld, &self._pair_cost[self._pair_group[t], a, 0], edges)
                edges += ld
            total += self._pair_factor[t] * row
        return total

    cdef int evaluate(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.ld, t
        cdef const double* table = ws.transitions
        cdef double total = ws.constant + ws.theta[y[0]]
        for t in range(1, self._sizes[i]):
            total += ws.theta[t * ld + y[t]] + table[y[t - 1] * ld + y[t]]
            table += self._table_step
        if self.n_triples:
            total += self.triples.score(self._sizes[i], y, ws.triple_weights)
        value[0] = total
        return 0

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        cdef Py_ssize_t first = self._starts[i], size = self._sizes[i], t
        if not in_range(size, y, 0, self.n_labels):
            return 0
        for t in range(size):
            if not self._constraints.allow(first, size, t, y[t]):
                return 0
        for t in range(1, size):
            if not self._constraints.allow_pair(y[t - 1] * self.ld + y[t]):
                return 0
        return 1

    cdef int has_key(self, Py_ssize_t i, Py_ssize_t key) except -1 nogil:
        cdef Py_ssize_t size = self._sizes[i], nodes = size * self.ld
        cdef Py_ssize_t triples = nodes + self._edge_cells(size)
        if key >= triples:
            return self._has_triples(i) and key < triples + self.n_triples
        # rows end with padding, which has no keys
        if key < 0 or key % self.ld >= self.n_labels:
            return 0
        if key < nodes:
            return self._constraints.allow(
                self._starts[i], size, key // self.ld, key % self.ld)
        # keys of edges: a table for each pair of neighbors, or one for all pairs
        return size > 1 and self._constraints.allow_pair(
            (key - nodes) % (self.n_labels * self.ld))

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t size = self._sizes[i], n_keys = 2 * size - 1, t, k
        cdef Py_ssize_t triples = size * self.ld + self._edge_cells(size)
        # keys fit into 32 bits, as `_workspace` has checked
        cdef int32_t ld = <int32_t> self.ld, edges = <int32_t> (size * self.ld)
        # keys of nodes are smaller than keys of edges
        for t in range(size):
            keys[t] = <int32_t> t * ld + y[t]
        # with one shared table, a pair of labels at two positions repeats its key
        for t in range(size - 1):
            keys[size + t] = edges + y[t] * ld + y[t + 1]
            edges += <int32_t> self._table_step
        for t in range(size - 2 if self.n_triples else 0):
            k = self.triples.find(y + t)
            if k >= 0:
                keys[n_keys] = <int32_t> (triples + k)
                n_keys += 1
        return n_keys

    cdef int evaluate_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n_keys,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t edges = self._sizes[i] * self.ld, k = 0
        cdef Py_ssize_t triples = edges + self._edge_cells(self._sizes[i])
        cdef const double* table = ws.transitions - edges
        cdef double total = ws.constant, of_edges = 0.0
        while n_keys > 0 and keys[n_keys - 1] >= triples:
            n_keys -= 1
            of_edges += values[n_keys] * ws.triple_weights[keys[n_keys] - triples]
        # keys of nodes come first
        while k < n_keys and keys[k] < edges:
            total += values[k] * ws.theta[keys[k]]
            k += 1
        for k in range(k, n_keys):
            of_edges += values[k] * table[keys[k]]
        value[0] = total + of_edges
        return 0

    # ---- changes of mean parameters ----

    cdef int add_labeling(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.ld, t, k
        # the first position has no incoming edge
        ws.change.d[y[0]] += coef
        for t in range(1, self._sizes[i]):
            ws.change.d[t * ld + y[t]] += coef
            add_cell(&ws.change, y[t - 1] * ld + y[t], coef)
        if self._table_step:
            self.pair_features.add_labeling(
                ws, self._starts[i], self._sizes[i], y, coef)
        for t in range(self._sizes[i] - 2 if self.n_triples else 0):
            k = self.triples.find(y + t)
            if k >= 0:
                add_cell(&ws.change, self._first_triple + k, coef)
        # the list of changed rows is out of date
        ws.change.scanned = False
        return 0

    cdef int add_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n_keys,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t edges = self._sizes[i] * self.ld, k
        cdef double total
        if self._table_step:
            total = self._add_mean(ws, i, n_keys, keys, values, coef)
            ws.change.scanned = False
            if value != NULL:
                value[0] = total
            return 0
        if value != NULL:
            self.evaluate_mean(workspace, i, n_keys, keys, values, value)
        # if the change is empty, `set_mean` writes the mean and lists its rows in one
        # pass, as no key occurs twice
        if ws.change.scanned and (
                ws.change.blocks.count + ws.change.n_changed_cells == 0):
            set_mean(
                &ws.change, self.ld, edges, TINY, n_keys, keys, values, coef)
            return 0
        for k in range(n_keys):
            if keys[k] < edges:
                ws.change.d[keys[k]] += coef * values[k]
            else:
                # with one shared table, the cell of an edge or a triple is its key
                # minus the number of keys of nodes
                add_cell(&ws.change, keys[k] - edges, coef * values[k])
        ws.change.scanned = False
        return 0

    cdef double _add_mean(self, ChainScratch* ws, Py_ssize_t i, Py_ssize_t n_keys,
                          const int32_t* keys, const double* values,
                          double coef) noexcept nogil:
        """Add a mean where positions have their own tables; return the mean's value."""
        cdef Py_ssize_t edges = self._sizes[i] * self.ld, k = 0
        cdef Py_ssize_t triples = edges + self._edge_cells(self._sizes[i]), triple
        cdef double total = ws.constant
        while n_keys > 0 and keys[n_keys - 1] >= triples:
            n_keys -= 1
            triple = keys[n_keys] - triples
            add_cell(&ws.change, self._first_triple + triple, coef * values[n_keys])
            total += values[n_keys] * ws.triple_weights[triple]
        while k < n_keys and keys[k] < edges:
            ws.change.d[keys[k]] += coef * values[k]
            total += values[k] * ws.theta[keys[k]]
            k += 1
        return self.pair_features.add_mean(
            ws, self._starts[i], edges, n_keys - k, keys + k, values + k, coef, total)

    cdef int add_means(self, Workspace workspace, Py_ssize_t i,
                       const double* change) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t size = self._sizes[i], cells = self.n_labels * self.ld, t
        cdef const double* edges = change + size * self.ld
        sks_add_table(size * self.ld, 1.0, change, ws.change.d)
        for t in range(size - 1 if self._table_step else 1):
            # the cells include padding, whose entries are zero
            add_cells(&ws.change, 0, cells, edges, TINY)
            if self._table_step:
                self.pair_features.add_table(ws, self._starts[i] + 1 + t, edges, TINY)
            edges += cells
        add_cells(&ws.change, self._first_triple, self.n_triples, edges, TINY)
        ws.change.scanned = False
        return 0

    cdef int change_norm(self, Workspace workspace, Py_ssize_t i,
                         double* value) except -1 nogil:
        cdef Change* change = &(<ChainScratch*> workspace.scratch).change
        cdef Py_ssize_t ld = self.ld
        cdef double* last = change.d + (self._sizes[i] - 1) * ld
        self._changes.norm_of_rows(change, i, value)
        # start and end are features of the first position and of the last
        if self.boundary:
            value[0] += sks_dot(ld, change.d, change.d) + sks_dot(ld, last, last)
        value[0] = plus_cells(change, value[0])
        return 0

    cdef int scatter(self, Workspace workspace, Py_ssize_t i, double scale,
                     double* out) except -1 nogil:
        cdef Change* change = &(<ChainScratch*> workspace.scratch).change
        cdef double* tail = out + self.n_features * self.ld
        self._changes.scatter(change, i, scale, out)
        # the scan in `Changes.scatter` has cleared rows of d that are rounding errors
        if self.boundary:
            sks_axpy(self.ld, scale, change.d, tail + START * self.ld)
            sks_axpy(self.ld, scale, change.d + (self._sizes[i] - 1) * self.ld,
                     tail + END * self.ld)
        return 0

    cdef int touch(self, Workspace workspace, Py_ssize_t i,
                   Weights weights) except -1 nogil:
        self._changes.touch(&(<ChainScratch*> workspace.scratch).change, i, weights)
        weights.touch((self.n_features + START) * self.ld, 2 * self.ld)
        return 0

    cdef int clear(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        self._changes.clear(&(<ChainScratch*> workspace.scratch).change, i)
        return 0

    # ---- inner products of labelings ----

    cdef int has_gram(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef const double* gram
        # `find` computes the Gram matrix if it is to be kept, and returns whether it is
        return self._changes.grams.find(
            0, i, (<ChainScratch*> workspace.scratch).change.spread, &gram)

    cdef int gram_row(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n_labelings, const int32_t* labelings,
                      double* out) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef const int32_t* y_true = &self._labels[self._starts[i]]
        self._write_products(ws, i, y, n_labelings, labelings, out)
        if self._table_step:
            self.pair_features.add_products(
                ws, self._starts[i], self._sizes[i], y, y_true, n_labelings, labelings,
                out)
        if self._has_triples(i):
            self._add_triple_products(ws, i, y, n_labelings, labelings, out)
        return 0

    cdef int _write_products(
        self, ChainScratch* ws, Py_ssize_t i, const int32_t* y, Py_ssize_t n_labelings,
        const int32_t* labelings, double* out
    ) except -1 nogil:
        """Write the inner products of `gram_row` to `out`, without the terms of
        features on pairs and of triples.
        """
        cdef Py_ssize_t ld = self.ld, last = self._sizes[i] - 1, t, k
        cdef const int32_t* y_true = &self._labels[self._starts[i]]
        cdef const int32_t* z = labelings
        # delta is free as scratch: no later call reads the prefix scores that Viterbi
        # wrote to this array
        self._multiply_gram(ws, i, y, y_true)
        # edges that y and y_true share cancel
        for t in range(1, last + 1):
            if y[t] != y_true[t] or y[t - 1] != y_true[t - 1]:
                add_cell(&ws.change, y[t - 1] * ld + y[t], 1.0)
                add_cell(&ws.change, y_true[t - 1] * ld + y_true[t], -1.0)
        for k in range(n_labelings):
            out[k] = self._product_with(ws, last + 1, z, y_true)
            # start and end weights are not part of the Gram matrix
            if self.boundary:
                out[k] += end_product(y[0], z[0], y_true[0])
                out[k] += end_product(y[last], z[last], y_true[last])
            z += last + 1
        clear_cells(&ws.change)
        return 0

    cdef int _multiply_gram(self, ChainScratch* ws, Py_ssize_t i, const int32_t* y,
                            const int32_t* y_true) except -1 nogil:
        """delta = (K_i + b) d, d being mu(y) - mu(y_i) and b 1 if there is a bias.

        `Changes.products` would search for the changed rows, which are known here:
        positions where the labels differ.
        """
        cdef Py_ssize_t ld = self.ld, size = self._sizes[i], s, t
        cdef double shift = 1.0 if self.fit_intercept else 0.0, weight
        cdef const double* gram
        cdef double* row
        self._changes.grams.find(0, i, ws.change.spread, &gram)
        memset(ws.delta, 0, size * ld * sizeof(double))
        for t in range(size):
            # d is zero at correct labels; near the optimum most labels are correct
            if y[t] == y_true[t]:
                continue
            row = ws.delta
            for s in range(size):
                weight = gram[t * size + s] + shift
                row[y[t]] += weight
                row[y_true[t]] -= weight
                row += ld
        return 0

    cdef double _product_with(
        self, const ChainScratch* ws, Py_ssize_t size, const int32_t* z,
        const int32_t* y_true
    ) noexcept nogil:
        """Return the inner product of the features of mu(z) - mu(y_true) and of d.

        `delta` is the product of the Gram matrix and the node part of d, as
        `_multiply_gram` writes it; the cells of the change in `ws` are the edge part.
        """
        cdef Py_ssize_t ld = self.ld, t
        cdef const double* row = ws.delta
        cdef const double* cells = ws.change.cells
        cdef double value = 0.0
        for t in range(size):
            if z[t] != y_true[t]:
                value += row[z[t]] - row[y_true[t]]
            # an edge differs where one of its two labels does
            if t and (z[t] != y_true[t] or z[t - 1] != y_true[t - 1]):
                value += cells[z[t - 1] * ld + z[t]]
                value -= cells[y_true[t - 1] * ld + y_true[t]]
            row += ld
        return value

    cdef void _add_triple_products(
        self, ChainScratch* ws, Py_ssize_t i, const int32_t* y, Py_ssize_t n_labelings,
        const int32_t* labelings, double* out
    ) noexcept nogil:
        """Add the triples' terms of the inner products of `gram_row` to `out`."""
        cdef const int32_t* y_true = &self._labels[self._starts[i]]
        cdef Py_ssize_t size = self._sizes[i], t, k
        cdef const double* triple_change = ws.change.cells + self._first_triple
        cdef double observed
        for t in range(size - 2):
            k = self.triples.find(y + t)
            if k >= 0:
                add_cell(&ws.change, self._first_triple + k, 1.0)
            k = self.triples.find(y_true + t)
            if k >= 0:
                add_cell(&ws.change, self._first_triple + k, -1.0)
        # the inner product with z_k is the score of its triples, with the change of the
        # weights as weights, minus the same score of the observed labeling
        observed = self.triples.score(size, y_true, triple_change)
        for k in range(n_labelings):
            out[k] += self.triples.score(
                size, labelings + k * size, triple_change) - observed
        clear_cells(&ws.change)
