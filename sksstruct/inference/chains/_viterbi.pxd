from libc.stdint cimport int32_t

cdef void max_product_padded(
    Py_ssize_t size, Py_ssize_t n_states, Py_ssize_t ld, double* delta,
    const double* table, Py_ssize_t table_step
) noexcept nogil

cdef double viterbi_padded(
    Py_ssize_t size, Py_ssize_t n_states, Py_ssize_t ld, double* delta,
    const double* table, Py_ssize_t table_step, int32_t* labeling
) noexcept nogil
