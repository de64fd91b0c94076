/* Kernels for chains with many labels: searches in long rows, and products of several
   dense feature rows with the weights of all labels. Rows are padded as in `_simd.h`;
   searches read the first n entries of rows of any length. */
#ifndef SKSSTRUCT_SIMD_MANY_H
#define SKSSTRUCT_SIMD_MANY_H

#include "sksstruct/utils/_simd_common.h"

/* ---- searches ---- */

#ifdef SKS_VECTORS
/* Whether a comparison of eight numbers holds for at least one. */
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

/* max x[b] over the b < n with x[b] < bound; -inf if there is no such b */
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

/* Write the maximum of each block of 64 entries; return the maximum of all. */
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

/* Write all b < n with x[b] + y[b] >= least to out, which has room for n, and return
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
        /* append without branches, which would be hard to predict */
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

/* Number of features that are converted to double at a time, and largest number of rows
   that are scattered at a time. */
#define SKS_TILE 64
#define SKS_GROUP 16

/* Number of labels in a block, and number of rows whose sums stay in registers. */
#define SKS_WIDTH(left) ((left) >= 16 ? 16 : (left) >= 12 ? 12 : (left) >= 8 ? 8 : 4)
#if defined(SKS_VECTORS) && SKS_LANES == 8
#define SKS_ROWS(width) 4
#else
#define SKS_ROWS(width) ((width) == 16 ? 2 : 4)
#endif

/* BODY with a constant width of SKS_WIDTH, so that sums stay in registers */
#define SKS_FOR_WIDTH(width, BODY)    \
    switch (width) {          \
    case 16: BODY(16); break;         \
    case 12: BODY(12); break;         \
    case 8: BODY(8); break;           \
    default: BODY(4); break;          \
    }

/* to[:width] = from[:width], in vectors of the same width as in `sks_fma` */
SKS_INLINE void sks_copy(const int width, const double *from, double *to)
{
#ifdef SKS_VECTORS
    if (width % SKS_LANES == 0) {
        for (int j = 0; j < width / SKS_LANES; j++)
            ((sks_lanes *)to)[j] = ((const sks_lanes *)from)[j];
        return;
    }
#endif
    for (int j = 0; j < width; j++) to[j] = from[j];
}

/* Products of `rows` consecutive dense feature rows with the weights of `size` labels:
   out (rows x ld) = init + value (rows x n) times weights (n x ld). Sums of a few rows
   stay in registers, and the weights of a block of labels stay in the cache for all
   rows. */
#define SKS_PRODUCT(suffix, real)                                                      \
    SKS_INLINE void sks_product_block_##suffix(                                        \
        const int rows, const int width, ptrdiff_t n, const real *value,               \
        const double *weights, ptrdiff_t ld, const double *init, double *out)          \
    {                                                                                  \
        double acc[4][16], tile[4][SKS_TILE];                                          \
        for (int r = 0; r < rows; r++) sks_copy(width, init, acc[r]);                  \
        for (ptrdiff_t first = 0; first < n; first += SKS_TILE) {                      \
            const ptrdiff_t count = n - first < SKS_TILE ? n - first : SKS_TILE;       \
            /* convert floats only once; doubles are read in place */                  \
            for (int r = 0; r < rows && sizeof(real) < sizeof(double); r++)            \
                for (ptrdiff_t p = 0; p < count; p++)                                  \
                    tile[r][p] = value[r * n + first + p];                             \
            for (ptrdiff_t p = 0; p < count; p++)                                      \
                for (int r = 0; r < rows; r++)                                         \
                    sks_fma(width,                                                     \
                            sizeof(real) < sizeof(double) ? tile[r][p]                 \
                                                          : value[r * n + first + p],  \
                            weights + (first + p) * ld, acc[r]);                       \
        }                                                                              \
        for (int r = 0; r < rows; r++) sks_copy(width, acc[r], out + r * ld);          \
    }                                                                                  \
    SKS_INLINE void sks_product_columns_##suffix(                                      \
        const int width, ptrdiff_t rows, ptrdiff_t n, const real *value,               \
        const double *weights, ptrdiff_t ld, const double *init, double *out)          \
    {                                                                                  \
        const int most = SKS_ROWS(width);                                              \
        ptrdiff_t r = 0;                                                               \
        for (; r + most <= rows; r += most)                                            \
            sks_product_block_##suffix(most, width, n, value + r * n, weights, ld,     \
                                       init, out + r * ld);                            \
        /* the last rows together, as a single row takes as long as four */            \
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
        int width;                                                                     \
        for (ptrdiff_t b = 0; b < size; b += width) {                                  \
            width = SKS_WIDTH(size - b);                                               \
            SKS_FOR_WIDTH(width, SKS_COLUMNS_##suffix)                                 \
        }                                                                              \
    }
