from libc.stdint cimport int32_t

cdef double viterbi_padded(
    Py_ssize_t size, Py_ssize_t n_states, Py_ssize_t ld, double* delta,
    const double* table, Py_ssize_t table_step, int32_t* labeling
) noexcept nogil
