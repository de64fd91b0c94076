"""Training of chains with many labels, which have weights for few pairs of labels.

The score of a labeling, and all notation that is not defined here, are as in
`_chain.pyx`. Of the K x K weights of transitions, few exist: a pair of labels gets a
slot when a labeling that contains it first changes the weights. Flat weights are
emission rows, bias, start and end, and then a fixed number of slots. If a pair needs a
slot and none is free, `WeightsFull` is raised, and the caller starts again with more
slots (`grow`). Forbidden pairs have the first slots, whose weights stay zero.

A visit of known labelings needs the scores of few labels, which are computed one by
one. The max oracle computes the scores of all labels. No call takes time or memory in
proportion to K x K.

This model is no `BoundTable`: the weights of a table are fixed when data are bound, but
slots are added while the model trains; and `BoundTable` forms whole tables, but unary
scores are computed only for the labels of the labelings that a solver visits.
`SparseBoundChain` inherits data, checks, losses and Gram matrices from `BoundChain`,
and replaces potentials, decoding and changes.

Mean parameters of nodes have keys t * ld + label, as in `_chain.pyx`. Their changes are
lists of keys, since whole rows would be mostly zeros.
"""

import numpy as np
from scipy import sparse

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.chains._sparse_viterbi cimport (
    SparseTransitions, ViterbiScratch,
)
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._constraints cimport ChainConstraints
from sksstruct.models.chain._workspace cimport BIAS, END, START, TRANSITIONS
from sksstruct.models.protocols._bound_model cimport TINY, Workspace
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.models.tables._feature_rows cimport RowEntries, feature_at
from sksstruct.utils._simd cimport sks_axpy

from sksstruct.models.chain._sparse import SparseChain
from sksstruct.models.chain.constraints import without_missing
from sksstruct.models.protocols._bound_model import WeightsFull
from sksstruct.models.tables._box import fill_bounds

# Largest number of a visit; after this number, visits are numbered from 1 again.
cdef int32_t LAST_VISIT = 0x7FFFFFFF
# Default number of slots for each pair of neighboring positions in the data, and least
# default number of slots in total.
cdef Py_ssize_t SLOTS_OF_A_PAIR = 32, LEAST_SLOTS = 1024


cdef class SparseWorkspace(Workspace):
    """Scratch of one thread, and the weights of pairs in descending order.

    `scatter` and `touch` keep the order up to date if they change the vector that the
    workspace reads. After other changes, the caller must call `read` again.

    Parameters
    ----------
    model : SparseBoundChain
        The model.
    training : bool
        Whether changes of mean parameters will be formed.
    """

    def __cinit__(self, SparseBoundChain model, bint training):
        cdef Py_ssize_t nodes = model.max_size * model.ld
        cdef SparseScratch* ws = &self._scratch
        self._first_pair, self._n_forbidden = model.first_pair, model._n_forbidden
        self.transitions = SparseTransitions(model.pair_index)
        self.viterbi = ViterbiScratch(model.max_size, model.ld)
        ws.theta, ws.visit_of = self.zeros(nodes), self.integers(nodes)
        # predictions and certificates form no changes
        if training:
            ws.node_change = self.zeros(nodes)
            ws.node_changed = self.flags(nodes)
            ws.changed_nodes = self.integers(nodes)
            ws.pair_change = self.zeros(model.n_slots)
            ws.pair_changed = self.flags(model.n_slots)
            ws.changed_pairs = self.integers(model.n_slots)
            ws.column = self.zeros(model.n_features + 1)
            ws.spread = self.zeros(model.n_features + 1)
            ws.gram_product = self.zeros(nodes)
        self.scratch = ws

    def read(self, w):
        cdef Py_ssize_t pair
        Workspace.read(self, w)
        # pairs are sorted again, as the vector may differ in every entry
        self.transitions.load(self.w + self._first_pair, self.transitions.pairs.n_pairs)
        # forbidden pairs have weights of zero in the vector, and -inf only in
        # `transitions`
        for pair in range(self._n_forbidden):
            self.transitions.set(pair, -INFINITY)


