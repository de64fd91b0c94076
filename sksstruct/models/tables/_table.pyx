"""Models whose scores are tables: rows of features times blocks of weights.

The potentials theta of an example i are the tables of `_blocks.pyx`, one after the
other. A `Structure` says what labelings are, which entries of the tables they pick
(their keys), and which is the best one; `BoundTable` forms the tables from features and
weights, and gives changes of mean parameters back:

    d           a change of mean parameters: one number for each key
    g = A_i^T d the same change in the space of weights

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
from sksstruct.models.tables._structure cimport Structure

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
        cdef double[::1] theta = aligned_zeros(model.table_size)
        self.theta, self.own = np.asarray(theta), model.structure.own_memory()
        self._scratch.at.theta, self._scratch.at.size = &theta[0], model.table_size
        self._scratch.at.memory = self.zeros(model.structure.memory_size)
        self._scratch.keys = self.integers(model.max_keys)
        # predictions change nothing, and do without vectors as long as the weights
        if training:
            self._prepare_changes(model)
        self.scratch = &self._scratch

    cdef int _prepare_changes(self, BoundTable model) except -1:
        """Make the vectors d and g, and the lists of where they are not zero."""
        cdef TableScratch* ws = &self._scratch
        cdef Py_ssize_t n_keys = model.key_space, n_rows = model.n_rows
        ws.d, ws.g = self.zeros(n_keys), self.zeros(model.n_weights)
        ws.products = self.zeros(model.table_size)
        ws.changed_keys, ws.key_changed = self.integers(n_keys), self.flags(n_keys)
        ws.changed_rows, ws.row_changed = self.integers(n_rows), self.flags(n_rows)
        return 0


def _first_block(blocks, others):
    """Return the names of the first block of weights, and of its bias."""
    coef, intercept = blocks[0]
    return {"coef": coef.T, "intercept": intercept}


cdef class BoundTable(BoundModel):
    """A model of tables bound to data.

    Parameters
    ----------
    blocks : list of (rows, offsets, n_columns, has_bias)
        Blocks of weights, as of `WeightBlocks`.
    structure : Structure
        The labelings of the examples.
    example_weights : ndarray of shape (n_examples,) or None
        The p_i; None: all alike.
    names : callable, default=None
        ``names(blocks, others)`` names views of the blocks, of which each is a pair
        (coef, bias) as of `WeightBlocks.views`, and of the other weights. The default
        names the first block.

    Attributes
    ----------
    table_size : int
        Number of entries of the tables of the largest example.
    n_other : int
        Number of weights beyond those of the blocks; each is a separate row.
    features, has_bias : list
        Rows of features of each block, and whether it has a bias.
    """

    def __cinit__(self, blocks, Structure structure, example_weights=None, names=None):
        n_examples = structure.n_examples
        if example_weights is None:
            example_weights = np.full(n_examples, 1.0 / max(n_examples, 1))
        self.structure, self.n_other = structure, structure.n_others
        self.set_sizes(structure.sizes, example_weights)
        self._bind_layout(WeightBlocks(blocks, n_examples, self.n_other))
        self.features = [block[0] for block in blocks]
        self.has_bias = [bool(block[3]) for block in blocks]
        self._names = _first_block if names is None else names
        self.max_keys = structure.max_keys
        self.key_space = self.table_size + structure.most_other_keys
        if self.key_space + self.max_keys > np.iinfo(np.int32).max:
            raise ValueError(
                f"tables of {self.key_space} scores are more than 32-bit indices can "
                "tell apart")

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
    def oracles(self):
        # the likelihood does without
        if self.completion is not None and not self.likelihood:
            return "completion", *self.structure.oracles
        return self.structure.oracles

    @property
    def unknown(self):
        return self.structure.partial

    @property
    def prefers_sums(self):
        return self.structure.prefers_sums

    @property
    def oracle_note(self):
        return self.structure.oracle_note

    @property
    def views_need_data(self):
        return self.structure.views_need_data

    @property
    def preferred_solver(self):
        return self.structure.preferred_solver

    @property
    def oracle_cost(self):
        return self.structure.oracle_cost

    @property
    def labels(self):
        """The observed labelings, one after the other."""
        return self.structure.labels

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
        for part in self._layout.shapes + self.structure.meaning:
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
        blocks = [self.block(w, number) for number in range(len(self.features))]
        return self._names(blocks, w[self.n_weights - self.n_other:])

    def flatten_bounds(self, bounds):
        # the padding is in no view, and stays zero
        flat = [np.zeros(self.n_weights) for _ in range(2)]
        views = [self.views(array) for array in flat]
        for view, default in zip(views, (-np.inf, np.inf)):
            for array in view.values():
                array[...] = default
        fill_bounds(*views, bounds)
        return flat

    def predict(self, Workspace workspace, Py_ssize_t start, Py_ssize_t stop,
                int32_t[::1] labelings, double[::1] values):
        """Decode examples start <= i < stop into flat labelings and their values."""
        cdef Py_ssize_t i
        # threads share the arrays, each with examples and a workspace of its own
        with nogil:
            for i in range(start, stop):
                self.potentials(workspace, i)
                self.decode(workspace, i, &labelings[self._starts[i]], &values[i])

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
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t size = self._layout.table_sizes[i] + self.n_other
        cdef double[::1] means = aligned_zeros(max(size, 1))
        cdef double value
        # of tables that were written by others, too
        ws.at.size = size - self.n_other
        ws.at.others = workspace.w + self.n_weights - self.n_other
        with nogil:
            if load:
                self.potentials(workspace, i)
            self.expect(workspace, i, mu, &means[0], &value)
        return np.asarray(means)[:size], value

    def topk(self, Workspace workspace, Py_ssize_t i, Py_ssize_t k, bint load=True):
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef const int32_t* labelings
        cdef const double* values
        cdef Py_ssize_t count, size = self._sizes[i]
        # of tables that were written by others, too
        ws.at.size = self._layout.table_sizes[i]
        ws.at.others = workspace.w + self.n_weights - self.n_other
        with nogil:
            if load:
                self.potentials(workspace, i)
            count = self._best_of_loaded(workspace, i, k, &labelings, &values)
        # views of nothing are not allowed
        if not count or not size:
            return np.zeros((count, size), dtype=np.int32), np.array(
                <double[:count]> <double*> values if count else [])
        return (np.array(<int32_t[:count, :size]> <int32_t*> labelings),
                np.array(<double[:count]> <double*> values))

    # ---- changes of means ----

    # d += change for all tables, and g += change for the weights beyond the blocks, in
    # the layout of `expect`.
    cdef int add_means(self, Workspace workspace, Py_ssize_t i,
                       const double* change) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
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

    # ---- potentials and labelings ----

    cdef int potentials(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        ws.at.size = self._layout.fill(i, workspace.w, ws.at.theta)
        ws.at.others = workspace.w + self.n_weights - self.n_other
        ws.at.constant = 0.0
        if self.structure.labeled and not self.likelihood:
            return self.structure.add_loss(&ws.at, i, workspace.loss_scale)
        return 0

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        self.structure.decode(&(<TableScratch*> workspace.scratch).at,
                              (<TableWorkspace> workspace).own, i, y)
        return self.evaluate(workspace, i, y, value)

    cdef Py_ssize_t best_labelings(
        self, Workspace workspace, Py_ssize_t i, Py_ssize_t k,
        const int32_t** labelings, const double** values
    ) except -1 nogil:
        self.potentials(workspace, i)
        return self._best_of_loaded(workspace, i, k, labelings, values)

    cdef Py_ssize_t _best_of_loaded(
        self, Workspace workspace, Py_ssize_t i, Py_ssize_t k,
        const int32_t** labelings, const double** values
    ) except -1 nogil:
        """Find the k best labelings at the potentials that are loaded."""
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t count, rank
        count = self.structure.topk(&ws.at, (<TableWorkspace> workspace).own, i, k)
        labelings[0] = (<TableWorkspace> workspace).own.labelings
        values[0] = (<TableWorkspace> workspace).own.values
        for rank in range(count):
            self.evaluate(workspace, i, labelings[0] + rank * self._sizes[i],
                          (<TableWorkspace> workspace).own.values + rank)
        return count

    cdef int expect(self, Workspace workspace, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        return self.structure.expect(
            &(<TableScratch*> workspace.scratch).at, i, mu, means, value)

    cdef int y_true(self, Py_ssize_t i, int32_t* y) except -1 nogil:
        # an empty labeling may begin after the last entry
        if self._sizes[i]:
            memcpy(y, &self.structure._y_true[self._starts[i]],
                   self._sizes[i] * sizeof(int32_t))
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        return self.structure.loss(i, y, value)

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        return self.structure.indicator(i, y, keys)

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        return self.structure.is_labeling(i, y)

    cdef int has_key(self, Py_ssize_t i, Py_ssize_t key) except -1 nogil:
        cdef Py_ssize_t end = tables_end(self._blocks, self._layout.n_blocks, i)
        cdef TableRow row
        if not 0 <= key < end:
            return end <= key < end + self.structure.other_keys(i)
        row = table_row(self._blocks, i, key)
        # the rest of the row is padding
        return (key - row.first_key < row.block.n_columns
                and self.structure.has_key(i, key))

    cdef inline double _key_score(
        self, Py_ssize_t i, Py_ssize_t key, Py_ssize_t end, const double* table,
        const double* others
    ) noexcept nogil:
        """Return the score of a key: an entry of a table, or beyond them all."""
        if key < end:
            return table[key]
        return self.structure.other_score(i, key - end, others)

    cdef double _total(self, Py_ssize_t i, Py_ssize_t n_keys, const int32_t* keys,
                       const double* table, const double* others) noexcept nogil:
        """Return the sum of the scores of keys at tables and other weights."""
        cdef Py_ssize_t k, end = tables_end(self._blocks, self._layout.n_blocks, i)
        cdef double total = 0.0
        for k in range(n_keys):
            total += self._key_score(i, keys[k], end, table, others)
        return total

    cdef int evaluate(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t n_keys = self.structure.indicator(i, y, ws.keys)
        value[0] = ws.at.constant + self._total(
            i, n_keys, ws.keys, ws.at.theta, ws.at.others)
        return 0

    cdef int evaluate_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n_keys,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t k, end = tables_end(self._blocks, self._layout.n_blocks, i)
        value[0] = ws.at.constant
        for k in range(n_keys):
            value[0] += values[k] * self._key_score(
                i, keys[k], end, ws.at.theta, ws.at.others)
        return 0

    # ---- changes of mean parameters ----

    cdef int add_labeling(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t n_keys = self.structure.indicator(i, y, ws.keys), k
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
                self._form_other(ws, i, key - end, change)
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

    cdef int _form_other(self, TableScratch* ws, Py_ssize_t i, Py_ssize_t key,
                         double change) except -1 nogil:
        """Add the features of a key beyond the tables to g."""
        cdef Py_ssize_t first = self.n_rows - self.n_other, k
        first += self.structure.add_other(
            i, key, change, ws.g + self.n_weights - self.n_other)
        for k in range(self.structure.others_of_key):
            self.touch_row(ws, first + k)
        return 0

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
        cdef const int32_t* observed = &self.structure._y_true[self._starts[i]]
        cdef const double* others = ws.g + self.n_weights - self.n_other
        cdef Py_ssize_t k, n_keys
        cdef double base
        self.add_labeling(workspace, i, y, 1.0)
        self.add_labeling(workspace, i, observed, -1.0)
        self._form(ws, i)
        # with A_i^T (mu(y) - mu(y_i)) in the place of weights, inner products are the
        # scores of labelings: one pass over the features for all of them
        self._layout.fill(i, ws.g, ws.products)
        n_keys = self.structure.indicator(i, observed, ws.keys)
        base = self._total(i, n_keys, ws.keys, ws.products, others)
        for k in range(n_labelings):
            n_keys = self.structure.indicator(
                i, labelings + k * self._sizes[i], ws.keys)
            out[k] = self._total(i, n_keys, ws.keys, ws.products, others) - base
        self._clear_formed(ws)
        return 0
