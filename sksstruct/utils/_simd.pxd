from libc.stdint cimport int32_t

cdef extern from "sksstruct/utils/_simd.h" nogil:
    void sks_prefetch(const void* start, Py_ssize_t size) noexcept
    void sks_maxplus(Py_ssize_t n, Py_ssize_t ld, const double* prev,
                     const double* table, double* out) noexcept
    double sks_max(Py_ssize_t n, const double* x) noexcept
    void sks_raise(Py_ssize_t ld, double value, const double* row,
                   double* out) noexcept
    void sks_axpy(Py_ssize_t ld, double scale, const double* row,
                  double* out) noexcept
    double sks_dot(Py_ssize_t ld, const double* x, const double* y) noexcept
    double sks_gram_norm(Py_ssize_t n, const int32_t* rows, Py_ssize_t size,
                         const double* gram, double shift, Py_ssize_t ld,
                         const double* d) noexcept
    Py_ssize_t sks_changed_rows(Py_ssize_t n, Py_ssize_t ld, double tiny, double* d,
                                int32_t* rows) noexcept
    void sks_scores_f32(Py_ssize_t n, const int32_t* index, const float* value,
                        const double* weights, Py_ssize_t ld, const double* init,
                        double* out) noexcept
    void sks_scores_f64(Py_ssize_t n, const int32_t* index, const double* value,
                        const double* weights, Py_ssize_t ld, const double* init,
                        double* out) noexcept
    void sks_scores_part_f32(Py_ssize_t n, const int32_t* index, const float* value,
                             const double* weights, Py_ssize_t ld, Py_ssize_t size,
                             const double* init, double* out) noexcept
    void sks_scores_part_f64(Py_ssize_t n, const int32_t* index, const double* value,
                             const double* weights, Py_ssize_t ld, Py_ssize_t size,
                             const double* init, double* out) noexcept
    void sks_scatter_f32(Py_ssize_t n, const int32_t* index, const float* value,
                         double scale, const double* change, Py_ssize_t ld,
                         double* weights) noexcept
    void sks_scatter_f64(Py_ssize_t n, const int32_t* index, const double* value,
                         double scale, const double* change, Py_ssize_t ld,
                         double* weights) noexcept
    void sks_spread_f32(Py_ssize_t n, const int32_t* index, const float* value,
                        double* out) noexcept
    void sks_spread_f64(Py_ssize_t n, const int32_t* index, const double* value,
                        double* out) noexcept
    double sks_spread_dot_f32(Py_ssize_t n, const int32_t* index, const float* value,
                              const double* spread) noexcept
    double sks_spread_dot_f64(Py_ssize_t n, const int32_t* index, const double* value,
                              const double* spread) noexcept
    double sks_dense_dot_f32(Py_ssize_t n, const float* value,
                             const double* weights) noexcept
    double sks_dense_dot_f64(Py_ssize_t n, const double* value,
                             const double* weights) noexcept
    void sks_dense_axpy_f32(Py_ssize_t n, double scale, const float* value,
                            double* weights) noexcept
    void sks_dense_axpy_f64(Py_ssize_t n, double scale, const double* value,
                            double* weights) noexcept
    double sks_exp_row(Py_ssize_t n, Py_ssize_t ld, const double* row, double* out,
                       double* low) noexcept
    double sks_weigh(Py_ssize_t ld, const double* x, const double* y,
                     double* out) noexcept
    void sks_add_table(Py_ssize_t n, double a, const double* x, double* y) noexcept
    void sks_weigh_add(Py_ssize_t n, const double* x, const double* y,
                       double* out) noexcept
    double sks_rescale(Py_ssize_t ld, double scale, double* x) noexcept
    void sks_add_outer(Py_ssize_t n, Py_ssize_t ld, double scale, const double* x,
                       const double* y, double* table) noexcept
    void sks_logplus(Py_ssize_t n, Py_ssize_t ld, const double* prev,
                     const double* table, double* out) noexcept
    double sks_logsum(Py_ssize_t ld, const double* row, const double* after) noexcept
    void sks_share(Py_ssize_t ld, const double* row, const double* after, double total,
                   double share, double weight, double* e, double* next,
                   double* pair) noexcept
