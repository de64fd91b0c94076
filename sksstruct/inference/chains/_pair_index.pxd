cimport cython
from libc.stdint cimport int32_t


cdef struct PairSlot:
    # The labels of a pair, and the number of the pair plus one. In an empty slot,
    # `number` is zero.
    int32_t first, second, number


# final: `find` is called for single pairs, and must be a direct call
@cython.final
cdef class PairIndex:
    cdef readonly Py_ssize_t n_labels, n_pairs
    # (n_pairs, 2) first and second label of each pair
    cdef int32_t* _ends
    cdef Py_ssize_t _capacity
    cdef PairSlot* _hash
    cdef Py_ssize_t _hash_size

    cdef Py_ssize_t _hashed(self, Py_ssize_t first, Py_ssize_t second) noexcept nogil
    cdef void prefetch(self, Py_ssize_t size, const int32_t* labels) noexcept nogil
    cdef Py_ssize_t _slot(self, Py_ssize_t first, Py_ssize_t second) noexcept nogil
    cdef Py_ssize_t find(self, Py_ssize_t first, Py_ssize_t second) noexcept nogil
    cdef Py_ssize_t add(self, Py_ssize_t first, Py_ssize_t second) except -1 nogil
    cdef void _insert(self, Py_ssize_t pair) noexcept nogil
    cdef int _widen(self) except -1 nogil
