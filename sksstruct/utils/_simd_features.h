/* Feature rows times weights, and updates of the weights. See `_simd.h`. */
#ifndef SKSSTRUCT_SIMD_FEATURES_H
#define SKSSTRUCT_SIMD_FEATURES_H

#include "sksstruct/utils/_simd_common.h"

/* ---- features ---- */

/* Products of a feature row, in float or double, with the weights (n_features x ld);
   index is NULL for a dense row, and value is NULL for a sparse row of ones.
     sks_scores:  out[:] = init[:] + sum_p value[p] * scale * weights[index[p], :]
     sks_scores_part: sks_scores for the first `size` entries of rows of ld weights
     sks_scatter: weights[index[p], :] += value[p] * scale * change[:] */
#define SKS_FEATURES(suffix, real)                                                     \
    SKS_INLINE void sks_scores_block_##suffix(                                         \
        const int width, ptrdiff_t n, const int32_t *index, const real *value,         \
        double scale, const double *weights, ptrdiff_t ld, const double *init,         \
        double *out)                                                                   \
    {                                                                                  \
        /* few labels: two sums, so that features do not wait for each other */        \
        const int two = width == 8 || width == 16 || (width == 4 && !index);           \
        double acc[32], odd[16] = {0.0};                                               \
        ptrdiff_t p = 0;                                                               \
        for (int j = 0; j < width; j++) acc[j] = init[j];                              \
        for (; two && p + 2 <= n; p += 2) {                                            \
            sks_fma(width, scale * SKS_VALUE(p),                                       \
                    weights + (index ? index[p] : p) * ld, acc);                       \
            sks_fma(width, scale * SKS_VALUE(p + 1),                                   \
                    weights + (index ? index[p + 1] : p + 1) * ld, odd);               \
        }                                                                              \
        for (; p < n; p++)                                                             \
            sks_fma(width, scale * SKS_VALUE(p),                                       \
                    weights + (index ? index[p] : p) * ld, acc);                       \
        for (int j = 0; j < width; j++) out[j] = two ? acc[j] + odd[j] : acc[j];       \
    }                                                                                  \
    SKS_INLINE void sks_scatter_block_##suffix(                                        \
        const int width, const int count, ptrdiff_t n, const int32_t *index,           \
        const real *value, const double *change, const ptrdiff_t *first, ptrdiff_t ld, \
        double *weights)                                                               \
    {                                                                                  \
        for (ptrdiff_t p = 0; p < n; p++) {                                            \
            double *row = weights + (index ? index[p] : p) * ld;                       \
            for (int k = 0; k < count; k++)                                            \
                sks_fma(width, SKS_VALUE(p), change + 8 * k, row + first[k]);          \
        }                                                                              \
    }                                                                                  \
    static void sks_scores_##suffix(                                                   \
        ptrdiff_t n, const int32_t *index, const real *value, double scale,            \
        const double *weights, ptrdiff_t ld, const double *init, double *out)          \
    {                                                                                  \
        if (index && value)                                                            \
            SKS_BLOCKS(ld, SKS_SPARSE_##suffix);                                       \
        else if (index)                                                                \
            SKS_BLOCKS(ld, SKS_UNIT_##suffix);                                         \
        else                                                                           \
            SKS_BLOCKS(ld, SKS_DENSE_##suffix);                                        \
    }                                                                                  \
    static void sks_scores_part_##suffix(                                              \
        ptrdiff_t n, const int32_t *index, const real *value, double scale,            \
        const double *weights, ptrdiff_t ld, ptrdiff_t size, const double *init,       \
        double *out)                                                                   \
    {                                                                                  \
        if (index && value)                                                            \
            SKS_BLOCKS(size, SKS_SPARSE_##suffix);                                     \
        else if (index)                                                                \
            SKS_BLOCKS(size, SKS_UNIT_##suffix);                                       \
        else                                                                           \
            SKS_BLOCKS(size, SKS_DENSE_##suffix);                                      \
    }                                                                                  \
    SKS_INLINE void sks_scatter_row_##suffix(                                          \
        ptrdiff_t n, const int32_t *index, const real *value, double scale,            \
        const double *change, ptrdiff_t ld, double *weights)                           \
    {                                                                                  \
        double c[32];                                                                  \
        ptrdiff_t first[4];                                                            \
        int count = 0;                                                                 \
        /* up to four cache lines of labels at a time, only lines that change */       \
        for (ptrdiff_t b = 0; b < ld; b += 8) {                                        \
            uint64_t bits[8], any = 0;                                                 \
            memcpy(bits, change + b, sizeof bits);                                     \
            for (int j = 0; j < 8; j++) any |= bits[j];                                \
            if (any) {                                                                 \
                for (int j = 0; j < 8; j++) c[8 * count + j] = scale * change[b + j];  \
                first[count++] = b;                                                    \
            }                                                                          \
            if (count < 4 && b + 8 < ld) continue;                                     \
            /* constant counts, so that the changes stay in registers */               \
            switch (count) {                                                           \
            case 1: SKS_SCATTER(suffix, 8, 1); break;                                  \
            case 2: SKS_SCATTER(suffix, 8, 2); break;                                  \
            case 3: SKS_SCATTER(suffix, 8, 3); break;                                  \
            case 4: SKS_SCATTER(suffix, 8, 4); break;                                  \
            default: break;                                                            \
            }                                                                          \
            count = 0;                                                                 \
        }                                                                              \
    }                                                                                  \
    static void sks_scatter_##suffix(                                                  \
        ptrdiff_t n, const int32_t *index, const real *value, double scale,            \
        const double *change, ptrdiff_t ld, double *weights)                           \
    {                                                                                  \
        if (ld == 4) {                                                                 \
            const ptrdiff_t first[4] = {0};                                            \
            double c[4];                                                               \
            for (int j = 0; j < 4; j++) c[j] = scale * change[j];                      \
            SKS_SCATTER(suffix, 4, 1);                                                 \
        } else if (index && value)                                                     \
            sks_scatter_row_##suffix(n, index, value, scale, change, ld, weights);     \
        else if (index)                                                                \
            sks_scatter_row_##suffix(n, index, NULL, scale, change, ld, weights);      \
        else                                                                           \
            sks_scatter_row_##suffix(n, NULL, value, scale, change, ld, weights);      \
    }

/* sks_dense_dot: the product of a dense row and the weights of one label;
   sks_dense_axpy: weights += scale * row. */
#define SKS_DENSE(suffix, real)                                                        \
    static double sks_dense_dot_##suffix(                                              \
        ptrdiff_t n, const real *value, const double *weights)                         \
    {                                                                                  \
        double acc[8] = {0.0}, total = 0.0;                                            \
        ptrdiff_t p = 0;                                                               \
        for (; p + 8 <= n; p += 8)                                                     \
            for (int j = 0; j < 8; j++) acc[j] += value[p + j] * weights[p + j];       \
        for (; p < n; p++) total += value[p] * weights[p];                             \
        for (int j = 0; j < 8; j++) total += acc[j];                                   \
        return total;                                                                  \
    }                                                                                  \
    static void sks_dense_axpy_##suffix(                                               \
        ptrdiff_t n, double scale, const real *SKS_RESTRICT value,                     \
        double *SKS_RESTRICT weights)                                                  \
    {                                                                                  \
        for (ptrdiff_t p = 0; p < n; p++) weights[p] += scale * value[p];              \
    }
SKS_DENSE(f32, float)
SKS_DENSE(f64, double)

#define SKS_SPARSE_f32(width, b)                                                       \
    sks_scores_block_f32(width, n, index, value, scale, weights + (b), ld, init + (b), \
                         out + (b))
#define SKS_SPARSE_f64(width, b)                                                       \
    sks_scores_block_f64(width, n, index, value, scale, weights + (b), ld, init + (b), \
                         out + (b))
#define SKS_UNIT_f32(width, b)                                                         \
    sks_scores_block_f32(width, n, index, NULL, scale, weights + (b), ld, init + (b),  \
                         out + (b))
#define SKS_UNIT_f64(width, b)                                                         \
    sks_scores_block_f64(width, n, index, NULL, scale, weights + (b), ld, init + (b),  \
                         out + (b))
#define SKS_DENSE_f32(width, b)                                                        \
    sks_scores_block_f32(width, n, NULL, value, scale, weights + (b), ld, init + (b),  \
                         out + (b))
#define SKS_DENSE_f64(width, b)                                                        \
    sks_scores_block_f64(width, n, NULL, value, scale, weights + (b), ld, init + (b),  \
                         out + (b))
#define SKS_SCATTER(suffix, width, count) \
    sks_scatter_block_##suffix(width, count, n, index, value, c, first, ld, weights)
SKS_FEATURES(f32, float)
SKS_FEATURES(f64, double)

#endif
