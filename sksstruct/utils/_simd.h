/* Row kernels shared by the inference and model floors.

   A row is one number for each label: the scores of a position, the weights of a
   feature, a line of a table of transitions. The kernels come in families:

     max-product   sks_maxplus, sks_raise, sks_max: messages and maxima over labels
     sums of rows  sks_axpy, sks_dot, sks_add_table, sks_weigh, sks_weigh_add,
                   sks_add_outer, sks_rescale: steps along rows, products, marginals
     dual steps    sks_gram_norm, sks_changed_rows: the norm of a step through a Gram
                   matrix, and the rows that it changes
     features      sks_scores, sks_scores_part, sks_scatter: a sparse or dense feature
                   row times the weights of all labels, and a step back into these;
                   sks_spread, sks_spread_dot, sks_dense_dot, sks_dense_axpy: feature
                   rows times each other, or times the weights of one label
     sum-product   sks_exp_row, sks_logplus, sks_logsum, sks_share: messages as scaled
                   exponentials, or as logarithms where scores differ by too much for
                   those, and the probabilities that follow

   They are in C for what Cython has no words for. The compiler makes one version of a
   function for each instruction set and the loader picks the best one, so that a wheel
   built for any x86-64 is still fast; elsewhere the plain loops are compiled for the
   target at hand. Widths of blocks are constants, by macros, so that accumulators stay
   in registers. Vector types say what to do with eight numbers at a time, and
   `restrict` that rows do not overlap.

   Padding: every table is stored with rows of `ld` doubles, ld being 4, or a multiple
   of 8 from 8 on (see utils._layout.padded_length), so that all loops run over whole
   vectors and none has a rest to take care of. The padding holds finite values that are
   never read as labels: kernels write to it, and sums over labels are over n entries or
   have zeros there. Only feature rows, and the row of sks_max, may have any length.

   Alignment: tables begin on a cache line (utils._layout.aligned_zeros), and so does
   each row from 8 labels on, so that no vector is in two lines. That is for speed only:
   vector types below have the alignment of a double.

   Sums are formed in eight interleaved parts, put together at the end. Some instruction
   sets fuse products and sums, so that last digits depend on the machine. */
#ifndef SKSSTRUCT_SIMD_H
#define SKSSTRUCT_SIMD_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 \
    && defined(__x86_64__) && defined(__linux__)
#define SKS_CLONES \
    static __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SKS_CLONES static
#endif
#if defined(__GNUC__)
#define SKS_INLINE static inline __attribute__((always_inline))
#define SKS_RESTRICT __restrict__
#define SKS_UNUSED __attribute__((unused))
#else
#define SKS_INLINE static inline
#define SKS_RESTRICT
#define SKS_UNUSED
#endif

/* Eight doubles at a time where the compiler has vector types; left to itself it makes
   gathers over the features out of the loops below, at half the speed. */
#if defined(__GNUC__)
#define SKS_VECTORS 1
typedef double sks_v8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef uint64_t sks_m8 __attribute__((vector_size(64), aligned(8), may_alias));
#endif

/* Ask for memory that is needed soon. */
static SKS_UNUSED void sks_prefetch(const void *start, ptrdiff_t size)
{
#if defined(__GNUC__)
    const char *p = (const char *)start;
    for (ptrdiff_t k = 0; k < size; k += 64) __builtin_prefetch(p + k);
#else
    (void)start, (void)size;
#endif
}

/* Calls BODY(width, first) on blocks of at most 32 columns; the constant widths let
   the compiler keep a block's accumulators in registers. */
#define SKS_BLOCKS(ld, BODY)                          \
    do {                                              \
        ptrdiff_t b_ = 0;                             \
        for (; b_ + 32 <= (ld); b_ += 32) BODY(32, b_); \
        switch ((ld) - b_) {                          \
        case 24: BODY(24, b_); break;                 \
        case 16: BODY(16, b_); break;                 \
        case 8: BODY(8, b_); break;                   \
        case 4: BODY(4, b_); break;                   \
        default: break;                               \
        }                                             \
    } while (0)

/* ---- max-product, and sums of rows ---- */

