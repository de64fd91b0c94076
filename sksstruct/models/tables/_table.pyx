"""Models whose scores are tables: rows of features times blocks of weights.

The tables theta of an example i are those of `_blocks.pyx`. The mean parameters are the
entries of these tables, one after the other, and a labeling y is the list of the
entries that it picks, its keys:

    score(y)    = sum of theta over the keys of y
    d           a change of mean parameters: one number for each key
    g = A_i^T d the same change in the space of weights

This class has what all these models share. A subclass defines the keys of a labeling,
its loss, and the best labeling (`indicator`, `add_loss`, `loss`, `decode`). Keys beyond
the tables are for scores that are not rows times columns: `other_score`, `add_other`.

With the exp oracle, `means` are the mean parameters of the tables, padding included,
and then the means of the features of the weights beyond the blocks.

A change is collected in d, key by key, and then formed: g takes it over, and d is zero
again. Of both a list says which entries, or which rows, are not zero, so that a visit
costs what it touches.
"""

from hashlib import sha256

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.models.protocols._bound_model cimport TINY, BoundModel, Workspace
from sksstruct.models.protocols._weights cimport LazyWeights, Weights
from sksstruct.models.tables._blocks cimport (
    Block, TableRow, WeightBlocks, table_row, tables_end,
)

from sksstruct.models.tables._blocks import block_ld  # no-cython-lint
from sksstruct.models.tables._box import fill_bounds
from sksstruct.utils._layout import aligned_zeros


cdef inline void add_key(TableScratch* ws, int32_t key, double change) noexcept nogil:
    """Add to d at a key, and note that it changed."""
    ws.d[key] += change
    if not ws.key_changed[key]:
        ws.key_changed[key] = 1
        ws.changed_keys[ws.n_changed_keys] = key
        ws.n_changed_keys += 1


cdef class TableWorkspace(Workspace):
    """Scratch of one thread for a model of tables.

    Attributes
    ----------
    theta : ndarray of shape (table_size,)
        The tables of the example whose potentials are loaded.
    """

    def __cinit__(self, BoundTable model, bint training=True):
        cdef double[::1] theta, beliefs
        cdef int32_t[::1] keys
        self.theta = aligned_zeros(model.table_size)
        theta, beliefs = self.theta, aligned_zeros(model.belief_size)
        keys = np.zeros(model.max_keys + 1, dtype=np.int32)
        self._scratch.theta, self._scratch.beliefs = &theta[0], &beliefs[0]
        self._scratch.keys = &keys[0]
        self._arrays = [keys, beliefs]
        # predictions change nothing, and do without vectors as long as the weights
        if training:
            self._prepare_changes(model)
        self.scratch = &self._scratch

    cdef int _prepare_changes(self, BoundTable model) except -1:
        """Make the vectors d and g, and the lists of where they are not zero."""
        cdef TableScratch* ws = &self._scratch
        cdef double[::1] d = np.zeros(model.key_space)
        cdef double[::1] g = aligned_zeros(model.n_weights)
        cdef double[::1] products = aligned_zeros(model.table_size)
        # a spare entry, as there may be no key and no row at all
        cdef int32_t[::1] keys = np.zeros(model.key_space + 1, dtype=np.int32)
        cdef char[::1] key_changed = np.zeros(model.key_space + 1, dtype=np.int8)
        cdef int32_t[::1] rows = np.zeros(model.n_rows + 1, dtype=np.int32)
        cdef char[::1] row_changed = np.zeros(model.n_rows + 1, dtype=np.int8)
        ws.d, ws.g, ws.products = &d[0], &g[0], &products[0]
        ws.changed_keys, ws.key_changed = &keys[0], &key_changed[0]
        ws.changed_rows, ws.row_changed = &rows[0], &row_changed[0]
        self._arrays += [d, g, products, keys, key_changed, rows, row_changed]
        return 0


