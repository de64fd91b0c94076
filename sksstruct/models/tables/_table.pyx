"""Models whose scores are tables: rows of features times blocks of weights.

The potentials theta of an example i are the consecutive tables of `_blocks.pyx`. A
`Structure` defines the labelings, the entries of the tables that each labeling picks
(its keys), and the oracles; `BoundTable` forms the tables from features and weights,
and scatters changes of mean parameters to the weights, as in `_change.pyx`.
"""

from hashlib import sha256

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memcpy

from sksstruct.models.protocols._bound_model cimport TINY, BoundModel, Workspace
from sksstruct.models.protocols._weights cimport LazyWeights, Weights
from sksstruct.models.tables._blocks cimport Block, WeightBlocks, n_rows_of
from sksstruct.models.tables._change cimport (
    Change, Changes, Extents, add_cell, add_key, list_cell, plus_cells, set_mean,
)
from sksstruct.models.tables._structure cimport Potentials, Structure
from sksstruct.utils._simd cimport sks_add_table, sks_prefetch

from sksstruct.models.protocols._entropy_dual import dual_bytes
from sksstruct.models.tables._blocks import block_ld  # no-cython-lint
from sksstruct.models.tables._box import fill_bounds
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils.packed import compact_rows


cdef class TableWorkspace(Workspace):
    """Scratch of one thread for a model of tables.

    Attributes
    ----------
    theta : ndarray of shape (table_size,)
        The tables of the example whose potentials are loaded.
    """

    def __cinit__(self, BoundTable model, bint training=True):
        cdef double[::1] theta = aligned_zeros(model.table_size)
        self._theta, self.oracle = np.asarray(theta), model.structure.own_memory()
        self._scratch.at.theta = &theta[0]
        self._scratch.at.memory = self.zeros(model.structure.memory_size)
        self._scratch.keys = self.integers(model.max_keys)
        # predictions need no change, whose buffers would be as long as the weights
        if training:
            self._scratch.products = self.zeros(model.table_size)
            self._scratch.shared_products = self.zeros(model._layout.n_shared)
            model._changes.prepare(self, &self._scratch.change, model.key_space)
        self.scratch = &self._scratch

    @property
    def theta(self):
        cdef Potentials* at = &self._scratch.at
        # if the structure reads the shared table in the weights, theta lacks it
        if at.size > at.rows and at.shared != at.theta + at.rows:
            memcpy(at.theta + at.rows, at.shared,
                   (at.size - at.rows) * sizeof(double))
        return self._theta


def _first_block(blocks, others):
    """Return the first block of weights and its bias, by name."""
    coef, intercept = blocks[0]
    return {"coef": coef.T, "intercept": intercept}


