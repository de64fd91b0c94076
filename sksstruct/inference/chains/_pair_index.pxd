cimport cython
from libc.stdint cimport int32_t


# final: `find` is called for single pairs
@cython.final
cdef class PairIndex:
    cdef readonly Py_ssize_t n_labels, n_pairs
    # two labels of each pair
    cdef int32_t* _ends
    cdef Py_ssize_t _capacity
    # number of a pair, plus one; zero where there is none
    cdef int32_t* _hash
    cdef Py_ssize_t _hash_size

    cdef Py_ssize_t _slot(self, Py_ssize_t first, Py_ssize_t second) noexcept nogil
    cdef Py_ssize_t find(self, Py_ssize_t first, Py_ssize_t second) noexcept nogil
    cdef Py_ssize_t add(self, Py_ssize_t first, Py_ssize_t second) except -1 nogil
    cdef int _widen(self) except -1 nogil
