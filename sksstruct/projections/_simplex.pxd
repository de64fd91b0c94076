cdef void project_sorted(Py_ssize_t n, const double* z, double scale,
                         double* u) noexcept nogil
cdef double threshold_by_partition(Py_ssize_t n, double* z) noexcept nogil
