"""First-order chains: emission, bias, start, end and transition weights.

Score of labels y for features F (size x n_features), Osokin et al. (2016), I.1-I.2:

    sum_t <F_t, W[:, y_t]> + bias[y_t] + start[y_1] + end[y_size]
        + sum_t transitions[y_t, y_{t+1}]

Flat weights are rows of ld >= n_labels doubles: n_features emission rows (the columns
of coef_), then bias, start, end, then n_labels rows of transitions, from -> to. The
last three parts are called the tail below.

Mean parameters of example i have keys t * ld + label for nodes and
size_i * ld + from * ld + to for edges. With K_i = F F' (size x size, see `_gram.pyx`),
the change d of the node means and d_e of the edge means satisfy

    |A_i^T d|^2 = sum_{t,s} (K_i[t,s] + 1) <d_t, d_s> + |d_1|^2 + |d_size|^2 + |d_e|^2

the 1 being the bias. Sequences too long for K_i form F' d instead, at the same result.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.chains._topk cimport TopK
from sksstruct.inference.chains._viterbi cimport viterbi_padded
from sksstruct.models.chain._gram cimport GramMatrices
from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.models.tables._feature_rows cimport FeatureRows, RowEntries, feature_at
from sksstruct.utils._simd cimport (
    sks_axpy, sks_changed_rows, sks_dot, sks_gram_norm, sks_prefetch,
)

from sksstruct.models.tables._box import fill_bounds
from sksstruct.utils._layout import aligned_zeros, padded_length

# Below this a change of a mean parameter (at most 1) is rounding error.
cdef double TINY = 1e-13
# Rows of the tail: where transitions begin.
cdef Py_ssize_t TRANSITIONS = 3


cdef inline double end_product(int32_t y, int32_t z, int32_t observed) noexcept nogil:
    """<e_y - e_observed, e_z - e_observed>"""
    return (y == z) - (y == observed) - (z == observed) + 1.0


def chain_views(w, n_labels, n_features):
    """Named views of flat weights."""
    rows = w.reshape(-1, padded_length(n_labels))[:, :n_labels]
    return {
        "coef": rows[:n_features].T,
        "intercept": rows[n_features],
        "start": rows[n_features + 1],
        "end": rows[n_features + 2],
        "transitions": rows[n_features + 3:],
    }


cdef class ChainWorkspace(Workspace):
    def __cinit__(self, BoundChain model, bint training=True):
        cdef Py_ssize_t nodes = max(model.max_size, 1) * model.ld, k
        cdef Py_ssize_t cells = model.n_labels * model.ld
        cdef double[::1] view
        cdef double* pointers[8]
        self._n_features, self._n_labels = model.n_features, model.n_labels
        self._ld = model.ld
        if model.key_space + model.max_keys > np.iinfo(np.int32).max:
            raise ValueError(
                f"{model.n_labels} labels and sequences of up to {model.max_size} "
                "positions are more than 32-bit indices can tell apart")
        sizes = [nodes, nodes, cells if model._mask else 1]
        if training:
            product = 1 if model._all_grams else model.n_features * model.ld
            sizes += [nodes, cells, model.ld, model.n_features + 1, product]
        self._arrays = [aligned_zeros(size) for size in sizes]
        for k, array in enumerate(self._arrays):
            view = array
            pointers[k] = &view[0]
        ws = &self._scratch
        ws.theta, ws.delta, ws.table = pointers[0], pointers[1], pointers[2]
        if training:
            ws.d, ws.d_edge, ws.bias = pointers[3], pointers[4], pointers[5]
            ws.spread, ws.product = pointers[6], pointers[7]
        cells = cells if training else 0
        cdef int32_t[::1] rows = np.zeros(model.max_size + cells + 1, dtype=np.int32)
        cdef char[::1] marked = np.zeros(cells + 1, dtype=np.int8)
        self._arrays += [rows, marked]
        ws.rows, ws.edges, ws.marked = &rows[0], &rows[model.max_size], &marked[0]
        self.scratch = ws

    def read(self, w):
        Workspace.read(self, w)
        self._scratch.emission = self.w
        self._scratch.tail = self.w + self._n_features * self._ld

    def read_rows(self, const double[:, ::1] emission, const double[:, ::1] tail):
        """Form potentials from weights in two parts: (n_features, ld), (3 + K, ld)."""
        if (emission.shape[0] != self._n_features or emission.shape[1] != self._ld
                or tail.shape[0] != TRANSITIONS + self._n_labels
                or tail.shape[1] != self._ld):
            raise ValueError(
                f"expected weights of {self._n_labels} labels and {self._n_features} "
                f"features, got {emission.shape[0]} x {emission.shape[1]} and "
                f"{tail.shape[0]} x {tail.shape[1]} numbers")
        self._held = (emission, tail)
        self._scratch.emission = &emission[0, 0] if emission.shape[0] else NULL
        self._scratch.tail = &tail[0, 0]


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
        The p_i; sum to one.
    label_costs : ndarray of shape (n_labels,) or None
        Loss of missing each label; the loss of a sequence is their mean over its
        positions.
    fit_intercept, boundary : bool
        Whether bias, and start and end weights, exist; they stay zero otherwise.
    known : ndarray of shape (n_positions,), bool, or None
        Positions whose label was observed; the others cost nothing, and the loss is
        the mean over the known ones.
    mask : ndarray of shape (2 + n_labels, ld) or None
        Constraints as scores, 0 or -inf: first labels, last labels, transitions.
    forbidden_labels : ndarray of shape (n_positions, n_labels), uint8, or None
        Labels that are not allowed at a position.

    Attributes
    ----------
    numbers : ndarray of shape (n_sequences,), int, or None
        How errors number the sequences.
    unknown : ndarray of shape (n_positions,), bool, or None
        Positions that the likelihood sums over, as their label was not observed.
    support : ndarray of int or None
        Flat weights that exist, where they are not all; for losses with a gradient.
    """

    oracles = ("max", "topk", "exp", "projection", "factors")

    def __cinit__(self, X, Py_ssize_t n_labels, labels=None, example_weights=None,
                  label_costs=None, bint fit_intercept=True, bint boundary=True,
                  known=None, mask=None, forbidden_labels=None):
        offsets = np.ascontiguousarray(X.offsets, dtype=np.intp)
        self.packed = X
        self.fit_intercept, self.boundary = fit_intercept, boundary
        self.n_labels, self.n_features = n_labels, X.n_features
        self.ld = padded_length(n_labels)
        self.n_weights = (self.n_features + TRANSITIONS + n_labels) * self.ld
        sizes = np.diff(offsets)
        if example_weights is None:
            example_weights = np.full(len(sizes), 1.0 / max(len(sizes), 1))
        self.set_sizes(sizes, example_weights)
        self.max_keys = 2 * self.max_size
        self.key_space = (self.max_size + n_labels) * self.ld
        self.visit_work = sizes.mean() * self.ld * n_labels
        self._labeled = labels is not None
        if self._labeled:
            self._bind_labels(labels, label_costs, known)
        self._bind_constraints(mask, forbidden_labels)
        self._rows = FeatureRows(X)
        self._grams = GramMatrices(self._rows, self.starts)
        self._all_grams = self._grams.all_fit()

    def _bind_labels(self, labels, label_costs, known):
        """Observed labels, and what missing each of them costs."""
        costs = np.ones(self.n_labels) if label_costs is None else label_costs
        cost = np.asarray(costs, dtype=np.float64)[labels]
        counts = self.sizes
        if known is not None:
            cost = np.where(known, cost, 0.0)
            counts = np.add.reduceat(known, self.starts[:-1], dtype=int)
            counts = np.maximum(counts, 1)
        self._labels, self._label_costs, self._known = labels, label_costs, known
        self._cost = cost / np.repeat(counts, self.sizes)

    def _bind_constraints(self, mask, forbidden_labels):
        cdef const double[:, ::1] scores
        cdef const unsigned char[:, ::1] entries
        self._mask, self._forbidden = NULL, NULL
        if mask is not None:
            if mask.shape != (2 + self.n_labels, self.ld):
                raise ValueError(f"mask has shape {mask.shape}")
            scores = mask
            self._mask = &scores[0, 0]
        if forbidden_labels is not None:
            if forbidden_labels.shape != (self.starts[-1], self.n_labels):
                raise ValueError(
                    f"forbidden_labels has shape {forbidden_labels.shape}")
            entries = forbidden_labels
            self._forbidden = &entries[0, 0]
        self.mask, self._forbidden_labels = mask, forbidden_labels

    @property
    def labels(self):
        """Observed labels of all positions."""
        return np.asarray(self._labels)

    @property
    def costs(self):
        """Loss of missing the label of each position."""
        return np.asarray(self._cost)

    @property
    def is_constrained(self):
        """Whether some labelings are not allowed."""
        return self._mask != NULL or self._forbidden != NULL

    # ---- what solvers and estimators may ask for ----

    def smooth_loss(self, smoothing, nonsmooth=False):
        from sksstruct.models.chain._smooth import ChainSmoothLoss

        return ChainSmoothLoss(
            self, smoothing, self.unknown, self.numbers, nonsmooth, self.support)

    def dual_space(self):
        from sksstruct.models.chain._dual import ChainDual

        return ChainDual(self)

    def factors(self):
        """The positions and pairs of neighbours, which have weights of their own."""
        from sksstruct.models.chain._factors import ChainFactors

        if self._known is not None:
            raise ValueError("factors need every label of y to be known")
        if self.mask is not None:
            raise ValueError(
                "factors cannot keep forbidden_transitions in training; forbid them "
                "in predict")
        if self._factors is None:
            self._factors = ChainFactors(
                self.packed, self.n_labels, np.asarray(self._labels),
                self.example_weights, self._label_costs,
                fit_intercept=self.fit_intercept, boundary=self.boundary)
        return self._factors

    def topk(self, Workspace workspace, Py_ssize_t i, Py_ssize_t k):
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef TopK decoder = TopK()
        cdef double[::1] values = np.empty(k)
        cdef int32_t[:, ::1] rows = np.empty((k, self._sizes[i]), dtype=np.int32)
        cdef Py_ssize_t count
        with nogil:
            self.potentials(workspace, i)
            count = decoder.decode(
                self._sizes[i], self.n_labels, self.ld, ws.theta, ws.delta,
                self._transitions(ws), 0, k, &values[0], &rows[0, 0])
        return np.asarray(rows)[:count], np.asarray(values)[:count] + ws.constant

    def views(self, w):
        return chain_views(w, self.n_labels, self.n_features)

    def flatten_bounds(self, bounds):
        flat = [np.full(self.n_weights, limit) for limit in (-np.inf, np.inf)]
        views = [self.views(array) for array in flat]
        fill_bounds(*views, bounds)
        # Blocks that do not exist, and the padding, stay zero.
        for array, view in zip(flat, views):
            array.reshape(-1, self.ld)[:, self.n_labels:] = 0.0
            if not self.fit_intercept:
                view["intercept"][...] = 0.0
            if not self.boundary:
                view["start"][...] = 0.0
                view["end"][...] = 0.0
        return flat

    def _workspace(self, training):
        return ChainWorkspace(self, training)

    def workspace_of_rows(self, emission, tail):
        """A workspace for predictions that reads weights in two parts.

        See `ChainWorkspace.read_rows`.
        """
        cdef ChainWorkspace workspace = ChainWorkspace(self, False)
        workspace.n_weights, workspace.loss_scale = self.n_weights, 1.0
        workspace.read_rows(emission, tail)
        return workspace

    def predict(self, Workspace workspace, Py_ssize_t start, Py_ssize_t stop,
                int32_t[::1] labels, double[::1] scores):
        """Decode sequences start <= i < stop into flat labels and their scores."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(start, stop):
                self.potentials(workspace, i)
                self.decode(workspace, i, &labels[self._starts[i]], &scores[i])

    def predict_topk(self, Workspace workspace, Py_ssize_t start, Py_ssize_t stop,
                     Py_ssize_t k, int32_t[::1] labels, double[:, ::1] scores,
                     Py_ssize_t[::1] counts):
        """The k best labelings of sequences start <= i < stop.

        Labelings of sequence i start at k times its offset, counts[i] of them.
        """
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef TopK decoder = TopK()
        cdef Py_ssize_t i, rank
        with nogil:
            for i in range(start, stop):
                self.potentials(workspace, i)
                counts[i] = decoder.decode(
                    self._sizes[i], self.n_labels, self.ld, ws.theta, ws.delta,
                    self._transitions(ws), 0, k, &scores[i, 0],
                    &labels[k * self._starts[i]])
                for rank in range(counts[i]):
                    scores[i, rank] += ws.constant

    # ---- potentials and labelings ----

    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil:
        self._grams.prefetch(i, soon)
        if soon:
            self._rows.prefetch(self._starts[i], self._starts[i + 1])
        else:
            # what says where the features are
            sks_prefetch(&self._starts[i], 16)
            sks_prefetch(&self._sizes[i], 8)

    cdef int potentials(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t first = self._starts[i], size = self._sizes[i], t
        cdef Py_ssize_t ld = self.ld
        cdef double* last = ws.theta + (size - 1) * ld
        cdef double constant = 0.0, cost
        for t in range(size):
            self._rows.scores(first + t, ws.emission, ld, ws.tail, ws.theta + t * ld)
        if self.boundary:
            sks_axpy(ld, 1.0, ws.tail + ld, ws.theta)
            sks_axpy(ld, 1.0, ws.tail + 2 * ld, last)
        # Hamming loss: every label gains the cost, the observed one does not. The
        # gain is the same for all labelings, so only the observed one is touched.
        if self._labeled:
            for t in range(size):
                cost = workspace.loss_scale * self._cost[first + t]
                ws.theta[t * ld + self._labels[first + t]] -= cost
                constant += cost
        ws.constant = constant
        if self._mask != NULL:
            sks_axpy(ld, 1.0, self._mask, ws.theta)
            sks_axpy(ld, 1.0, self._mask + ld, last)
        if self._forbidden != NULL:
            self._forbid(ws, i)
        return 0

    cdef void _forbid(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil:
        """Give -inf to labels that are not allowed."""
        cdef Py_ssize_t first = self._starts[i], t, label
        for t in range(self._sizes[i]):
            for label in range(self.n_labels):
                if self._forbidden[(first + t) * self.n_labels + label]:
                    ws.theta[t * self.ld + label] = -INFINITY

    cdef const double* _transitions(self, ChainScratch* ws) noexcept nogil:
        """Table of transition scores, -inf where labels may not follow each other."""
        cdef Py_ssize_t label, ld = self.ld
        cdef const double* table = ws.tail + TRANSITIONS * ld
        if self._mask == NULL:
            return table
        memcpy(ws.table, table, self.n_labels * ld * sizeof(double))
        for label in range(self.n_labels):
            sks_axpy(ld, 1.0, self._mask + (2 + label) * ld, ws.table + label * ld)
        return ws.table

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t size = self._sizes[i]
        memcpy(ws.delta, ws.theta, size * self.ld * sizeof(double))
        value[0] = ws.constant + viterbi_padded(
            size, self.n_labels, self.ld, ws.delta, self._transitions(ws), 0, y)
        return 0

    cdef int y_true(self, Py_ssize_t i, int32_t* y) except -1 nogil:
        memcpy(y, &self._labels[self._starts[i]], self._sizes[i] * sizeof(int32_t))
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef Py_ssize_t first = self._starts[i], t
        cdef double total = 0.0
        for t in range(self._sizes[i]):
            if y[t] != self._labels[first + t]:
                total += self._cost[first + t]
        value[0] = total
        return 0

    cdef int evaluate(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.ld, t
        cdef const double* table = ws.tail + TRANSITIONS * ld
        cdef double total = ws.constant + ws.theta[y[0]]
        for t in range(1, self._sizes[i]):
            total += ws.theta[t * ld + y[t]] + table[y[t - 1] * ld + y[t]]
        value[0] = total
        return 0

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t size = self._sizes[i], t
        cdef int32_t ld = <int32_t> self.ld, edges = <int32_t> (size * self.ld)
        for t in range(size):
            keys[t] = <int32_t> t * ld + y[t]
        for t in range(size - 1):
            keys[size + t] = edges + y[t] * ld + y[t + 1]
        return 2 * size - 1

    cdef int evaluate_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t edges = self._sizes[i] * self.ld, k
        cdef const double* table = ws.tail + TRANSITIONS * self.ld
        cdef double total = ws.constant
        for k in range(n):
            total += values[k] * (
                ws.theta[keys[k]] if keys[k] < edges else table[keys[k] - edges])
        value[0] = total
        return 0

    # ---- changes of mean parameters ----

    cdef int add_labeling(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.ld, t
        ws.d[y[0]] += coef
        for t in range(1, self._sizes[i]):
            ws.d[t * ld + y[t]] += coef
            add_edge(ws, y[t - 1] * ld + y[t], coef)
        ws.scanned = False
        return 0

    cdef int add_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t edges = self._sizes[i] * self.ld, k, edge
        cdef const double* table = ws.tail + TRANSITIONS * self.ld
        cdef double total = ws.constant
        for k in range(n):
            edge = keys[k] - edges
            if edge < 0:
                ws.d[keys[k]] += coef * values[k]
                total += values[k] * ws.theta[keys[k]]
            else:
                add_edge(ws, edge, coef * values[k])
                total += values[k] * table[edge]
        ws.scanned = False
        value[0] = total
        return 0

    cdef void _scan(self, ChainScratch* ws, Py_ssize_t size) noexcept nogil:
        """List the rows of d that are not rounding error; the others become zero."""
        if not ws.scanned:
            ws.n_rows = sks_changed_rows(size, self.ld, TINY, ws.d, ws.rows)
            ws.scanned = True

    cdef int change_norm(self, Workspace workspace, Py_ssize_t i,
                         double* value) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.ld, size = self._sizes[i], k
        cdef const double* gram
        cdef double* last
        cdef double total
        self._scan(ws, size)
        if self._grams.find(i, ws.spread, &gram):
            total = sks_gram_norm(ws.n_rows, ws.rows, size, gram,
                                  1.0 if self.fit_intercept else 0.0, ld, ws.d)
        else:
            total = self._product_norm(ws, i)
        if self.boundary:
            last = ws.d + (size - 1) * ld
            total += sks_dot(ld, ws.d, ws.d) + sks_dot(ld, last, last)
        for k in range(ws.n_edges):
            total += ws.d_edge[ws.edges[k]] ** 2
        value[0] = total
        return 0

    cdef double _product_norm(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil:
        """|F' d|^2 and the bias' part, by forming F' d and clearing it again."""
        cdef Py_ssize_t ld = self.ld, first = self._starts[i], k
        cdef double total = 0.0
        cdef double* row
        memset(ws.bias, 0, ld * sizeof(double))
        for k in range(ws.n_rows):
            row = ws.d + ws.rows[k] * ld
            self._rows.scatter(first + ws.rows[k], 1.0, row, ld, ws.product)
            sks_axpy(ld, 1.0, row, ws.bias)
        if self.fit_intercept:
            total = sks_dot(ld, ws.bias, ws.bias)
        return total + self._clear_product(ws, i)

    cdef double _clear_product(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil:
        """Squared norm of F' d, which is zero afterwards."""
        cdef Py_ssize_t ld = self.ld, first = self._starts[i], k, entry
        cdef double total = 0.0
        cdef double* row
        cdef RowEntries entries
        if not self._rows.sparse:
            for k in range(self.n_features):
                row = ws.product + k * ld
                total += sks_dot(ld, row, row)
            memset(ws.product, 0, self.n_features * ld * sizeof(double))
            return total
        for k in range(ws.n_rows):
            entries = self._rows.row(first + ws.rows[k])
            for entry in range(entries.count):
                # A feature met before is zero by now and adds nothing.
                row = ws.product + entries.index[entry] * ld
                total += sks_dot(ld, row, row)
                memset(row, 0, ld * sizeof(double))
        return total

    cdef int scatter(self, Workspace workspace, Py_ssize_t i, double scale,
                     double* out) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.ld, first = self._starts[i], size = self._sizes[i], k
        cdef double* tail = out + self.n_features * ld
        cdef double* row
        self._scan(ws, size)
        for k in range(ws.n_rows):
            row = ws.d + ws.rows[k] * ld
            self._rows.scatter(first + ws.rows[k], scale, row, ld, out)
            if self.fit_intercept:
                sks_axpy(ld, scale, row, tail)
            if self.boundary and ws.rows[k] == 0:
                sks_axpy(ld, scale, row, tail + ld)
            if self.boundary and ws.rows[k] == size - 1:
                sks_axpy(ld, scale, row, tail + 2 * ld)
        tail += TRANSITIONS * ld
        for k in range(ws.n_edges):
            tail[ws.edges[k]] += scale * ws.d_edge[ws.edges[k]]
        return 0

    cdef int truncate(self, Workspace workspace, Py_ssize_t i,
                      Weights weights) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.ld, tail = self.n_features * ld, k, entry
        cdef RowEntries entries
        for k in range(ws.n_rows):
            entries = self._rows.row(self._starts[i] + ws.rows[k])
            for entry in range(entries.count):
                weights.truncate(feature_at(entries.index, entry) * ld, ld)
        weights.truncate(tail, TRANSITIONS * ld)
        for k in range(ws.n_edges):
            weights.truncate(tail + TRANSITIONS * ld + ws.edges[k], 1)
        return 0

    cdef int clear(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t k
        # rows that were not scanned may hold anything
        self._scan(ws, self._sizes[i])
        for k in range(ws.n_rows):
            memset(ws.d + ws.rows[k] * self.ld, 0, self.ld * sizeof(double))
        for k in range(ws.n_edges):
            ws.d_edge[ws.edges[k]] = 0.0
            ws.marked[ws.edges[k]] = 0
        ws.n_rows = ws.n_edges = 0
        return 0

    # ---- inner products of labelings ----

    cdef int has_gram(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef const double* gram
        return self._grams.find(
            i, (<ChainScratch*> workspace.scratch).spread, &gram)

    cdef int gram_row(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n, const int32_t* labelings,
                      double* out) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t size = self._sizes[i], k
        cdef const int32_t* observed = &self._labels[self._starts[i]]
        cdef const int32_t* other
        cdef const double* gram
        self._grams.find(i, ws.spread, &gram)
        self._weigh_by_gram(ws, i, gram, y, observed)
        for k in range(n):
            other = labelings + k * size
            out[k] = self._gram_product(ws, size, other, observed)
            if self.boundary:
                out[k] += end_product(y[0], other[0], observed[0])
                out[k] += end_product(
                    y[size - 1], other[size - 1], observed[size - 1])
        for k in range(ws.n_edges):
            ws.d_edge[ws.edges[k]] = 0.0
            ws.marked[ws.edges[k]] = 0
        ws.n_edges = 0
        return 0

    cdef void _weigh_by_gram(
            self, ChainScratch* ws, Py_ssize_t i, const double* gram, const int32_t* y,
            const int32_t* observed) noexcept nogil:
        """delta[s, :] = sum_t (K[t, s] + 1) (e_{y_t} - e_{observed_t}), and the edges of
        y minus the observed ones in d_edge; an inner product is a few look-ups then."""
        cdef Py_ssize_t size = self._sizes[i], ld = self.ld, s, t
        cdef double shift = 1.0 if self.fit_intercept else 0.0, value
        memset(ws.delta, 0, size * ld * sizeof(double))
        for t in range(size):
            if y[t] != observed[t]:
                for s in range(size):
                    value = gram[t * size + s] + shift
                    ws.delta[s * ld + y[t]] += value
                    ws.delta[s * ld + observed[t]] -= value
        for t in range(size - 1):
            if y[t] != observed[t] or y[t + 1] != observed[t + 1]:
                add_edge(ws, y[t] * ld + y[t + 1], 1.0)
                add_edge(ws, observed[t] * ld + observed[t + 1], -1.0)

    cdef double _gram_product(
            self, ChainScratch* ws, Py_ssize_t size, const int32_t* other,
            const int32_t* observed) noexcept nogil:
        """Inner product of what `_weigh_by_gram` holds with another labeling."""
        cdef Py_ssize_t ld = self.ld, s
        cdef double value = 0.0
        for s in range(size):
            if other[s] != observed[s]:
                value += ws.delta[s * ld + other[s]] - ws.delta[s * ld + observed[s]]
            # an edge differs where one of its ends does
            if s and (other[s] != observed[s] or other[s - 1] != observed[s - 1]):
                value += ws.d_edge[other[s - 1] * ld + other[s]]
                value -= ws.d_edge[observed[s - 1] * ld + observed[s]]
        return value
