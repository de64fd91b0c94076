"""First-order chains: emission, bias, start, end and transition weights.

Score of labels y for features F (size x n_features), Osokin et al. (2016), I.1-I.2:

    sum_t <F_t, W[:, y_t]> + bias[y_t] + start[y_1] + end[y_size]
        + sum_t transitions[y_t, y_{t+1}]

Flat weights are rows of ld >= n_labels doubles: n_features emission rows (the columns
of coef_), then bias, start, end, then n_labels rows of transitions, from -> to.

Mean parameters of example i have keys t * ld + label for nodes and
size_i * ld + from * ld + to for edges. With K_i = F F' (size x size, computed at the
first visit), the change d of the node means and d_e of the edge means satisfy

    |A_i^T d|^2 = sum_{t,s} (K_i[t,s] + 1) <d_t, d_s> + |d_1|^2 + |d_size|^2 + |d_e|^2

the 1 being the bias. K_i is kept while it is no larger than four times the example's
features; longer sequences form F' d instead, at the same result.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from sksstruct.inference.chains._topk cimport TopK
from sksstruct.inference.chains._viterbi cimport viterbi_padded
from sksstruct.models.protocols._base cimport BoundModel, Workspace
from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.utils._arena cimport Arena
from sksstruct.utils._simd cimport (
    sks_axpy, sks_changed_rows, sks_dot, sks_gram_norm, sks_prefetch,
    sks_scatter_f32, sks_scatter_f64, sks_scores_f32, sks_scores_f64,
    sks_spread_dot_f32, sks_spread_dot_f64, sks_spread_f32, sks_spread_f64,
)

from sksstruct.models.tables._box import fill_bounds
from sksstruct.utils._layout import aligned_zeros, padded_length

# Below this a change of a mean parameter (at most 1) is rounding error.
cdef double TINY = 1e-13


cdef inline double end_product(int32_t y, int32_t z, int32_t y_true) noexcept nogil:
    """<e_y - e_truth, e_z - e_truth>"""
    return (y == z) - (y == y_true) - (z == y_true) + 1.0


def chain_blocks(w, n_labels, n_features):
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
        cdef Py_ssize_t table = max(model.max_size, 1) * model.ld
        sizes = [table, table, model.n_labels * model.ld if model._mask else 1]
        if training:
            sizes += [
                table,
                model.n_labels * model.ld,
                model.ld,
                model.n_features + 1,
                1 if model._all_grams else model.n_features * model.ld,
            ]
        self._arrays = [aligned_zeros(size) for size in sizes]
        cdef double[::1] view
        cdef Py_ssize_t k
        cdef double* pointers[8]
        for k, array in enumerate(self._arrays):
            view = array
            pointers[k] = &view[0]
        self._scratch.theta, self._scratch.delta = pointers[0], pointers[1]
        self._scratch.table = pointers[2]
        if training:
            self._scratch.d, self._scratch.d_edge = pointers[3], pointers[4]
            self._scratch.row, self._scratch.feature = pointers[5], pointers[6]
            self._scratch.spread = pointers[7]
        table = model.n_labels * model.ld if training else 0
        cdef int32_t[::1] rows = np.zeros(model.max_size + table + 1, dtype=np.int32)
        cdef char[::1] marked = np.zeros(table + 1, dtype=np.int8)
        self._arrays += [rows, marked]
        self._scratch.rows = &rows[0]
        self._scratch.edges = &rows[model.max_size]
        self._scratch.marked = &marked[0]
        self.scratch = &self._scratch


cdef class BoundChain(BoundModel):
    """A chain model bound to packed sequences.

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
    barred : ndarray of shape (n_positions, n_labels), uint8, or None
        Labels that are not allowed at a position.
    """

    def __cinit__(self, X, Py_ssize_t n_labels, labels=None, example_weights=None,
                  label_costs=None, bint fit_intercept=True, bint boundary=True,
                  known=None, mask=None, barred=None):
        offsets = np.ascontiguousarray(X.offsets, dtype=np.intp)
        self.fit_intercept = fit_intercept
        self.boundary = boundary
        self.n_labels = n_labels
        self.n_features = X.n_features
        self.ld = padded_length(n_labels)
        self.n_weights = (self.n_features + 3 + n_labels) * self.ld
        sizes = np.diff(offsets)
        if example_weights is None:
            example_weights = np.full(len(sizes), 1.0 / max(len(sizes), 1))
        self.set_sizes(sizes, example_weights)
        self.max_keys = 2 * self.max_size
        self.key_space = (self.max_size + n_labels) * self.ld
        if self.key_space + self.max_keys > np.iinfo(np.int32).max:
            raise ValueError(
                f"{n_labels} labels and sequences of up to {self.max_size} positions "
                "are more than 32-bit indices can tell apart")
        self.visit_work = sizes.mean() * self.ld * n_labels
        self._labeled = labels is not None
        if self._labeled:
            costs = np.ones(n_labels) if label_costs is None else label_costs
            cost = np.asarray(costs, dtype=np.float64)[labels]
            self._labels = labels
            counts = sizes
            if known is not None:
                cost = np.where(known, cost, 0.0)
                counts = np.add.reduceat(known, offsets[:len(sizes)], dtype=int)
                counts = np.maximum(counts, 1)
            self._cost = cost / np.repeat(counts, sizes)
        self._bind_features(X)
        self._bind_constraints(mask, barred)
        self._arena = Arena()
        self._grams = <double**> calloc(self.n_examples, sizeof(double*))
        if self._grams == NULL:
            raise MemoryError()
        cdef Py_ssize_t i
        self._all_grams = True
        for i in range(self.n_examples):
            if not self._gram_fits(i):
                self._all_grams = False
                break

    def __dealloc__(self):
        free(self._grams)

    def _bind_features(self, X):
        cdef FeatureRows rows = FeatureRows(X)
        self._sparse, self._single = rows.sparse, rows.single
        self._values32, self._values64 = rows.values32, rows.values64
        self._indices, self._indptr = rows.indices, rows.indptr
        self._owned, self._packed = [rows], X

    def _bind_constraints(self, mask, barred):
        cdef const double[:, ::1] scores
        cdef const unsigned char[:, ::1] entries
        self._mask, self._barred = NULL, NULL
        if mask is not None:
            if mask.shape != (2 + self.n_labels, self.ld):
                raise ValueError(f"mask has shape {mask.shape}")
            scores = mask
            self._mask = &scores[0, 0]
        if barred is not None:
            if barred.shape != (self._starts[self.n_examples], self.n_labels):
                raise ValueError(f"barred has shape {barred.shape}")
            entries = barred
            self._barred = &entries[0, 0]
        self.mask = mask
        self._owned.append(barred)

    def dual_space(self):
        from sksstruct.models.chain._dual import ChainDual

        positions = np.asarray(self._starts)[self.n_examples]
        values = self._packed.values
        return ChainDual(self, values, np.asarray(self._labels)[:positions],
                         np.asarray(self._cost))

    @property
    def is_constrained(self):
        """Whether some labelings are not allowed."""
        return self._mask != NULL or self._barred != NULL

    def read_from(self, w):
        BoundModel.read_from(self, w)
        self._emission = self._reading
        self._tail = self._emission + self.n_features * self.ld

    def blocks(self, w):
        """Named views of flat weights, in the shapes of the estimator's attributes."""
        return chain_blocks(w, self.n_labels, self.n_features)

    def flat_bounds(self, bounds):
        flat = [np.full(self.n_weights, limit) for limit in (-np.inf, np.inf)]
        views = [self.blocks(array) for array in flat]
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

    def use_weights(self, const double[:, ::1] emission, const double[:, ::1] tail):
        """Predict with weights kept elsewhere: (n_features, ld) and (3 + K, ld)."""
        if (emission.shape[0] != self.n_features or emission.shape[1] != self.ld
                or tail.shape[0] != 3 + self.n_labels or tail.shape[1] != self.ld):
            raise ValueError(
                f"expected weights of {self.n_labels} labels and {self.n_features} "
                f"features, got {emission.shape[0]} x {emission.shape[1]} and "
                f"{tail.shape[0]} x {tail.shape[1]} numbers")
        self._held = (emission, tail)
        self._emission = &emission[0, 0] if emission.shape[0] else NULL
        self._tail = &tail[0, 0]

    def workspace(self, training=True):
        return ChainWorkspace(self, training)

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
        cdef Py_ssize_t i, p
        with nogil:
            for i in range(start, stop):
                self.potentials(workspace, i)
                counts[i] = decoder.decode(
                    self._sizes[i], self.n_labels, self.ld, ws.theta, ws.delta,
                    self._transitions(ws), 0, k, &scores[i, 0],
                    &labels[k * self._starts[i]])
                for p in range(counts[i]):
                    scores[i, p] += ws.constant

    # ---- features ----

    cdef Py_ssize_t _row(self, Py_ssize_t pos, Py_ssize_t* first,
                         const int32_t** index) noexcept nogil:
        """Where the features of a position are; returns their number."""
        if self._sparse:
            first[0] = self._indptr[pos]
            index[0] = self._indices + first[0]
            return self._indptr[pos + 1] - first[0]
        first[0] = pos * self.n_features
        index[0] = NULL
        return self.n_features

    cdef void _scores(self, Py_ssize_t pos, const double* init,
                      double* out) noexcept nogil:
        cdef Py_ssize_t first
        cdef const int32_t* index
        cdef Py_ssize_t n = self._row(pos, &first, &index)
        if self._single:
            sks_scores_f32(n, index, self._values32 + first, self._emission, self.ld,
                           init, out)
        else:
            sks_scores_f64(n, index, self._values64 + first, self._emission, self.ld,
                           init, out)

    cdef void _scatter(self, Py_ssize_t pos, double scale, const double* change,
                       double* target) noexcept nogil:
        cdef Py_ssize_t first
        cdef const int32_t* index
        cdef Py_ssize_t n = self._row(pos, &first, &index)
        if self._single:
            sks_scatter_f32(n, index, self._values32 + first, scale, change, self.ld,
                            target)
        else:
            sks_scatter_f64(n, index, self._values64 + first, scale, change, self.ld,
                            target)

    # ---- potentials and labelings ----

    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil:
        cdef Py_ssize_t first, last, size
        if not soon:
            sks_prefetch(&self._starts[i], 16)
            sks_prefetch(&self._sizes[i], 8)
            sks_prefetch(&self._grams[i], 8)
            return
        size = self._sizes[i]
        first, last = self._starts[i], self._starts[i + 1]
        if self._sparse:
            first, last = self._indptr[first], self._indptr[last]
        else:
            first, last = first * self.n_features, last * self.n_features
        if self._single:
            sks_prefetch(self._values32 + first, 4 * (last - first))
        else:
            sks_prefetch(self._values64 + first, 8 * (last - first))
        if self._sparse:
            sks_prefetch(self._indices + first, 4 * (last - first))
        if self._grams[i] != NULL:
            sks_prefetch(self._grams[i], 8 * size * size)

    cdef int potentials(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t first = self._starts[i], size = self._sizes[i]
        cdef Py_ssize_t ld = self.ld, t, a
        cdef double constant = 0.0, cost
        for t in range(size):
            self._scores(first + t, self._tail, ws.theta + t * ld)
        if self.boundary:
            sks_axpy(ld, 1.0, self._tail + ld, ws.theta)
            sks_axpy(ld, 1.0, self._tail + 2 * ld, ws.theta + (size - 1) * ld)
        # Hamming loss: every label gains the cost, the observed one does not. The
        # gain is the same for all labelings, so only the observed one is touched.
        if self._labeled:
            for t in range(size):
                cost = self.loss_scale * self._cost[first + t]
                ws.theta[t * ld + self._labels[first + t]] -= cost
                constant += cost
        ws.constant = constant
        if self._mask != NULL:
            sks_axpy(ld, 1.0, self._mask, ws.theta)
            sks_axpy(ld, 1.0, self._mask + ld, ws.theta + (size - 1) * ld)
        if self._barred != NULL:
            for t in range(size):
                for a in range(self.n_labels):
                    if self._barred[(first + t) * self.n_labels + a]:
                        ws.theta[t * ld + a] = -INFINITY
        return 0

    cdef const double* _transitions(self, ChainScratch* ws) noexcept nogil:
        """Table of transition scores, where labels may follow each other."""
        cdef Py_ssize_t a
        cdef const double* table = self._tail + 3 * self.ld
        if self._mask == NULL:
            return table
        memcpy(ws.table, table, self.n_labels * self.ld * sizeof(double))
        for a in range(self.n_labels):
            sks_axpy(self.ld, 1.0, self._mask + (2 + a) * self.ld,
                     ws.table + a * self.ld)
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
        cdef Py_ssize_t ld = self.ld, size = self._sizes[i], t
        cdef const double* table = self._tail + 3 * ld
        cdef double total = ws.constant + ws.theta[y[0]]
        for t in range(1, size):
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
        cdef Py_ssize_t edges = self._sizes[i] * self.ld, p
        cdef const double* table = self._tail + 3 * self.ld
        cdef double total = ws.constant
        for p in range(n):
            total += values[p] * (
                ws.theta[keys[p]] if keys[p] < edges else table[keys[p] - edges])
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
        cdef Py_ssize_t edges = self._sizes[i] * self.ld, p, edge
        cdef const double* table = self._tail + 3 * self.ld
        cdef double total = ws.constant
        for p in range(n):
            edge = keys[p] - edges
            if edge < 0:
                ws.d[keys[p]] += coef * values[p]
                total += values[p] * ws.theta[keys[p]]
            else:
                add_edge(ws, edge, coef * values[p])
                total += values[p] * table[edge]
        ws.scanned = False
        value[0] = total
        return 0

    cdef void _scan(self, ChainScratch* ws, Py_ssize_t size) noexcept nogil:
        if not ws.scanned:
            ws.n_rows = sks_changed_rows(size, self.ld, TINY, ws.d, ws.rows)
            ws.scanned = True

    cdef int change_norm(self, Workspace workspace, Py_ssize_t i,
                         double* value) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.ld, size = self._sizes[i], p
        cdef double total
        cdef double* row
        self._scan(ws, size)
        if self.has_gram(workspace, i):
            total = sks_gram_norm(ws.n_rows, ws.rows, size, self._grams[i],
                                  1.0 if self.fit_intercept else 0.0, ld, ws.d)
        else:
            total = self._spread_norm(ws, i)
        if self.boundary:
            row = ws.d + (size - 1) * ld
            total += sks_dot(ld, ws.d, ws.d) + sks_dot(ld, row, row)
        for p in range(ws.n_edges):
            total += ws.d_edge[ws.edges[p]] ** 2
        value[0] = total
        return 0

    cdef double _spread_norm(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil:
        """|F' d|^2 and the bias' part, by forming F' d and clearing it again."""
        cdef Py_ssize_t ld = self.ld, first = self._starts[i], p, q, j
        cdef Py_ssize_t begin, end
        cdef double total = 0.0
        cdef double* row
        memset(ws.row, 0, ld * sizeof(double))
        for p in range(ws.n_rows):
            self._scatter(first + ws.rows[p], 1.0, ws.d + ws.rows[p] * ld, ws.spread)
            sks_axpy(ld, 1.0, ws.d + ws.rows[p] * ld, ws.row)
        if self.fit_intercept:
            total = sks_dot(ld, ws.row, ws.row)
        if not self._sparse:
            for j in range(self.n_features):
                row = ws.spread + j * ld
                total += sks_dot(ld, row, row)
            memset(ws.spread, 0, self.n_features * ld * sizeof(double))
            return total
        for p in range(ws.n_rows):
            begin = self._indptr[first + ws.rows[p]]
            end = self._indptr[first + ws.rows[p] + 1]
            for q in range(begin, end):
                # A feature met before is zero by now and adds nothing.
                row = ws.spread + self._indices[q] * ld
                total += sks_dot(ld, row, row)
                memset(row, 0, ld * sizeof(double))
        return total

    cdef void _truncate(self, Py_ssize_t row) noexcept nogil:
        cdef Py_ssize_t p
        cdef double x
        for p in range(row * self.ld, (row + 1) * self.ld):
            x = self._v[p]
            x = self._lower[p] if x < self._lower[p] else x
            self._w[p] = self._upper[p] if x > self._upper[p] else x

    cdef int apply_change(self, Workspace workspace, Py_ssize_t i, double scale,
                          double average) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.ld, first = self._starts[i], size = self._sizes[i]
        cdef Py_ssize_t d = self.n_features, p, target
        cdef double* weights
        cdef double* row
        cdef double factor
        self._scan(ws, size)
        for target in range(2 if scale != 0.0 else 0):
            weights = self._u if target else self._v
            if weights == NULL:
                continue
            factor = average * scale if target else scale
            for p in range(ws.n_rows):
                row = ws.d + ws.rows[p] * ld
                self._scatter(first + ws.rows[p], factor, row, weights)
                if self.fit_intercept:
                    sks_axpy(ld, factor, row, weights + d * ld)
                if self.boundary and ws.rows[p] == 0:
                    sks_axpy(ld, factor, row, weights + (d + 1) * ld)
                if self.boundary and ws.rows[p] == size - 1:
                    sks_axpy(ld, factor, row, weights + (d + 2) * ld)
            weights += (d + 3) * ld
            for p in range(ws.n_edges):
                weights[ws.edges[p]] += factor * ws.d_edge[ws.edges[p]]
        if self._lower != NULL and scale != 0.0:
            self._truncate_changed(ws, i)
        for p in range(ws.n_rows):
            memset(ws.d + ws.rows[p] * ld, 0, ld * sizeof(double))
        for p in range(ws.n_edges):
            ws.d_edge[ws.edges[p]] = 0.0
            ws.marked[ws.edges[p]] = 0
        ws.n_rows = ws.n_edges = 0
        return 0

    cdef void _truncate_changed(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil:
        cdef Py_ssize_t d = self.n_features, p, q, j, n, begin
        cdef const int32_t* index
        for p in range(ws.n_rows):
            n = self._row(self._starts[i] + ws.rows[p], &begin, &index)
            for q in range(n):
                self._truncate(index[q] if index else q)
        for j in range(d, d + 3):
            self._truncate(j)
        for p in range(ws.n_edges):
            self._truncate(d + 3 + ws.edges[p] // self.ld)

    # ---- Gram matrices ----

    cdef bint _gram_fits(self, Py_ssize_t i) noexcept nogil:
        cdef Py_ssize_t size = self._sizes[i], first = self._starts[i]
        cdef Py_ssize_t entries, width = 4 if self._single else 8
        if self._sparse:
            entries = self._indptr[first + size] - self._indptr[first]
            width += 4
        else:
            entries = size * self.n_features
        return 8 * size * size <= 4 * width * entries + 4096

    cdef int has_gram(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t size = self._sizes[i], first = self._starts[i]
        cdef Py_ssize_t s, t, p, begin, other, n, m
        cdef const int32_t* index
        cdef const int32_t* other_index
        cdef double total
        cdef double* gram
        if self._grams[i] != NULL:
            return 1
        if not self._gram_fits(i):
            return 0
        gram = <double*> self._arena.take(size * size * sizeof(double))
        for t in range(size):
            # row t spread out over all features, met by the rows up to t
            n = self._row(first + t, &begin, &index)
            if self._single:
                sks_spread_f32(n, index, self._values32 + begin, ws.feature)
            else:
                sks_spread_f64(n, index, self._values64 + begin, ws.feature)
            for s in range(t + 1):
                m = self._row(first + s, &other, &other_index)
                if self._single:
                    total = sks_spread_dot_f32(m, other_index, self._values32 + other,
                                               ws.feature)
                else:
                    total = sks_spread_dot_f64(m, other_index, self._values64 + other,
                                               ws.feature)
                gram[t * size + s] = gram[s * size + t] = total
            for p in range(n):
                ws.feature[index[p] if index else p] = 0.0
        self._grams[i] = gram
        return 1

    cdef int gram_row(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n, const int32_t* labelings,
                      double* out) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t size = self._sizes[i], ld = self.ld, s, t, k, edge
        cdef const int32_t* y_true = &self._labels[self._starts[i]]
        cdef const int32_t* z
        cdef const double* gram = self._grams[i]
        cdef double shift = 1.0 if self.fit_intercept else 0.0, value
        # delta[s, :] = sum_t (K[t, s] + shift) (e_{y_t} - e_{truth_t}), and the edges
        # of y minus those of the truth; then an inner product is a few look-ups.
        memset(ws.delta, 0, size * ld * sizeof(double))
        for t in range(size):
            if y[t] != y_true[t]:
                for s in range(size):
                    value = gram[t * size + s] + shift
                    ws.delta[s * ld + y[t]] += value
                    ws.delta[s * ld + y_true[t]] -= value
        for t in range(size - 1):
            if y[t] != y_true[t] or y[t + 1] != y_true[t + 1]:
                add_edge(ws, y[t] * ld + y[t + 1], 1.0)
                add_edge(ws, y_true[t] * ld + y_true[t + 1], -1.0)
        for k in range(n):
            z = labelings + k * size
            value = 0.0
            for s in range(size):
                if z[s] != y_true[s]:
                    value += ws.delta[s * ld + z[s]] - ws.delta[s * ld + y_true[s]]
                    if s:
                        value += ws.d_edge[z[s - 1] * ld + z[s]]
                        value -= ws.d_edge[y_true[s - 1] * ld + y_true[s]]
                elif s and z[s - 1] != y_true[s - 1]:
                    value += ws.d_edge[z[s - 1] * ld + z[s]]
                    value -= ws.d_edge[y_true[s - 1] * ld + y_true[s]]
            if self.boundary:
                value += end_product(y[0], z[0], y_true[0])
                value += end_product(y[size - 1], z[size - 1], y_true[size - 1])
            out[k] = value
        for k in range(ws.n_edges):
            edge = ws.edges[k]
            ws.d_edge[edge] = 0.0
            ws.marked[edge] = 0
        ws.n_edges = 0
        return 0
