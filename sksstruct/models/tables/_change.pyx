"""A change of the mean parameters of one example, and its image in the weights.

    d           the change: a number for each entry of the tables of rows (of all blocks
                that are not shared)
    A_i^T d     its image in the space of weights

A change is collected in d, key by key. The entries of a shared row of weights, and
weights beyond the blocks, are cells: their change is collected in the space of weights.
A scan lists the rows in which d is more than rounding error; norms and updates read
only these rows. With the Gram matrix K_i = F_i F_i^T of the rows of features of a
block, and 1 added to its entries if the block has a bias,

    |A_i^T d|^2 = sum over blocks of sum_{t,s} K_i[t,s] <d_t, d_s>  +  |cells|^2

If no matrix is kept, the norm is computed from F_i^T d itself.
"""

from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.models.protocols._bound_model cimport TINY, Workspace
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.models.tables._blocks cimport Block, WeightBlocks, n_rows_of
from sksstruct.models.tables._feature_rows cimport FeatureRows, RowEntries, feature_at
from sksstruct.models.tables._gram cimport GramMatrices
from sksstruct.utils._simd cimport sks_axpy, sks_changed_rows, sks_dot, sks_gram_norm


cdef inline double square_of_row(Py_ssize_t ld, const double* row) noexcept nogil:
    """Return the squared norm of a row of ld numbers."""
    return row[0] * row[0] if ld == 1 else sks_dot(ld, row, row)


cdef inline void add_row(Py_ssize_t ld, double scale, const double* row,
                         double* out) noexcept nogil:
    """out += scale times a row"""
    if ld == 1:
        out[0] += scale * row[0]
    else:
        sks_axpy(ld, scale, row, out)


cdef double column_norm(const RowChange* rows, Py_ssize_t size, const double* gram,
                        double shift, const double* d) noexcept nogil:
    """Return sum_{t,s} (gram[t,s] + shift) d_t d_s for a block of one column."""
    cdef Py_ssize_t p, q
    cdef double total = 0.0, inner
    cdef const double* row
    for p in range(rows.count):
        row, inner = gram + rows.rows[p] * size, 0.0
        # half of the symmetric sum: pairs p > q, and half of the diagonal
        for q in range(p):
            inner += (row[rows.rows[q]] + shift) * d[rows.rows[q]]
        inner += 0.5 * (row[rows.rows[p]] + shift) * d[rows.rows[p]]
        total += inner * d[rows.rows[p]]
    return 2.0 * total


cdef inline void touch_entries(const Block* block, const RowEntries* entries,
                               Weights weights) noexcept nogil:
    """Mark the weights of the features of a row as changed."""
    cdef Py_ssize_t entry, ld = block.ld, first = block.first_weight // ld
    # in the usual case, where one mark of `weights` covers exactly one row of the
    # block, the marks are set without calls
    cdef bint marks = (not weights._truncates and weights._width == <size_t> ld
                       and block.first_weight % ld == 0)
    for entry in range(entries.count):
        if marks:
            weights._marks[first + feature_at(entries.index, entry)] = 1
        else:
            weights.touch(
                block.first_weight + feature_at(entries.index, entry) * ld, ld)


