/* Row kernels shared by the inference and model floors.

   Every table of scores is stored with rows padded to `ld` doubles, ld a multiple of
   four (see utils.padded_length), so that these loops run over whole vectors. The
   padding holds finite values that are never read as labels.

   The compiler makes one version for each instruction set and the loader picks the
   best one, so that a wheel built for any x86-64 is still fast; elsewhere the plain
   loops are compiled for the target at hand. */
#ifndef SKSSTRUCT_SIMD_H
#define SKSSTRUCT_SIMD_H

#include <stddef.h>
#include <stdint.h>

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

/* Calls BODY(width, first) on blocks of at most 32 columns; the constant widths let
   the compiler keep a block's accumulators in registers. */
#define SKS_BLOCKS(ld, BODY)                          \
    do {                                              \
        ptrdiff_t b_ = 0;                             \
        for (; b_ + 32 <= (ld); b_ += 32) BODY(32, b_); \
        switch ((ld) - b_) {                          \
        case 28: BODY(28, b_); break;                 \
        case 24: BODY(24, b_); break;                 \
        case 20: BODY(20, b_); break;                 \
        case 16: BODY(16, b_); break;                 \
        case 12: BODY(12, b_); break;                 \
        case 8: BODY(8, b_); break;                   \
        case 4: BODY(4, b_); break;                   \
        default: break;                               \
        }                                             \
    } while (0)

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

SKS_INLINE double sks_dot(ptrdiff_t ld, const double *SKS_RESTRICT x,
                          const double *SKS_RESTRICT y)
{
    double acc[4] = {0.0, 0.0, 0.0, 0.0};
    for (ptrdiff_t b = 0; b < ld; b += 4)
        for (int j = 0; j < 4; j++) acc[j] += x[b + j] * y[b + j];
    return (acc[0] + acc[2]) + (acc[1] + acc[3]);
}

/* sum_{p,q < n} (gram[rows[p], rows[q]] + shift) <d[rows[p]], d[rows[q]]>: the squared
   norm of F' d through the Gram matrix (size x size) of an example's own features. */
SKS_CLONES SKS_UNUSED double sks_gram_norm(ptrdiff_t n, const int32_t *rows,
                                           ptrdiff_t size, const double *gram,
                                           double shift, ptrdiff_t ld, const double *d)
{
    double total = 0.0;
    for (ptrdiff_t p = 0; p < n; p++) {
        const double *x = d + rows[p] * ld;
        const double *k = gram + rows[p] * size;
        total += (k[rows[p]] + shift) * sks_dot(ld, x, x);
        for (ptrdiff_t q = 0; q < p; q++)
            total += 2.0 * (k[rows[q]] + shift) * sks_dot(ld, x, d + rows[q] * ld);
    }
    return total;
}

/* Rows of d (n x ld) with an entry above tiny; the rest of d is set to zero. Convex
   combinations leave entries that cancel to rounding error: they are no change. */
SKS_CLONES SKS_UNUSED ptrdiff_t sks_changed_rows(ptrdiff_t n, ptrdiff_t ld, double tiny,
                                                 double *d, int32_t *rows)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t t = 0; t < n; t++) {
        double *row = d + t * ld;
        double top = 0.0;
        for (ptrdiff_t b = 0; b < ld; b += 4)
            for (int j = 0; j < 4; j++) {
                const double x = row[b + j] < 0 ? -row[b + j] : row[b + j];
                row[b + j] = x > tiny ? row[b + j] : 0.0;
                top = x > top ? x : top;
            }
        if (top > tiny) rows[count++] = (int32_t)t;
    }
    return count;
}

/* sum of gram[t, s] + shift over the places where two labelings agree, y[t] == z[s],
   plus edge for every pair of consecutive places where they do. */
SKS_CLONES SKS_UNUSED double sks_labeling_gram(ptrdiff_t size, const int32_t *y,
                                               const int32_t *z, const double *gram,
                                               double shift)
{
    double total = 0.0;
    for (ptrdiff_t t = 0; t < size; t++) {
        const double *k = gram + t * size;
        const int32_t label = y[t];
        double acc[4] = {0.0, 0.0, 0.0, 0.0};
        ptrdiff_t s = 0;
        for (; s + 4 <= size; s += 4)
            for (int j = 0; j < 4; j++)
                acc[j] += z[s + j] == label ? k[s + j] + shift : 0.0;
        for (; s < size; s++) acc[0] += z[s] == label ? k[s] + shift : 0.0;
        total += (acc[0] + acc[2]) + (acc[1] + acc[3]);
    }
    /* edges: both endpoints agree */
    for (ptrdiff_t t = 0; t + 1 < size; t++) {
        int count = 0;
        for (ptrdiff_t s = 0; s + 1 < size; s++)
            count += (y[t] == z[s]) & (y[t + 1] == z[s + 1]);
        total += count;
    }
    return total;
}

/* One feature row against the weights (n_features x ld), features in float or double.
     sks_scores_csr:    out[:] = init[:] + sum_j value[j] weights[index[j], :]
     sks_scores_dense:  out[:] = init[:] + sum_j value[j] weights[j, :]
     sks_scatter_csr:   weights[index[j], :] += value[j] * change[:]
     sks_scatter_dense: weights[j, :] += value[j] * change[:] */
