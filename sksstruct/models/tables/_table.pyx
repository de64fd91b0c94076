"""Models whose scores are tables: rows of features times blocks of weights.

An example has, for each block b of weights, rows of features F_b (rows x features); a
row scores the columns of its block, and

    theta_b = F_b W_b + bias_b

is a table (rows x columns). The mean parameters are the entries of these tables, one
after the other, and a labeling is the list of the entries it picks, its keys:

    score(y) = sum of theta over the keys of y
    A_i^T d  = F_b^T d_b for each block, d being a change of the entries' weights

What is shared is done here; a subclass says which keys a labeling has, its loss, and
which labeling is best (`indicator`, `add_loss`, `loss`, `decode`). Keys beyond the
tables are for scores that are not rows times columns: `other_score`, `add_other`.

Flat weights are the blocks in order, each of n_features rows, and one for the bias
where there is one, of ld columns: one where the block has one column, else padded.
"""

from hashlib import sha256

import numpy as np
from scipy import sparse

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.utils._simd cimport (
    sks_scatter_f64, sks_scores_f64, sks_spread_dot_f64,
)

from sksstruct.models.tables._box import fill_bounds
from sksstruct.utils._layout import aligned_zeros, padded_length

# Below this a change of a mean parameter (at most 1) is rounding error.
cdef double TINY = 1e-13


def block_ld(n_columns):
    """Length of a row of weights."""
    return 1 if n_columns == 1 else padded_length(n_columns)


cdef class TableWorkspace(Workspace):
    def __cinit__(self, BoundTable model, bint training=True):
        cdef double[::1] theta, beliefs, d, g, products
        cdef int32_t[::1] touched, rows, keys
        cdef char[::1] marked, row_marked
        self.theta = aligned_zeros(model.table_size)
        theta = self.theta
        keys = np.zeros(model.max_keys + 1, dtype=np.int32)
        beliefs = aligned_zeros(model.belief_size)
        self._scratch.theta, self._scratch.beliefs = &theta[0], &beliefs[0]
        self._scratch.keys = &keys[0]
        self._arrays = [keys, beliefs]
        if training:
            d = np.zeros(model.key_space)
            products = aligned_zeros(model.table_size)
            g = aligned_zeros(model.n_weights)
            touched = np.zeros(model.key_space + 1, dtype=np.int32)
            rows = np.zeros(model.n_rows + 1, dtype=np.int32)
            marked = np.zeros(model.key_space + 1, dtype=np.int8)
            row_marked = np.zeros(model.n_rows + 1, dtype=np.int8)
            self._scratch.d, self._scratch.g = &d[0], &g[0]
            self._scratch.products = &products[0]
            self._scratch.touched, self._scratch.rows = &touched[0], &rows[0]
            self._scratch.marked = &marked[0]
            self._scratch.row_marked = &row_marked[0]
            self._arrays += [d, g, products, touched, rows, marked, row_marked]
        self.scratch = &self._scratch