/* out[b] += max_a prev[a] + table[a, b], a < n: one step of max-product. */
SKS_INLINE void sks_maxplus_block(const int width, ptrdiff_t n, ptrdiff_t ld,
                                  const double *SKS_RESTRICT prev,
                                  const double *SKS_RESTRICT table,
                                  double *SKS_RESTRICT out)
{
    double acc[32];
    for (int j = 0; j < width; j++) acc[j] = prev[0] + table[j];
    for (ptrdiff_t a = 1; a < n; a++) {
        const double p = prev[a];
        const double *row = table + a * ld;
        for (int j = 0; j < width; j++) {
            const double c = p + row[j];
            acc[j] = c > acc[j] ? c : acc[j];
        }
    }
    for (int j = 0; j < width; j++) out[j] += acc[j];
}
#define SKS_BODY(width, b) sks_maxplus_block(width, n, ld, prev, table + (b), out + (b))
SKS_CLONES SKS_UNUSED void sks_maxplus(ptrdiff_t n, ptrdiff_t ld, const double *prev,
                                       const double *table, double *out)
{
    SKS_BLOCKS(ld, SKS_BODY);
}
#undef SKS_BODY

/* out[b] += scale * row[b] */
#define SKS_BODY(width, b) \
    for (int j = 0; j < (width); j++) out[(b) + j] += scale * row[(b) + j]
SKS_CLONES SKS_UNUSED void sks_axpy(ptrdiff_t ld, double scale,
                                    const double *SKS_RESTRICT row,
                                    double *SKS_RESTRICT out)
{
    SKS_BLOCKS(ld, SKS_BODY);
}
#undef SKS_BODY

