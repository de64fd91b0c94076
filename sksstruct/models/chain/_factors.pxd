cimport cython

from sksstruct.inference.chains._ordered_table cimport IndicatorTable
from sksstruct.models.protocols._factors cimport FactorModel
from sksstruct.models.tables._feature_rows cimport FeatureRows


cdef enum:
    # bits of `_ends`: where a position lies in its sequence
    FIRST = 1
    LAST = 2


@cython.final
cdef class ChainFactors(FactorModel):
    cdef readonly Py_ssize_t n_features, ld, width
    cdef readonly bint fit_intercept, boundary
    cdef readonly IndicatorTable table
    cdef FeatureRows _rows
    cdef object _packed, _weights, _buffer, _dense, _known, _losses
    # the weights, and the steps from feature to feature and from label to label
    cdef double* _first_weight
    cdef Py_ssize_t _feature_step, _label_step
    # a row of scores for `find_label`
    cdef double* _scores
    cdef const double[::1] _norms
    cdef const unsigned char[::1] _ends

    cdef double _score(self, Py_ssize_t variable, Py_ssize_t label) noexcept nogil
    cdef int _score_part(self, Py_ssize_t variable, Py_ssize_t low,
                         Py_ssize_t high) except -1 nogil
