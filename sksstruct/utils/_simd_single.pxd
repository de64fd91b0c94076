from libc.stdint cimport int32_t

cdef extern from "sksstruct/utils/_simd_single.h" nogil:
    void sks_single_scores_f32(
        Py_ssize_t n, const int32_t* index, const float* value, const float* weights,
        Py_ssize_t ld, const float* init, float* out) noexcept
    void sks_single_scores_f64(
        Py_ssize_t n, const int32_t* index, const double* value, const float* weights,
        Py_ssize_t ld, const float* init, float* out) noexcept
    void sks_single_maxplus(Py_ssize_t n, Py_ssize_t ld, const float* prev,
                            const float* table, float* out) noexcept
    Py_ssize_t sks_single_best(Py_ssize_t ld, const float* x, const float* y) noexcept
