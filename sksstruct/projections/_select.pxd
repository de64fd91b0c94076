cdef double select_kth(double* x, Py_ssize_t n, Py_ssize_t k) noexcept nogil
