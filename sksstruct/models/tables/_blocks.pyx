"""Blocks of weights, and the tables of scores that rows of features make with them.

An example i has, for each block b of weights, rows of features F_b, and

    theta_b = F_b W_b + bias_b,     A_i^T d = F_b^T d_b (and the sum of the rows of d_b)

are its table (rows x columns) and the image of a change d of all tables in the weights.
Flat weights are the blocks in order: for each block n_features rows of ld weights, and
a row for the bias if there is one. ld is 1 for a single column, otherwise the number of
columns rounded up to whole vectors. The tables of an example follow each other, and a
key is the index of an entry.

The last block may be shared: every example has one row, of one feature, and there is no
bias. The tables of all other blocks are called tables of rows. Weights of the shared
block, and the weights beyond the blocks, which follow it, are called cells.
"""

from math import gcd

import numpy as np

cimport cython
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from sksstruct.models.protocols._weights cimport LazyWeights
from sksstruct.models.tables._feature_rows cimport FeatureRows, RowEntries

from sksstruct.utils._layout import aligned_zeros, padded_length
from sksstruct.utils.packed import PackedSequences


def block_ld(n_columns):
    """Return ld, the length of a row of n_columns weights with its padding."""
    # no padding, which would make a single column four times as large
    return 1 if n_columns == 1 else padded_length(n_columns)


def is_shared(rows, offsets, has_bias):
    """Return whether a block may be shared: one row of one feature for every example,
    and no bias.
    """
    return (isinstance(rows, np.ndarray) and rows.shape[1] == 1 and not has_bias
            and len(rows) == len(offsets) - 1 and bool((np.diff(offsets) == 1).all()))


