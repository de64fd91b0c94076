/* Row kernels shared by inference and models, and their dispatch by instruction set.

   A row has one number for each label: the scores of a position, the weights of a
   feature, a row of a table of transitions. Each family of kernels has a header:

     _simd_rows.h      messages and maxima over labels (max-product), sums and products
                       of rows, steps of duals
     _simd_features.h  a sparse or dense feature row times the weights of all labels,
                       and updates of these weights
     _simd_sums.h      sum-product: messages as scaled exponentials, or as logarithms
                       where differences of scores overflow them, and probabilities
     _simd_many.h      searches in long rows, and products with several feature rows
     _simd_single.h    decoding in single precision
     _simd_tables.h    max-plus products with users' tables, whose rows are not padded
     _simd_series.h    rows over the positions of a sequence, for segments
     _simd_common.h    types and macros of all families, and short inline functions

   The kernels use features of C that Cython lacks. Macros make the widths of blocks
   constants, so that accumulators stay in registers. Vector types operate on eight
   numbers at a time, and `restrict` states that rows do not overlap; compilers without
   vector types vectorize the loops.

   Dispatch: a build for any x86-64 must still be fast. setup.py compiles the kernels,
   `_simd_kernels.h`, once for each instruction set, with the compiler's own options for
   it, and links all of them into the extension `_simd`. At import, `_simd` queries the
   processor (`_simd_levels.h`), and copies the pointers of the best level to one table,
   `sks_table`. Extensions that cimport `_simd` get the table's address from Cython: a
   call loads a pointer and jumps to it. Other architectures have a single level,
   `baseline`, compiled for the target. A new kernel is defined in the header of its
   family, listed below, and declared in `_simd.pxd`; the C compiler compares these
   three.

   Padding: every table is stored with rows of `ld` doubles, where ld is 4 or a multiple
   of 8 (see utils._layout.padded_length), so that all loops run over whole vectors,
   without remainders. The padding holds finite values that are never read as labels:
   kernels write to it, and sums over labels have n terms or need zeros in the padding.
   Rows may have any length if they are rows of features, arguments of sks_max, or read
   by a family that says so.

   Alignment: tables begin on a cache line (utils._layout.aligned_zeros), and so does
   each row if ld is at least 8, so that no vector straddles two lines. Alignment
   matters only for speed: vector types have the alignment of a double.

   Sums over a row consist of interleaved partial sums, added last. Some instruction
   sets fuse products and sums, so that the last digits depend on the machine. */
#ifndef SKSSTRUCT_SIMD_H
#define SKSSTRUCT_SIMD_H

#include "sksstruct/utils/_simd_common.h"

/* The kernels of features in one precision. */
#define SKS_FEATURE_KERNELS(X, suffix, real)                                           \
    X(void, sks_scores_##suffix,                                                       \
      (ptrdiff_t n, const int32_t *index, const real *value, double scale,             \
       const double *weights, ptrdiff_t ld, const double *init, double *out))          \
    X(void, sks_scores_part_##suffix,                                                  \
      (ptrdiff_t n, const int32_t *index, const real *value, double scale,             \
       const double *weights, ptrdiff_t ld, ptrdiff_t size, const double *init,        \
       double *out))                                                                   \
    X(void, sks_scatter_##suffix,                                                      \
      (ptrdiff_t n, const int32_t *index, const real *value, double scale,             \
       const double *change, ptrdiff_t ld, double *weights))                           \
    X(double, sks_dense_dot_##suffix,                                                  \
      (ptrdiff_t n, const real *value, const double *weights))                         \
    X(void, sks_dense_axpy_##suffix,                                                   \
      (ptrdiff_t n, double scale, const real *value, double *weights))                 \
    X(void, sks_scatter_rows_##suffix,                                                 \
      (ptrdiff_t count, const int32_t *rows, ptrdiff_t n, const real *value,           \
       double scale, const double *change, ptrdiff_t ld, double *weights))             \
    X(void, sks_product_##suffix,                                                      \
      (ptrdiff_t rows, ptrdiff_t n, const real *value, const double *weights,          \
       ptrdiff_t ld, ptrdiff_t size, const double *init, double *out))                 \
    X(void, sks_single_scores_##suffix,                                                \
      (ptrdiff_t n, const int32_t *index, const real *value, const float *weights,     \
       ptrdiff_t ld, const float *init, float *out))

