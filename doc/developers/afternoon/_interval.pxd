cdef struct Interval:
    Py_ssize_t start, stop     # positions start, ..., stop - 1
    double score


cdef Interval find_interval(Py_ssize_t n_positions,
                            const double* scores) noexcept nogil