cdef class Changes:
    """Norms |A_i^T d| of changes d of mean parameters, and their addition to weights.

    Parameters
    ----------
    layout : WeightBlocks
        The blocks.
    n_examples : int
        Number of examples.
    max_rows : int
        About the number of rows of which a labeling picks entries. A scan searches all
        rows of the first block in examples that have at most this number of rows in it.
    on_disk : bool, default=False
        Whether Gram matrices are stored in files.
    needs_grams : bool, default=False
        Whether to keep Gram matrices even if forming F_i^T d takes less time.

    Attributes
    ----------
    grams : GramMatrices
        The matrices K_i.
    """

    def __cinit__(self, WeightBlocks layout, Py_ssize_t n_examples, Py_ssize_t max_rows,
                  bint on_disk=False, bint needs_grams=False):
        cdef Py_ssize_t i
        self._layout, self._max_rows = layout, max_rows
        self._n_examples = n_examples
        self.grams = GramMatrices(
            layout, n_examples, max_rows, on_disk, needs_grams)
        self._one_row = layout.n_row_blocks == 1
        for i in range(n_examples):
            if n_rows_of(layout.blocks, i) != 1:
                self._one_row = False
                break

    cdef int prepare(self, Workspace workspace, Change* change,
                     Py_ssize_t n_keys) except -1:
        """Allocate a change, with room for n_keys keys."""
        cdef Py_ssize_t number, most = 1, features = 0, n_blocks, n_rows, i
        cdef RowChange* rows
        n_blocks = self._layout.n_row_blocks
        change.d = workspace.zeros(n_keys)
        change.keys, change.key_listed = (
            workspace.integers(n_keys), workspace.flags(n_keys))
        change.blocks = <RowChange*> workspace.zeros(
            max(n_blocks, 1) * sizeof(RowChange) // sizeof(double))
        for number in range(n_blocks):
            rows, n_rows = &change.blocks[number], 0
            for i in range(self._n_examples):
                n_rows = max(n_rows, n_rows_of(&self._layout.blocks[number], i))
            # a spare entry: kernels write the number of a row after the end of the list
            # before they test whether the list grows
            rows.rows, rows.listed = (
                workspace.integers(n_rows + 1), workspace.flags(n_rows))
            most = max(most, self._layout.blocks[number].ld)
            features = max(features, self._layout.blocks[number].n_features)
        change.cells = workspace.zeros(self._layout.n_cells)
        change.changed_cells = workspace.integers(self._layout.n_cells)
        change.cell_listed = workspace.flags(self._layout.n_cells)
        change.bias = workspace.zeros(most)
        change.spread = workspace.zeros(features + 1)
        # long enough for F^T d of each block in which some example keeps no Gram matrix
        change.product = workspace.zeros(self.grams.longest_product())
        return 0

    cdef Extents extents(self, Py_ssize_t i) noexcept nogil:
        """Return the ranges of an example's keys that `add_key` lists and of cells."""
        cdef Extents out
        cdef Block* block = self._layout.blocks
        cdef Py_ssize_t n_rows = n_rows_of(block, i)
        out.rows = self._layout.rows_end(i)
        out.dense = n_rows * block.ld if n_rows <= self._max_rows else 0
        out.factor = 1.0 if self._layout.factors == NULL else self._layout.factors[i]
        return out

    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil:
        """Prefetch the pointers to an example's rows of features and Gram matrices or,
        if `soon`, the rows and the matrices themselves.
        """
        cdef Py_ssize_t number
        cdef Block* block
        for number in range(self._layout.n_row_blocks):
            block = &self._layout.blocks[number]
            self.grams.prefetch(number, i, soon)
            if soon:
                (<FeatureRows> block.rows).prefetch(
                    block.offsets[i], block.offsets[i + 1])
            else:
                (<FeatureRows> block.rows).prefetch_pointers(block.offsets[i])

    # ---- the rows that change ----

    cdef void scan(self, Change* change, Py_ssize_t i) noexcept nogil:
        """List the rows of d that are not rounding error; clear all other rows."""
        cdef Block* block = self._layout.blocks
        cdef Py_ssize_t n_rows
        # a change may be scanned already, for its norm or for an earlier update
        if change.scanned:
            return
        if self._one_row:
            # searching the only row takes longer than treating it as changed
            change.blocks.count, change.scanned = 1, True
            return
        n_rows = n_rows_of(block, i)
        if n_rows <= self._max_rows:
            change.blocks[0].count = sks_changed_rows(
                n_rows, block.ld, TINY, change.d, change.blocks[0].rows)
        if change.n_keys:
            self._list_rows(change, i)
        change.scanned = True

    cdef void _list_rows(self, Change* change, Py_ssize_t i) noexcept nogil:
        """Add the rows of listed keys to the lists of rows; empty the list of keys."""
        cdef Block* block
        cdef RowChange* rows
        cdef Py_ssize_t k, key, row, start, end
        for k in range(change.n_keys):
            key = change.keys[k]
            change.key_listed[key] = 0
            # rounding errors of changes that cancel would make many weights look
            # changed
            if -TINY < change.d[key] < TINY:
                change.d[key] = 0.0
                continue
            block, rows, start = self._layout.blocks, change.blocks, 0
            end = block.ld * n_rows_of(block, i)
            while key >= end:
                block, rows, start = block + 1, rows + 1, end
                end += block.ld * n_rows_of(block, i)
            row = (key - start) // block.ld
            if not rows.listed[row]:
                rows.listed[row] = 1
                rows.rows[rows.count] = <int32_t> row
                rows.count += 1
        change.n_keys = 0

    cdef void clear(self, Change* change, Py_ssize_t i) noexcept nogil:
        """Set the change of all rows and cells to zero."""
        cdef Py_ssize_t number, k, row
        cdef double* d = change.d
        cdef Block* block
        cdef RowChange* rows
        # without a scan, the changed rows are unknown
        if not change.scanned:
            self.scan(change, i)
        for number in range(self._layout.n_row_blocks):
            block, rows = &self._layout.blocks[number], &change.blocks[number]
            for k in range(rows.count):
                row = rows.rows[k]
                rows.listed[row] = 0
                memset(d + row * block.ld, 0, block.ld * sizeof(double))
            rows.count = 0
            d += block.ld * n_rows_of(block, i)
        clear_cells(change)

    # ---- norms ----

    cdef int norm_of_rows(self, Change* change, Py_ssize_t i,
                          double* value) except -1 nogil:
        """Write |A_i^T d|^2 without the squares of cells, which `plus_cells` adds."""
        cdef Py_ssize_t number, size
        cdef const double* d = change.d
        cdef const double* gram
        cdef double total = 0.0, shift
        cdef Block* block
        cdef RowChange* rows
        self.scan(change, i)
        for number in range(self._layout.n_row_blocks):
            block, rows = &self._layout.blocks[number], &change.blocks[number]
            size, shift = n_rows_of(block, i), 1.0 if block.has_bias else 0.0
            if not rows.count:
                pass
            elif not self.grams.find(number, i, change.spread, &gram):
                self._form_product(change, number, i, d)
                if block.has_bias:
                    total += square_of_row(block.ld, change.bias)
                total += self._clear_product(change, number, i)
            elif size == 1:
                total += (gram[0] + shift) * square_of_row(block.ld, d)
            elif block.ld == 1:
                total += column_norm(rows, size, gram, shift, d)
            else:
                total += sks_gram_norm(
                    rows.count, rows.rows, size, gram, shift, block.ld, d)
            d += block.ld * size
        value[0] = total
        return 0

    cdef void _form_product(self, Change* change, Py_ssize_t number, Py_ssize_t i,
                            const double* d) noexcept nogil:
        """Write F_i^T d of a block to `product`, which must be zero, and the sum of the
        rows of d to `bias`.
        """
        cdef Block* block = &self._layout.blocks[number]
        cdef RowChange* rows = &change.blocks[number]
        cdef Py_ssize_t ld = block.ld, k
        # the bias is a feature that is one in every row
        memset(change.bias, 0, ld * sizeof(double))
        scatter_rows(block, rows, i, 1.0, d, change.product)
        for k in range(rows.count):
            add_row(ld, 1.0, d + rows.rows[k] * ld, change.bias)

    cdef double _clear_product(self, Change* change, Py_ssize_t number,
                               Py_ssize_t i) noexcept nogil:
        """Return the squared norm of `product`, and set it to zero."""
        cdef Block* block = &self._layout.blocks[number]
        cdef RowChange* rows = &change.blocks[number]
        cdef Py_ssize_t ld = block.ld, k
        cdef double total = 0.0
        cdef RowEntries entries
        # with dense features, any entry of the product may be nonzero
        if not (<FeatureRows> block.rows).sparse:
            for k in range(block.n_features):
                total += square_of_row(ld, change.product + k * ld)
            memset(change.product, 0, block.n_features * ld * sizeof(double))
            return total
        # with sparse features, only rows of the product whose features occur are
        # nonzero
        for k in range(rows.count):
            entries = (<FeatureRows> block.rows).row(block.offsets[i] + rows.rows[k])
            total += take_squares(ld, &entries, change.product)
        entries = (<FeatureRows> block.rows).shared()
        return total + take_squares(ld, &entries, change.product)

    # ---- the space of weights ----

    cdef void scatter(self, Change* change, Py_ssize_t i, double scale,
                      double* out) noexcept nogil:
        """out += scale A_i^T d"""
        cdef Py_ssize_t number, k, ld
        cdef const double* d = change.d
        cdef double* weights
        cdef Block* block
        cdef RowChange* rows
        self.scan(change, i)
        for number in range(self._layout.n_row_blocks):
            block, rows = &self._layout.blocks[number], &change.blocks[number]
            ld, weights = block.ld, out + block.first_weight
            if rows.count:
                scatter_rows(block, rows, i, scale, d, weights)
            # the bias, if there is one, changes by the sum of the rows of d
            for k in range(rows.count if block.has_bias else 0):
                add_row(ld, scale, d + rows.rows[k] * ld,
                        weights + block.n_features * ld)
            d += ld * n_rows_of(block, i)
        weights = out + self._layout.first_cell
        for k in range(change.n_changed_cells):
            weights[change.changed_cells[k]] += (
                scale * change.cells[change.changed_cells[k]])

    cdef void touch(self, const Change* change, Py_ssize_t i,
                    Weights weights) noexcept nogil:
        """Mark the weights that `scatter` changed."""
        cdef Py_ssize_t number, k
        cdef Block* block
        cdef const RowChange* rows
        cdef RowEntries entries
        for number in range(self._layout.n_row_blocks):
            block, rows = &self._layout.blocks[number], &change.blocks[number]
            if not rows.count:
                continue
            for k in range(rows.count):
                entries = (<FeatureRows> block.rows).row(
                    block.offsets[i] + rows.rows[k])
                touch_entries(block, &entries, weights)
                # a dense row has all features, so that the other rows change no further
                # weights
                if entries.index == NULL:
                    break
            entries = (<FeatureRows> block.rows).shared()
            touch_entries(block, &entries, weights)
            if block.has_bias:
                weights.touch(
                    block.first_weight + block.n_features * block.ld, block.ld)
        for k in range(change.n_changed_cells):
            weights.touch(self._layout.first_cell + change.changed_cells[k], 1)

    # ---- products with other changes ----

    cdef int products(self, Change* change, Py_ssize_t i,
                      double* table) except -1 nogil:
        """table = A_i A_i^T d, for the entries of the tables of rows

        The inner product of A_i^T d and A_i^T d' is the sum of d' times these entries;
        the caller adds the products of the cells.
        """
        cdef Py_ssize_t number, size
        cdef const double* d = change.d
        cdef const double* gram
        cdef Block* block
        self.scan(change, i)
        for number in range(self._layout.n_row_blocks):
            block, size = &self._layout.blocks[number], 0
            size = n_rows_of(block, i)
            if not change.blocks[number].count:
                memset(table, 0, size * block.ld * sizeof(double))
            elif self.grams.find(number, i, change.spread, &gram):
                multiply_rows(block, &change.blocks[number], size, gram, d, table)
            else:
                self._form_product(change, number, i, d)
                # K_i d are scores with F_i^T d as the weights: one pass over the
                # features
                if not block.has_bias:
                    memset(change.bias, 0, block.ld * sizeof(double))
                self._layout.fill_block(number, i, change.product, change.bias, table)
                self._clear_product(change, number, i)
            d += block.ld * size
            table += block.ld * size
        return 0


cdef void multiply_rows(const Block* block, const RowChange* rows, Py_ssize_t size,
                        const double* gram, const double* d,
                        double* table) noexcept nogil:
    """table = K_i d, from the columns in which a row of d is not zero"""
    cdef Py_ssize_t ld = block.ld, k, column, row
    cdef double shift = 1.0 if block.has_bias else 0.0, value
    cdef const double* products
    cdef double* out
    memset(table, 0, size * ld * sizeof(double))
    for k in range(rows.count):
        products = gram + rows.rows[k] * size
        # a change between two labelings has at most two nonzero columns in a row
        for column in range(ld):
            value = d[rows.rows[k] * ld + column]
            if value == 0.0:
                continue
            out = table + column
            for row in range(size):
                out[row * ld] += (products[row] + shift) * value


cdef inline void scatter_rows(const Block* block, const RowChange* rows, Py_ssize_t i,
                              double scale, const double* d,
                              double* weights) noexcept nogil:
    """weights += scale F_i^T d of a block

    At least one row is listed.
    """
    cdef Py_ssize_t k
    if block.ld > 1:
        (<FeatureRows> block.rows).scatter_rows(
            block.offsets[i], rows.count, rows.rows, scale, d, block.ld, weights)
        return
    for k in range(rows.count):
        (<FeatureRows> block.rows).add_to_column(
            block.offsets[i] + rows.rows[k], scale * d[rows.rows[k]], weights, 1)


cdef inline double take_squares(Py_ssize_t ld, const RowEntries* entries,
                                double* product) noexcept nogil:
    """Return the sum of squares of the rows of `product` for some features, and set
    these rows to zero.
    """
    cdef Py_ssize_t entry
    cdef double total = 0.0
    cdef double* row
    for entry in range(entries.count):
        # the row of a repeated feature is zero already, and adds nothing
        row = product + entries.index[entry] * ld
        total += square_of_row(ld, row)
        memset(row, 0, ld * sizeof(double))
    return total
