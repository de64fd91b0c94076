cimport cython
from libc.stdint cimport int32_t, int64_t

from sksstruct.feature_extraction._vocabulary cimport Feature


@cython.final
cdef class Rows:
    cdef bint _single
    cdef int32_t* _indices
    # the values, in the array of their type; the other array is NULL
    cdef float* _values32
    cdef double* _values64
    cdef int64_t* _ends
    cdef Py_ssize_t _count, _n_rows
    cdef Py_ssize_t _index_capacity, _value_capacity, _end_capacity

    cdef int add(self, Py_ssize_t count, Feature* features) except -1
    cdef void _write(self, Py_ssize_t place, const Feature* feature) noexcept nogil
    cdef void _sort_few(self, Py_ssize_t count, const Feature* features) noexcept nogil
    cdef void _sort_many(self, Py_ssize_t count, Feature* features) noexcept nogil
    cdef Py_ssize_t _merge(self, Py_ssize_t count) noexcept nogil