#define SKS_COLUMNS_f32(width)                                                     \
    sks_product_columns_f32(width, rows, n, value, weights + b, ld, init + b, out + b)
#define SKS_COLUMNS_f64(width)                                                     \
    sks_product_columns_f64(width, rows, n, value, weights + b, ld, init + b, out + b)
SKS_PRODUCT(f32, float)
SKS_PRODUCT(f64, double)

/* weights[p, :width] += sum_k tile[k][p] change[k][:width], p < n, k < count */
SKS_INLINE void sks_scatter_tile(const int width, ptrdiff_t count, ptrdiff_t n,
                                 const double (*tile)[SKS_TILE],
                                 const double (*change)[8], ptrdiff_t ld,
                                 double *weights)
{
    ptrdiff_t p = 0;
    for (; p + 4 <= n; p += 4) {
        double acc[4][8];
        for (int q = 0; q < 4; q++) sks_copy(width, weights + (p + q) * ld, acc[q]);
        for (ptrdiff_t k = 0; k < count; k++)
            for (int q = 0; q < 4; q++) sks_fma(width, tile[k][p + q], change[k], acc[q]);
        for (int q = 0; q < 4; q++) sks_copy(width, acc[q], weights + (p + q) * ld);
    }
    for (; p < n; p++)
        for (ptrdiff_t k = 0; k < count; k++)
            sks_fma(width, tile[k][p], change[k], weights + p * ld);
}

/* Write scale times the first `width` entries of some rows of `change` to out; return
   whether any of these entries is nonzero. */
SKS_INLINE int sks_scaled_rows(ptrdiff_t count, const int32_t *rows, double scale,
                               const double *change, ptrdiff_t ld, const int width,
                               double (*out)[8])
{
    uint64_t any = 0, bits[8];
    for (ptrdiff_t k = 0; k < count; k++) {
        const double *row = change + rows[k] * ld;
        memcpy(bits, row, width * sizeof *bits);
        for (int j = 0; j < width; j++) any |= bits[j];
        for (int j = 0; j < width; j++) out[k][j] = scale * row[j];
    }
    return any != 0;
}

/* For each k < count, do what `sks_scatter` does for the dense feature row rows[k] and
   row rows[k] of `change`; each weight is summed in the same order. */
#define SKS_SCATTER_ROWS(suffix, real)                                                 \
    SKS_INLINE void sks_scatter_group_##suffix(                                        \
        ptrdiff_t count, const int32_t *rows, ptrdiff_t n, const real *value,          \
        double scale, const double *change, ptrdiff_t ld, double *weights)             \
    {                                                                                  \
        double tile[SKS_GROUP][SKS_TILE], scaled[SKS_GROUP][8];                       \
        for (ptrdiff_t first = 0; first < n; first += SKS_TILE) {                      \
            const ptrdiff_t m = n - first < SKS_TILE ? n - first : SKS_TILE;           \
            for (ptrdiff_t k = 0; k < count; k++)                                      \
                for (ptrdiff_t p = 0; p < m; p++)                                      \
                    tile[k][p] = value[rows[k] * n + first + p];                       \
            for (ptrdiff_t b = 0; b < ld; b += 8) {                                    \
                double *row = weights + first * ld + b;                                \
                if (!sks_scaled_rows(count, rows, scale, change + b, ld,               \
                                     ld == 4 ? 4 : 8, scaled))                         \
                    continue;                                                          \
                if (ld == 4)                                                           \
                    sks_scatter_tile(4, count, m, tile, scaled, ld, row);              \
                else                                                                   \
                    sks_scatter_tile(8, count, m, tile, scaled, ld, row);              \
            }                                                                          \
        }                                                                              \
    }                                                                                  \
    static void sks_scatter_rows_##suffix(                                             \
        ptrdiff_t count, const int32_t *rows, ptrdiff_t n, const real *value,          \
        double scale, const double *change, ptrdiff_t ld, double *weights)             \
    {                                                                                  \
        /* groups of nearly equal size, as a small group costs as many writes */       \
        for (ptrdiff_t left = count, some; left > 0; left -= some, rows += some) {     \
            const ptrdiff_t groups = (left + SKS_GROUP - 1) / SKS_GROUP;               \
            some = (left + groups - 1) / groups;                                       \
            sks_scatter_group_##suffix(some, rows, n, value, scale, change, ld,        \
                                       weights);                                       \
        }                                                                              \
    }
SKS_SCATTER_ROWS(f32, float)
SKS_SCATTER_ROWS(f64, double)

#endif