cdef class BoundTable(BoundModel):
    """A model of tables bound to data.

    Parameters
    ----------
    blocks : list of (rows, offsets, n_columns, has_bias)
        Blocks of weights, as of `WeightBlocks`.
    sizes : ndarray of shape (n_examples,)
        Length of the labelings.
    y_true : ndarray of shape (sum of sizes,), int32, or None
        Observed labelings; None for prediction.
    example_weights : ndarray of shape (n_examples,) or None
        The p_i.
    max_keys : int
        Largest number of keys of a labeling.
    other_keys : int
        Number of keys beyond the tables.
    other_weights : int
        Number of weights beyond those of the blocks; each is a separate row.

    Attributes
    ----------
    table_size : int
        Number of entries of the tables of the largest example.
    belief_size : int
        Number of floats for messages in a workspace.
    n_other : int
        Number of weights beyond those of the blocks.
    features : list
        Rows of features of each block.
    """

    oracles = ("max", "topk")

    def __cinit__(self, blocks, sizes, y_true, example_weights, Py_ssize_t max_keys,
                  Py_ssize_t other_keys=0, Py_ssize_t other_weights=0, **_):
        n_examples = len(sizes)
        if example_weights is None:
            example_weights = np.full(n_examples, 1.0 / max(n_examples, 1))
        self.set_sizes(sizes, example_weights)
        self._bind_layout(WeightBlocks(blocks, n_examples, other_weights))
        self.features, self.n_other = [block[0] for block in blocks], other_weights
        # subclasses with messages ask for more
        self.belief_size = 1
        self.max_keys = max(max_keys, 1)
        self.key_space = self.table_size + other_keys
        if self.key_space + self.max_keys > np.iinfo(np.int32).max:
            raise ValueError(
                f"tables of {self.key_space} scores are more than 32-bit indices can "
                "tell apart")
        # What labelings mean; subclasses add to it.
        self._structure = [
            part for _, offsets, n_columns, _ in blocks
            for part in (np.asarray(offsets), n_columns)]
        self._labeled = y_true is not None
        self._y_true = np.zeros(1, dtype=np.int32) if y_true is None else y_true

    def _bind_layout(self, WeightBlocks layout):
        """Store the layout of the weights, and what follows from it."""
        self._layout, self._blocks = layout, layout.blocks
        self.n_weights, self.n_rows = layout.n_weights, layout.n_rows
        self._row_start = self._row_length = NULL
        if layout.n_rows:
            self._row_start = &layout.row_start[0]
            self._row_length = &layout.row_length[0]
        sizes = layout.table_sizes
        self.table_size = max(int(sizes.max(initial=1)), 1)
        self.visit_work = max(sizes.mean(), 1.0) if len(sizes) else 1.0

    # ---- what solvers and estimators may ask for ----

    @property
    def row_size(self):
        return self._layout.row_size

    @property
    def labels(self):
        """The observed labelings, one after the other."""
        return np.asarray(self._y_true)

    @property
    def entropy_dual_bytes(self):
        # what meets the weights beyond the blocks has no natural parameters
        if self.n_other or "exp" not in self.oracles:
            return None
        return 16 * int(self._layout.table_sizes.sum())

    @property
    def signature(self):
        # where sizes and keys agree, keys may still stand for other things
        digest = sha256()
        for part in self._structure:
            array = np.ascontiguousarray(part)
            digest.update(repr((array.dtype.str, array.shape)).encode())
            digest.update(array.tobytes())
        return (*BoundModel.signature.__get__(self), digest.digest())

    def _workspace(self, training):
        return TableWorkspace(self, training)

    def block(self, w, Py_ssize_t number):
        """Return a block of flat w, (n_features, n_columns), and its bias."""
        return self._layout.views(w, number)

    @property
    def first_other(self):
        """The first flat weight after those of the first block."""
        cdef Block* block = &self._blocks[0]
        # blocks end on a cache line
        n_rows = block.n_features + block.has_bias
        return (n_rows * block.ld + 7) // 8 * 8

    def views(self, w):
        coef, intercept = self.block(w, 0)
        return {"coef": coef.T, "intercept": intercept}

    def flatten_bounds(self, bounds):
        # the padding is in no view, and stays zero
        flat = [np.zeros(self.n_weights) for _ in range(2)]
        views = [self.views(array) for array in flat]
        for view, default in zip(views, (-np.inf, np.inf)):
            for array in view.values():
                array[...] = default
        fill_bounds(*views, bounds)
        return flat

    # ---- what a user sees of one example ----

    def labeling(self, Workspace workspace, Py_ssize_t i):
        """Return the best labeling at the weights, with the loss, and its value."""
        cdef double value
        # a spare entry: labelings may be empty
        cdef int32_t[::1] y = np.zeros(max(self._sizes[i], 1), dtype=np.int32)
        with nogil:
            self.potentials(workspace, i)
            self.decode(workspace, i, &y[0], &value)
        return np.asarray(y)[:self._sizes[i]], value

    def joint_feature(self, TableWorkspace workspace, Py_ssize_t i,
                      const int32_t[::1] y):
        """Return A_i^T mu(y), flat."""
        cdef TableScratch* ws = &workspace._scratch
        cdef double[::1] out = np.zeros(self.n_weights)
        with nogil:
            self.add_labeling(workspace, i, &y[0], 1.0)
            self._form(ws, i)
            memcpy(&out[0], ws.g, self.n_weights * sizeof(double))
            self._clear_formed(ws)
        return np.asarray(out)

    def expectation(self, TableWorkspace workspace, Py_ssize_t i, double mu=1.0,
                    bint load=True):
        """Return E mu_i, in the layout of `expect`, and the smoothed maximum.

        Parameters
        ----------
        workspace : TableWorkspace
            Scratch, with the weights.
        i : int
            Example.
        mu : float, default=1.0
            Strength of the smoothing.
        load : bool, default=True
            Whether to load potentials with the loss; otherwise those loaded are used.
        """
        cdef Py_ssize_t size = self._layout.table_sizes[i] + self.n_other
        cdef double[::1] means = aligned_zeros(max(size, 1))
        cdef double value
        with nogil:
            if load:
                self.potentials(workspace, i)
            self.expect(workspace, i, mu, &means[0], &value)
        return np.asarray(means)[:size], value

    def find(self, TableWorkspace workspace, Py_ssize_t i):
        """Return the best labeling at the loaded potentials.

        This is for oracles that are not compiled; others override `decode`.
        """
        raise NotImplementedError

    def find_topk(self, TableWorkspace workspace, Py_ssize_t i, Py_ssize_t k):
        """Return the k best labelings at the loaded potentials, in rows."""
        raise NotImplementedError

    def topk(self, Workspace workspace, Py_ssize_t i, Py_ssize_t k):
        cdef int32_t[:, ::1] rows
        cdef double[::1] values
        cdef Py_ssize_t rank
        with nogil:
            self.potentials(workspace, i)
        rows = np.ascontiguousarray(self.find_topk(workspace, i, k), dtype=np.int32)
        values = np.empty(len(rows))
        for rank in range(rows.shape[0]):
            self.evaluate(workspace, i, &rows[rank, 0], &values[rank])
        return np.asarray(rows), np.asarray(values)

    # ---- what subclasses override ----

    # Add `scale` times the loss to the tables and the constant.
    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil:
        raise NotImplementedError

    # Number of the keys of an example beyond its tables.
    cdef Py_ssize_t other_keys(self, Py_ssize_t i) noexcept nogil:
        return 0

    # Score of a key beyond the tables, counted from their end.
    cdef double other_score(self, Py_ssize_t i, Py_ssize_t key,
                            const double* weights) noexcept nogil:
        return 0.0

    # d += change for all tables, and g += change for the weights beyond the blocks, in
    # the layout of `expect`.
    cdef int add_means(self, TableScratch* ws, Py_ssize_t i,
                       const double* change) except -1 nogil:
        cdef Py_ssize_t k, end = tables_end(self._blocks, self._layout.n_blocks, i)
        for k in range(end):
            # others would make lists of what changed as long as the tables
            if change[k] > TINY or change[k] < -TINY:
                add_key(ws, <int32_t> k, change[k])
        # these are in the space of weights already
        for k in range(self.n_other):
            ws.g[self.n_weights - self.n_other + k] += change[end + k]
            self.touch_row(ws, self.n_rows - self.n_other + k)
        return 0

    # g += change times the features of such a key; must touch the rows of weights.
    cdef int add_other(self, TableScratch* ws, Py_ssize_t i, Py_ssize_t key,
                       double change) except -1 nogil:
        raise NotImplementedError

    # ---- potentials and labelings ----

    cdef int potentials(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        self._layout.fill(i, workspace.w, ws.theta)
        ws.constant = 0.0
        if self._labeled and not self.likelihood:
            return self.add_loss(ws, i, workspace.loss_scale)
        return 0

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        cdef const int32_t[::1] labels
        with gil:
            labels = self.find(workspace, i)
            # what is not compiled may be a user's
            if labels.shape[0] != self._sizes[i]:
                raise ValueError(
                    f"expected {self._sizes[i]} labels, got {labels.shape[0]}")
            if labels.shape[0]:
                memcpy(y, &labels[0], labels.shape[0] * sizeof(int32_t))
        return self.evaluate(workspace, i, y, value)

    cdef int y_true(self, Py_ssize_t i, int32_t* y) except -1 nogil:
        # an empty labeling may begin after the last entry
        if self._sizes[i]:
            memcpy(y, &self._y_true[self._starts[i]], self._sizes[i] * sizeof(int32_t))
        return 0

    cdef int has_key(self, Py_ssize_t i, Py_ssize_t key) except -1 nogil:
        cdef Py_ssize_t end = tables_end(self._blocks, self._layout.n_blocks, i)
        cdef TableRow row
        if not 0 <= key < end:
            return end <= key < end + self.other_keys(i)
        row = table_row(self._blocks, i, key)
        # the rest of the row is padding
        return key - row.first_key < row.block.n_columns

    cdef inline double _key_score(
        self, Py_ssize_t i, Py_ssize_t key, Py_ssize_t end, const double* table,
        const double* weights
    ) noexcept nogil:
        """Return the score of a key: an entry of a table, or beyond them all."""
        return table[key] if key < end else self.other_score(i, key - end, weights)

    cdef double _total(self, Py_ssize_t i, Py_ssize_t n_keys, const int32_t* keys,
                       const double* table, const double* weights) noexcept nogil:
        """Return the sum of the scores of keys at some weights and their table."""
        cdef Py_ssize_t k, end = tables_end(self._blocks, self._layout.n_blocks, i)
        cdef double total = 0.0
        for k in range(n_keys):
            total += self._key_score(i, keys[k], end, table, weights)
        return total

    cdef int evaluate(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t n_keys = self.indicator(i, y, ws.keys)
        value[0] = ws.constant + self._total(i, n_keys, ws.keys, ws.theta, workspace.w)
        return 0

    cdef int evaluate_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n_keys,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t k, end = tables_end(self._blocks, self._layout.n_blocks, i)
        value[0] = ws.constant
        for k in range(n_keys):
            value[0] += values[k] * self._key_score(
                i, keys[k], end, ws.theta, workspace.w)
        return 0

    # ---- changes of mean parameters ----

    cdef int add_labeling(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t n_keys = self.indicator(i, y, ws.keys), k
        for k in range(n_keys):
            add_key(ws, ws.keys[k], coef)
        return 0

    cdef int add_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n_keys,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t k
        for k in range(n_keys):
            add_key(ws, keys[k], coef * values[k])
        if value == NULL:
            return 0
        return self.evaluate_mean(workspace, i, n_keys, keys, values, value)

    cdef void touch_row(self, TableScratch* ws, Py_ssize_t row) noexcept nogil:
        """Note that a row of g is no longer zero."""
        if not ws.row_changed[row]:
            ws.row_changed[row] = 1
            ws.changed_rows[ws.n_changed_rows] = <int32_t> row
            ws.n_changed_rows += 1

    cdef int _form(self, TableScratch* ws, Py_ssize_t i) except -1 nogil:
        """g = A_i^T d, d = 0"""
        cdef Py_ssize_t k, key, end = tables_end(self._blocks, self._layout.n_blocks, i)
        cdef double change
        ws.formed = True
        for k in range(ws.n_changed_keys):
            key = ws.changed_keys[k]
            ws.key_changed[key] = 0
            change = ws.d[key]
            # what cancels but for rounding error would make g look dense
            if not (change > TINY or change < -TINY):
                ws.d[key] = 0.0
            elif key >= end:
                ws.d[key] = 0.0
                self.add_other(ws, i, key - end, change)
            else:
                # all of its row at once; the row's other keys are found to be zero
                self._form_row(ws, i, key)
        ws.n_changed_keys = 0
        return 0

    cdef void _form_row(self, TableScratch* ws, Py_ssize_t i,
                        Py_ssize_t key) noexcept nogil:
        """Add the row of the table that a key is in to g; it becomes zero."""
        cdef TableRow row = table_row(self._blocks, i, key)
        cdef Py_ssize_t first_row = row.block.first_row, count = row.features.count, k
        cdef double* change = ws.d + row.first_key
        self._layout.add_row(&row, change, ws.g)
        memset(change, 0, row.block.ld * sizeof(double))
        if row.features.index != NULL:
            for k in range(count):
                self.touch_row(ws, first_row + row.features.index[k])
        elif count and not ws.row_changed[first_row]:
            # dense rows touch all rows of the block, or have done so before
            for k in range(count):
                self.touch_row(ws, first_row + k)
        if row.block.has_bias:
            self.touch_row(ws, first_row + row.block.n_features)

    cdef void _clear_formed(self, TableScratch* ws) noexcept nogil:
        """g = 0"""
        cdef Py_ssize_t k, row
        for k in range(ws.n_changed_rows):
            row = ws.changed_rows[k]
            memset(ws.g + self._row_start[row], 0,
                   self._row_length[row] * sizeof(double))
            ws.row_changed[row] = 0
        ws.n_changed_rows = 0
        ws.formed = False

    cdef int change_norm(self, Workspace workspace, Py_ssize_t i,
                         double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t k, entry, first
        cdef double total = 0.0
        # scatter reads g as well, and need not form it again
        if not ws.formed:
            self._form(ws, i)
        for k in range(ws.n_changed_rows):
            first = self._row_start[ws.changed_rows[k]]
            for entry in range(first, first + self._row_length[ws.changed_rows[k]]):
                total += ws.g[entry] * ws.g[entry]
        value[0] = total
        return 0

    cdef int scatter(self, Workspace workspace, Py_ssize_t i, double scale,
                     double* out) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t k, entry, first
        # not every visit asks for the norm
        if not ws.formed:
            self._form(ws, i)
        for k in range(ws.n_changed_rows):
            first = self._row_start[ws.changed_rows[k]]
            for entry in range(first, first + self._row_length[ws.changed_rows[k]]):
                out[entry] += scale * ws.g[entry]
        return 0

    cdef int touch(self, Workspace workspace, Py_ssize_t i,
                   Weights weights) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t k, row
        for k in range(ws.n_changed_rows):
            row = ws.changed_rows[k]
            weights.touch(self._row_start[row], self._row_length[row])
        return 0

    cdef int clear(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t k
        # a change that was given up before it was formed is still in d
        for k in range(ws.n_changed_keys):
            ws.d[ws.changed_keys[k]] = 0.0
            ws.key_changed[ws.changed_keys[k]] = 0
        ws.n_changed_keys = 0
        self._clear_formed(ws)
        return 0

    cdef int catch_up(self, LazyWeights weights, Py_ssize_t i) except -1 nogil:
        self._layout.catch_up(weights, i)
        return 0

    # ---- inner products of labelings ----

    cdef int has_gram(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        # no matrix is kept, but many products cost little more than one
        return 1

    cdef int gram_row(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n_labelings, const int32_t* labelings,
                      double* out) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef const int32_t* observed = &self._y_true[self._starts[i]]
        cdef Py_ssize_t k, n_keys
        cdef double base
        self.add_labeling(workspace, i, y, 1.0)
        self.add_labeling(workspace, i, observed, -1.0)
        self._form(ws, i)
        # with A_i^T (mu(y) - mu(y_i)) in the place of weights, inner products are the
        # scores of labelings: one pass over the features for all of them
        self._layout.fill(i, ws.g, ws.products)
        n_keys = self.indicator(i, observed, ws.keys)
        base = self._total(i, n_keys, ws.keys, ws.products, ws.g)
        for k in range(n_labelings):
            n_keys = self.indicator(i, labelings + k * self._sizes[i], ws.keys)
            out[k] = self._total(i, n_keys, ws.keys, ws.products, ws.g) - base
        self._clear_formed(ws)
        return 0