/* X(type, name, arguments) for each kernel */
#define SKS_KERNELS(X)                                                                 \
    X(void, sks_maxplus,                                                               \
      (ptrdiff_t n, ptrdiff_t ld, const double *prev, const double *table,             \
       double *out))                                                                   \
    X(double, sks_max, (ptrdiff_t n, const double *x))                                 \
    X(void, sks_raise, (ptrdiff_t ld, double value, const double *row, double *out))   \
    X(void, sks_axpy, (ptrdiff_t ld, double scale, const double *row, double *out))    \
    X(void, sks_add_table, (ptrdiff_t n, double a, const double *x, double *y))        \
    X(void, sks_weigh_add,                                                             \
      (ptrdiff_t n, const double *x, const double *y, double *out))                    \
    X(double, sks_weigh,                                                               \
      (ptrdiff_t ld, const double *x, const double *y, double *out))                   \
    X(double, sks_rescale, (ptrdiff_t ld, double scale, double *x))                    \
    X(void, sks_add_outer,                                                             \
      (ptrdiff_t n, ptrdiff_t ld, double scale, const double *x, const double *y,      \
       double *table))                                                                 \
    X(double, sks_gram_norm,                                                           \
      (ptrdiff_t n, const int32_t *rows, ptrdiff_t size, const double *gram,           \
       double shift, ptrdiff_t ld, const double *d))                                   \
    X(ptrdiff_t, sks_changed_rows,                                                     \
      (ptrdiff_t n, ptrdiff_t ld, double tiny, double *d, int32_t *rows))              \
    SKS_FEATURE_KERNELS(X, f32, float)                                                 \
    SKS_FEATURE_KERNELS(X, f64, double)                                                \
    X(double, sks_exp_row,                                                             \
      (ptrdiff_t n, ptrdiff_t ld, const double *in, double *out, double *low))         \
    X(void, sks_logplus,                                                               \
      (ptrdiff_t n, ptrdiff_t ld, const double *prev, const double *table,             \
       double *out))                                                                   \
    X(double, sks_logsum, (ptrdiff_t ld, const double *row, const double *after))      \
    X(void, sks_share,                                                                 \
      (ptrdiff_t ld, const double *row, const double *after, double total,             \
       double share, double weight, double *e, double *next, double *pair))            \
    X(ptrdiff_t, sks_first, (ptrdiff_t n, const double *x, double value))              \
    X(double, sks_max_below, (ptrdiff_t n, const double *x, double bound))             \
    X(double, sks_block_maxima, (ptrdiff_t n, const double *x, double *out))           \
    X(ptrdiff_t, sks_reaching,                                                         \
      (ptrdiff_t n, const double *x, const double *y, double least, int32_t *out))     \
    X(void, sks_single_maxplus,                                                        \
      (ptrdiff_t n, ptrdiff_t ld, const float *prev, const float *table, float *out))  \
    X(ptrdiff_t, sks_single_best, (ptrdiff_t ld, const float *x, const float *y))      \
    X(void, sks_forward,                                                               \
      (ptrdiff_t rows, ptrdiff_t cols, double weight, const double *scores,            \
       const double *table, double *out))                                              \
    X(void, sks_backward,                                                              \
      (ptrdiff_t rows, ptrdiff_t cols, double weight, const double *scores,            \
       const double *table, double *out))                                              \
    X(double, sks_row_raise,                                                           \
      (ptrdiff_t n, double score, double weight, const double *row, double *out))      \
    X(void, sks_extremes,                                                              \
      (ptrdiff_t rows, ptrdiff_t cols, const double *table, double *row_high,          \
       double *col_high))                                                              \
    X(void, sks_step_back,                                                             \
      (ptrdiff_t n, ptrdiff_t ld, const double *table, const double *after,            \
       const double *scale, double *out, double *sums))                                \
    X(double, sks_series_dot, (ptrdiff_t n, const double *x, const double *y))         \
    X(double, sks_series_dot_add,                                                      \
      (ptrdiff_t n, double scale, const double *x, const double *y, double *out))      \
    X(double, sks_series_max, (ptrdiff_t n, const double *x, const double *y))         \
    X(void, sks_series_exp, (ptrdiff_t n, double shift, double *x))                    \
    X(void, sks_series_log, (ptrdiff_t n, double *x))                                  \
    X(void, sks_series_logadd,                                                         \
      (ptrdiff_t n, const double *y, double *x, double *share))

#define SKS_FIELD(type, name, arguments) type (*name) arguments;
typedef struct {
    SKS_KERNELS(SKS_FIELD)
} sks_kernels;
#undef SKS_FIELD

#endif
