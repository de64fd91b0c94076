from libc.stdint cimport int32_t, int64_t


# Bounds of the costs of a cluster and all below it, for some values of its separator.
cdef struct Good:
    int64_t code
    # lower bound, and the cost of the best values
    int64_t lower, upper
    # where the best values of the cluster begin; -1: they are not known
    Py_ssize_t at
    # the cluster, and how often it was searched for these values
    int32_t cluster, n_searches


cdef class Goods:
    cdef Good* goods
    cdef int32_t* values
    cdef readonly Py_ssize_t n
    cdef Py_ssize_t _capacity, _n_values, _values_capacity
    # open addressing: numbers of goods, or -1
    cdef int32_t* _slots
    cdef Py_ssize_t _n_slots, _slots_capacity

    cdef Good* find(self, Py_ssize_t cluster, int64_t code) noexcept nogil
    cdef Good* insert(self, Py_ssize_t cluster, int64_t code) except NULL nogil
    cdef int keep(self, Good* good, const int32_t* values,
                  Py_ssize_t n) except -1 nogil
    cdef int _grow(self) except -1 nogil
    cdef Py_ssize_t _slot(self, Py_ssize_t cluster, int64_t code) noexcept nogil