/* sum_b x[b] y[b] over a row and its padding, which is zero in one of them. */
SKS_INLINE double sks_dot(ptrdiff_t ld, const double *SKS_RESTRICT x,
                          const double *SKS_RESTRICT y)
{
    double acc[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    if (ld == 4) {
        for (int j = 0; j < 4; j++) acc[j] = x[j] * y[j];
    } else {
        for (ptrdiff_t b = 0; b < ld; b += 8)
            for (int j = 0; j < 8; j++) acc[j] += x[b + j] * y[b + j];
    }
    return ((acc[0] + acc[4]) + (acc[2] + acc[6]))
           + ((acc[1] + acc[5]) + (acc[3] + acc[7]));
}

/* acc[:width] += v * row[:width], width a constant: the step of all feature kernels. */
SKS_INLINE void sks_fma(const int width, double v, const double *row, double *acc)
{
#ifdef SKS_VECTORS
    if (width % 8 == 0) {
        for (int j = 0; j < width / 8; j++)
            ((sks_v8 *)acc)[j] += v * ((const sks_v8 *)row)[j];
        return;
    }
#endif
    for (int j = 0; j < width; j++) acc[j] += v * row[j];
}

/* ---- dual steps ---- */

/* sum_{p,q < n} (gram[rows[p], rows[q]] + shift) <d[rows[p]], d[rows[q]]>: the squared
   norm of F' d through the Gram matrix (size x size) of an example's own features. The
   sums of a row are as many as its labels, so that none waits for another. */
SKS_INLINE double sks_gram_norm_block(const int width, ptrdiff_t n, const int32_t *rows,
                                      ptrdiff_t size, const double *gram, double shift,
                                      ptrdiff_t ld, const double *d)
{
    double total[32] = {0.0}, sum = 0.0;
    for (ptrdiff_t p = 0; p < n; p++) {
        const double *k = gram + rows[p] * size, *x = d + rows[p] * ld;
        double acc[32] = {0.0};
        /* the lower half counts twice: double it, then add half the diagonal */
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
SKS_CLONES SKS_UNUSED double sks_gram_norm(ptrdiff_t n, const int32_t *rows,
                                           ptrdiff_t size, const double *gram,
                                           double shift, ptrdiff_t ld, const double *d)
{
    double sum = 0.0;
    SKS_BLOCKS(ld, SKS_BODY);
    return sum;
}
#undef SKS_BODY

/* Keep the entries of a row that are at least tiny in size, zero the others; is one
   kept? Sizes of doubles compare as their bits do, without the sign: subtractions and
   shifts, which every instruction set has for whole vectors. */
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

/* Rows of d (n x ld) with an entry above tiny; the rest of d is set to zero. Convex
   combinations leave entries that cancel to rounding error: they are no change. */
SKS_CLONES SKS_UNUSED ptrdiff_t sks_changed_rows(ptrdiff_t n, ptrdiff_t ld, double tiny,
                                                 double *d, int32_t *rows)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t t = 0; t < n; t++)
        if (sks_clean_row(ld, tiny, d + t * ld)) rows[count++] = (int32_t)t;
    return count;
}

/* ---- features ---- */

/* One feature row against the weights (n_features x ld), features in float or double;
   index is NULL for a dense row, and value for a sparse one that is all ones.
     sks_scores:  out[:] = init[:] + sum_p value[p] weights[index[p], :]
     sks_scores_part: the same for `size` labels out of the ld of a row
     sks_scatter: weights[index[p], :] += value[p] * scale * change[:] */
#define SKS_VALUE(p) (value ? value[p] : 1)
#define SKS_FEATURES(suffix, real)                                                     \
    SKS_INLINE void sks_scores_block_##suffix(                                         \
        const int width, ptrdiff_t n, const int32_t *index, const real *value,         \
        const double *weights, ptrdiff_t ld, const double *init, double *out)          \
    {                                                                                  \
        /* few labels: two sums, so that the next feature need not wait for this one */ \
        const int two = width == 8 || width == 16 || (width == 4 && !index);           \
        double acc[32], odd[16] = {0.0};                                               \
        ptrdiff_t p = 0;                                                               \
        for (int j = 0; j < width; j++) acc[j] = init[j];                              \
        for (; two && p + 2 <= n; p += 2) {                                            \
            sks_fma(width, SKS_VALUE(p), weights + (index ? index[p] : p) * ld, acc);  \
            sks_fma(width, SKS_VALUE(p + 1),                                           \
                    weights + (index ? index[p + 1] : p + 1) * ld, odd);               \
        }                                                                              \
        for (; p < n; p++)                                                             \
            sks_fma(width, SKS_VALUE(p), weights + (index ? index[p] : p) * ld, acc);  \
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
    SKS_CLONES SKS_UNUSED void sks_scores_##suffix(                                    \
        ptrdiff_t n, const int32_t *index, const real *value, const double *weights,   \
        ptrdiff_t ld, const double *init, double *out)                                 \
    {                                                                                  \
        if (index && value)                                                            \
            SKS_BLOCKS(ld, SKS_SPARSE_##suffix);                                       \
        else if (index)                                                                \
            SKS_BLOCKS(ld, SKS_UNIT_##suffix);                                         \
        else                                                                           \
            SKS_BLOCKS(ld, SKS_DENSE_##suffix);                                        \
    }                                                                                  \
    SKS_CLONES SKS_UNUSED void sks_scores_part_##suffix(                               \
        ptrdiff_t n, const int32_t *index, const real *value, const double *weights,   \
        ptrdiff_t ld, ptrdiff_t size, const double *init, double *out)                 \
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
        /* a cache line of labels at a time, up to four, and only those that change */ \
        for (ptrdiff_t b = 0; b < ld; b += 8) {                                        \
            uint64_t bits[8], any = 0;                                                 \
            memcpy(bits, change + b, sizeof bits);                                     \
            for (int j = 0; j < 8; j++) any |= bits[j];                                \
            if (any) {                                                                 \
                for (int j = 0; j < 8; j++) c[8 * count + j] = scale * change[b + j];  \
                first[count++] = b;                                                    \
            }                                                                          \
            if (count < 4 && b + 8 < ld) continue;                                     \
            /* constants, so that what is added stays in registers */                  \
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
    SKS_CLONES SKS_UNUSED void sks_scatter_##suffix(                                   \
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

/* A feature row written into a dense vector, and the product of another with it: two
   sparse rows are multiplied without looking for the indices that they share. */
#define SKS_SPREAD(suffix, real)                                                       \
    static SKS_UNUSED void sks_spread_##suffix(                                        \
        ptrdiff_t n, const int32_t *index, const real *value, double *out)             \
    {                                                                                  \
        for (ptrdiff_t p = 0; p < n; p++) out[index ? index[p] : p] = SKS_VALUE(p);    \
    }                                                                                  \
    static SKS_UNUSED double sks_spread_dot_##suffix(                                  \
        ptrdiff_t n, const int32_t *index, const real *value, const double *spread)    \
    {                                                                                  \
        double even = 0.0, odd = 0.0;                                                  \
        ptrdiff_t p = 0;                                                               \
        for (; p + 2 <= n; p += 2) {                                                   \
            even += SKS_VALUE(p) * spread[index ? index[p] : p];                       \
            odd += SKS_VALUE(p + 1) * spread[index ? index[p + 1] : p + 1];            \
        }                                                                              \
        if (p < n) even += SKS_VALUE(p) * spread[index ? index[p] : p];                \
        return even + odd;                                                             \
    }

SKS_SPREAD(f32, float)
SKS_SPREAD(f64, double)

/* Product of a dense row with the weights of one label, and a step along it. */
#define SKS_DENSE(suffix, real)                                                        \
    SKS_CLONES SKS_UNUSED double sks_dense_dot_##suffix(                               \
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
    SKS_CLONES SKS_UNUSED void sks_dense_axpy_##suffix(                                \
        ptrdiff_t n, double scale, const real *SKS_RESTRICT value,                     \
        double *SKS_RESTRICT weights)                                                  \
    {                                                                                  \
        for (ptrdiff_t p = 0; p < n; p++) weights[p] += scale * value[p];              \
    }
