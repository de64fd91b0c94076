from libc.stdint cimport int32_t

cdef extern from "sksstruct/utils/_simd_many.h" nogil:
    Py_ssize_t sks_first(Py_ssize_t n, const double* x, double value) noexcept
    double sks_max_below(Py_ssize_t n, const double* x, double bound) noexcept
    double sks_block_maxima(Py_ssize_t n, const double* x, double* out) noexcept
    Py_ssize_t sks_reaching(Py_ssize_t n, const double* x, const double* y,
                            double least, int32_t* out) noexcept
    void sks_product_f32(Py_ssize_t rows, Py_ssize_t n, const float* value,
                         const double* weights, Py_ssize_t ld, Py_ssize_t size,
                         const double* init, double* out) noexcept
    void sks_product_f64(Py_ssize_t rows, Py_ssize_t n, const double* value,
                         const double* weights, Py_ssize_t ld, Py_ssize_t size,
                         const double* init, double* out) noexcept
