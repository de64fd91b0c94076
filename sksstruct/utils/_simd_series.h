/* Rows as long as a sequence, of any length: sums over the lengths of segments. See
   `_simd.h`. */
#ifndef SKSSTRUCT_SIMD_SERIES_H
#define SKSSTRUCT_SIMD_SERIES_H

#include "sksstruct/utils/_simd_common.h"
#include "sksstruct/utils/_simd_sums.h"

/* Four registers of sums: a multiplication and addition takes as many steps. */
#ifdef SKS_VECTORS
#define SKS_WIDE (4 * SKS_LANES)
typedef sks_lanes sks_wide[4];
#else
#define SKS_WIDE 8
#endif

/* sum x[i] y[i] */
static double sks_series_dot(ptrdiff_t n, const double *SKS_RESTRICT x,
                             const double *SKS_RESTRICT y)
{
    double sums[SKS_WIDE] = {0.0}, total = 0.0;
    ptrdiff_t i = 0;
#ifdef SKS_VECTORS
    sks_wide acc = {{0.0}};
    for (; i + SKS_WIDE <= n; i += SKS_WIDE)
        for (int k = 0; k < 4; k++)
            acc[k] += *(const sks_lanes *)(x + i + k * SKS_LANES)
                      * *(const sks_lanes *)(y + i + k * SKS_LANES);
    for (; i + SKS_LANES <= n; i += SKS_LANES)
        acc[0] += *(const sks_lanes *)(x + i) * *(const sks_lanes *)(y + i);
    acc[0] += acc[1], acc[2] += acc[3], acc[0] += acc[2];
    for (int j = 0; j < SKS_LANES; j++) sums[j] = acc[0][j];
#else
    for (; i + SKS_WIDE <= n; i += SKS_WIDE)
        for (int j = 0; j < SKS_WIDE; j++) sums[j] += x[i + j] * y[i + j];
#endif
    for (; i < n; i++) total += x[i] * y[i];
    for (int j = 0; j < SKS_WIDE; j++) total += sums[j];
    return total;
}

/* out += scale x; returns sum x[i] y[i] */
static double sks_series_dot_add(ptrdiff_t n, double scale,
                                 const double *SKS_RESTRICT x,
                                 const double *SKS_RESTRICT y,
                                 double *SKS_RESTRICT out)
{
    double sums[SKS_WIDE] = {0.0}, total = 0.0;
    ptrdiff_t i = 0;
#ifdef SKS_VECTORS
    sks_wide acc = {{0.0}};
    for (; i + SKS_WIDE <= n; i += SKS_WIDE)
        for (int k = 0; k < 4; k++) {
            const sks_lanes v = *(const sks_lanes *)(x + i + k * SKS_LANES);
            acc[k] += v * *(const sks_lanes *)(y + i + k * SKS_LANES);
            *(sks_lanes *)(out + i + k * SKS_LANES) += scale * v;
        }
    for (; i + SKS_LANES <= n; i += SKS_LANES) {
        const sks_lanes v = *(const sks_lanes *)(x + i);
        acc[0] += v * *(const sks_lanes *)(y + i);
        *(sks_lanes *)(out + i) += scale * v;
    }
    acc[0] += acc[1], acc[2] += acc[3], acc[0] += acc[2];
    for (int j = 0; j < SKS_LANES; j++) sums[j] = acc[0][j];
#else
    for (; i + SKS_WIDE <= n; i += SKS_WIDE)
        for (int j = 0; j < SKS_WIDE; j++) {
            sums[j] += x[i + j] * y[i + j];
            out[i + j] += scale * x[i + j];
        }
#endif
    for (; i < n; i++) {
        total += x[i] * y[i];
        out[i] += scale * x[i];
    }
    for (int j = 0; j < SKS_WIDE; j++) total += sums[j];
    return total;
}

/* max x[i] + y[i]; -inf if there is nothing */
static double sks_series_max(ptrdiff_t n, const double *SKS_RESTRICT x,
                             const double *SKS_RESTRICT y)
{
    double best[16], top = -INFINITY;
    ptrdiff_t i = 0;
    for (int j = 0; j < 16; j++) best[j] = -INFINITY;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) {
            const double c = x[i + j] + y[i + j];
            best[j] = SKS_MAX(c, best[j]);
        }
    for (; i < n; i++) top = SKS_MAX(x[i] + y[i], top);
    for (int j = 0; j < 16; j++) top = SKS_MAX(best[j], top);
    return top;
}

/* x = exp(x - shift), at most exp(690), and zero below exp(-708). */
static void sks_series_exp(ptrdiff_t n, double shift, double *x)
{
    double in[8], out[8];
    for (ptrdiff_t i = 0; i < n; i += 8) {
        const int width = n - i < 8 ? (int)(n - i) : 8;
        for (int j = 0; j < 8; j++) in[j] = 0.0;
        for (int j = 0; j < width; j++) in[j] = x[i + j] - shift;
        for (int j = 0; j < 8; j++) in[j] = in[j] > 690.0 ? 690.0 : in[j];
        sks_exp8(in, out);
        for (int j = 0; j < width; j++) x[i + j] = out[j];
    }
}

#endif
