cimport cython

from sksstruct.models.protocols._weights cimport LazyWeights
from sksstruct.models.tables._feature_rows cimport FeatureRows


cdef struct Block:
    # a matrix of weights, and the rows of features that it multiplies
    Py_ssize_t n_features, n_columns, ld
    # index of the block's first weight in the vector of flat weights
    Py_ssize_t first_weight
    bint has_bias
    # example i has rows offsets[i] to offsets[i + 1] - 1
    const Py_ssize_t* offsets
    # the `FeatureRows` object of the rows, which `WeightBlocks` keeps alive
    void* rows


cdef inline Py_ssize_t n_rows_of(const Block* block, Py_ssize_t i) noexcept nogil:
    """Return the number of rows that an example has in a block."""
    return block.offsets[i + 1] - block.offsets[i]


# a final class has no virtual calls
@cython.final
cdef class WeightBlocks:
    # attributes and methods: see `_blocks.pyx`
    cdef readonly Py_ssize_t n_blocks, n_row_blocks, n_weights, n_other, row_size
    cdef readonly Py_ssize_t first_cell, n_cells, n_shared
    cdef readonly object table_sizes
    cdef readonly list shapes
    cdef Block* blocks
    # for each example the value of its only feature in the shared block; NULL if all of
    # these values are one
    cdef const double* factors
    # a bias of zeros, for blocks without bias
    cdef const double* _zeros
    cdef object _arrays

    cdef int _bind_shared(self, Block* block, rows) except -1
    cdef int _bind_rows(self, Block* block, FeatureRows features, offsets) except -1
    cdef Py_ssize_t rows_end(self, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t fill_rows(self, Py_ssize_t i, const double* weights,
                              double* table) noexcept nogil
    cdef void fill_block(self, Py_ssize_t number, Py_ssize_t i, const double* coef,
                         const double* bias, double* table) noexcept nogil
    cdef void fill_shared(self, Py_ssize_t i, const double* weights,
                          double* table) noexcept nogil
    cdef void catch_up(self, LazyWeights weights, Py_ssize_t i) noexcept nogil
