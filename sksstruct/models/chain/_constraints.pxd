cimport cython


# a final class has no virtual calls
@cython.final
cdef class ChainConstraints:
    cdef readonly bint exist
    # rows of ld scores, 0 or -inf: first labels, last labels, transitions; or NULL
    cdef const double* mask
    # (n_positions, n_labels) whether a label is forbidden; or NULL
    cdef const unsigned char* forbidden
    cdef Py_ssize_t _n_labels, _ld, _n_rows
    cdef object _owned

    cdef void forbid_labels(self, Py_ssize_t first, Py_ssize_t size,
                            double* theta) noexcept nogil
    cdef bint allow(self, Py_ssize_t first, Py_ssize_t size, Py_ssize_t t,
                    Py_ssize_t label) noexcept nogil
    cdef bint allow_pair(self, Py_ssize_t entry) noexcept nogil
    cdef const double* transitions(self, const double* table,
                                   double* masked) noexcept nogil
