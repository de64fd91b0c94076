/* Kernels for chains with many labels: searches in rows that are long, and products of
   several dense rows of features with the weights of all labels. Rows are those of
   `_simd.h`; the searches look at the first n entries of rows of any length. */
#ifndef SKSSTRUCT_SIMD_MANY_H
#define SKSSTRUCT_SIMD_MANY_H

#include "sksstruct/utils/_simd_common.h"

/* ---- searches ---- */

#ifdef SKS_VECTORS
/* Whether a comparison of eight numbers holds for one of them. */
SKS_INLINE int sks_any(sks_m8 m)
{
    typedef uint64_t m4 __attribute__((vector_size(32)));
    typedef uint64_t m2 __attribute__((vector_size(16)));
    m4 low, high;
    m2 first, second;
    memcpy(&low, &m, sizeof low);
    memcpy(&high, (const char *)&m + sizeof low, sizeof high);
    low |= high;
    memcpy(&first, &low, sizeof first);
    memcpy(&second, (const char *)&low + sizeof first, sizeof second);
    first |= second;
    return (first[0] | first[1]) != 0;
}
#endif

/* The first b < n with x[b] = value; n if there is none. */
static ptrdiff_t sks_first(ptrdiff_t n, const double *x, double value)
{
    ptrdiff_t b = 0;
#ifdef SKS_VECTORS
    for (; b + 32 <= n; b += 32) {
        const sks_v8 *v = (const sks_v8 *)(x + b);
        if (sks_any((sks_m8)(v[0] == value) | (sks_m8)(v[1] == value)
                    | (sks_m8)(v[2] == value) | (sks_m8)(v[3] == value)))
            break;
    }
#endif
    while (b < n && x[b] != value) b++;
    return b;
}

/* max x[b] over the b < n with x[b] < bound; -inf without any */
static double sks_max_below(ptrdiff_t n, const double *x, double bound)
{
    double best[8], top;
    ptrdiff_t b = 0;
    for (int j = 0; j < 8; j++) best[j] = -INFINITY;
    for (; b + 8 <= n; b += 8)
        for (int j = 0; j < 8; j++) {
            const double c = x[b + j] < bound ? x[b + j] : -INFINITY;
            best[j] = c > best[j] ? c : best[j];
        }
    top = best[0];
    for (int j = 1; j < 8; j++) top = best[j] > top ? best[j] : top;
    for (; b < n; b++) top = x[b] < bound && x[b] > top ? x[b] : top;
    return top;
}

/* The maximum of each block of 64 of the n entries; returns that of all. */
static double sks_block_maxima(ptrdiff_t n, const double *x, double *out)
{
    double best[8], top = -INFINITY;
    for (ptrdiff_t b = 0; b < n; out++) {
        const ptrdiff_t end = b + 64 < n ? b + 64 : n;
        for (int j = 0; j < 8; j++) best[j] = -INFINITY;
        for (; b + 8 <= end; b += 8)
            for (int j = 0; j < 8; j++)
                best[j] = x[b + j] > best[j] ? x[b + j] : best[j];
        for (; b < end; b++) best[0] = x[b] > best[0] ? x[b] : best[0];
        *out = best[0];
        for (int j = 1; j < 8; j++) *out = best[j] > *out ? best[j] : *out;
        top = *out > top ? *out : top;
    }
    return top;
}

/* Writes the b < n with x[b] + y[b] >= least to out, which has room for n, and returns
   their number. */
static ptrdiff_t sks_reaching(ptrdiff_t n, const double *x,
                              const double *y, double least,
                              int32_t *out)
{
    ptrdiff_t count = 0, b = 0;
#ifdef SKS_VECTORS
    for (; b + 32 <= n; b += 32) {
        const sks_v8 *v = (const sks_v8 *)(x + b), *w = (const sks_v8 *)(y + b);
        if (!sks_any((sks_m8)(v[0] + w[0] >= least) | (sks_m8)(v[1] + w[1] >= least)
                     | (sks_m8)(v[2] + w[2] >= least) | (sks_m8)(v[3] + w[3] >= least)))
            continue;
        /* without branches: which of them it is cannot be foretold */
        for (int j = 0; j < 32; j++) {
            out[count] = (int32_t)(b + j);
            count += x[b + j] + y[b + j] >= least;
        }
    }
#endif
    for (; b < n; b++)
        if (x[b] + y[b] >= least) out[count++] = (int32_t)b;
    return count;
}

/* ---- features ---- */

/* Dense feature rows, `rows` of them one after the other, against the weights of all
   labels: out (rows x ld) = init + the rows times the weights (n x ld). Sixteen labels
   of four rows at a time stay in registers, and the weights of a block of labels in the
   cache while all rows pass. */
#define SKS_PRODUCT(suffix, real)                                                      \
    SKS_INLINE void sks_product_block_##suffix(                                        \
        const int rows, const int width, ptrdiff_t n, const real *value,               \
        const double *weights, ptrdiff_t ld, const double *init, double *out)          \
    {                                                                                  \
        double acc[4][16];                                                             \
        for (int r = 0; r < rows; r++)                                                 \
            for (int j = 0; j < width; j++) acc[r][j] = init[j];                       \
        for (ptrdiff_t p = 0; p < n; p++)                                              \
            for (int r = 0; r < rows; r++)                                             \
                sks_fma(width, value[r * n + p], weights + p * ld, acc[r]);            \
        for (int r = 0; r < rows; r++)                                                 \
            for (int j = 0; j < width; j++) out[r * ld + j] = acc[r][j];               \
    }                                                                                  \
    SKS_INLINE void sks_product_columns_##suffix(                                      \
        const int width, ptrdiff_t rows, ptrdiff_t n, const real *value,               \
        const double *weights, ptrdiff_t ld, const double *init, double *out)          \
    {                                                                                  \
        ptrdiff_t r = 0;                                                               \
        for (; r + 4 <= rows; r += 4)                                                  \
            sks_product_block_##suffix(4, width, n, value + r * n, weights, ld, init,  \
                                       out + r * ld);                                  \
        /* a row alone would take as long as four */                                   \
        if (rows - r == 3)                                                             \
            sks_product_block_##suffix(3, width, n, value + r * n, weights, ld, init,  \
                                       out + r * ld);                                  \
        else if (rows - r == 2)                                                        \
            sks_product_block_##suffix(2, width, n, value + r * n, weights, ld, init,  \
                                       out + r * ld);                                  \
        else if (rows - r == 1)                                                        \
            sks_product_block_##suffix(1, width, n, value + r * n, weights, ld, init,  \
                                       out + r * ld);                                  \
    }                                                                                  \
    static void sks_product_##suffix(                                                  \
        ptrdiff_t rows, ptrdiff_t n, const real *value, const double *weights,         \
        ptrdiff_t ld, ptrdiff_t size, const double *init, double *out)                 \
    {                                                                                  \
        ptrdiff_t b = 0;                                                               \
        for (; b + 16 <= size; b += 16)                                                \
            sks_product_columns_##suffix(16, rows, n, value, weights + b, ld,          \
                                         init + b, out + b);                           \
        if (b + 8 <= size) {                                                           \
            sks_product_columns_##suffix(8, rows, n, value, weights + b, ld, init + b, \
                                         out + b);                                     \
            b += 8;                                                                    \
        }                                                                              \
        if (b < size)                                                                  \
            sks_product_columns_##suffix(4, rows, n, value, weights + b, ld, init + b, \
                                         out + b);                                     \
    }
SKS_PRODUCT(f32, float)
SKS_PRODUCT(f64, double)

#endif
