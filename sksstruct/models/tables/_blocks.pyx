"""Blocks of weights, and the tables of scores that rows of features make with them.

An example i has, for each block b of weights, rows of features F_b, and

    theta_b = F_b W_b + bias_b,     A_i^T d = F_b^T d_b (and the sum of the rows of d_b)

are its table (rows x columns) and what a change d of all tables does to the weights.
Flat weights are the blocks in order, each of n_features rows, and one for the bias
where there is one, of ld columns: one where the block has one column, else padded. The
tables of an example follow each other, and a key is the place of an entry.
"""

from math import gcd

import numpy as np

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from sksstruct.models.protocols._weights cimport LazyWeights
from sksstruct.models.tables._feature_rows cimport feature_at
from sksstruct.utils._simd cimport (
    sks_scatter_f64, sks_scores_f64, sks_spread_dot_f64,
)

from sksstruct.models.tables._feature_rows import stored_arrays
from sksstruct.utils._layout import aligned_zeros, padded_length


def block_ld(n_columns):
    """Return the length of a row of weights."""
    # a single column would be padded to four, of which three are zeros
    return 1 if n_columns == 1 else padded_length(n_columns)


@cython.final
cdef class WeightBlocks:
    """The layout of the weights, and the features that they multiply.

    Parameters
    ----------
    blocks : list of (rows, offsets, n_columns, has_bias)
        Blocks of weights. `rows` are the features of all examples, an array or CSR of
        shape (n_rows, n_features), float64; `offsets` is where those of each example
        begin.
    n_examples : int
        Number of examples.
    other_weights : int
        Number of weights beyond those of the blocks; each is a separate row.

    Attributes
    ----------
    n_blocks, n_weights, n_rows : int
        Numbers of blocks, of flat weights, and of their rows.
    n_other : int
        Number of weights beyond those of the blocks.
    row_size : int
        A number of weights that divides the rows of all blocks.
    shapes : list
        For each block, where the rows of examples begin, and the number of columns.
    table_sizes : ndarray of shape (n_examples,)
        Numbers of entries of the tables of each example.
    """

    def __cinit__(self, blocks, Py_ssize_t n_examples, Py_ssize_t other_weights):
        cdef const double[::1] zeros
        cdef Block* block
        self.blocks = <Block*> calloc(len(blocks), sizeof(Block))
        if self.blocks == NULL:
            raise MemoryError()
        self._owned, self.n_blocks = [], len(blocks)
        self.shapes = []
        self.table_sizes = np.zeros(n_examples, dtype=np.intp)
        starts, lengths, widest = [], [], 1
        for number, (rows, offsets, n_columns, has_bias) in enumerate(blocks):
            block = &self.blocks[<Py_ssize_t> number]
            block.n_features, block.n_columns = rows.shape[1], n_columns
            block.ld, block.has_bias = block_ld(n_columns), has_bias
            self._bind_features(<Py_ssize_t> number, rows, offsets)
            first, n_rows = self._append_rows(<Py_ssize_t> number)
            self.table_sizes += np.diff(offsets) * block.ld
            widest = max(widest, block.ld)
            starts.append(first + block.ld * np.arange(n_rows))
            lengths.append(np.full(n_rows, block.ld))
        starts.append(self.n_weights + np.arange(other_weights))
        lengths.append(np.ones(other_weights))
        self.row_start = np.concatenate(starts).astype(np.intp)
        self.row_length = np.concatenate(lengths).astype(np.intp)
        self.n_weights += other_weights
        self.n_rows += other_weights
        self.n_other, self.row_size = other_weights, self._common_row()
        # one row for all blocks without a bias
        zeros = aligned_zeros(widest)
        self._zeros = &zeros[0]
        self._owned.append(zeros)

    def __dealloc__(self):
        free(self.blocks)

    def _common_row(self):
        """Return the `row_size` of these blocks."""
        cdef Py_ssize_t number, size = 0
        cdef Block* block
        for number in range(self.n_blocks):
            block = &self.blocks[number]
            # single columns are read by cache lines, on which every block begins
            size = gcd(size, 8 if block.ld == 1 else block.ld)
            size = gcd(size, block.first_weight)
        return max(size, 1)

    def _append_rows(self, Py_ssize_t number):
        """Append a block; return its first weight and its rows."""
        cdef Block* block = &self.blocks[number]
        cdef Py_ssize_t n_rows = block.n_features + block.has_bias
        block.first_weight, block.first_row = self.n_weights, self.n_rows
        self.n_rows += n_rows
        # every block begins on a cache line
        self.n_weights += (n_rows * block.ld + 7) // 8 * 8
        return block.first_weight, n_rows

    def _bind_features(self, Py_ssize_t number, rows, offsets):
        """Point a block to its rows of features, and keep them alive."""
        cdef Block* block = &self.blocks[number]
        cdef const double[::1] values
        cdef const int32_t[::1] indices
        cdef const int64_t[::1] indptr
        cdef const Py_ssize_t[::1] starts
        arrays = stored_arrays(rows)
        values = arrays[0]
        block.values = &values[0]
        # calloc has left NULL, which stands for dense rows
        if arrays[1] is not None:
            indices, indptr = arrays[1], arrays[2]
            block.indices, block.indptr = &indices[0], &indptr[0]
        offsets = np.ascontiguousarray(offsets, dtype=np.intp)
        starts = offsets
        block.offsets = &starts[0]
        self._owned += arrays
        self.shapes += [offsets, block.n_columns]

    def views(self, w, Py_ssize_t number):
        """Return the weights of a block, (n_features, n_columns), and its bias."""
        cdef Block* block = &self.blocks[number]
        n, ld, first = block.n_features, block.ld, block.first_weight
        rows = w[first:first + (n + block.has_bias) * ld].reshape(-1, ld)
        # without the padding
        rows = rows[:, :block.n_columns]
        return rows[:n], (rows[n] if block.has_bias else np.zeros(block.n_columns))

    cdef Py_ssize_t fill(self, Py_ssize_t i, const double* weights,
                         double* table) noexcept nogil:
        """table = A_i weights; returns the number of entries."""
        cdef double* first = table
        cdef Py_ssize_t number, row
        cdef const double* coef
        cdef const double* bias
        cdef Block* block
        cdef FeatureRow features
        for number in range(self.n_blocks):
            block = &self.blocks[number]
            coef = weights + block.first_weight
            bias = self._zeros
            if block.has_bias:
                bias = coef + block.n_features * block.ld
            for row in range(block.offsets[i], block.offsets[i + 1]):
                features = feature_row(block, row)
                # a column's weights lie side by side, which the kernels for whole
                # vectors of labels cannot make use of
                if block.ld == 1:
                    table[0] = bias[0] + sks_spread_dot_f64(
                        features.count, features.index, features.values, coef)
                else:
                    sks_scores_f64(features.count, features.index, features.values,
                                   1.0, coef, block.ld, bias, table)
                table += block.ld
        return table - first

    cdef void add_row(self, const TableRow* row, const double* change,
                      double* weights) noexcept nogil:
        """Add what a change of one row of the tables does to the weights."""
        cdef Py_ssize_t k, ld = row.block.ld
        cdef const FeatureRow* features = &row.features
        weights += row.block.first_weight
        if ld == 1:
            for k in range(features.count):
                weights[feature_at(features.index, k)] += (
                    change[0] * features.values[k])
        else:
            sks_scatter_f64(features.count, features.index, features.values, 1.0,
                            change, ld, weights)
        # the bias is a feature that is one in every row
        if row.block.has_bias:
            weights += row.block.n_features * ld
            for k in range(ld):
                weights[k] += change[k]

    cdef void catch_up(self, LazyWeights weights, Py_ssize_t i) noexcept nogil:
        """Bring the weights that an example reads up to date, `row_size` at a time."""
        cdef Py_ssize_t number, row, k
        cdef Block* block
        cdef FeatureRow features
        for number in range(self.n_blocks):
            block = &self.blocks[number]
            for row in range(block.offsets[i], block.offsets[i + 1]):
                features = feature_row(block, row)
                # a dense row has all features, and the others have no more
                if features.index == NULL:
                    catch_up_some(weights, self.row_size, block.first_weight,
                                  block.n_features * block.ld)
                    break
                for k in range(features.count):
                    catch_up_some(
                        weights, self.row_size,
                        block.first_weight + features.index[k] * block.ld, block.ld)
            if block.has_bias:
                catch_up_some(weights, self.row_size,
                              block.first_weight + block.n_features * block.ld,
                              block.ld)
        # which of the others an example reads is known to the model only
        catch_up_some(
            weights, self.row_size, self.n_weights - self.n_other, self.n_other)


cdef inline void catch_up_some(LazyWeights weights, Py_ssize_t size, Py_ssize_t first,
                               Py_ssize_t count) noexcept nogil:
    """Bring the rows of `size` weights up to date that hold `count` from the first."""
    cdef Py_ssize_t row
    # with single columns these hold others too, which does no harm
    for row in range(first // size, (first + count - 1) // size + 1 if count else 0):
        weights.catch_up(row)
