"""Chains with many labels as factors, for training by dual decomposition.

The score is that of `_chain.pyx`. In the terms of Yen et al. (2016), Section 3.2,
positions are unigram factors with inner-product scores, which share the features, a
bias and the weights of first and last labels; neighbors are bigram factors with
indicator scores, the entries of an `IndicatorTable`. Variable v is position v of the
sequences one after the other.

Flat weights are n_features emission rows of ld, then rows of bias, start and end, then
the scores of the table's entries in the order they came: they grow with the table.
"""

import numpy as np
from scipy import sparse

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.inference.chains._ordered_table cimport IndicatorTable
from sksstruct.models.protocols._factors cimport FactorModel, Messages, Outcome
from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.utils._simd cimport sks_axpy, sks_max

from sksstruct.models.chain._sparse import SparseChain
from sksstruct.models.protocols._factors import feature_weights
from sksstruct.utils._layout import aligned_zeros, padded_length
from sksstruct.utils.parallel import run_in_chunks

# Up to so many labels, a table of all transitions is the quicker way to the objective.
cdef Py_ssize_t MOST_DENSE_LABELS = 500


cdef class ChainFactors(FactorModel):
    """Positions and pairs of neighbors of labeled sequences.

    Parameters
    ----------
    X : PackedSequences
        Features.
    n_labels : int
        Number of labels K.
    labels : ndarray of shape (n_positions,), int32
        Observed labels.
    example_weights : ndarray of shape (n_sequences,) or None
        The p_i.
    label_costs : ndarray of shape (n_labels,) or None
        Loss of missing each label, before it is divided.
    loss_length : float or None
        What losses are divided by; see `position_costs`.
    known : ndarray of shape (n_positions,), bool, or None
        Positions whose label was observed; the others cost nothing.
    fit_intercept, boundary : bool
        Whether bias, and start and end weights, exist.
    """

    def __init__(self, X, Py_ssize_t n_labels, labels, example_weights=None,
                 label_costs=None, known=None, *, loss_length=None,
                 bint fit_intercept=True, bint boundary=True):
        n, lengths = len(X), X.lengths
        starts, ends = np.asarray(X.offsets)[:n], np.asarray(X.offsets)[1:]
        n_positions = int(ends[n - 1])
        if example_weights is None:
            example_weights = np.full(n, 1.0 / n)
        # every position but the last of its sequence is the first end of a pair
        left = np.delete(np.arange(n_positions), ends - 1)
        self.set_factors(
            X.offsets, np.concatenate([[0], np.cumsum(lengths - 1)]),
            np.column_stack([left, left + 1]), labels,
            position_costs(
                labels, lengths, starts, n_labels, label_costs, known, loss_length),
            example_weights, n_labels)
        self.fit_intercept, self.boundary = fit_intercept, boundary
        self.n_features, self.ld = X.n_features, padded_length(n_labels)
        self._rows, self._packed = FeatureRows(X), X
        self._dense, self._known = None, known
        self._losses = {"label_costs": label_costs, "loss_length": loss_length}
        # without boundary weights no position is first or last
        place = np.zeros(n_positions, dtype=np.uint8)
        if boundary:
            # a sequence of one position is both
            place[starts] += FIRST
            place[ends - 1] += LAST
        self._ends = place
        values = X.values
        squares = values.multiply(values) if X.is_sparse else values * values
        norms = np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
        # bias, start and end are features that are one
        self._norms = norms + fit_intercept + (place & FIRST) + (place >> 1)
        # all labels are looked at until `set_partition` divides them
        self.width = self.ld
        self.start()

    def set_partition(self, n_parts):
        # parts are whole vectors of labels, so that scores are computed by vectors
        step = 4 if self.ld == 4 else 8
        self.width = min(-(-self.ld // (n_parts * step)) * step, self.ld)
        # parts of padding alone do not count
        return (self.n_labels + self.width - 1) // self.width

    def start(self):
        cdef double[::1] scores
        # a new table, and not zeros in the old one: what is not stored scores nothing,
        # and is not visited either
        self.table = IndicatorTable(self.n_labels, self.n_labels)
        # bias, start and end are the last three features
        self._weights = feature_weights(
            self.n_features + 3, self.n_labels, self._rows.sparse)
        self._feature_step = self._weights.strides[0] // 8
        self._label_step = self._weights.strides[1] // 8
        self._first_weight = <double*> <size_t> self._weights.ctypes.data
        # one row for all visits, which are not made in parallel
        self._buffer = aligned_zeros(self.ld)
        scores = self._buffer
        self._scores = &scores[0]
        self.visited = 0

    # ---- weights ----

    def weights(self):
        return np.concatenate([np.ascontiguousarray(self._weights).ravel(),
                               self.table.entries()[2]])

    def views(self, weights):
        """Return named parts of flat weights, in the shapes of fitted attributes."""
        n_dense = (self.n_features + 3) * self.ld
        dense = weights[:n_dense].reshape(-1, self.ld)[:, :self.n_labels]
        rows, columns, _ = self.table.entries()
        # weights of an earlier time have fewer entries than the table has now
        n_stored = len(weights) - n_dense
        transitions = sparse.csr_array(sparse.coo_array(
            (weights[n_dense:], (rows[:n_stored], columns[:n_stored])),
            (self.n_labels, self.n_labels)))
        # entries that an oracle found, but that never got weight
        transitions.eliminate_zeros()
        return {
            "coef": dense[:self.n_features].T,
            "intercept": dense[self.n_features],
            "start": dense[self.n_features + 1],
            "end": dense[self.n_features + 2],
            "transitions": transitions,
        }

    def square_with(self, pairs, left, right, amounts):
        # the changes of one entry add up before it is squared
        rows, columns, values = self.table.entries()
        table = sparse.csr_array(sparse.coo_array(
            (np.concatenate([values, amounts]),
             (np.concatenate([rows, left]), np.concatenate([columns, right]))),
            (self.n_labels, self.n_labels)))
        return float((self._weights ** 2).sum()) + float(table.data @ table.data)

    def maxima(self, weights, n_jobs=None):
        n_dense = (self.n_features + 3) * self.ld
        if self.n_labels <= MOST_DENSE_LABELS:
            return self._dense_maxima(weights, n_jobs)
        chain = SparseChain(self._packed, weights[:n_dense].reshape(-1, self.ld),
                            self.views(weights)["transitions"])
        # the labels are of no use here, but have to be written somewhere
        labels = np.empty(self.n_variables, dtype=np.int32)
        values = np.empty(self.n_examples)
        run_in_chunks(
            lambda start, stop: chain.decode(
                start, stop, labels, values, self._y_true, self._cost),
            self.n_examples, n_jobs)
        return float(self.example_weights @ values)

    def _dense_maxima(self, weights, n_jobs):
        """The maxima by a chain with a table of all transitions."""
        # here: that module needs this one
        from sksstruct.models.chain._chain import BoundChain

        if self._dense is None:
            self._dense = BoundChain(
                self._packed, self.n_labels, self.y_true, self.example_weights,
                fit_intercept=self.fit_intercept, boundary=self.boundary,
                known=self._known, **self._losses)
        n_dense = (self.n_features + 3) * self.ld
        flat = aligned_zeros(n_dense + self.n_labels * self.ld)
        flat[:n_dense] = weights[:n_dense]
        rows, columns, _ = self.table.entries()
        n_stored = len(weights) - n_dense
        flat[n_dense:].reshape(-1, self.ld)[rows[:n_stored], columns[:n_stored]] = (
            weights[n_dense:])
        values = np.empty(self.n_examples)
        run_in_chunks(
            lambda start, stop: self._dense.hinge(
                self._dense.workspace(flat, training=False), start, stop, values),
            self.n_examples, n_jobs)
        return float(self.example_weights @ values)

    # ---- unigram factors ----

    cdef int find_label(
        self, Py_ssize_t variable, double part, Py_ssize_t n, const int32_t* labels,
        double floor, int32_t* label, double* value
    ) except -1 nogil:
        cdef Py_ssize_t low = 0, high = self.ld, k, n_parts
        cdef double* scores = self._scores
        cdef double best
        # the last part may be shorter than the others
        if part >= 0.0 and self.width < self.ld:
            n_parts = (self.n_labels + self.width - 1) // self.width
            low = <Py_ssize_t> (part * n_parts) * self.width
            high = low + self.width if low + self.width < self.ld else self.ld
        self._score_part(variable, low, high)
        # the caller knows what active labels gain, with messages
        for k in range(n):
            if low <= labels[k] < high:
                scores[labels[k] - low] = -INFINITY
        self.visited += high - low
        # the maximum by vectors first: few calls go on to ask where it is
        best = sks_max(high - low, scores)
        if best + self._cost[variable] <= floor or best == -INFINITY:
            return 0
        value[0] = best + self._cost[variable]
        k = 0
        while scores[k] != best:
            k += 1
        label[0] = <int32_t> (low + k)
        return 1

    cdef int _score_part(self, Py_ssize_t variable, Py_ssize_t low,
                         Py_ssize_t high) except -1 nogil:
        """Write the scores of labels low <= k < high, -inf for those of the padding."""
        cdef Py_ssize_t ld = self.ld, k
        cdef double* scores = self._scores
        cdef double* weights
        # label by label where their weights lie in a row, else all at once
        if self._feature_step == 1:
            for k in range(low, high):
                scores[k - low] = self._score(variable, k)
        else:
            weights = self._first_weight + low
            self._rows.scores_of_part(
                variable, weights, ld, high - low, weights + self.n_features * ld,
                scores)
            weights += (self.n_features + 1) * ld
            if self._ends[variable] & FIRST:
                sks_axpy(high - low, 1.0, weights, scores)
            if self._ends[variable] & LAST:
                sks_axpy(high - low, 1.0, weights + ld, scores)
        # the padding has weights of zero, and must not win
        for k in range(self.n_labels, high):
            scores[k - low] = -INFINITY
        return 0

    cdef double _score(self, Py_ssize_t variable, Py_ssize_t label) noexcept nogil:
        """Return the score of one label."""
        cdef Py_ssize_t step = self._feature_step
        cdef double* weights = self._first_weight + label * self._label_step
        cdef double* bias = weights + self.n_features * step
        cdef double score = self._rows.column_score(variable, weights, step) + bias[0]
        if self._ends[variable] & FIRST:
            score += bias[step]
        if self._ends[variable] & LAST:
            score += bias[2 * step]
        return score

    cdef int label_scores(self, Py_ssize_t variable, Py_ssize_t n,
                          const int32_t* labels, double* scores) except -1 nogil:
        cdef Py_ssize_t k
        self.visited += n
        # one by one: active labels are few, and anywhere in the row
        for k in range(n):
            scores[k] = self._score(variable, labels[k])
        return 0

    cdef int add_labels(self, Py_ssize_t variable, Py_ssize_t n,
                        const int32_t* labels, const double* changes) except -1 nogil:
        cdef Py_ssize_t step = self._feature_step, k
        cdef double* weights
        cdef double* bias
        for k in range(n):
            # most labels that are active keep their weight from visit to visit
            if changes[k] == 0.0:
                continue
            weights = self._first_weight + labels[k] * self._label_step
            bias = weights + self.n_features * step
            self._rows.add_to_column(variable, changes[k], weights, step)
            # a bias that does not exist is zero, which needs no test where it is read
            if self.fit_intercept:
                bias[0] += changes[k]
            if self._ends[variable] & FIRST:
                bias[step] += changes[k]
            if self._ends[variable] & LAST:
                bias[2 * step] += changes[k]
        return 0

    cdef double label_norm(self, Py_ssize_t variable) noexcept nogil:
        return self._norms[variable]

    # ---- bigram factors ----

    cdef int find_pair(self, Py_ssize_t pair, bint linear, const Messages* messages,
                       double floor, Outcome* outcome) except -1 nogil:
        cdef const Messages* left = messages
        cdef const Messages* right = messages + 1
        cdef int found
        # the table counts for itself what it looks at
        self.table.visited = 0
        if linear:
            found = self.table.scan(
                left.size, left.labels, left.values, right.size, right.labels,
                right.values, floor, &outcome.labels[0], &outcome.labels[1],
                &outcome.value)
        else:
            found = self.table.best(
                left.size, left.labels, left.values, right.size, right.labels,
                right.values, floor, &outcome.labels[0], &outcome.labels[1],
                &outcome.value)
        self.visited += self.table.visited
        return found

    cdef Py_ssize_t entry(self, Py_ssize_t pair, Py_ssize_t first_label,
                          Py_ssize_t second_label) except -1 nogil:
        # all pairs share the table, so the pair does not matter
        return self.table.insert(first_label, second_label)

    cdef int pair_scores(self, Py_ssize_t n, const int32_t* entries, double* scores,
                         double* norms) except -1 nogil:
        cdef Py_ssize_t k
        self.visited += n
        for k in range(n):
            scores[k] = self.table._value[entries[k]]
            # of an indicator
            norms[k] = 1.0
        return 0

    cdef int add_pairs(self, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil:
        cdef Py_ssize_t k
        for k in range(n):
            # each change looks for the entry's place in three heaps
            if changes[k] != 0.0:
                self.table.change(entries[k], changes[k])
        return 0


def position_costs(labels, lengths, starts, n_labels, label_costs, known, loss_length):
    """Return the loss of a wrong label at each position.

    It is divided by `loss_length`, one number for all sequences, or where that is None
    by the number of positions of the own sequence. Positions whose label was not
    observed cost nothing, and do not count.
    """
    costs = np.ones(n_labels) if label_costs is None else label_costs
    cost = np.asarray(costs, dtype=np.float64)[labels]
    if known is not None:
        cost = np.where(known, cost, 0.0)
    if loss_length is not None:
        return cost / loss_length
    counts = lengths
    if known is not None:
        # sequences without any observed label cost nothing, whatever the count
        counts = np.maximum(np.add.reduceat(known, starts, dtype=int), 1)
    return cost / np.repeat(counts, lengths)
