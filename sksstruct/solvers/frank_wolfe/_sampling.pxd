cimport cython


# Final, so that a visit, which sets a weight and draws another, calls it directly:
# small blocks take no longer than a few levels of the tree.
@cython.final
cdef class SumTree:
    cdef readonly Py_ssize_t n
    cdef Py_ssize_t _leaves
    cdef double[::1] _tree

    cdef void set(self, Py_ssize_t index, double value) noexcept nogil
    cdef double total(self) noexcept nogil
    cdef Py_ssize_t find(self, double uniform) noexcept nogil
