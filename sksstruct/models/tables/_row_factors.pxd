from sksstruct.models.protocols._factors cimport FactorModel
from sksstruct.models.tables._feature_rows cimport FeatureRows


cdef enum:
    # bits of a variable's byte of marks; a mark is a feature that is one for the
    # variables that have it
    FIRST_MARK = 1
    SECOND_MARK = 2


cdef class RowFactors(FactorModel):
    cdef readonly Py_ssize_t n_features, ld, width
    cdef readonly bint fit_intercept
    cdef FeatureRows _rows
    cdef object _packed, _weights, _buffer
    # address of the first weight; distances between the weights of neighboring features
    # and of neighboring labels
    cdef double* _first_weight
    cdef Py_ssize_t _feature_step, _label_step
    # scratch for the scores of the labels of one variable
    cdef double* _scores
    # squared norm of the features, bias and marks of each variable
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