cdef class SparseBoundChain(BoundChain):
    """A chain whose transitions are sparse, bound to packed sequences.

    Parameters
    ----------
    X : PackedSequences
        Features.
    n_labels : int
        Number of labels K.
    labels, example_weights, label_costs, fit_intercept, boundary, known, \
loss_length, feature_scale : objects
        As in `BoundChain`.
    pair_index : PairIndex
        Numbers of the pairs, which are their slots. Models of the same labels may share
        one index.
    n_forbidden : int, default=0
        Number of forbidden pairs, which come first in `pair_index`.
    ends : ndarray of shape (2, ld) or None
        Scores of 0 or -inf of first and last labels.
    n_slots : int, default=None
        Number of slots besides the slots of pairs in `pair_index`; None: 32 for each
        pair of neighboring positions in the data, or 1024 if that is more.

    Attributes
    ----------
    n_slots : int
        Largest number of weights of pairs.
    pair_index : PairIndex
        The pairs that have a slot.
    """

    oracles = ("max", "factors")
    oracle_note = (
        "with many labels transitions are kept where they have a weight only, for "
        "which there is the max oracle; train with solver='auto'"
    )
    views_need_data = True
    has_means = False

    def __cinit__(self, X, Py_ssize_t n_labels, *args, pair_index,
                  Py_ssize_t n_forbidden=0, ends=None, n_slots=None, **chain):
        cdef Py_ssize_t n_edges = self.starts[self.n_examples] - self.n_examples
        self.first_pair = (self.n_features + TRANSITIONS) * self.ld
        self.pair_index, self._n_forbidden = pair_index, n_forbidden
        self.ends = ends
        self._constraints = ChainConstraints(
            ends, None, n_positions=0, n_labels=n_labels, ld=self.ld, n_rows=2)
        if n_slots is None:
            n_slots = max(SLOTS_OF_A_PAIR * n_edges, LEAST_SLOTS)
        # pairs that earlier models added keep their slots
        self._set_slots(pair_index.n_pairs + n_slots)
        # edges have no keys, as each position would have K x K of them
        self.key_space = self.max_size * self.ld
        # the max oracle computes the scores of all labels; Viterbi takes little time in
        # comparison
        self.visit_work = (self.sizes.mean() * self.ld
                           * (self._rows.count(0, self.starts[self.n_examples])
                              / self.starts[self.n_examples] + 1.0))

    def _set_slots(self, n_slots):
        """Set the number of slots to n_slots, or to the number of pairs if less."""
        n_slots = min(int(n_slots), self.n_labels ** 2)
        # rounded up to whole SIMD vectors
        self.n_slots = -(-n_slots // 8) * 8
        self.n_weights = self.first_pair + self.n_slots

    def grow(self):
        """Use four times as many slots; earlier weights no longer fit."""
        self._set_slots(4 * self.n_slots)

    @property
    def oracle_cost(self):
        """Cost of a visit with the oracle, relative to a visit of known labelings."""
        return 2.0 + self.n_labels / 100.0

    @property
    def is_constrained(self):
        return self._constraints.exist or self._n_forbidden > 0

    def forbidden(self):
        return tuple(each[:self._n_forbidden] for each in self.pair_index.pairs()), (
            self.ends)

    def topk(self, Workspace workspace, Py_ssize_t i, Py_ssize_t k):
        raise ValueError(self.oracle_note)

    def _workspace(self, training):
        if self.key_space > np.iinfo(np.int32).max:
            raise ValueError(
                f"{self.n_labels} labels and sequences of up to {self.max_size} "
                "positions are more than 32-bit indices can tell apart: split the "
                "longest sequences of X")
        return SparseWorkspace(self, training)

    @property
    def signature(self):
        # labelings do not depend on slots
        return type(self).__name__, self.n_labels, self.sizes.tobytes()

    def views(self, w):
        rows = w[:self.first_pair].reshape(-1, self.ld)[:, :self.n_labels]
        first, second = self.pair_index.pairs()
        # weights saved before `grow` have fewer slots than there are pairs
        scores = w[self.first_pair:][:len(first)]
        stored = np.flatnonzero(scores)
        transitions = sparse.csr_array(
            (scores[stored], (first[stored], second[stored])),
            shape=(self.n_labels, self.n_labels))
        return {
            "coef": rows[:self.n_features].T,
            "intercept": rows[self.n_features + BIAS],
            "start": rows[self.n_features + START],
            "end": rows[self.n_features + END],
            "transitions": transitions,
        }

    def prediction(self, X, w, ends=None, forbidden_labels=None):
        """Return a `SparseChain` with flat weights, to decode the sequences X.

        See `SparseChain` for the last two arguments.
        """
        transitions = self.views(w)["transitions"]
        if self._n_forbidden:
            # forbidden pairs have weight zero, which the sparse view drops
            first, second = (
                each[:self._n_forbidden] for each in self.pair_index.pairs())
            transitions = transitions + sparse.csr_array(
                (np.full(len(first), -np.inf), (first, second)), transitions.shape)
        rows = w[:self.first_pair].reshape(-1, self.ld)
        return SparseChain.of_flat(
            X, rows, transitions, ends, forbidden_labels, self.feature_scale)

    def flatten_bounds(self, bounds):
        flat = [np.full(self.n_weights, limit) for limit in (-np.inf, np.inf)]
        views = [self.views(array) for array in flat]
        # one bound holds for all pairs, with or without a slot
        for view, array in zip(views, flat):
            view["transitions"] = array[self.first_pair:]
        arrays = any(np.ndim(limit) for limit in (bounds or {}).get("transitions", ()))
        if not arrays:
            fill_bounds(*views, bounds)
        if arrays or not (views[0]["transitions"] <= 0.0).all() or not (
                views[1]["transitions"] >= 0.0).all():
            raise ValueError(
                "bounds on transitions must be numbers, and allow zero, where there "
                "are many labels: most pairs have no weight")
        return without_missing(self, flat, views)

    # ---- potentials and labelings ----

    cdef int potentials(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef SparseScratch* ws = <SparseScratch*> workspace.scratch
        cdef Py_ssize_t t
        # `evaluate` computes scores of labels when it needs them
        ws.complete, ws.constant = False, 0.0
        for t in range(self._starts[i], self._starts[i + 1]):
            ws.constant += workspace.loss_scale * self._cost[t]
        # after the last number, `visit_of` is cleared, so that no entry of an earlier
        # visit equals the number of a later one
        if ws.visit == LAST_VISIT:
            memset(ws.visit_of, 0, self.max_size * self.ld * sizeof(int32_t))
            ws.visit = 0
        ws.visit += 1
        return 0

    cdef double _unary_score(self, SparseWorkspace ws, Py_ssize_t i, Py_ssize_t t,
                             Py_ssize_t label) noexcept nogil:
        """Return the loss-augmented score of a label, computed once in a visit."""
        cdef SparseScratch* scratch = &ws._scratch
        cdef Py_ssize_t ld = self.ld, key = t * ld + label, first = self._starts[i]
        cdef const double* tail = ws.w + self.n_features * ld + label
        cdef double score
        if scratch.complete or scratch.visit_of[key] == scratch.visit:
            return scratch.theta[key]
        score = tail[BIAS * ld] + self._rows.column_score(first + t, ws.w + label, ld)
        # start and end weights are zero without `boundary`
        if t == 0:
            score += tail[START * ld]
        if t == self._sizes[i] - 1:
            score += tail[END * ld]
        if label == self._labels[first + t]:
            score -= ws.loss_scale * self._cost[first + t]
        scratch.theta[key], scratch.visit_of[key] = score, scratch.visit
        return score

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        return self._decode(<SparseWorkspace> workspace, i, y, value)

    cdef int _decode(self, SparseWorkspace sparse_ws, Py_ssize_t i, int32_t* y,
                     double* value) except -1 nogil:
        cdef SparseScratch* ws = &sparse_ws._scratch
        cdef Py_ssize_t ld = self.ld, size = self._sizes[i], first = self._starts[i], t
        cdef const double* tail = sparse_ws.w + self.n_features * ld
        # compute all scores, even if some are computed already: one matrix product is
        # faster than separate scores
        self._rows.scores_of_rows(
            first, size, sparse_ws.w, ld, ld, tail + BIAS * ld, ws.theta)
        sks_axpy(ld, 1.0, tail + START * ld, ws.theta)
        sks_axpy(ld, 1.0, tail + END * ld, ws.theta + (size - 1) * ld)
        # all labels gain the cost except the observed one, as in `_chain.pyx`
        for t in range(size):
            ws.theta[t * ld + self._labels[first + t]] -= (
                sparse_ws.loss_scale * self._cost[first + t])
        if self._constraints.exist:
            self._constraints.forbid_labels(first, size, ws.theta)
        # later calls of `evaluate` read these scores
        ws.complete = True
        value[0] = ws.constant + sparse_ws.transitions.decode(
            sparse_ws.viterbi, size, ld, ws.theta, y)
        return 0

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        cdef Py_ssize_t t
        if not BoundChain.is_labeling(self, i, y):
            return 0
        # forbidden pairs have the first slots; `find` returns -1 for a pair without a
        # slot
        for t in range(1, self._sizes[i]):
            if 0 <= self.pair_index.find(y[t - 1], y[t]) < self._n_forbidden:
                return 0
        return 1

    cdef int evaluate(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        return self._evaluate(<SparseWorkspace> workspace, i, y, value)

    cdef int _evaluate(self, SparseWorkspace sparse_ws, Py_ssize_t i, const int32_t* y,
                       double* value) except -1 nogil:
        cdef const double* scores = sparse_ws.w + self.first_pair
        cdef double total = sparse_ws._scratch.constant
        cdef Py_ssize_t t, pair
        self.pair_index.prefetch(self._sizes[i], y)
        for t in range(self._sizes[i]):
            total += self._unary_score(sparse_ws, i, t, y[t])
            # a pair without a slot scores zero
            pair = self.pair_index.find(y[t - 1], y[t]) if t else -1
            if pair >= 0:
                total += scores[pair]
        value[0] = total
        return 0

    # ---- changes of mean parameters ----

    cdef Py_ssize_t _slot(self, Py_ssize_t first, Py_ssize_t second) except -1 nogil:
        """Return the slot of a pair of labels; a pair without a slot gets one."""
        cdef Py_ssize_t pair = self.pair_index.find(first, second)
        if pair < 0:
            if self.pair_index.n_pairs == self.n_slots:
                with gil:
                    raise WeightsFull()
            pair = self.pair_index.add(first, second)
        return pair

    cdef int add_labeling(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        cdef SparseScratch* ws = <SparseScratch*> workspace.scratch
        cdef Py_ssize_t t, key
        self.pair_index.prefetch(self._sizes[i], y)
        for t in range(self._sizes[i]):
            # changed nodes are listed: searching rows of K labels would be slow
            key = t * self.ld + y[t]
            ws.node_change[key] += coef
            if not ws.node_changed[key]:
                ws.node_changed[key] = 1
                ws.changed_nodes[ws.n_changed_nodes] = <int32_t> key
                ws.n_changed_nodes += 1
            # the first position has no incoming edge
            if t == 0:
                continue
            key = self._slot(y[t - 1], y[t])
            ws.pair_change[key] += coef
            if not ws.pair_changed[key]:
                ws.pair_changed[key] = 1
                ws.changed_pairs[ws.n_changed_pairs] = <int32_t> key
                ws.n_changed_pairs += 1
        return 0

    cdef void _drop_rounding_errors(self, SparseScratch* ws) noexcept nogil:
        """Drop nodes whose change is rounding error from the list of changed nodes, and
        set their change to zero.
        """
        cdef Py_ssize_t k, count = 0
        cdef int32_t key
        for k in range(ws.n_changed_nodes):
            key = ws.changed_nodes[k]
            if ws.node_change[key] > TINY or ws.node_change[key] < -TINY:
                ws.changed_nodes[count] = key
                count += 1
            else:
                ws.node_change[key], ws.node_changed[key] = 0.0, 0
        ws.n_changed_nodes = count

    cdef int change_norm(self, Workspace workspace, Py_ssize_t i,
                         double* value) except -1 nogil:
        cdef SparseScratch* ws = <SparseScratch*> workspace.scratch
        cdef Py_ssize_t size = self._sizes[i], ld = self.ld, j, k, row, column
        cdef double bias = 1.0 if self.fit_intercept else 0.0, total = 0.0, product
        cdef const double* gram
        self._drop_rounding_errors(ws)
        self._changes.grams.find(0, i, ws.spread, &gram)
        # all pairs of changed nodes, which are few: labelings differ at few positions
        for k in range(ws.n_changed_nodes):
            row, column = ws.changed_nodes[k] // ld, ws.changed_nodes[k] % ld
            product = ws.node_change[ws.changed_nodes[k]]
            # start and end are features of the first position and of the last
            if self.boundary:
                total += product * product * ((row == 0) + (row == size - 1))
            if gram == NULL:
                continue
            # nodes of different labels have inner product zero
            total += product * product * (gram[row * size + row] + bias)
            for j in range(k):
                if ws.changed_nodes[j] % ld == column:
                    total += 2.0 * product * ws.node_change[ws.changed_nodes[j]] * (
                        gram[row * size + ws.changed_nodes[j] // ld] + bias)
        # no Gram matrix is kept for long sequences: the norm is summed label by label
        if gram == NULL:
            for k in range(ws.n_changed_nodes):
                total += self._label_norm(ws, i, k)
        for k in range(ws.n_changed_pairs):
            total += ws.pair_change[ws.changed_pairs[k]] ** 2
        value[0] = total
        return 0

    cdef double _label_norm(self, SparseScratch* ws, Py_ssize_t i,
                            Py_ssize_t k) noexcept nogil:
        """Return the squared norm of the change of one label's emission weights and
        bias: the label of node k in the list of changed nodes.

        Returns zero if an earlier node of the list has the same label.
        """
        cdef Py_ssize_t ld = self.ld, column = ws.changed_nodes[k] % ld, j, entry
        cdef Py_ssize_t first = self._starts[i], feature
        cdef double total = 0.0, bias = 0.0, change
        cdef RowEntries entries
        # the norm of the label was counted at an earlier node of the list
        for j in range(k):
            if ws.changed_nodes[j] % ld == column:
                return 0.0
        for j in range(k, ws.n_changed_nodes):
            if ws.changed_nodes[j] % ld == column:
                change = ws.node_change[ws.changed_nodes[j]]
                bias += change
                self._rows.add_to_column(
                    first + ws.changed_nodes[j] // ld, change, ws.column, 1)
        # clear only the features of these rows, as there may be many more features
        for j in range(k, ws.n_changed_nodes):
            if ws.changed_nodes[j] % ld == column:
                entries = self._rows.row(first + ws.changed_nodes[j] // ld)
                for entry in range(entries.count):
                    feature = feature_at(entries.index, entry)
                    total += ws.column[feature] * ws.column[feature]
                    ws.column[feature] = 0.0
        entries = self._rows.shared()
        for entry in range(entries.count):
            feature = entries.index[entry]
            total += ws.column[feature] * ws.column[feature]
            ws.column[feature] = 0.0
        return total + bias * bias if self.fit_intercept else total

    cdef int _scatter_node(self, SparseScratch* ws, Py_ssize_t i, Py_ssize_t k,
                           double scale, double* out) except -1 nogil:
        """Add scale times the change of one node, mapped to weights, to `out`."""
        cdef Py_ssize_t ld = self.ld, key = ws.changed_nodes[k], t = key // ld
        cdef double change = scale * ws.node_change[key]
        cdef double* column = out + key % ld
        cdef double* tail = column + self.n_features * ld
        self._rows.add_to_column(self._starts[i] + t, change, column, ld)
        # weights that do not exist stay zero
        if self.fit_intercept:
            tail[BIAS * ld] += change
        if self.boundary and t == 0:
            tail[START * ld] += change
        if self.boundary and t == self._sizes[i] - 1:
            tail[END * ld] += change
        return 0

    cdef int scatter(self, Workspace workspace, Py_ssize_t i, double scale,
                     double* out) except -1 nogil:
        return self._scatter(<SparseWorkspace> workspace, i, scale, out)

    cdef int _scatter(self, SparseWorkspace sparse_ws, Py_ssize_t i, double scale,
                      double* out) except -1 nogil:
        cdef SparseScratch* ws = &sparse_ws._scratch
        cdef double* scores = out + self.first_pair
        cdef Py_ssize_t k, pair
        self._drop_rounding_errors(ws)
        for k in range(ws.n_changed_nodes):
            self._scatter_node(ws, i, k, scale, out)
        for k in range(ws.n_changed_pairs):
            pair = ws.changed_pairs[k]
            # edges that two labelings share cancel: their change is zero
            if ws.pair_change[pair] == 0.0:
                continue
            scores[pair] += scale * ws.pair_change[pair]
            # `transitions` sorts the weights that decoding reads; `out` may also be
            # another vector, such as an average of weights
            if <const double*> out == sparse_ws.w:
                sparse_ws.transitions.set(pair, scores[pair])
        return 0

    cdef int touch(self, Workspace workspace, Py_ssize_t i,
                   Weights weights) except -1 nogil:
        return self._touch(<SparseWorkspace> workspace, i, weights)

    cdef int _touch(self, SparseWorkspace sparse_ws, Py_ssize_t i,
                    Weights weights) except -1 nogil:
        cdef SparseScratch* ws = &sparse_ws._scratch
        cdef Py_ssize_t ld = self.ld, k, label, entry, pair
        cdef RowEntries entries
        for k in range(ws.n_changed_nodes):
            # the label's column of the weights that the position reads
            label = ws.changed_nodes[k] % ld
            entries = self._rows.row(self._starts[i] + ws.changed_nodes[k] // ld)
            for entry in range(entries.count):
                weights.touch(feature_at(entries.index, entry) * ld + label, 1)
            entries = self._rows.shared()
            for entry in range(entries.count):
                weights.touch(entries.index[entry] * ld + label, 1)
            for entry in range(TRANSITIONS):
                weights.touch((self.n_features + entry) * ld + label, 1)
        for k in range(ws.n_changed_pairs):
            pair = ws.changed_pairs[k]
            weights.touch(self.first_pair + pair, 1)
            if <const double*> weights._w == sparse_ws.w:
                sparse_ws.transitions.set(pair, weights._w[self.first_pair + pair])
        return 0

    cdef int clear(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef SparseScratch* ws = <SparseScratch*> workspace.scratch
        cdef Py_ssize_t k
        # all changed entries are listed: other entries are zero already
        for k in range(ws.n_changed_nodes):
            ws.node_change[ws.changed_nodes[k]] = 0.0
            ws.node_changed[ws.changed_nodes[k]] = 0
        for k in range(ws.n_changed_pairs):
            ws.pair_change[ws.changed_pairs[k]] = 0.0
            ws.pair_changed[ws.changed_pairs[k]] = 0
        ws.n_changed_nodes = ws.n_changed_pairs = 0
        return 0

    # ---- inner products of labelings ----

    cdef int has_gram(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef const double* gram
        # `find` computes the Gram matrix if it is to be kept, and returns whether it is
        return self._changes.grams.find(
            0, i, (<SparseScratch*> workspace.scratch).spread, &gram)

    cdef int gram_row(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n_labelings, const int32_t* labelings,
                      double* out) except -1 nogil:
        cdef SparseScratch* ws = <SparseScratch*> workspace.scratch
        cdef Py_ssize_t size = self._sizes[i], ld = self.ld, s, t, k
        cdef const int32_t* y_true = &self._labels[self._starts[i]]
        cdef double bias = 1.0 if self.fit_intercept else 0.0, weight
        cdef const double* gram
        cdef double* row
        self._changes.grams.find(0, i, ws.spread, &gram)
        # form K_i d of the nodes and the change of edges once: the product with each
        # labeling is then a sum of entries
        for t in range(size):
            if y[t] == y_true[t]:
                continue
            row = ws.gram_product
            for s in range(size):
                weight = gram[t * size + s] + bias
                # start and end are features that are one at this position only
                if self.boundary and s == t:
                    weight += (t == 0) + (t == size - 1)
                row[y[t]] += weight
                row[y_true[t]] -= weight
                row += ld
        # edges that y and y_true share cancel
        self.add_labeling(workspace, i, y, 1.0)
        self.add_labeling(workspace, i, y_true, -1.0)
        for k in range(n_labelings):
            out[k] = self._product(ws, i, labelings + k * size, y_true)
        self.clear(workspace, i)
        # clear the entries of `gram_product` that were written
        for t in range(size):
            if y[t] != y_true[t]:
                for s in range(size):
                    ws.gram_product[s * ld + y[t]] = 0.0
                    ws.gram_product[s * ld + y_true[t]] = 0.0
        return 0

    cdef double _product(self, SparseScratch* ws, Py_ssize_t i, const int32_t* y,
                         const int32_t* z) noexcept nogil:
        """Return the inner product of mu(y) - mu(z) and the change in `gram_row`."""
        cdef const double* row = ws.gram_product
        cdef Py_ssize_t t, pair
        cdef double value = 0.0
        for t in range(self._sizes[i]):
            if y[t] != z[t]:
                value += row[y[t]] - row[z[t]]
            # an edge differs where one of its two labels does
            if t and (y[t] != z[t] or y[t - 1] != z[t - 1]):
                pair = self.pair_index.find(y[t - 1], y[t])
                if pair >= 0:
                    value += ws.pair_change[pair]
                pair = self.pair_index.find(z[t - 1], z[t])
                if pair >= 0:
                    value -= ws.pair_change[pair]
            row += self.ld
        return value
