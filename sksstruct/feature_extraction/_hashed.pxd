cimport cython
from libc.stdint cimport int32_t

from sksstruct.feature_extraction._vocabulary cimport Columns, Feature


@cython.final
cdef class HashedColumns(Columns):
    cdef int32_t _n_columns
    cdef bint _signed
    # buffer for the UTF-8 text of a feature with a head and a tail
    cdef char* _text
    cdef Py_ssize_t _capacity

    cdef int _place(self, Feature* feature) except -1
