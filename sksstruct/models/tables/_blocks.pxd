cimport cython
from libc.stdint cimport int32_t, int64_t

from sksstruct.models.protocols._weights cimport LazyWeights


cdef struct Block:
    # a matrix of weights, and the rows of features that it scores
    Py_ssize_t n_features, n_columns, ld
    # the first of the flat weights, and of the rows of weights of all blocks
    Py_ssize_t first_weight, first_row
    bint has_bias
    const double* values
    # NULL for dense rows
    const int32_t* indices
    const int64_t* indptr
    # rows of example i: offsets[i]:offsets[i + 1]
    const Py_ssize_t* offsets


cdef struct FeatureRow:
    # one row of features: index is NULL where it is dense
    Py_ssize_t count
    const int32_t* index
    const double* values


cdef struct TableRow:
    # a row of an example's tables: its block, its row of features, and its first key
    Block* block
    FeatureRow features
    Py_ssize_t first_key


cdef inline FeatureRow feature_row(Block* block, Py_ssize_t row) noexcept nogil:
    """Return a row of the features of a block."""
    cdef FeatureRow out
    cdef Py_ssize_t first = row * block.n_features
    out.count, out.index = block.n_features, NULL
    if block.indices != NULL:
        first = block.indptr[row]
        out.count = block.indptr[row + 1] - first
        out.index = block.indices + first
    out.values = block.values + first
    return out


# What a visit calls for every key is inline: small examples take little more time
# than the calls.


cdef inline Py_ssize_t tables_end(const Block* blocks, Py_ssize_t n_blocks,
                                  Py_ssize_t i) noexcept nogil:
    """Return where the tables of an example end: keys from here on are others."""
    cdef Py_ssize_t number, end = 0
    # there are one or two blocks, and adding them up is as fast as a look-up
    for number in range(n_blocks):
        end += blocks[number].ld * (
            blocks[number].offsets[i + 1] - blocks[number].offsets[i])
    return end


cdef inline TableRow table_row(Block* block, Py_ssize_t i,
                               Py_ssize_t key) noexcept nogil:
    """Return the row of an example's tables that a key is in, from the first block."""
    cdef TableRow out
    cdef Py_ssize_t start = 0, end, row
    # the caller knows that there is a block whose table the key is in
    while True:
        end = start + block.ld * (block.offsets[i + 1] - block.offsets[i])
        if key < end:
            break
        start = end
        block += 1
    row = (key - start) // block.ld
    out.block, out.first_key = block, start + row * block.ld
    out.features = feature_row(block, block.offsets[i] + row)
    return out


# final: nobody derives from it
@cython.final
cdef class WeightBlocks:
    # `_blocks.pyx` states each
    cdef readonly Py_ssize_t n_blocks, n_weights, n_rows, n_other, row_size
    cdef readonly object table_sizes
    cdef readonly list shapes
    cdef Block* blocks
    cdef Py_ssize_t[::1] row_start, row_length
    # a bias for blocks that have none
    cdef const double* _zeros
    cdef object _owned

    cdef Py_ssize_t fill(self, Py_ssize_t i, const double* weights,
                         double* table) noexcept nogil
    cdef void add_row(self, const TableRow* row, const double* change,
                      double* weights) noexcept nogil
    cdef void catch_up(self, LazyWeights weights, Py_ssize_t i) noexcept nogil
