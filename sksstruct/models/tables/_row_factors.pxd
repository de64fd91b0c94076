from sksstruct.models.protocols._factors cimport FactorModel
from sksstruct.models.tables._feature_rows cimport FeatureRows


cdef enum:
    # bits of the marks of a variable
    FIRST_MARK = 1
    SECOND_MARK = 2


cdef class RowFactors(FactorModel):
    cdef readonly Py_ssize_t n_features, ld, width
    cdef readonly bint fit_intercept
    cdef FeatureRows _rows
    cdef object _packed, _weights, _buffer
    # the first weight, and the strides between features and between labels
    cdef double* _first_weight
    cdef Py_ssize_t _feature_step, _label_step
    # scratch for a row of scores
    cdef double* _scores
    cdef const double[::1] _norms
    cdef const unsigned char[::1] _marks
    # a row for variables with the first mark and a row for the second mark: 0 for
    # allowed labels and -inf for forbidden ones; and the marks of each variable
    cdef const double[:, ::1] _label_mask
    cdef const unsigned char[::1] _masked

    cdef bint _forbids(self, Py_ssize_t variable, Py_ssize_t label) noexcept nogil
    cdef double _score(self, Py_ssize_t variable, Py_ssize_t label) noexcept nogil
    cdef int _score_part(self, Py_ssize_t variable, Py_ssize_t low,
                         Py_ssize_t high) except -1 nogil
