from libc.stdint cimport int32_t

from sksstruct.inference.chains._ordered_table cimport IndicatorTable
from sksstruct.inference.chains._sparse_viterbi cimport SparseTransitions
from sksstruct.models.protocols._factors cimport FactorModel
from sksstruct.models.tables._feature_rows cimport FeatureRows


cdef class SparseChain:
    cdef readonly Py_ssize_t n_labels, ld, n_sequences
    cdef FeatureRows _rows
    cdef SparseTransitions _transitions
    cdef const double[:, ::1] _weights
    cdef const double[:, ::1] _mask
    cdef const unsigned char[:, ::1] _barred
    cdef const Py_ssize_t[::1] _offsets
    cdef readonly bint is_constrained

    cdef void _theta(self, Py_ssize_t i, double* theta) noexcept nogil


cdef class ChainFactors(FactorModel):
    cdef readonly Py_ssize_t n_features, ld, width
    cdef readonly bint fit_intercept, boundary
    cdef readonly IndicatorTable table
    cdef FeatureRows _rows
    cdef object _packed, _weights, _buffer
    cdef double* _w                          # in steps from feature to feature, and
    cdef Py_ssize_t _step, _label_step       # from label to label
    cdef double* _scores
    cdef const double[::1] _norms
    cdef const unsigned char[::1] _ends      # 1 first, 2 last of a sequence, or both

    cdef double _score(self, Py_ssize_t v, Py_ssize_t label) noexcept nogil
