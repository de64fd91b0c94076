cdef void project_sorted(Py_ssize_t n, const double* point, double scale,
                         double* out) noexcept nogil
cdef double threshold_by_partition(Py_ssize_t n, double* point) noexcept nogil
cdef double threshold_by_dropping(Py_ssize_t n, const double* point) noexcept nogil