cdef class BoundTable(BoundModel):
    """A model of tables bound to data.

    Parameters
    ----------
    blocks : list of (rows, offsets, n_columns, has_bias)
        Blocks of weights: rows of features of all examples, an array or CSR of shape
        (n_rows, n_features), float64, and where the rows of each example begin.
    sizes : ndarray of shape (n_examples,)
        Length of the labelings.
    y_true : ndarray of shape (sum of sizes,), int32, or None
        Observed labelings; None for prediction.
    example_weights : ndarray of shape (n_examples,) or None
        The p_i.
    max_keys : int
        Most keys of a labeling.
    other_keys : int
        Keys beyond the tables.
    other_weights : int
        Weights beyond those of the blocks, each a row of its own.
    """

    oracles = ("max", "topk")

    def __cinit__(self, blocks, sizes, y_true, example_weights, Py_ssize_t max_keys,
                  Py_ssize_t other_keys=0, Py_ssize_t other_weights=0, **_):
        n = len(sizes)
        if example_weights is None:
            example_weights = np.full(n, 1.0 / max(n, 1))
        self.set_sizes(sizes, example_weights)
        self._blocks = <Block*> calloc(len(blocks), sizeof(Block))
        if self._blocks == NULL:
            raise MemoryError()
        self._owned = []
        tables = self._bind_blocks(blocks, other_weights)
        self.table_size = max(int(tables.max(initial=1)), 1)
        self.belief_size = 1
        self.max_keys = max(max_keys, 1)
        self.key_space = self.table_size + other_keys
        if self.key_space + self.max_keys > np.iinfo(np.int32).max:
            raise ValueError(
                f"tables of {self.key_space} scores are more than 32-bit indices can "
                "tell apart")
        self.visit_work = max(tables.mean(), 1.0) if n else 1.0
        # What labelings mean; subclasses add to it.
        self._structure = [
            part for _, offsets, n_columns, _ in blocks
            for part in (np.asarray(offsets), n_columns)]
        self._labeled = y_true is not None
        self._y_true = np.zeros(1, dtype=np.int32) if y_true is None else y_true

    def __dealloc__(self):
        free(self._blocks)

    def _bind_blocks(self, blocks, Py_ssize_t other_weights):
        """Lay out the weights; sizes of the tables of all examples."""
        cdef Block* block
        cdef const double[::1] zeros
        self.n_blocks = len(blocks)
        self.n_weights = self.n_rows = 0
        tables = np.zeros(self.n_examples, dtype=np.intp)
        widest, starts, lengths = 1, [], []
        for b, (rows, offsets, n_columns, has_bias) in enumerate(blocks):
            block = &self._blocks[<Py_ssize_t> b]
            block.n_features, block.n_columns = rows.shape[1], n_columns
            block.ld, block.has_bias = block_ld(n_columns), has_bias
            block.first_weight, block.first_row = self.n_weights, self.n_rows
            self._bind_features(<Py_ssize_t> b, rows, offsets)
            n_rows = block.n_features + has_bias
            self.n_rows += n_rows
            # every block on a cache line of its own
            self.n_weights += -(-n_rows * block.ld // 8) * 8
            tables += np.diff(offsets) * block.ld
            widest = max(widest, block.ld)
            starts.append(block.first_weight + block.ld * np.arange(n_rows))
            lengths.append(np.full(n_rows, block.ld))
        starts.append(self.n_weights + np.arange(other_weights))
        lengths.append(np.ones(other_weights))
        self._row_start = np.concatenate(starts).astype(np.intp)
        self._row_length = np.concatenate(lengths).astype(np.intp)
        self.n_weights += other_weights
        self.n_rows += other_weights
        zeros = aligned_zeros(widest)
        self._zeros = &zeros[0]
        self._owned.append(zeros)
        return tables

    def _bind_features(self, Py_ssize_t b, rows, offsets):
        """Let a block point at its rows of features, and keep them alive."""
        cdef Block* block = &self._blocks[b]
        cdef const double[::1] values
        cdef const int32_t[::1] indices
        cdef const int64_t[::1] indptr
        cdef const Py_ssize_t[::1] starts
        # a spare entry, so that there is an address even without any feature
        if sparse.issparse(rows):
            data = rows.data
            index = np.ascontiguousarray(rows.indices, dtype=np.int32)
            pointer = np.ascontiguousarray(rows.indptr, dtype=np.int64)
            if not len(data):
                data, index = np.zeros(1), np.zeros(1, dtype=np.int32)
            indices, indptr = index, pointer
            block.indices, block.indptr = &indices[0], &indptr[0]
            self._owned += [index, pointer]
        else:
            data = rows.reshape(-1) if rows.size else np.zeros(1)
        values = data
        block.values = &values[0]
        offsets = np.ascontiguousarray(offsets, dtype=np.intp)
        starts = offsets
        block.offsets = &starts[0]
        self._owned += [data, offsets]

    @property
    def signature(self):
        digest = sha256()
        for part in self._structure:
            array = np.ascontiguousarray(part)
            digest.update(repr((array.dtype.str, array.shape)).encode())
            digest.update(array.tobytes())
        return (*BoundModel.signature.__get__(self), digest.digest())

    def _workspace(self, training):
        return TableWorkspace(self, training)

    def block(self, w, Py_ssize_t b):
        """Weights of a block of flat w, (n_features, n_columns), and its bias."""
        cdef Block* block = &self._blocks[b]
        n, ld, first = block.n_features, block.ld, block.first_weight
        rows = w[first:first + (n + block.has_bias) * ld].reshape(-1, ld)
        rows = rows[:, :block.n_columns]
        return rows[:n], (rows[n] if block.has_bias else np.zeros(block.n_columns))

    def views(self, w):
        coef, intercept = self.block(w, 0)
        return {"coef": coef.T, "intercept": intercept}

    def flatten_bounds(self, bounds):
        # the padding stays zero
        flat = [np.zeros(self.n_weights) for _ in range(2)]
        views = [self.views(array) for array in flat]
        for view, default in zip(views, (-np.inf, np.inf)):
            for array in view.values():
                array[...] = default
        fill_bounds(*views, bounds)
        return flat

    # ---- what a user sees of one example ----

    def labeling(self, Workspace workspace, Py_ssize_t i):
        """Best labeling of an example at the weights, the loss included; its value."""
        cdef double value
        cdef int32_t[::1] y = np.zeros(max(self._sizes[i], 1), dtype=np.int32)
        with nogil:
            self.potentials(workspace, i)
            self.decode(workspace, i, &y[0], &value)
        return np.asarray(y)[:self._sizes[i]], value

    def joint_feature(self, TableWorkspace workspace, Py_ssize_t i,
                      const int32_t[::1] y):
        """A_i^T mu(y), flat."""
        cdef TableScratch* ws = &workspace._scratch
        cdef double[::1] out = np.zeros(self.n_weights)
        with nogil:
            self.add_labeling(workspace, i, &y[0], 1.0)
            self.form(ws, i)
            memcpy(&out[0], ws.g, self.n_weights * sizeof(double))
            self.clear_formed(ws)
        return np.asarray(out)

    def find(self, TableWorkspace workspace, Py_ssize_t i):
        """Best labeling at the loaded potentials, for oracles that are not compiled."""
        raise NotImplementedError

    def find_topk(self, TableWorkspace workspace, Py_ssize_t i, Py_ssize_t k):
        """The k best labelings at the loaded potentials, in rows."""
        raise NotImplementedError

    def topk(self, Workspace workspace, Py_ssize_t i, Py_ssize_t k):
        cdef int32_t[:, ::1] rows
        cdef double[::1] values
        cdef Py_ssize_t j
        with nogil:
            self.potentials(workspace, i)
        rows = np.ascontiguousarray(self.find_topk(workspace, i, k), dtype=np.int32)
        values = np.empty(len(rows))
        for j in range(rows.shape[0]):
            self.evaluate(workspace, i, &rows[j, 0], &values[j])
        return np.asarray(rows), np.asarray(values)

    # ---- potentials and labelings ----

    # Where the table of block b begins in that of the example.
    cdef Py_ssize_t table_start(self, Py_ssize_t b, Py_ssize_t i) noexcept nogil:
        cdef Py_ssize_t k, start = 0
        for k in range(b):
            start += self._blocks[k].ld * (
                self._blocks[k].offsets[i + 1] - self._blocks[k].offsets[i])
        return start

    # table = A_i weights
    cdef void fill(self, Py_ssize_t i, const double* weights,
                   double* table) noexcept nogil:
        cdef Py_ssize_t b, row
        cdef const double* coef
        cdef const double* bias
        cdef Block* block
        cdef FeatureRow features
        for b in range(self.n_blocks):
            block = &self._blocks[b]
            coef = weights + block.first_weight
            bias = self._zeros
            if block.has_bias:
                bias = coef + block.n_features * block.ld
            for row in range(block.offsets[i], block.offsets[i + 1]):
                features = feature_row(block, row)
                if block.ld == 1:
                    table[0] = bias[0] + sks_spread_dot_f64(
                        features.count, features.index, features.values, coef)
                else:
                    sks_scores_f64(features.count, features.index, features.values,
                                   coef, block.ld, bias, table)
                table += block.ld

    # Add `scale` times the loss to the table and the constant.
    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil:
        raise NotImplementedError

    cdef double other_score(self, Py_ssize_t i, Py_ssize_t key,
                            const double* weights) noexcept nogil:
        return 0.0

    # g += change times the features of a key beyond the tables.
    cdef int add_other(self, TableScratch* ws, Py_ssize_t i, Py_ssize_t key,
                       double change) except -1 nogil:
        raise NotImplementedError

    cdef int potentials(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        self.fill(i, workspace.w, ws.theta)
        ws.constant = 0.0
        if self._labeled:
            return self.add_loss(ws, i, workspace.loss_scale)
        return 0

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        cdef const int32_t[::1] labels
        with gil:
            labels = self.find(workspace, i)
            if labels.shape[0] != self._sizes[i]:
                raise ValueError(
                    f"expected {self._sizes[i]} labels, got {labels.shape[0]}")
            if labels.shape[0]:
                memcpy(y, &labels[0], labels.shape[0] * sizeof(int32_t))
        return self.evaluate(workspace, i, y, value)

    cdef int y_true(self, Py_ssize_t i, int32_t* y) except -1 nogil:
        if self._sizes[i]:
            memcpy(y, &self._y_true[self._starts[i]], self._sizes[i] * sizeof(int32_t))
        return 0

    # Sum of the scores of keys: entries of a table, or beyond it, at some weights.
    cdef double total(self, Py_ssize_t i, Py_ssize_t n, const int32_t* keys,
                      const double* table, const double* weights) noexcept nogil:
        cdef Py_ssize_t k, end = self.table_start(self.n_blocks, i)
        cdef double value = 0.0
        for k in range(n):
            value += (table[keys[k]] if keys[k] < end
                      else self.other_score(i, keys[k] - end, weights))
        return value

    cdef int evaluate(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t n = self.indicator(i, y, ws.keys)
        value[0] = ws.constant + self.total(i, n, ws.keys, ws.theta, workspace.w)
        return 0

    cdef int evaluate_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t k, end = self.table_start(self.n_blocks, i)
        value[0] = ws.constant
        for k in range(n):
            value[0] += values[k] * (
                ws.theta[keys[k]] if keys[k] < end
                else self.other_score(i, keys[k] - end, workspace.w))
        return 0

    # ---- changes of mean parameters ----

    cdef void add_key(self, TableScratch* ws, int32_t key,
                      double change) noexcept nogil:
        ws.d[key] += change
        if not ws.marked[key]:
            ws.marked[key] = 1
            ws.touched[ws.n_touched] = key
            ws.n_touched += 1

    cdef int add_labeling(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t n = self.indicator(i, y, ws.keys), k
        for k in range(n):
            self.add_key(ws, ws.keys[k], coef)
        return 0

    cdef int add_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t k
        for k in range(n):
            self.add_key(ws, keys[k], coef * values[k])
        return self.evaluate_mean(workspace, i, n, keys, values, value)

    cdef void touch_row(self, TableScratch* ws, Py_ssize_t row) noexcept nogil:
        """Note that a row of g is no longer zero."""
        if not ws.row_marked[row]:
            ws.row_marked[row] = 1
            ws.rows[ws.n_rows] = <int32_t> row
            ws.n_rows += 1

    # g = A_i^T d, d = 0
    cdef int form(self, TableScratch* ws, Py_ssize_t i) except -1 nogil:
        cdef Py_ssize_t k, key, end = self.table_start(self.n_blocks, i)
        cdef double change
        ws.formed = True
        for k in range(ws.n_touched):
            key = ws.touched[k]
            ws.marked[key] = 0
            change = ws.d[key]
            if not (change > TINY or change < -TINY):
                ws.d[key] = 0.0
            elif key >= end:
                ws.d[key] = 0.0
                self.add_other(ws, i, key - end, change)
            else:
                # all of its row at once; the row's other keys are found to be zero
                self.form_row(ws, i, key)
        ws.n_touched = 0
        return 0

    cdef void form_row(self, TableScratch* ws, Py_ssize_t i,
                       Py_ssize_t key) noexcept nogil:
        """Add the row of the table that a key is in to g; it becomes zero."""
        cdef Py_ssize_t b = 0, start = 0, end, row, k
        cdef Block* block
        cdef FeatureRow features
        cdef double* change
        cdef double* weights
        # the block whose table the key is in
        while True:
            block = &self._blocks[b]
            end = start + block.ld * (block.offsets[i + 1] - block.offsets[i])
            if key < end:
                break
            start, b = end, b + 1
        row = (key - start) // block.ld
        change = ws.d + start + row * block.ld
        features = feature_row(block, row + block.offsets[i])
        weights = ws.g + block.first_weight
        if block.ld == 1:
            for k in range(features.count):
                weights[features.index[k] if features.index else k] += (
                    change[0] * features.values[k])
        else:
            sks_scatter_f64(features.count, features.index, features.values, 1.0,
                            change, block.ld, weights)
        if features.index != NULL:
            for k in range(features.count):
                self.touch_row(ws, block.first_row + features.index[k])
        elif features.count and not ws.row_marked[block.first_row]:
            # dense rows touch all rows of the block, or have done so before
            for k in range(features.count):
                self.touch_row(ws, block.first_row + k)
        if block.has_bias:
            self.touch_row(ws, block.first_row + block.n_features)
            weights += block.n_features * block.ld
            for k in range(block.ld):
                weights[k] += change[k]
        memset(change, 0, block.ld * sizeof(double))

    cdef void clear_formed(self, TableScratch* ws) noexcept nogil:
        """g = 0"""
        cdef Py_ssize_t k, row
        for k in range(ws.n_rows):
            row = ws.rows[k]
            memset(ws.g + self._row_start[row], 0,
                   self._row_length[row] * sizeof(double))
            ws.row_marked[row] = 0
        ws.n_rows = 0
        ws.formed = False

    cdef int change_norm(self, Workspace workspace, Py_ssize_t i,
                         double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t k, entry, first, count
        cdef double total = 0.0
        if not ws.formed:
            self.form(ws, i)
        for k in range(ws.n_rows):
            first = self._row_start[ws.rows[k]]
            count = self._row_length[ws.rows[k]]
            for entry in range(first, first + count):
                total += ws.g[entry] * ws.g[entry]
        value[0] = total
        return 0

    cdef int scatter(self, Workspace workspace, Py_ssize_t i, double scale,
                     double* out) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t k, entry, first, count
        if not ws.formed:
            self.form(ws, i)
        for k in range(ws.n_rows):
            first = self._row_start[ws.rows[k]]
            count = self._row_length[ws.rows[k]]
            for entry in range(first, first + count):
                out[entry] += scale * ws.g[entry]
        return 0

    cdef int truncate(self, Workspace workspace, Py_ssize_t i,
                      Weights weights) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t k
        for k in range(ws.n_rows):
            weights.truncate(self._row_start[ws.rows[k]], self._row_length[ws.rows[k]])
        return 0

    cdef int clear(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t k
        for k in range(ws.n_touched):
            ws.d[ws.touched[k]] = 0.0
            ws.marked[ws.touched[k]] = 0
        ws.n_touched = 0
        self.clear_formed(ws)
        return 0

    # ---- inner products of labelings ----

    cdef int has_gram(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        return 1

    cdef int gram_row(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n, const int32_t* labelings,
                      double* out) except -1 nogil:
        # one product with A_i^T (mu(y) - mu(y_i)) in the place of weights
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef const int32_t* observed = &self._y_true[self._starts[i]]
        cdef Py_ssize_t k, count
        cdef double base
        self.add_labeling(workspace, i, y, 1.0)
        self.add_labeling(workspace, i, observed, -1.0)
        self.form(ws, i)
        self.fill(i, ws.g, ws.products)
        count = self.indicator(i, observed, ws.keys)
        base = self.total(i, count, ws.keys, ws.products, ws.g)
        for k in range(n):
            count = self.indicator(i, labelings + k * self._sizes[i], ws.keys)
            out[k] = self.total(i, count, ws.keys, ws.products, ws.g) - base
        self.clear_formed(ws)
        return 0