SKS_DENSE(f32, float)
SKS_DENSE(f64, double)

#define SKS_SPARSE_f32(width, b) \
    sks_scores_block_f32(width, n, index, value, weights + (b), ld, init + (b), out + (b))
#define SKS_SPARSE_f64(width, b) \
    sks_scores_block_f64(width, n, index, value, weights + (b), ld, init + (b), out + (b))
#define SKS_UNIT_f32(width, b) \
    sks_scores_block_f32(width, n, index, NULL, weights + (b), ld, init + (b), out + (b))
#define SKS_UNIT_f64(width, b) \
    sks_scores_block_f64(width, n, index, NULL, weights + (b), ld, init + (b), out + (b))
#define SKS_DENSE_f32(width, b) \
    sks_scores_block_f32(width, n, NULL, value, weights + (b), ld, init + (b), out + (b))
#define SKS_DENSE_f64(width, b) \
    sks_scores_block_f64(width, n, NULL, value, weights + (b), ld, init + (b), out + (b))
#define SKS_SCATTER(suffix, width, count) \
    sks_scatter_block_##suffix(width, count, n, index, value, c, first, ld, weights)
SKS_FEATURES(f32, float)
SKS_FEATURES(f64, double)

/* ---- more of max-product: single rows of any length, and updates ---- */

/* max x[b], b < n; -inf without any */
SKS_CLONES SKS_UNUSED double sks_max(ptrdiff_t n, const double *x)
{
    double best[8], top;
    ptrdiff_t b = 0;
    for (int j = 0; j < 8; j++) best[j] = -INFINITY;
    for (; b + 8 <= n; b += 8)
        for (int j = 0; j < 8; j++) best[j] = x[b + j] > best[j] ? x[b + j] : best[j];
    top = best[0];
    for (int j = 1; j < 8; j++) top = best[j] > top ? best[j] : top;
    for (; b < n; b++) top = x[b] > top ? x[b] : top;
    return top;
}

/* out[b] = max(out[b], value + row[b]) */
#define SKS_BODY(width, b)                                  \
    for (int j = 0; j < (width); j++) {                     \
        const double c = value + row[(b) + j];              \
        out[(b) + j] = c > out[(b) + j] ? c : out[(b) + j]; \
    }
SKS_CLONES SKS_UNUSED void sks_raise(ptrdiff_t ld, double value,
                                     const double *SKS_RESTRICT row,
                                     double *SKS_RESTRICT out)
{
    SKS_BLOCKS(ld, SKS_BODY);
}
#undef SKS_BODY

/* ---- sum-product: sums of products of exponentials ---- */

/* exp of eight numbers x <= 0: 2^n e^r with |r| <= log(2)/2 and the Taylor series of
   e^r, within two units in the last place. Exactly zero below -708, -inf included. */
SKS_INLINE void sks_exp8(const double *x, double *out)
{
#ifdef SKS_VECTORS
    const sks_v8 v = *(const sks_v8 *)x;
    /* adding 1.5 * 2^52 rounds to the nearest integer, which is in the low bits then */
    const sks_v8 shifted = v * 0x1.71547652b82fep+0 + 0x1.8p52;
    const sks_v8 n = shifted - 0x1.8p52;
    const sks_v8 r = (v - n * 0x1.62e42fefa38p-1) - n * 0x1.ef35793c7673p-45;
    sks_v8 e = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0;
    e = e * r + 1.0 / 39916800.0;
    e = e * r + 1.0 / 3628800.0;
    e = e * r + 1.0 / 362880.0;
    e = e * r + 1.0 / 40320.0;
    e = e * r + 1.0 / 5040.0;
    e = e * r + 1.0 / 720.0;
    e = e * r + 1.0 / 120.0;
    e = e * r + 1.0 / 24.0;
    e = e * r + 1.0 / 6.0;
    e = e * r + 0.5;
    e = e * r + 1.0;
    e = e * r + 1.0;
    const sks_v8 above = v + 708.0;
    const sks_m8 zero = -((sks_m8)above >> 63);
    *(sks_m8 *)out = ((sks_m8)e + ((sks_m8)shifted << 52)) & ~zero;
#else
    for (int j = 0; j < 8; j++) out[j] = x[j] < -708.0 ? 0.0 : exp(x[j]);
#endif
}

