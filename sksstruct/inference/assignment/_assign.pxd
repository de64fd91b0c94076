cdef Py_ssize_t assignment_memory(Py_ssize_t n_columns) noexcept nogil

cdef bint assign(Py_ssize_t n_rows, Py_ssize_t n_columns, const double* scores,
                 double* memory, Py_ssize_t* columns) noexcept nogil
