cdef void project_sorted(Py_ssize_t n, const double* z, double scale,
                         double* u) noexcept nogil
