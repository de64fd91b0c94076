/* Types and macros of all row kernels, and functions that are too short for dispatch:
   these are compiled into each extension, for the baseline. See `_simd.h`. */
#ifndef SKSSTRUCT_SIMD_COMMON_H
#define SKSSTRUCT_SIMD_COMMON_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define SKS_INLINE static inline __attribute__((always_inline))
#define SKS_RESTRICT __restrict__
#elif defined(_MSC_VER)
#define SKS_INLINE static __forceinline
#define SKS_RESTRICT __restrict
#else
#define SKS_INLINE static inline
#define SKS_RESTRICT
#endif

/* Vectors of eight doubles, if the compiler has vector types. gcc would vectorize plain
   loops over the features, with gathers, at half the speed. */
#if defined(__GNUC__)
#define SKS_VECTORS 1
typedef double sks_v8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef uint64_t sks_m8 __attribute__((vector_size(64), aligned(8), may_alias));
/* Vectors of the width of a register, for sums that should stay in registers: gcc
   splits wider vectors, and puts them on the stack. */
#if defined(__AVX512F__)
#define SKS_LANES 8
#elif defined(__AVX__)
#define SKS_LANES 4
#else
#define SKS_LANES 2
#endif
typedef double sks_lanes
    __attribute__((vector_size(8 * SKS_LANES), aligned(8), may_alias));
#endif

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

/* Prefetch memory that is needed soon. */
static inline void sks_prefetch(const void *start, ptrdiff_t size)
{
#if defined(__GNUC__)
    const char *p = (const char *)start;
    for (ptrdiff_t k = 0; k < size; k += 64) __builtin_prefetch(p + k);
#else
    (void)start, (void)size;
#endif
}

/* sum_b x[b] y[b] over a row and its padding, which must be zero in x or in y. */
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

/* acc[:width] += v * row[:width] for a constant width: used by all feature kernels. */
SKS_INLINE void sks_fma(const int width, double v, const double *row, double *acc)
{
#ifdef SKS_VECTORS
    if (width % SKS_LANES == 0) {
        for (int j = 0; j < width / SKS_LANES; j++)
            ((sks_lanes *)acc)[j] += v * ((const sks_lanes *)row)[j];
        return;
    }
#endif
    for (int j = 0; j < width; j++) acc[j] += v * row[j];
}

/* Entry p of the values of a feature row; without an array of values, 1. */
#define SKS_VALUE(p) (value ? value[p] : 1)

/* sks_spread writes a feature row to a dense vector of zeros, and sks_spread_dot
   multiplies another row by this vector: two sparse rows are multiplied without
   searching for common indices. */
#define SKS_SPREAD(suffix, real)                                                       \
    static inline void sks_spread_##suffix(                                            \
        ptrdiff_t n, const int32_t *index, const real *value, double *out)             \
    {                                                                                  \
        for (ptrdiff_t p = 0; p < n; p++) out[index ? index[p] : p] = SKS_VALUE(p);    \
    }                                                                                  \
    static inline double sks_spread_dot_##suffix(                                      \
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

/* Of equal values y is chosen, as the machine instruction for maxima does. */
#define SKS_MAX(x, y) ((x) > (y) ? (x) : (y))

/* max_j scores[j] + weight row[j] */
SKS_INLINE double sks_row_best(ptrdiff_t n, double weight,
                               const double *SKS_RESTRICT scores,
                               const double *SKS_RESTRICT row)
{
    if (n < 8) {
        double best = scores[0] + weight * row[0];
        for (ptrdiff_t j = 1; j < n; j++) {
            const double candidate = scores[j] + weight * row[j];
            best = SKS_MAX(candidate, best);
        }
        return best;
    }
    /* eight maxima side by side, initialized with the last block, which may overlap
       the one before it */
    double best[8];
    for (int j = 0; j < 8; j++) best[j] = scores[n - 8 + j] + weight * row[n - 8 + j];
    for (ptrdiff_t first = 0; first + 8 <= n; first += 8)
        for (int j = 0; j < 8; j++) {
            const double candidate = scores[first + j] + weight * row[first + j];
            best[j] = SKS_MAX(candidate, best[j]);
        }
    for (int j = 0; j < 4; j++) best[j] = SKS_MAX(best[j], best[j + 4]);
    best[0] = SKS_MAX(best[0], best[2]);
    best[1] = SKS_MAX(best[1], best[3]);
    return SKS_MAX(best[0], best[1]);
}

#endif
