cdef Py_ssize_t paths_memory(Py_ssize_t n_rows) noexcept nogil

cdef void add_paths(Py_ssize_t n_rows, Py_ssize_t n_columns, double* scores,
                    const Py_ssize_t* columns, double total, unsigned char* taken,
                    double* paths) noexcept nogil