/* Rows of four are worked on as eight, the rest at `fill`. */
#define SKS_OCTETS(ld, in, fill, BODY)                          \
    for (ptrdiff_t b = 0; b < (ld); b += 8) {                   \
        const int width_ = (ld) == 4 ? 4 : 8;                   \
        double x[8] = {fill, fill, fill, fill, fill, fill, fill, fill}; \
        memcpy(x, (in) + b, sizeof(double) * width_);           \
        BODY                                                    \
    }

/* out = exp(in - max), zero in the padding; returns the maximum of the n entries.
   *low is the smallest of them that is not -inf, minus the maximum. If all are -inf,
   out is zero. */
SKS_CLONES SKS_UNUSED double sks_exp_row(ptrdiff_t n, ptrdiff_t ld, const double *in,
                                         double *out, double *low)
{
    double highest[8], lowest[8], top, bottom = INFINITY;
    const ptrdiff_t full = ld == 4 ? 0 : n / 8 * 8;
    for (int j = 0; j < 8; j++) highest[j] = -INFINITY, lowest[j] = INFINITY;
    for (ptrdiff_t b = 0; b < full; b += 8)
        for (int j = 0; j < 8; j++) {
            const double c = in[b + j];
            const double d = c < -DBL_MAX ? INFINITY : c;
            highest[j] = c > highest[j] ? c : highest[j];
            lowest[j] = d < lowest[j] ? d : lowest[j];
        }
    for (ptrdiff_t b = full; b < n; b++) {
        const double c = in[b];
        const double d = c < -DBL_MAX ? INFINITY : c;
        highest[b - full] = c > highest[b - full] ? c : highest[b - full];
        lowest[b - full] = d < lowest[b - full] ? d : lowest[b - full];
    }
    top = highest[0];
    for (int j = 0; j < 8; j++) {
        top = highest[j] > top ? highest[j] : top;
        bottom = lowest[j] < bottom ? lowest[j] : bottom;
    }
    *low = bottom - top;
    if (top < -DBL_MAX) {
        *low = 0.0;
        for (ptrdiff_t b = 0; b < ld; b++) out[b] = 0.0;
        return top;
    }
    SKS_OCTETS(ld, in, top, {
        double e[8];
        for (int j = 0; j < 8; j++) x[j] -= top;
        /* the padding may be above the maximum */
        for (int j = 0; j < 8; j++) x[j] = x[j] > 0.0 ? 0.0 : x[j];
        sks_exp8(x, e);
        memcpy(out + b, e, sizeof(double) * width_);
    })
    for (ptrdiff_t b = n; b < ld; b++) out[b] = 0.0;
    return top;
}

/* y += a x, for whole tables: any multiple of 4, where sks_axpy takes single rows */
SKS_CLONES SKS_UNUSED void sks_add_table(ptrdiff_t n, double a, const double *x,
                                         double *y)
{
    for (ptrdiff_t b = 0; b < n; b += 4)
        for (int j = 0; j < 4; j++) y[b + j] += a * x[b + j];
}

/* out += x * y, entry by entry */
SKS_CLONES SKS_UNUSED void sks_weigh_add(ptrdiff_t n, const double *x, const double *y,
                                         double *out)
{
    for (ptrdiff_t b = 0; b < n; b += 4)
        for (int j = 0; j < 4; j++) out[b + j] += x[b + j] * y[b + j];
}

