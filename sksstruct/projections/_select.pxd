cdef double select_kth(double* numbers, Py_ssize_t n, Py_ssize_t k) noexcept nogil
