cimport cython

from sksstruct.inference.chains._ordered_table cimport IndicatorTable
from sksstruct.models.tables._row_factors cimport RowFactors


@cython.final
cdef class ChainFactors(RowFactors):
    cdef readonly bint boundary
    cdef readonly double feature_scale
    cdef readonly IndicatorTable table
    # number of forbidden pairs, which are the first entries of the table
    cdef readonly Py_ssize_t n_forbidden
    cdef object _forbidden, _ends, _stored
