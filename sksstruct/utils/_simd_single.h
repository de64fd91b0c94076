/* Decoding in single precision: counterparts of kernels of `_simd.h`, with twice as
   many numbers in a vector and half the memory to read.

   Rows are padded as in `_simd.h`, to a multiple of 8 floats, or to 4. */
#ifndef SKSSTRUCT_SIMD_SINGLE_H
#define SKSSTRUCT_SIMD_SINGLE_H

#include "sksstruct/utils/_simd_common.h"

#ifdef SKS_VECTORS
typedef float sks_f16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float sks_f8 __attribute__((vector_size(32), aligned(4), may_alias));
#endif

/* acc[:width] += v * row[:width] for a constant width */
SKS_INLINE void sks_single_fma(const int width, float v, const float *row, float *acc)
{
    int j = 0;
#ifdef SKS_VECTORS
    for (; j + 16 <= width; j += 16)
        *(sks_f16 *)(acc + j) += v * *(const sks_f16 *)(row + j);
    if (j + 8 <= width) {
        *(sks_f8 *)(acc + j) += v * *(const sks_f8 *)(row + j);
        j += 8;
    }
#endif
    for (; j < width; j++) acc[j] += v * row[j];
}

/* out[:] = init[:] + sum_p value[p] weights[index[p], :]; index is NULL for a dense
   row. */
#define SKS_SINGLE(suffix, real)                                                       \
    SKS_INLINE void sks_single_block_##suffix(                                         \
        const int width, ptrdiff_t n, const int32_t *index, const real *value,         \
        const float *weights, ptrdiff_t ld, const float *init, float *out)             \
    {                                                                                  \
        float acc[32];                                                                 \
        for (int j = 0; j < width; j++) acc[j] = init[j];                              \
        for (ptrdiff_t p = 0; p < n; p++)                                              \
            sks_single_fma(width, (float)value[p],                                     \
                           weights + (index ? index[p] : p) * ld, acc);                \
        for (int j = 0; j < width; j++) out[j] = acc[j];                               \
    }                                                                                  \
    static void sks_single_scores_##suffix(                                            \
        ptrdiff_t n, const int32_t *index, const real *value, const float *weights,    \
        ptrdiff_t ld, const float *init, float *out)                                   \
    {                                                                                  \
        if (index)                                                                     \
            SKS_BLOCKS(ld, SKS_SINGLE_SPARSE_##suffix);                                \
        else                                                                           \
            SKS_BLOCKS(ld, SKS_SINGLE_DENSE_##suffix);                                 \
    }
#define SKS_SINGLE_SPARSE_f32(width, b) \
    sks_single_block_f32(width, n, index, value, weights + (b), ld, init + (b), out + (b))
#define SKS_SINGLE_SPARSE_f64(width, b) \
    sks_single_block_f64(width, n, index, value, weights + (b), ld, init + (b), out + (b))
#define SKS_SINGLE_DENSE_f32(width, b) \
    sks_single_block_f32(width, n, NULL, value, weights + (b), ld, init + (b), out + (b))
#define SKS_SINGLE_DENSE_f64(width, b) \
    sks_single_block_f64(width, n, NULL, value, weights + (b), ld, init + (b), out + (b))
SKS_SINGLE(f32, float)
SKS_SINGLE(f64, double)

/* The first a of the largest x[a] + y[a]; y is -inf in the padding. */
static ptrdiff_t sks_single_best(ptrdiff_t ld, const float *x,
                                 const float *y)
{
    float best[8], top = -INFINITY;
    const int width = ld == 4 ? 4 : 8;
    for (int j = 0; j < 8; j++) best[j] = -INFINITY;
    for (ptrdiff_t b = 0; b < ld; b += width)
        for (int j = 0; j < width; j++) {
            const float c = x[b + j] + y[b + j];
            best[j] = c > best[j] ? c : best[j];
        }
    for (int j = 0; j < 8; j++) top = best[j] > top ? best[j] : top;
    for (ptrdiff_t a = 0; a < ld; a++)
        if (x[a] + y[a] == top) return a;
    /* some scores are NaN, which the caller detects by checking the value */
    return 0;
}

#endif
