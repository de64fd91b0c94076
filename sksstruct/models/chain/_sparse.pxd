from libc.stdint cimport int32_t

from sksstruct.inference.chains._sparse_viterbi cimport SparseTransitions
from sksstruct.models.chain._constraints cimport ChainConstraints
from sksstruct.models.tables._feature_rows cimport FeatureRows


cdef class SparseChain:
    cdef readonly Py_ssize_t n_labels, ld, n_sequences
    cdef readonly bint is_constrained
    cdef FeatureRows _rows
    cdef SparseTransitions _transitions
    # emission rows, then bias, start and end
    cdef const double[:, ::1] _weights
    cdef ChainConstraints _constraints
    cdef const Py_ssize_t[::1] _offsets

    cdef void _unary_scores(self, Py_ssize_t i, double* theta) noexcept nogil
    cdef double _augment(self, Py_ssize_t i, const int32_t* y_true,
                         const double* costs, double* theta) noexcept nogil
