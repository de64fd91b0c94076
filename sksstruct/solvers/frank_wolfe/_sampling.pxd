cimport cython


# The class is final, so that visits call its methods directly: a visit of a small block
# takes no longer than reading a few levels of the tree.
@cython.final
cdef class SumTree:
    cdef readonly Py_ssize_t n
    cdef Py_ssize_t _leaves
    cdef double[::1] _tree

    cdef void set(self, Py_ssize_t index, double value) noexcept nogil
    cdef double total(self) noexcept nogil
    cdef Py_ssize_t find(self, double uniform) noexcept nogil
