"""Chains with many labels as factors, for training by dual decomposition.

The score is that of `_chain.pyx`. For training by dual decomposition positions are
unigram factors with inner-product scores, which share the features, a bias and the
weights of first and last labels; neighbours are bigram factors with indicator scores,
an `IndicatorTable` (Yen et al., 2016, Section 3.2). Flat weights are n_features
emission rows of ld, then bias, start and end, then the scores of the table's entries in
the order they came, so that they grow with the table.
"""

import numpy as np
from scipy import sparse

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.inference.chains._ordered_table cimport IndicatorTable
from sksstruct.models.protocols._factors cimport FactorModel
from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.utils._simd cimport sks_axpy, sks_max

from sksstruct.models.chain._sparse import SparseChain
from sksstruct.utils._layout import aligned_zeros, padded_length
from sksstruct.utils.parallel import run_in_chunks


cdef class ChainFactors(FactorModel):
    """Positions and pairs of neighbours of labeled sequences.

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
        Loss of missing each label, divided by the length of the sequence.
    known : ndarray of shape (n_positions,), bool, or None
        Positions whose label was observed; the others cost nothing.
    fit_intercept, boundary : bool
        Whether bias, and start and end weights, exist.
    """

    def __init__(self, X, Py_ssize_t n_labels, labels, example_weights=None,
                 label_costs=None, known=None, *, bint fit_intercept=True,
                 bint boundary=True):
        n, lengths = len(X), X.lengths
        starts, ends = np.asarray(X.offsets)[:n], np.asarray(X.offsets)[1:]
        size = int(ends[n - 1])
        if example_weights is None:
            example_weights = np.full(n, 1.0 / n)
        costs = np.ones(n_labels) if label_costs is None else label_costs
        cost = np.asarray(costs, dtype=np.float64)[labels]
        counts = lengths
        if known is not None:
            cost = np.where(known, cost, 0.0)
            counts = np.maximum(np.add.reduceat(known, starts, dtype=int), 1)
        cost = cost / np.repeat(counts, lengths)
        left = np.delete(np.arange(size), ends - 1)
        self.set_factors(
            X.offsets, np.concatenate([[0], np.cumsum(lengths - 1)]),
            np.column_stack([left, left + 1]), labels, cost, example_weights, n_labels)
        self.fit_intercept, self.boundary = fit_intercept, boundary
        self.n_features, self.ld = X.n_features, padded_length(n_labels)
        self._rows, self._packed = FeatureRows(X), X
        place = np.zeros(size, dtype=np.uint8)
        if boundary:
            place[starts] += 1
            place[ends - 1] += 2
        self._ends = place
        values = X.values
        squares = values.multiply(values) if X.is_sparse else values * values
        norms = np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
        self._norms = norms + fit_intercept + (place & 1) + (place >> 1)
        # labels that one visit of an inner-product factor looks at
        self.width = self.ld
        self.start()

    def set_partition(self, n_parts):
        """Divide the labels into about n_parts parts for `find_label`."""
        step = 4 if self.ld == 4 else 8
        self.width = min(-(-self.ld // (n_parts * step)) * step, self.ld)
        return -(-self.n_labels // self.width)

    def start(self):
        cdef double[::1] scores
        self.table = IndicatorTable(self.n_labels, self.n_labels)
        d = self.n_features + 3
        if self._rows.sparse:
            self._weights = aligned_zeros(d * self.ld).reshape(d, self.ld)
            self._label_step, self._step = 1, self.ld
        else:
            self._step, self._label_step = 1, padded_length(d)
            self._weights = aligned_zeros(self.ld * self._label_step)
            self._weights = self._weights.reshape(self.ld, -1)[:, :d].T
        self._w = <double*> <size_t> self._weights.ctypes.data
        self._buffer = aligned_zeros(self.ld)
        scores = self._buffer
        self._scores = &scores[0]
        self.visited = 0

    # ---- weights ----

    def weights(self):
        return np.concatenate([np.ascontiguousarray(self._weights).ravel(),
                               self.table.entries()[2]])

    def blocks(self, w):
        """Named parts of flat weights, in the shapes of the estimator's attributes."""
        n = (self.n_features + 3) * self.ld
        rows = w[:n].reshape(-1, self.ld)[:, :self.n_labels]
        a, b, _ = self.table.entries()
        m = len(w) - n
        shape = (self.n_labels, self.n_labels)
        transitions = sparse.csr_array(sparse.coo_array((w[n:], (a[:m], b[:m])), shape))
        transitions.eliminate_zeros()
        return {
            "coef": rows[:self.n_features].T,
            "intercept": rows[self.n_features],
            "start": rows[self.n_features + 1],
            "end": rows[self.n_features + 2],
            "transitions": transitions,
        }

    def square_with(self, pairs, left, right, amounts):
        a, b, values = self.table.entries()
        shape = (self.n_labels, self.n_labels)
        table = sparse.csr_array(sparse.coo_array(
            (np.concatenate([values, amounts]),
             (np.concatenate([a, left]), np.concatenate([b, right]))), shape))
        return float((self._weights ** 2).sum()) + float(table.data @ table.data)

    def maxima(self, weights, n_jobs=None):
        n = (self.n_features + 3) * self.ld
        transitions = self.blocks(weights)["transitions"]
        chain = SparseChain(self._packed, weights[:n].reshape(-1, self.ld), transitions)
        labels = np.empty(self.n_variables, dtype=np.int32)
        values = np.empty(self.n_examples)
        run_in_chunks(
            lambda a, b: chain.decode(a, b, labels, values, self._y_true, self._cost),
            self.n_examples, n_jobs)
        return float(self.example_weights @ values)

    # ---- unigram factors ----

    cdef int find_label(
        self, Py_ssize_t v, double part, Py_ssize_t n, const int32_t* labels,
        double floor, int32_t* label, double* value
    ) except -1 nogil:
        cdef Py_ssize_t low = 0, high = self.ld, k
        cdef double* out = self._scores
        cdef double* w
        cdef double best
        if part >= 0.0 and self.width < self.ld:
            low = <Py_ssize_t> (part * ((self.n_labels + self.width - 1) // self.width))
            low *= self.width
            high = low + self.width if low + self.width < self.ld else self.ld
        if self._step == 1:
            for k in range(low, high):
                out[k - low] = self._score(v, k)
        else:
            w = self._w + low
            self._rows.scores_of_part(v, w, self.ld, high - low,
                                      w + self.n_features * self.ld, out)
            w += (self.n_features + 1) * self.ld
            if self._ends[v] & 1:
                sks_axpy(high - low, 1.0, w, out)
            if self._ends[v] & 2:
                sks_axpy(high - low, 1.0, w + self.ld, out)
        for k in range(self.n_labels, high):
            out[k - low] = -INFINITY
        for k in range(n):
            if low <= labels[k] < high:
                out[labels[k] - low] = -INFINITY
        self.visited += high - low
        best = sks_max(high - low, out)
        if best + self._cost[v] <= floor or best == -INFINITY:
            return 0
        value[0] = best + self._cost[v]
        k = 0
        while out[k] != best:
            k += 1
        label[0] = <int32_t> (low + k)
        return 1

    cdef double _score(self, Py_ssize_t v, Py_ssize_t label) noexcept nogil:
        cdef Py_ssize_t d = self.n_features, step = self._step
        cdef double* w = self._w + label * self._label_step
        cdef double score = self._rows.column_score(v, w, step) + w[d * step]
        if self._ends[v] & 1:
            score += w[(d + 1) * step]
        if self._ends[v] & 2:
            score += w[(d + 2) * step]
        return score

    cdef int label_scores(self, Py_ssize_t v, Py_ssize_t n, const int32_t* labels,
                          double* out) except -1 nogil:
        cdef Py_ssize_t k
        self.visited += n
        for k in range(n):
            out[k] = self._score(v, labels[k])
        return 0

    cdef int add_labels(self, Py_ssize_t v, Py_ssize_t n, const int32_t* labels,
                        const double* changes) except -1 nogil:
        cdef Py_ssize_t d = self.n_features, step = self._step, k
        cdef double* w
        for k in range(n):
            if changes[k] == 0.0:
                continue
            w = self._w + labels[k] * self._label_step
            self._rows.add_to_column(v, changes[k], w, step)
            if self.fit_intercept:
                w[d * step] += changes[k]
            if self._ends[v] & 1:
                w[(d + 1) * step] += changes[k]
            if self._ends[v] & 2:
                w[(d + 2) * step] += changes[k]
        return 0

    cdef double label_norm(self, Py_ssize_t v) noexcept nogil:
        return self._norms[v]

    # ---- bigram factors ----

    cdef int find_pair(
        self, Py_ssize_t f, bint linear, Py_ssize_t n, const int32_t* left,
        const double* left_messages, Py_ssize_t m, const int32_t* right,
        const double* right_messages, double floor, int32_t* a, int32_t* b,
        double* value
    ) except -1 nogil:
        cdef int found
        self.table.visited = 0
        if linear:
            found = self.table.scan(n, left, left_messages, m, right, right_messages,
                                    floor, a, b, value)
        else:
            found = self.table.best(n, left, left_messages, m, right, right_messages,
                                    floor, a, b, value)
        self.visited += self.table.visited
        return found

    cdef Py_ssize_t entry(self, Py_ssize_t f, Py_ssize_t a,
                          Py_ssize_t b) except -1 nogil:
        return self.table.insert(a, b)

    cdef int pair_scores(self, Py_ssize_t n, const int32_t* entries, double* out,
                         double* norms) except -1 nogil:
        cdef Py_ssize_t k
        self.visited += n
        for k in range(n):
            out[k] = self.table._value[entries[k]]
            norms[k] = 1.0
        return 0

    cdef int add_pairs(self, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil:
        cdef Py_ssize_t k
        for k in range(n):
            if changes[k] != 0.0:
                self.table.change(entries[k], changes[k])
        return 0
