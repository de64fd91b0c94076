from sksstruct.models.chain._constraints cimport ChainConstraints
from sksstruct.models.tables._feature_rows cimport FeatureRows


cdef class GivenChain:
    cdef readonly Py_ssize_t n_labels, ld
    cdef readonly bint is_constrained
    cdef FeatureRows _rows
    cdef const double[:, ::1] _emission
    # rows of ld weights: bias, start, end and, unless they are sparse, transitions
    cdef double* _tail
    cdef double* _memory
    cdef ChainConstraints _constraints
    cdef const Py_ssize_t[::1] _offsets

    cdef Py_ssize_t _longest(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef void _prefetch_weights(self, Py_ssize_t position,
                                Py_ssize_t last) noexcept nogil
    cdef void _unary_scores(self, Py_ssize_t i, double* theta) noexcept nogil
