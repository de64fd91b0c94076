from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.utils._arena cimport Arena


cdef struct Block:
    # plain Frank-Wolfe: mean parameters
    Py_ssize_t n_keys, key_capacity
    int32_t* keys
    double* values
    # labelings with weights
    Py_ssize_t n, capacity, n_gram
    int32_t* labelings      # (capacity, size)
    double* weight
    double* loss
    double* gram            # (capacity, capacity), of the first n_gram labelings


cdef class Blocks:
    cdef readonly BoundModel model
    cdef readonly Weights weights
    cdef Workspace workspace
    cdef readonly double alpha
    cdef bint cache, use_means
    cdef Py_ssize_t max_cached
    cdef Py_ssize_t n_blocks
    cdef Block* blocks
    cdef Arena arena                   # holds the arrays of all blocks
    cdef readonly object losses_, promises_
    cdef double[::1] losses, promises
    cdef public double iterate         # k, visits so far
    cdef public double loss
    cdef public Py_ssize_t oracle_calls
    # scratch of a visit, as long as the largest block
    cdef double[::1] value, old_weight, mixture
    cdef int32_t[::1] decoded, keys
    cdef int32_t[::1] place            # where a key stands in the block, or -1

    cdef Py_ssize_t _find(self, Block* block, Py_ssize_t size,
                          const int32_t* y) noexcept nogil
    cdef int _append(self, Py_ssize_t i, const int32_t* y) except -1 nogil
    cdef int _widen(self, Block* block, Py_ssize_t size) except -1 nogil
    cdef int _grow_scratch(self, Py_ssize_t capacity) except -1
    cdef int _extend_gram(self, Py_ssize_t i) except -1 nogil
    cdef int _drop(self, Py_ssize_t i) except -1 nogil
    cdef void _remove(self, Block* block, Py_ssize_t size, Py_ssize_t j) noexcept nogil
    cdef void _replace_in_gram(self, Block* block, Py_ssize_t j,
                               Py_ssize_t last) noexcept nogil
    cdef int _reserve_keys(self, Block* block, Py_ssize_t n) except -1 nogil
    cdef int _restart_means(self, Block* block, Py_ssize_t n) except -1 nogil
    cdef int _add_keys(self, Block* block, Py_ssize_t n, double step) except -1 nogil
    cdef int _put_weight_on(self, Py_ssize_t i, const int32_t* y) except -1
    cdef double _restore_block(self, Py_ssize_t i, Py_ssize_t n, const int32_t* keys,
                               const double* values) except? -1.0
