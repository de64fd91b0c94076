/* Max-product, sums of rows and dual steps. See `_simd.h`. */
#ifndef SKSSTRUCT_SIMD_ROWS_H
#define SKSSTRUCT_SIMD_ROWS_H

#include "sksstruct/utils/_simd_common.h"

/* ---- max-product, and sums of rows ---- */

/* out[b] += max_a prev[a] + table[a, b], a < n: one step of max-product. */
#define SKS_MAXPLUS(name, real)                                                        \
    SKS_INLINE void name##_block(const int width, ptrdiff_t n, ptrdiff_t ld,           \
                                 const real *SKS_RESTRICT prev,                        \
                                 const real *SKS_RESTRICT table,                       \
                                 real *SKS_RESTRICT out)                               \
    {                                                                                  \
        real acc[32];                                                                  \
        for (int j = 0; j < width; j++) acc[j] = prev[0] + table[j];                   \
        for (ptrdiff_t a = 1; a < n; a++) {                                            \
            const real p = prev[a];                                                    \
            const real *row = table + a * ld;                                          \
            for (int j = 0; j < width; j++) {                                          \
                const real c = p + row[j];                                             \
                acc[j] = c > acc[j] ? c : acc[j];                                      \
            }                                                                          \
        }                                                                              \
        for (int j = 0; j < width; j++) out[j] += acc[j];                              \
    }                                                                                  \
    static void name(ptrdiff_t n, ptrdiff_t ld, const real *prev, const real *table,   \
                     real *out)                                                        \
    {                                                                                  \
        SKS_BLOCKS(ld, name##_body);                                                   \
    }
#define sks_maxplus_body(width, b) \
    sks_maxplus_block(width, n, ld, prev, table + (b), out + (b))
SKS_MAXPLUS(sks_maxplus, double)
#define sks_single_maxplus_body(width, b) \
    sks_single_maxplus_block(width, n, ld, prev, table + (b), out + (b))
SKS_MAXPLUS(sks_single_maxplus, float)

/* out[b] += scale * row[b] */
#define SKS_BODY(width, b) \
    for (int j = 0; j < (width); j++) out[(b) + j] += scale * row[(b) + j]
static void sks_axpy(ptrdiff_t ld, double scale,
                     const double *SKS_RESTRICT row,
                     double *SKS_RESTRICT out)
{
    SKS_BLOCKS(ld, SKS_BODY);
}
#undef SKS_BODY

/* ---- more of max-product: single rows of any length, and updates ---- */

/* max x[b], b < n; -inf for n = 0 */
static double sks_max(ptrdiff_t n, const double *SKS_RESTRICT x)
{
    double best[8], top;
    ptrdiff_t b = 0;
    if (n < 8) {
        top = n ? x[0] : -INFINITY;
        for (b = 1; b < n; b++) top = SKS_MAX(x[b], top);
        return top;
    }
    /* initialized with the last block, which may overlap the one before it */
    for (int j = 0; j < 8; j++) best[j] = x[n - 8 + j];
    for (; b + 8 <= n; b += 8)
        for (int j = 0; j < 8; j++) best[j] = SKS_MAX(x[b + j], best[j]);
    top = best[0];
    for (int j = 1; j < 8; j++) top = SKS_MAX(best[j], top);
    return top;
}

/* out[b] = max(out[b], value + row[b]) */
#define SKS_BODY(width, b)                                  \
    for (int j = 0; j < (width); j++) {                     \
        const double c = value + row[(b) + j];              \
        out[(b) + j] = c > out[(b) + j] ? c : out[(b) + j]; \
    }
static void sks_raise(ptrdiff_t ld, double value,
                      const double *SKS_RESTRICT row,
                      double *SKS_RESTRICT out)
{
    SKS_BLOCKS(ld, SKS_BODY);
}
#undef SKS_BODY

/* ---- sums of rows ---- */

/* y += a x for whole tables, n a multiple of 4; sks_axpy is for single rows */
static void sks_add_table(ptrdiff_t n, double a, const double *x,
                          double *y)
{
    for (ptrdiff_t b = 0; b < n; b += 4)
        for (int j = 0; j < 4; j++) y[b + j] += a * x[b + j];
}

/* out += x * y, entry by entry */
static void sks_weigh_add(ptrdiff_t n, const double *x, const double *y,
                          double *out)
{
    for (ptrdiff_t b = 0; b < n; b += 4)
        for (int j = 0; j < 4; j++) out[b + j] += x[b + j] * y[b + j];
}

/* out = x * y entry by entry; returns the sum of out. */
static double sks_weigh(ptrdiff_t ld, const double *x, const double *y,
                        double *out)
{
    double acc[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    if (ld == 4) {
        for (int j = 0; j < 4; j++) acc[j] = out[j] = x[j] * y[j];
    } else {
        for (ptrdiff_t b = 0; b < ld; b += 8)
            for (int j = 0; j < 8; j++) {
                const double c = x[b + j] * y[b + j];
                out[b + j] = c;
                acc[j] += c;
            }
    }
    return ((acc[0] + acc[4]) + (acc[2] + acc[6]))
           + ((acc[1] + acc[5]) + (acc[3] + acc[7]));
}

/* x *= scale for x >= 0; returns the smallest nonzero entry. */
static double sks_rescale(ptrdiff_t ld, double scale, double *x)
{
    double lowest[8], low = INFINITY;
    const int width = ld == 4 ? 4 : 8;
    for (int j = 0; j < 8; j++) lowest[j] = INFINITY;
    for (ptrdiff_t b = 0; b < ld; b += width)
        for (int j = 0; j < width; j++) {
            const double c = x[b + j] * scale;
            const double d = c > 0.0 ? c : INFINITY;
            x[b + j] = c;
            lowest[j] = d < lowest[j] ? d : lowest[j];
        }
    for (int j = 0; j < 8; j++) low = lowest[j] < low ? lowest[j] : low;
    return low;
}

/* table[a, :] += (scale x[a]) y[:], a < n */
#define SKS_BODY(width, b)                                                    \
    do {                                                                      \
        double row[32];                                                       \
        for (int j = 0; j < (width); j++) row[j] = y[(b) + j];                \
        for (ptrdiff_t a = 0; a < n; a++) {                                   \
            const double c = scale * x[a];                                    \
            for (int j = 0; j < (width); j++) table[a * ld + (b) + j] += c * row[j]; \
        }                                                                     \
    } while (0)
static void sks_add_outer(ptrdiff_t n, ptrdiff_t ld, double scale,
                          const double *SKS_RESTRICT x,
                          const double *SKS_RESTRICT y,
                          double *SKS_RESTRICT table)
{
    SKS_BLOCKS(ld, SKS_BODY);
}
#undef SKS_BODY

/* ---- dual steps ---- */

/* sum_{p,q < n} (gram[rows[p], rows[q]] + shift) <d[rows[p]], d[rows[q]]>: the squared
   norm of F' d from the Gram matrix (size x size) of an example's features. Each label
   has its own sum, so that additions do not wait for each other. */
SKS_INLINE double sks_gram_norm_block(const int width, ptrdiff_t n, const int32_t *rows,
                                      ptrdiff_t size, const double *gram, double shift,
                                      ptrdiff_t ld, const double *d)
{
    double total[32] = {0.0}, sum = 0.0;
    for (ptrdiff_t p = 0; p < n; p++) {
        const double *k = gram + rows[p] * size, *x = d + rows[p] * ld;
        double acc[32] = {0.0};
        /* the lower triangle plus half of the diagonal, doubled at the end */
        for (ptrdiff_t q = 0; q < p; q++)
            sks_fma(width, k[rows[q]] + shift, d + rows[q] * ld, acc);
        sks_fma(width, 0.5 * (k[rows[p]] + shift), x, acc);
        for (int j = 0; j < width; j++) total[j] += acc[j] * x[j];
    }
    for (int j = 8; j < width; j++) total[j % 8] += total[j];
    sum = ((total[0] + total[4]) + (total[2] + total[6]))
          + ((total[1] + total[5]) + (total[3] + total[7]));
    return 2.0 * sum;
}
#define SKS_BODY(width, b) \
    sum += sks_gram_norm_block(width, n, rows, size, gram, shift, ld, d + (b))
static double sks_gram_norm(ptrdiff_t n, const int32_t *rows,
                            ptrdiff_t size, const double *gram,
                            double shift, ptrdiff_t ld, const double *d)
{
    double sum = 0.0;
    SKS_BLOCKS(ld, SKS_BODY);
    return sum;
}
#undef SKS_BODY

/* Set entries of a row below `tiny` in absolute value to zero; return whether any entry
   is left. Absolute values of doubles compare like their bits without the sign, by
   subtractions and shifts that every instruction set has for vectors. */
SKS_INLINE int sks_clean_row(ptrdiff_t ld, double tiny, double *row)
{
    uint64_t any = 0, limit;
    memcpy(&limit, &tiny, sizeof limit);
#ifdef SKS_VECTORS
    if (ld % 8 == 0) {
        sks_m8 *bits = (sks_m8 *)row, kept = {0};
        for (ptrdiff_t b = 0; b < ld / 8; b++) {
            const sks_m8 x = bits[b];
            const sks_m8 small = -(((x & INT64_MAX) - limit) >> 63);
            bits[b] = x & ~small;
            kept |= x & ~small;
        }
        for (int j = 0; j < 8; j++) any |= kept[j];
        return any != 0;
    }
#endif
    for (ptrdiff_t b = 0; b < ld; b++) {
        uint64_t x, small;
        memcpy(&x, row + b, sizeof x);
        small = -(((x & INT64_MAX) - limit) >> 63);
        x &= ~small;
        any |= x;
        memcpy(row + b, &x, sizeof x);
    }
    return any != 0;
}

/* Set entries of d (n x ld) below `tiny` in absolute value to zero, write the numbers
   of the rows with other entries to `rows`, and return how many such rows there are.
   The small entries are rounding errors of convex combinations. */
static ptrdiff_t sks_changed_rows(ptrdiff_t n, ptrdiff_t ld, double tiny,
                                  double *d, int32_t *rows)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t t = 0; t < n; t++)
        if (sks_clean_row(ld, tiny, d + t * ld)) rows[count++] = (int32_t)t;
    return count;
}

#endif