#define SKS_FEATURES(suffix, real)                                                     \
    SKS_INLINE void sks_scores_csr_block_##suffix(                                     \
        const int width, ptrdiff_t n, const int32_t *SKS_RESTRICT index,               \
        const real *SKS_RESTRICT value, const double *SKS_RESTRICT weights,            \
        ptrdiff_t ld, const double *SKS_RESTRICT init, double *SKS_RESTRICT out)       \
    {                                                                                  \
        double acc[32];                                                                \
        for (int j = 0; j < width; j++) acc[j] = init[j];                              \
        for (ptrdiff_t p = 0; p < n; p++) {                                            \
            const double v = value[p];                                                 \
            const double *row = weights + (ptrdiff_t)index[p] * ld;                    \
            for (int j = 0; j < width; j++) acc[j] += v * row[j];                      \
        }                                                                              \
        for (int j = 0; j < width; j++) out[j] = acc[j];                               \
    }                                                                                  \
    SKS_INLINE void sks_scores_dense_block_##suffix(                                   \
        const int width, ptrdiff_t n, const real *SKS_RESTRICT value,                  \
        const double *SKS_RESTRICT weights, ptrdiff_t ld,                              \
        const double *SKS_RESTRICT init, double *SKS_RESTRICT out)                     \
    {                                                                                  \
        double acc[32];                                                                \
        for (int j = 0; j < width; j++) acc[j] = init[j];                              \
        for (ptrdiff_t p = 0; p < n; p++) {                                            \
            const double v = value[p];                                                 \
            const double *row = weights + p * ld;                                      \
            for (int j = 0; j < width; j++) acc[j] += v * row[j];                      \
        }                                                                              \
        for (int j = 0; j < width; j++) out[j] = acc[j];                               \
    }                                                                                  \
    SKS_CLONES SKS_UNUSED void sks_scores_csr_##suffix(                                \
        ptrdiff_t n, const int32_t *index, const real *value, const double *weights,   \
        ptrdiff_t ld, const double *init, double *out)                                 \
    {                                                                                  \
        SKS_BLOCKS(ld, SKS_CSR_##suffix);                                              \
    }                                                                                  \
    SKS_CLONES SKS_UNUSED void sks_scores_dense_##suffix(                              \
        ptrdiff_t n, const real *value, const double *weights, ptrdiff_t ld,           \
        const double *init, double *out)                                               \
    {                                                                                  \
        SKS_BLOCKS(ld, SKS_DENSE_##suffix);                                            \
    }                                                                                  \
    SKS_INLINE void sks_scatter_block_##suffix(                                        \
        const int width, ptrdiff_t n, const int32_t *SKS_RESTRICT index,               \
        const real *SKS_RESTRICT value, const double *SKS_RESTRICT change,             \
        ptrdiff_t ld, double *SKS_RESTRICT weights)                                    \
    {                                                                                  \
        double c[32];                                                                  \
        for (int j = 0; j < width; j++) c[j] = change[j];                              \
        for (ptrdiff_t p = 0; p < n; p++) {                                            \
            const double v = value[p];                                                 \
            double *row = weights + (index ? (ptrdiff_t)index[p] : p) * ld;            \
            for (int j = 0; j < width; j++) row[j] += v * c[j];                        \
        }                                                                              \
    }                                                                                  \
    SKS_CLONES SKS_UNUSED void sks_scatter_csr_##suffix(                               \
        ptrdiff_t n, const int32_t *index, const real *value, const double *change,    \
        ptrdiff_t ld, double *weights)                                                 \
    {                                                                                  \
        SKS_BLOCKS(ld, SKS_SCATTER_CSR_##suffix);                                      \
    }                                                                                  \
    SKS_CLONES SKS_UNUSED void sks_scatter_dense_##suffix(                             \
        ptrdiff_t n, const real *value, const double *change, ptrdiff_t ld,            \
        double *weights)                                                               \
    {                                                                                  \
        SKS_BLOCKS(ld, SKS_SCATTER_DENSE_##suffix);                                    \
    }

#define SKS_CSR_f32(width, b) \
    sks_scores_csr_block_f32(width, n, index, value, weights + (b), ld, init + (b), out + (b))
#define SKS_CSR_f64(width, b) \
    sks_scores_csr_block_f64(width, n, index, value, weights + (b), ld, init + (b), out + (b))
#define SKS_DENSE_f32(width, b) \
    sks_scores_dense_block_f32(width, n, value, weights + (b), ld, init + (b), out + (b))
#define SKS_DENSE_f64(width, b) \
    sks_scores_dense_block_f64(width, n, value, weights + (b), ld, init + (b), out + (b))
#define SKS_SCATTER_CSR_f32(width, b) \
    sks_scatter_block_f32(width, n, index, value, change + (b), ld, weights + (b))
#define SKS_SCATTER_CSR_f64(width, b) \
    sks_scatter_block_f64(width, n, index, value, change + (b), ld, weights + (b))
#define SKS_SCATTER_DENSE_f32(width, b) \
    sks_scatter_block_f32(width, n, NULL, value, change + (b), ld, weights + (b))
#define SKS_SCATTER_DENSE_f64(width, b) \
    sks_scatter_block_f64(width, n, NULL, value, change + (b), ld, weights + (b))

SKS_FEATURES(f32, float)
SKS_FEATURES(f64, double)

#endif
