from libc.stdint cimport int32_t

from sksstruct.models.chain._constraints cimport ChainConstraints
from sksstruct.models.tables._feature_rows cimport FeatureRows


cdef class WeightedChain:
    cdef readonly Py_ssize_t n_labels, ld
    cdef readonly bint is_constrained
    cdef FeatureRows _rows
    cdef ChainConstraints _constraints
    cdef const Py_ssize_t[::1] _offsets
    # the emission rows, their address, and the number of bytes of an entry
    cdef object _emission
    cdef const char* _weights
    cdef Py_ssize_t _itemsize
    # memory of the rows of bias, start, end and transitions; `_tail` is the address of
    # the first whole cache line in this memory, where the rows begin
    cdef void* _memory
    cdef void* _tail

    cdef int _set_weights(self, const double[:] bias, const double[:] start,
                          const double[:] end, const double[:, :] pairs) except -1
    cdef int _set_memory(self, Py_ssize_t n_rows) except -1
    cdef Py_ssize_t _longest(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef void _prefetch_weights(self, Py_ssize_t position,
                                Py_ssize_t last) noexcept nogil
    cdef double _decode(self, Py_ssize_t i, void* memory, int32_t* y) noexcept nogil


cdef class GivenChain(WeightedChain):
    cdef void _unary_scores(self, Py_ssize_t i, double* theta) noexcept nogil