@cython.final
cdef class WeightBlocks:
    """The layout of the weights, and the features that they multiply.

    Parameters
    ----------
    blocks : list of (rows, offsets, n_columns, has_bias)
        Blocks of weights. `rows` are the features of all examples, `PackedSequences` or
        the arrays that these hold; `offsets` are the first rows of the examples.
    n_examples : int
        Number of examples.
    other_weights : int
        Number of weights beyond those of the blocks.
    read_often : bool, default=False
        Whether the features are read again and again, as in training.
    scale : float, default=1.0
        Factor of all features, but not of the bias. 1.0 if a block has a single column.

    Attributes
    ----------
    n_blocks, n_row_blocks, n_weights : int
        Numbers of blocks, of blocks that are not shared, and of flat weights.
    n_other : int
        Number of weights beyond those of the blocks.
    n_shared, first_cell, n_cells : int
        Number of cells in the shared block, padding included; the first flat weight
        that is a cell; the number of all cells.
    row_size : int
        Number of weights that are brought up to date together. It divides the length
        of the rows of each block (8 for single columns).
    shapes : list
        For each block, the first rows of the examples, and the number of columns.
    table_sizes : ndarray of shape (n_examples,)
        Numbers of entries of the tables of each example.
    """

    def __cinit__(self, blocks, Py_ssize_t n_examples, Py_ssize_t other_weights,
                  bint read_often=False, double scale=1.0):
        cdef const double[::1] zeros
        cdef Block* block
        cdef Py_ssize_t number
        self.blocks = <Block*> calloc(max(len(blocks), 1), sizeof(Block))
        if self.blocks == NULL:
            raise MemoryError()
        self._arrays, self.n_blocks, self.shapes = [], len(blocks), []
        self.n_row_blocks = self.n_blocks
        self.table_sizes = np.zeros(n_examples, dtype=np.intp)
        widest = 1
        for number, (rows, offsets, n_columns, has_bias) in enumerate(blocks):
            block = &self.blocks[number]
            block.n_columns, block.has_bias = n_columns, has_bias
            block.ld = block_ld(n_columns)
            offsets = np.ascontiguousarray(offsets, dtype=np.intp)
            if (number and number + 1 == self.n_blocks
                    and is_shared(rows, offsets, has_bias)):
                self._bind_shared(block, rows)
            if not isinstance(rows, PackedSequences):
                rows = PackedSequences.of_stored(rows, rows.shape[1], offsets)
            self._bind_rows(block, FeatureRows(rows, read_often, scale), offsets)
            block.first_weight = self.n_weights
            # every block begins on a cache line
            n_rows = block.n_features + block.has_bias
            self.n_weights += (n_rows * block.ld + 7) // 8 * 8
            self.table_sizes += np.diff(offsets) * block.ld
            widest = max(widest, block.ld)
        self.first_cell = self.n_weights - self.n_shared
        self.n_weights += other_weights
        self.n_cells = self.n_shared + other_weights
        self.n_other, self.row_size = other_weights, self._common_row()
        # one row of zeros serves as the bias of all blocks without a bias
        zeros = aligned_zeros(widest)
        self._zeros = &zeros[0]
        self._arrays.append(zeros)

    def __dealloc__(self):
        free(self.blocks)

    def _common_row(self):
        """Return the largest `row_size` that divides the length of the rows and the
        first weight of every block.
        """
        cdef Py_ssize_t number, size = 0
        cdef Block* block
        for number in range(self.n_blocks):
            block = &self.blocks[number]
            # in a block of one column, 8 weights (a cache line) count as a row
            size = gcd(size, 8 if block.ld == 1 else block.ld)
            size = gcd(size, block.first_weight)
        return max(size, 1)

    cdef int _bind_shared(self, Block* block, rows) except -1:
        """Make the last block the shared one, and store its features."""
        cdef const double[::1] factors
        self.n_row_blocks = self.n_blocks - 1
        # the shared block is padded to whole cache lines
        self.n_shared = (block.ld + 7) // 8 * 8
        factors = np.ascontiguousarray(rows[:, 0], dtype=np.float64)
        if (rows != 1.0).any():
            self.factors = &factors[0]
            self._arrays.append(factors)
        return 0

    cdef int _bind_rows(self, Block* block, FeatureRows features, offsets) except -1:
        """Point a block to its rows of features, and keep them alive."""
        cdef const Py_ssize_t[::1] starts = offsets
        block.offsets, block.rows = &starts[0], <void*> features
        block.n_features = features.n_features
        self._arrays += [offsets, features]
        self.shapes += [offsets, block.n_columns]
        return 0

    def views(self, w, Py_ssize_t number):
        """Return the weights of a block, (n_features, n_columns), and its bias."""
        cdef Block* block = &self.blocks[number]
        n, ld, first = block.n_features, block.ld, block.first_weight
        rows = w[first:first + (n + block.has_bias) * ld].reshape(-1, ld)
        # without the padding at the end of each row
        rows = rows[:, :block.n_columns]
        return rows[:n], (rows[n] if block.has_bias else np.zeros(block.n_columns))

    cdef Py_ssize_t rows_end(self, Py_ssize_t i) noexcept nogil:
        """Return the number of entries in an example's tables of rows: keys from this
        number on belong to cells.
        """
        cdef Py_ssize_t number, end = 0
        for number in range(self.n_row_blocks):
            end += self.blocks[number].ld * n_rows_of(&self.blocks[number], i)
        return end

    # ---- weights to tables ----

    cdef Py_ssize_t fill_rows(self, Py_ssize_t i, const double* weights,
                              double* table) noexcept nogil:
        """table = A_i weights for blocks that are not shared; return its length."""
        cdef Py_ssize_t number
        cdef const double* first = table
        cdef const double* coef
        cdef const double* bias
        cdef Block* block
        for number in range(self.n_row_blocks):
            block = &self.blocks[number]
            coef, bias = weights + block.first_weight, self._zeros
            if block.has_bias:
                bias = coef + block.n_features * block.ld
            self.fill_block(number, i, coef, bias, table)
            table += block.ld * n_rows_of(block, i)
        return table - first

    cdef void fill_block(self, Py_ssize_t number, Py_ssize_t i, const double* coef,
                         const double* bias, double* table) noexcept nogil:
        """table = the rows of an example in a block times coef, plus the bias"""
        cdef Block* block = &self.blocks[number]
        cdef Py_ssize_t first = block.offsets[i], n_rows = n_rows_of(block, i), row
        # A single column, whose weights are consecutive, needs a dot product instead of
        # the kernels for whole vectors of labels.
        if block.ld == 1:
            for row in range(n_rows):
                table[row] = bias[0] + (<FeatureRows> block.rows).spread_dot(
                    first + row, coef)
        elif n_rows:
            # the padding is written too, as it may hold scores of another example
            (<FeatureRows> block.rows).scores_of_rows(
                first, n_rows, coef, block.ld, block.ld, bias, table)

    cdef void fill_shared(self, Py_ssize_t i, const double* weights,
                          double* table) noexcept nogil:
        """table = the weights of the shared block, times the feature of an example"""
        cdef Py_ssize_t cell
        cdef double factor
        if self.n_row_blocks == self.n_blocks:
            return
        weights += self.first_cell
        if self.factors == NULL:
            memcpy(table, weights,
                   self.blocks[self.n_row_blocks].ld * sizeof(double))
            return
        factor = self.factors[i]
        for cell in range(self.blocks[self.n_row_blocks].ld):
            table[cell] = factor * weights[cell]

    # ---- weights that are changed lazily ----

    cdef void catch_up(self, LazyWeights weights, Py_ssize_t i) noexcept nogil:
        """Bring the weights that an example reads up to date, `row_size` at a time."""
        cdef Py_ssize_t number, row, size = self.row_size
        cdef Block* block
        cdef RowEntries entries
        for number in range(self.n_row_blocks):
            block = &self.blocks[number]
            for row in range(block.offsets[i], block.offsets[i + 1]):
                entries = (<FeatureRows> block.rows).row(row)
                catch_up_entries(weights, size, block, &entries)
                # a dense row has all features, so that the example's other rows read no
                # further weights
                if entries.index == NULL:
                    break
            if n_rows_of(block, i):
                entries = (<FeatureRows> block.rows).shared()
                catch_up_entries(weights, size, block, &entries)
            if block.has_bias:
                catch_up_some(weights, size, block.first_weight
                              + block.n_features * block.ld, block.ld)
        # all cells, as only the structure can tell which of them the example reads
        catch_up_some(weights, size, self.first_cell, self.n_cells)


cdef inline void catch_up_entries(LazyWeights weights, Py_ssize_t size,
                                  const Block* block,
                                  const RowEntries* entries) noexcept nogil:
    """Bring the weights of the features of a row up to date."""
    cdef Py_ssize_t k
    if entries.index == NULL:
        catch_up_some(weights, size, block.first_weight, entries.count * block.ld)
        return
    for k in range(entries.count):
        catch_up_some(
            weights, size, block.first_weight + entries.index[k] * block.ld, block.ld)


cdef inline void catch_up_some(LazyWeights weights, Py_ssize_t size, Py_ssize_t first,
                               Py_ssize_t count) noexcept nogil:
    """Bring the weights first <= weight < first + count up to date, by whole rows."""
    cdef Py_ssize_t row
    # the first and last row may hold weights outside of the range, which are brought up
    # to date too
    for row in range(first // size, (first + count - 1) // size + 1 if count else 0):
        weights.catch_up(row)