cdef class BoundTable(BoundModel):
    """A model of tables bound to data.

    Parameters
    ----------
    blocks : list of (rows, offsets, n_columns, has_bias)
        Blocks of weights, as in `WeightBlocks`.
    structure : Structure
        The labelings of the examples.
    example_weights : ndarray of shape (n_examples,) or None
        The p_i; None: equal weights.
    names : callable, default=None
        ``names(blocks, others)`` names views of the blocks, pairs (coef, bias) from
        `WeightBlocks.views`, and of the other weights. The default names the first
        block.

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
        self.max_keys = structure.max_keys
        # rows are copied to a faster layout, as training reads them repeatedly
        if structure.labeled:
            blocks = [(compact_rows(rows), *block) for rows, *block in blocks]
        self._bind_layout(WeightBlocks(
            blocks, n_examples, self.n_other, structure.labeled))
        self.features = [block[0] for block in blocks]
        self.has_bias = [bool(block[3]) for block in blocks]
        self._names = _first_block if names is None else names
        self.key_space = self.table_size + structure.most_other_keys
        if self.key_space + self.max_keys > np.iinfo(np.int32).max:
            raise ValueError(
                f"an example of X has {self.key_space} scores, more than 32-bit "
                "indices can tell apart: split the largest examples")

    def _bind_layout(self, WeightBlocks layout):
        """Store the layout of the weights, and sizes that depend on it."""
        self._layout, self._blocks = layout, layout.blocks
        self.n_weights = layout.n_weights
        # a labeling picks entries of at most max_keys rows
        self._changes = Changes(layout, self.n_examples, self.max_keys)
        self._shared_size = 0
        if layout.n_row_blocks < layout.n_blocks:
            self._shared_size = layout.blocks[layout.n_row_blocks].ld
        self._one_entry = self.structure.one_entry
        self._in_place = self.structure.reads_shared and layout.factors == NULL
        sizes = layout.table_sizes
        self.table_size = max(int(sizes.max(initial=1)), 1)
        self.visit_work = max(sizes.mean(), 1.0) if len(sizes) else 1.0

    # ---- requests of solvers and estimators ----

    @property
    def row_size(self):
        return self._layout.row_size

    @property
    def oracles(self):
        # the likelihood sums over unknown parts, and needs no completion
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
    def entropy_dual_size(self):
        # keys beyond the tables have no natural parameters, as their features depend on
        # the labeling
        if self.n_other or "exp" not in self.oracles:
            return None
        return int(self._layout.table_sizes.sum())

    @property
    def entropy_dual_bytes(self):
        return None if self.entropy_dual_size is None else dual_bytes(self)

    @property
    def signature(self):
        # models of the same sizes and keys may differ in the meaning of their keys
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
        """Index of the first flat weight after the first block."""
        cdef Block* block = &self._blocks[0]
        # blocks end on a cache line
        n_rows = block.n_features + block.has_bias
        return (n_rows * block.ld + 7) // 8 * 8

    def views(self, w):
        blocks = [self.block(w, number) for number in range(len(self.features))]
        return self._names(blocks, w[self.n_weights - self.n_other:])

    def flatten_bounds(self, bounds):
        # padding is in no view, so that its bounds stay zero
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
        # threads call this method in parallel, each with its workspace
        with nogil:
            for i in range(start, stop):
                self.potentials(workspace, i)
                self.decode(workspace, i, &labelings[self._starts[i]], &values[i])

    # ---- what a user sees of one example ----

    def labeling(self, Workspace workspace, Py_ssize_t i):
        """Return the best labeling of an example at the weights, and its value, which
        includes the loss if the model is bound to observed labelings and the surrogate
        has a loss.
        """
        cdef double value
        # a spare entry, as labelings may be empty
        cdef int32_t[::1] y = np.zeros(max(self._sizes[i], 1), dtype=np.int32)
        with nogil:
            self.potentials(workspace, i)
            self.decode(workspace, i, &y[0], &value)
        return np.asarray(y)[:self._sizes[i]], value

    def joint_feature(self, TableWorkspace workspace, Py_ssize_t i,
                      const int32_t[::1] y):
        """Return A_i^T mu(y), the joint feature vector of y, as flat weights."""
        cdef double[::1] out = np.zeros(self.n_weights)
        with nogil:
            self.add_labeling(workspace, i, &y[0], 1.0)
            self.scatter(workspace, i, 1.0, &out[0])
            self.clear(workspace, i)
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
            Whether to load potentials with the loss; otherwise the tables in the
            workspace are the potentials.
        """
        cdef Py_ssize_t size = self._layout.table_sizes[i] + self.n_other
        cdef double[::1] means = aligned_zeros(max(size, 1))
        cdef double value
        with nogil:
            if load:
                self.potentials(workspace, i)
            else:
                self.take_tables(workspace, i)
            self.expect(workspace, i, mu, &means[0], &value)
        return np.asarray(means)[:size], value

    def topk(self, Workspace workspace, Py_ssize_t i, Py_ssize_t k, bint load=True):
        cdef const int32_t* labelings
        cdef const double* values
        cdef Py_ssize_t count, size = self._sizes[i]
        with nogil:
            if load:
                self.potentials(workspace, i)
            else:
                self.take_tables(workspace, i)
            count = self._best_of_loaded(workspace, i, k, &labelings, &values)
        # memoryviews of no values are an error
        if not count or not size:
            return np.zeros((count, size), dtype=np.int32), np.array(
                <double[:count]> <double*> values if count else [])
        return (np.array(<int32_t[:count, :size]> <int32_t*> labelings),
                np.array(<double[:count]> <double*> values))

    # ---- potentials and labelings ----

    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil:
        # with one row per example, prefetching the pointers saves no time
        if self._one_entry and not soon:
            return
        self._changes.prefetch(i, soon)
        if not soon and self.structure.labeled:
            sks_prefetch(&self.structure._y_true[0] + self._starts[i],
                         self._sizes[i] * sizeof(int32_t))

    cdef int potentials(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        ws.at.rows = self._layout.fill_rows(i, workspace.w, ws.at.theta)
        self._set_tables(workspace)
        if self._in_place:
            ws.at.shared = workspace.w + self._layout.first_cell
        else:
            self._layout.fill_shared(i, workspace.w, ws.at.theta + ws.at.rows)
        if self.structure.labeled and not self.likelihood:
            return self.structure.add_loss(&ws.at, i, workspace.loss_scale)
        return 0

    cdef void take_tables(self, Workspace workspace, Py_ssize_t i) noexcept nogil:
        """Use the tables in the workspace as potentials of an example."""
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        ws.at.rows = self._layout.rows_end(i)
        self._set_tables(workspace)

    cdef inline void _set_tables(self, Workspace workspace) noexcept nogil:
        """Set sizes and pointers of the potentials, given `rows`."""
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        ws.at.size = ws.at.rows + self._shared_size
        ws.at.shared = ws.at.theta + ws.at.rows
        ws.at.others = workspace.w + self.n_weights - self.n_other
        ws.at.constant = 0.0

    cdef Py_ssize_t tables_end(self, Py_ssize_t i) noexcept nogil:
        """Return the number of entries in the tables of an example: keys from this
        number on have weights in `others`.
        """
        return self._layout.rows_end(i) + self._shared_size

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        self.structure.decode(&(<TableScratch*> workspace.scratch).at,
                              (<TableWorkspace> workspace).oracle, i, y)
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
        """Find the k best labelings at the loaded potentials; return their number."""
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t count, rank
        count = self.structure.topk(&ws.at, (<TableWorkspace> workspace).oracle, i, k)
        labelings[0] = (<TableWorkspace> workspace).oracle.labelings
        values[0] = (<TableWorkspace> workspace).oracle.values
        for rank in range(count):
            self.evaluate(workspace, i, labelings[0] + rank * self._sizes[i],
                          (<TableWorkspace> workspace).oracle.values + rank)
        return count

    cdef int expect(self, Workspace workspace, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        return self.structure.expect(
            &(<TableScratch*> workspace.scratch).at, i, mu, means, value)

    cdef int y_true(self, Py_ssize_t i, int32_t* y) except -1 nogil:
        # an empty labeling after all labels has no first entry with an address
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
        cdef Py_ssize_t end = self.tables_end(i), start = 0, stop, place
        cdef Block* block = self._blocks
        if not 0 <= key < end:
            return end <= key < end + self.structure.other_keys(i)
        stop = block.ld * n_rows_of(block, i)
        while key >= stop:
            block, start = block + 1, stop
            stop += block.ld * n_rows_of(block, i)
        place = (key - start) % block.ld
        # a row ends with padding, which has no keys
        return place < block.n_columns and self.structure.has_key(i, key)

    cdef inline double _key_score(self, const Potentials* at, Py_ssize_t i,
                                  Py_ssize_t key) noexcept nogil:
        """Return the score of a key: an entry of a table, or beyond the tables."""
        if key < at.rows:
            return at.theta[key]
        if key < at.size:
            return at.shared[key - at.rows]
        return self.structure.other_score(i, key - at.size, at.others)

    cdef double _total(self, const Potentials* at, Py_ssize_t i, Py_ssize_t n_keys,
                       const int32_t* keys) noexcept nogil:
        """Return the sum of the scores of some keys."""
        cdef Py_ssize_t k
        cdef double total = 0.0
        for k in range(n_keys):
            total += self._key_score(at, i, keys[k])
        return total

    cdef int evaluate(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t n_keys
        # a call of `indicator` would take most of the time
        if self._one_entry:
            value[0] = ws.at.constant + ws.at.theta[y[0]]
            return 0
        n_keys = self.structure.indicator(i, y, ws.keys)
        value[0] = ws.at.constant + self._total(&ws.at, i, n_keys, ws.keys)
        return 0

    cdef int evaluate_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n_keys,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t k
        cdef double total = ws.at.constant
        for k in range(n_keys):
            total += values[k] * self._key_score(&ws.at, i, keys[k])
        value[0] = total
        return 0

    # ---- changes of mean parameters ----

    cdef int add_labeling(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Extents extents
        cdef Py_ssize_t n_keys, k, end
        # the list of changed rows lacks the rows that are written below
        ws.change.scanned = False
        if self._one_entry:
            ws.change.d[y[0]] += coef
            return 0
        extents = self._changes.extents(i)
        n_keys = self.structure.indicator(i, y, ws.keys)
        end = self.tables_end(i) if self.n_other else self.key_space
        for k in range(n_keys):
            if ws.keys[k] < end:
                add_key(&ws.change, &extents, ws.keys[k], coef)
            else:
                self._add_others(&ws.change, i, ws.keys[k] - end, coef)
        return 0

    cdef int add_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n_keys,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Change* change = &ws.change
        cdef Extents extents
        cdef Py_ssize_t end, k
        if value != NULL:
            self.evaluate_mean(workspace, i, n_keys, keys, values, value)
        if self._one_entry:
            change.scanned = False
            for k in range(n_keys):
                change.d[keys[k]] += coef * values[k]
            return 0
        extents = self._changes.extents(i)
        end = self.tables_end(i) if self.n_other else self.key_space
        # an empty change is written and scanned in one pass; no key occurs twice
        if (change.scanned and change.blocks[0].count + change.n_changed_cells == 0
                and extents.dense == extents.rows and extents.factor == 1.0
                and not self.n_other):
            set_mean(change, self._blocks[0].ld, extents.rows, TINY, n_keys, keys,
                     values, coef)
            return 0
        change.scanned = False
        for k in range(n_keys):
            if keys[k] < end:
                add_key(change, &extents, keys[k], coef * values[k])
            else:
                self._add_others(change, i, keys[k] - end, coef * values[k])
        return 0

    cdef int _add_others(self, Change* change, Py_ssize_t i, Py_ssize_t key,
                         double coef) except -1 nogil:
        """Add coef times the features of a key beyond the tables to the cells."""
        cdef Py_ssize_t first = self._layout.n_shared, k
        first += self.structure.add_other(i, key, coef, change.cells + first)
        for k in range(self.structure.others_of_key):
            list_cell(change, first + k)
        return 0

    # `means` has the layout of `expect`: d += means of all tables, and cells += means
    # of the weights beyond the blocks
    cdef int add_means(self, Workspace workspace, Py_ssize_t i,
                       const double* means) except -1 nogil:
        cdef Change* change = &(<TableScratch*> workspace.scratch).change
        cdef Extents extents = self._changes.extents(i)
        cdef Py_ssize_t k, end = self.tables_end(i)
        change.scanned = False
        if self._blocks[0].ld > 1:
            sks_add_table(extents.dense, 1.0, means, change.d)
        else:
            for k in range(extents.dense):
                change.d[k] += means[k]
        for k in range(extents.dense, end):
            # rounding errors would make the list of changed keys as long as the tables
            if means[k] > TINY or means[k] < -TINY:
                add_key(change, &extents, <int32_t> k, means[k])
        # means of the features of `others` are the changes of these cells
        for k in range(self.n_other):
            add_cell(change, self._layout.n_shared + k, means[end + k])
        return 0

    cdef int change_norm(self, Workspace workspace, Py_ssize_t i,
                         double* value) except -1 nogil:
        cdef Change* change = &(<TableScratch*> workspace.scratch).change
        self._changes.norm_of_rows(change, i, value)
        value[0] = plus_cells(change, value[0])
        return 0

    cdef int scatter(self, Workspace workspace, Py_ssize_t i, double scale,
                     double* out) except -1 nogil:
        self._changes.scatter(
            &(<TableScratch*> workspace.scratch).change, i, scale, out)
        return 0

    cdef int touch(self, Workspace workspace, Py_ssize_t i,
                   Weights weights) except -1 nogil:
        self._changes.touch(&(<TableScratch*> workspace.scratch).change, i, weights)
        return 0

    cdef int clear(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        self._changes.clear(&(<TableScratch*> workspace.scratch).change, i)
        return 0

    cdef int catch_up(self, LazyWeights weights, Py_ssize_t i) except -1 nogil:
        self._layout.catch_up(weights, i)
        return 0

    # ---- inner products of labelings ----

    cdef int has_gram(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        # the inner products of a labeling with many others take little more time than
        # one inner product, even if no Gram matrix is kept
        return 1

    cdef int gram_row(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n_labelings, const int32_t* labelings,
                      double* out) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef const int32_t* observed = &self.structure._y_true[self._starts[i]]
        cdef Potentials products = ws.at
        cdef Py_ssize_t k, n_keys
        cdef double base
        if self._one_entry:
            return self._products_of_entries(
                ws, i, y[0], observed[0], n_labelings, labelings, out)
        self.add_labeling(workspace, i, y, 1.0)
        self.add_labeling(workspace, i, observed, -1.0)
        # with A_i A_i^T (mu(y) - mu(y_i)) as potentials, inner products are scores of
        # labelings
        products.theta, products.rows = ws.products, self._layout.rows_end(i)
        products.size = self.tables_end(i)
        products.shared = ws.shared_products
        products.others = ws.change.cells + self._layout.n_shared
        self._changes.products(&ws.change, i, ws.products)
        self._set_shared(ws, self._changes.extents(i).factor)
        n_keys = self.structure.indicator(i, observed, ws.keys)
        base = self._total(&products, i, n_keys, ws.keys)
        for k in range(n_labelings):
            n_keys = self.structure.indicator(
                i, labelings + k * self._sizes[i], ws.keys)
            out[k] = self._total(&products, i, n_keys, ws.keys) - base
        self._set_shared(ws, 0.0)
        self._changes.clear(&ws.change, i)
        return 0

    cdef int _products_of_entries(
        self, TableScratch* ws, Py_ssize_t i, int32_t entry, int32_t observed,
        Py_ssize_t n_labelings, const int32_t* labelings, double* out
    ) except -1 nogil:
        """Write `gram_row` for labelings of a single entry, where K_i is a number."""
        cdef const double* gram
        cdef double square
        cdef Py_ssize_t k
        # the matrix of a single row is always kept
        self._changes.grams.find(0, i, ws.change.spread, &gram)
        square = gram[0] + (1.0 if self._blocks.has_bias else 0.0)
        # K_i times the inner product of two differences, each between the indicator of
        # a labeling and the observed indicator
        for k in range(n_labelings):
            out[k] = square * (
                <double> (entry == labelings[k]) - (entry == observed)
                - (labelings[k] == observed) + 1.0)
        return 0

    cdef void _set_shared(self, TableScratch* ws, double factor) noexcept nogil:
        """Set products of the changed shared cells to factor times the changes."""
        cdef Py_ssize_t k, cell
        for k in range(ws.change.n_changed_cells):
            cell = ws.change.changed_cells[k]
            if cell < self._layout.n_shared:
                ws.shared_products[cell] = factor * ws.change.cells[cell]