/* out = x * y entry by entry; returns their sum. */
SKS_CLONES SKS_UNUSED double sks_weigh(ptrdiff_t ld, const double *x, const double *y,
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

/* x *= scale, all entries being >= 0; returns the smallest that is not zero. */
SKS_CLONES SKS_UNUSED double sks_rescale(ptrdiff_t ld, double scale, double *x)
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
SKS_CLONES SKS_UNUSED void sks_add_outer(ptrdiff_t n, ptrdiff_t ld, double scale,
                                         const double *SKS_RESTRICT x,
                                         const double *SKS_RESTRICT y,
                                         double *SKS_RESTRICT table)
{
    SKS_BLOCKS(ld, SKS_BODY);
}
#undef SKS_BODY

/* out[b] += log sum_a exp(prev[a] + table[a, b]), a < n, safe for any size of score:
   one step of sum-product in log space. */
SKS_CLONES SKS_UNUSED void sks_logplus(ptrdiff_t n, ptrdiff_t ld,
                                       const double *SKS_RESTRICT prev,
                                       const double *SKS_RESTRICT table,
                                       double *SKS_RESTRICT out)
{
    const int width = ld == 4 ? 4 : 8;
    for (ptrdiff_t b = 0; b < ld; b += width) {
        double high[8], sum[8], x[8], e[8];
        for (int j = 0; j < 8; j++) high[j] = -INFINITY, sum[j] = 0.0, x[j] = 0.0;
        for (ptrdiff_t a = 0; a < n; a++)
            for (int j = 0; j < width; j++) {
                const double c = prev[a] + table[a * ld + b + j];
                high[j] = c > high[j] ? c : high[j];
            }
        for (int j = 0; j < 8; j++) high[j] = high[j] < -DBL_MAX ? 0.0 : high[j];
        for (ptrdiff_t a = 0; a < n; a++) {
            for (int j = 0; j < width; j++)
                x[j] = prev[a] + table[a * ld + b + j] - high[j];
            sks_exp8(x, e);
            for (int j = 0; j < width; j++) sum[j] += e[j];
        }
        for (int j = 0; j < width; j++) out[b + j] += high[j] + log(sum[j]);
    }
}

/* What is below this, and added to one, cannot be seen. */
#define SKS_NOTHING -100.0

/* log sum_b exp(row[b] + after[b]), the padding of `after` being -inf. Where few terms
   count, few exponentials are taken. */
SKS_CLONES SKS_UNUSED double sks_logsum(ptrdiff_t ld, const double *SKS_RESTRICT row,
                                        const double *SKS_RESTRICT after)
{
    const int width = ld == 4 ? 4 : 8;
    double high[8], e[8], x[8], top, sum = 0.0;
    for (int j = 0; j < 8; j++) high[j] = x[j] = -INFINITY;
    for (ptrdiff_t b = 0; b < ld; b += width)
        for (int j = 0; j < width; j++) {
            const double c = row[b + j] + after[b + j];
            high[j] = c > high[j] ? c : high[j];
        }
    top = high[0];
    for (int j = 1; j < 8; j++) top = high[j] > top ? high[j] : top;
    if (top < -DBL_MAX) return -INFINITY;
    for (ptrdiff_t b = 0; b < ld; b += width) {
        int counts = 0;
        for (int j = 0; j < width; j++) {
            x[j] = row[b + j] + after[b + j] - top;
            counts |= x[j] > SKS_NOTHING;
        }
        if (!counts) continue;
        sks_exp8(x, e);
        for (int j = 0; j < width; j++) sum += e[j];
    }
    return top + log(sum);
}

/* e = exp(row + after - total), made to sum to one; next += share e, and, where there
   is a pair, pair += weight share e. */
SKS_CLONES SKS_UNUSED void sks_share(ptrdiff_t ld, const double *SKS_RESTRICT row,
                                     const double *SKS_RESTRICT after, double total,
                                     double share, double weight,
                                     double *SKS_RESTRICT e, double *SKS_RESTRICT next,
                                     double *SKS_RESTRICT pair)
{
    const int width = ld == 4 ? 4 : 8;
    double x[8], y[8], sum = 0.0;
    for (int j = 0; j < 8; j++) x[j] = -INFINITY;
    for (ptrdiff_t b = 0; b < ld; b += width) {
        int counts = 0;
        for (int j = 0; j < width; j++) {
            x[j] = row[b + j] + after[b + j] - total;
            counts |= x[j] > SKS_NOTHING;
            y[j] = 0.0;
        }
        if (counts) sks_exp8(x, y);
        for (int j = 0; j < width; j++) {
            e[b + j] = y[j];
            sum += y[j];
        }
    }
    share /= sum;
    weight *= share;
    for (ptrdiff_t b = 0; b < ld; b += 4)
        for (int j = 0; j < 4; j++) next[b + j] += share * e[b + j];
    if (pair == NULL) return;
    for (ptrdiff_t b = 0; b < ld; b += 4)
        for (int j = 0; j < 4; j++) pair[b + j] += weight * e[b + j];
}

#endif
