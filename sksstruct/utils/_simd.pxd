"""The row kernels of `_simd.h`, and the table through which they are called."""

from libc.stdint cimport int32_t

cdef extern from "sksstruct/utils/_simd.h" nogil:
    ctypedef struct sks_kernels:
        pass

    # these functions are compiled into the calling extension
    void sks_prefetch(const void* start, Py_ssize_t size) noexcept
    double sks_dot(Py_ssize_t ld, const double* x, const double* y) noexcept
    void sks_spread_f32(
        Py_ssize_t n, const int32_t* index, const float* value, double* out) noexcept
    void sks_spread_f64(
        Py_ssize_t n, const int32_t* index, const double* value, double* out) noexcept
    double sks_spread_dot_f32(
        Py_ssize_t n, const int32_t* index, const float* value,
        const double* spread) noexcept
    double sks_spread_dot_f64(
        Py_ssize_t n, const int32_t* index, const double* value,
        const double* spread) noexcept
    double sks_row_best(
        Py_ssize_t n, double weight, const double* scores, const double* row) noexcept

    # these functions are compiled for the instruction set that was chosen at import
    void sks_maxplus "sks_table.sks_maxplus"(
        Py_ssize_t n, Py_ssize_t ld, const double* prev, const double* table,
        double* out) noexcept
    double sks_max "sks_table.sks_max"(Py_ssize_t n, const double* x) noexcept
    void sks_raise "sks_table.sks_raise"(
        Py_ssize_t ld, double value, const double* row, double* out) noexcept
    void sks_axpy "sks_table.sks_axpy"(
        Py_ssize_t ld, double scale, const double* row, double* out) noexcept
    double sks_gram_norm "sks_table.sks_gram_norm"(
        Py_ssize_t n, const int32_t* rows, Py_ssize_t size, const double* gram,
        double shift, Py_ssize_t ld, const double* d) noexcept
    Py_ssize_t sks_changed_rows "sks_table.sks_changed_rows"(
        Py_ssize_t n, Py_ssize_t ld, double tiny, double* d, int32_t* rows) noexcept
    void sks_scores_f32 "sks_table.sks_scores_f32"(
        Py_ssize_t n, const int32_t* index, const float* value, double scale,
        const double* weights, Py_ssize_t ld, const double* init, double* out) noexcept
    void sks_scores_f64 "sks_table.sks_scores_f64"(
        Py_ssize_t n, const int32_t* index, const double* value, double scale,
        const double* weights, Py_ssize_t ld, const double* init, double* out) noexcept
    void sks_scores_part_f32 "sks_table.sks_scores_part_f32"(
        Py_ssize_t n, const int32_t* index, const float* value, double scale,
        const double* weights, Py_ssize_t ld, Py_ssize_t size, const double* init,
        double* out) noexcept
    void sks_scores_part_f64 "sks_table.sks_scores_part_f64"(
        Py_ssize_t n, const int32_t* index, const double* value, double scale,
        const double* weights, Py_ssize_t ld, Py_ssize_t size, const double* init,
        double* out) noexcept
    void sks_scatter_f32 "sks_table.sks_scatter_f32"(
        Py_ssize_t n, const int32_t* index, const float* value, double scale,
        const double* change, Py_ssize_t ld, double* weights) noexcept
    void sks_scatter_f64 "sks_table.sks_scatter_f64"(
        Py_ssize_t n, const int32_t* index, const double* value, double scale,
        const double* change, Py_ssize_t ld, double* weights) noexcept
    double sks_dense_dot_f32 "sks_table.sks_dense_dot_f32"(
        Py_ssize_t n, const float* value, const double* weights) noexcept
    double sks_dense_dot_f64 "sks_table.sks_dense_dot_f64"(
        Py_ssize_t n, const double* value, const double* weights) noexcept
    void sks_dense_axpy_f32 "sks_table.sks_dense_axpy_f32"(
        Py_ssize_t n, double scale, const float* value, double* weights) noexcept
    void sks_dense_axpy_f64 "sks_table.sks_dense_axpy_f64"(
        Py_ssize_t n, double scale, const double* value, double* weights) noexcept
    double sks_exp_row "sks_table.sks_exp_row"(
        Py_ssize_t n, Py_ssize_t ld, const double* row, double* out,
        double* low) noexcept
    double sks_weigh "sks_table.sks_weigh"(
        Py_ssize_t ld, const double* x, const double* y, double* out) noexcept
    void sks_add_table "sks_table.sks_add_table"(
        Py_ssize_t n, double a, const double* x, double* y) noexcept
    void sks_weigh_add "sks_table.sks_weigh_add"(
        Py_ssize_t n, const double* x, const double* y, double* out) noexcept
    double sks_rescale "sks_table.sks_rescale"(
        Py_ssize_t ld, double scale, double* x) noexcept
    void sks_add_outer "sks_table.sks_add_outer"(
        Py_ssize_t n, Py_ssize_t ld, double scale, const double* x, const double* y,
        double* table) noexcept
    void sks_logplus "sks_table.sks_logplus"(
        Py_ssize_t n, Py_ssize_t ld, const double* prev, const double* table,
        double* out) noexcept
    double sks_logsum "sks_table.sks_logsum"(
        Py_ssize_t ld, const double* row, const double* after) noexcept
    void sks_share "sks_table.sks_share"(
        Py_ssize_t ld, const double* row, const double* after, double total,
        double share, double weight, double* e, double* next, double* pair) noexcept
    void sks_step_back "sks_table.sks_step_back"(
        Py_ssize_t n, Py_ssize_t ld, const double* table, const double* after,
        const double* scale, double* out, double* sums) noexcept
    double sks_series_dot "sks_table.sks_series_dot"(
        Py_ssize_t n, const double* x, const double* y) noexcept
    double sks_series_dot_add "sks_table.sks_series_dot_add"(
        Py_ssize_t n, double scale, const double* x, const double* y,
        double* out) noexcept
    double sks_series_max "sks_table.sks_series_max"(
        Py_ssize_t n, const double* x, const double* y) noexcept
    void sks_series_exp "sks_table.sks_series_exp"(
        Py_ssize_t n, double shift, double* x) noexcept
    void sks_series_log "sks_table.sks_series_log"(
        Py_ssize_t n, double* x) noexcept
    void sks_series_logadd "sks_table.sks_series_logadd"(
        Py_ssize_t n, const double* y, double* x, double* share) noexcept
    Py_ssize_t sks_first "sks_table.sks_first"(
        Py_ssize_t n, const double* x, double value) noexcept
    double sks_max_below "sks_table.sks_max_below"(
        Py_ssize_t n, const double* x, double bound) noexcept
    double sks_block_maxima "sks_table.sks_block_maxima"(
        Py_ssize_t n, const double* x, double* out) noexcept
    Py_ssize_t sks_reaching "sks_table.sks_reaching"(
        Py_ssize_t n, const double* x, const double* y, double least,
        int32_t* out) noexcept
    void sks_scatter_rows_f32 "sks_table.sks_scatter_rows_f32"(
        Py_ssize_t count, const int32_t* rows, Py_ssize_t n, const float* value,
        double scale, const double* change, Py_ssize_t ld, double* weights) noexcept
    void sks_scatter_rows_f64 "sks_table.sks_scatter_rows_f64"(
        Py_ssize_t count, const int32_t* rows, Py_ssize_t n, const double* value,
        double scale, const double* change, Py_ssize_t ld, double* weights) noexcept
    void sks_product_f32 "sks_table.sks_product_f32"(
        Py_ssize_t rows, Py_ssize_t n, const float* value, const double* weights,
        Py_ssize_t ld, Py_ssize_t size, const double* init, double* out) noexcept
    void sks_product_f64 "sks_table.sks_product_f64"(
        Py_ssize_t rows, Py_ssize_t n, const double* value, const double* weights,
        Py_ssize_t ld, Py_ssize_t size, const double* init, double* out) noexcept
    void sks_single_scores_f32 "sks_table.sks_single_scores_f32"(
        Py_ssize_t n, const int32_t* index, const float* value, const float* weights,
        Py_ssize_t ld, const float* init, float* out) noexcept
    void sks_single_scores_f64 "sks_table.sks_single_scores_f64"(
        Py_ssize_t n, const int32_t* index, const double* value, const float* weights,
        Py_ssize_t ld, const float* init, float* out) noexcept
    void sks_single_maxplus "sks_table.sks_single_maxplus"(
        Py_ssize_t n, Py_ssize_t ld, const float* prev, const float* table,
        float* out) noexcept
    Py_ssize_t sks_single_best "sks_table.sks_single_best"(
        Py_ssize_t ld, const float* x, const float* y) noexcept
    void sks_forward "sks_table.sks_forward"(
        Py_ssize_t rows, Py_ssize_t cols, double weight, const double* scores,
        const double* table, double* out) noexcept
    void sks_backward "sks_table.sks_backward"(
        Py_ssize_t rows, Py_ssize_t cols, double weight, const double* scores,
        const double* table, double* out) noexcept
    double sks_row_raise "sks_table.sks_row_raise"(
        Py_ssize_t n, double score, double weight, const double* row,
        double* out) noexcept
    double sks_largest "sks_table.sks_max"(
        Py_ssize_t n, const double* scores) noexcept
    void sks_extremes "sks_table.sks_extremes"(
        Py_ssize_t rows, Py_ssize_t cols, const double* table, double* row_high,
        double* col_high) noexcept

# The declarations above contain this C name.
cdef sks_kernels sks_table "sks_table"
