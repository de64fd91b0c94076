from sksstruct.inference.chains._ordered_table cimport IndicatorTable
from sksstruct.models.protocols._factors cimport FactorModel
from sksstruct.models.tables._feature_rows cimport FeatureRows


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
