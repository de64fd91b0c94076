/* Rows over the positions of a sequence, of any length, for sums over the lengths of
   segments. See `_simd.h`. */
#ifndef SKSSTRUCT_SIMD_SERIES_H
#define SKSSTRUCT_SIMD_SERIES_H

#include "sksstruct/utils/_simd_common.h"
#include "sksstruct/utils/_simd_sums.h"

/* Four registers of sums hide the latency of a multiplication and addition. */
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

/* max x[i] + y[i]; -inf for n = 0 */
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

/* x = exp(x - shift), capped at exp(690), and zero below exp(-708). */
static void sks_series_exp(ptrdiff_t n, double shift, double *x)
{
    double in[8], out[8];
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int j = 0; j < 8; j++) {
            const double c = x[i + j] - shift;
            in[j] = c > 690.0 ? 690.0 : c;
        }
        sks_exp8(in, x + i);
    }
    if (i == n) return;
    for (int j = 0; j < 8; j++) in[j] = 0.0;
    for (ptrdiff_t k = i; k < n; k++) in[k - i] = x[k] - shift;
    for (int j = 0; j < 8; j++) in[j] = in[j] > 690.0 ? 690.0 : in[j];
    sks_exp8(in, out);
    for (ptrdiff_t k = i; k < n; k++) x[k] = out[k - i];
}

/* log of eight numbers that are zero or above 1e-307: a number is m 2^n with m between
   sqrt(1/2) and sqrt(2), and log(m) = 2 artanh(s) for s = (m - 1) / (m + 1). Accurate
   to two units in the last place. */
SKS_INLINE void sks_log8(const double *x, double *out)
{
#ifdef SKS_VECTORS
    const sks_m8 bits = *(const sks_m8 *)x;
    /* exponents are raised by one if the mantissa is above sqrt(2) */
    const sks_m8 above = (bits & 0x000fffffffffffffu) + 0x00095f619980c433u;
    const sks_m8 up = above >> 52;
    const sks_m8 places = (bits >> 52) + up;
    const sks_v8 n = (sks_v8)(places | 0x4330000000000000u) - 0x1p52 - 1023.0;
    const sks_v8 m = (sks_v8)((bits & 0x000fffffffffffffu) | ((1023 - up) << 52));
    const sks_v8 s = (m - 1.0) / (m + 1.0);
    const sks_v8 z = s * s;
    sks_v8 r = z * (2.0 / 23.0) + 2.0 / 21.0;
    r = r * z + 2.0 / 19.0;
    r = r * z + 2.0 / 17.0;
    r = r * z + 2.0 / 15.0;
    r = r * z + 2.0 / 13.0;
    r = r * z + 2.0 / 11.0;
    r = r * z + 2.0 / 9.0;
    r = r * z + 2.0 / 7.0;
    r = r * z + 2.0 / 5.0;
    r = r * z + 2.0 / 3.0;
    r = n * 0x1.62e42fefa38p-1 + (n * 0x1.ef35793c7673p-45 + s * z * r + 2.0 * s);
    *(sks_v8 *)out = r;
    for (int j = 0; j < 8; j++) out[j] = x[j] > 0.0 ? out[j] : -INFINITY;
#else
    for (int j = 0; j < 8; j++) out[j] = log(x[j]);
#endif
}

/* x = log(exp(x) + exp(y)); share = exp(y) / (exp(x) + exp(y)), or 0 for 0 / 0. */
static void sks_series_logadd(ptrdiff_t n, const double *y, double *x, double *share)
{
    for (ptrdiff_t i = 0; i < n; i += 8) {
        const int width = n - i < 8 ? (int)(n - i) : 8;
        double a[8], b[8], high[8], e[8], total[8], out[8];
        for (int j = 0; j < 8; j++) a[j] = b[j] = 0.0;
        memcpy(a, x + i, width * sizeof(double));
        memcpy(b, y + i, width * sizeof(double));
        for (int j = 0; j < 8; j++) {
            const double low = a[j] < b[j] ? a[j] : b[j];
            high[j] = SKS_MAX(a[j], b[j]);
            /* -inf minus -inf would be NaN */
            e[j] = high[j] > low ? low - high[j] : 0.0;
        }
        sks_exp8(e, e);
        for (int j = 0; j < 8; j++) total[j] = 1.0 + e[j];
        sks_log8(total, out);
        for (int j = 0; j < 8; j++) {
            const double part = b[j] > a[j] ? 1.0 / total[j] : e[j] / total[j];
            out[j] += high[j];
            e[j] = high[j] < -DBL_MAX ? 0.0 : part;
        }
        memcpy(x + i, out, width * sizeof(double));
        memcpy(share + i, e, width * sizeof(double));
    }
}

/* x = log(x), -inf for zero; nonzero x must be above 1e-307 */
static void sks_series_log(ptrdiff_t n, double *x)
{
    for (ptrdiff_t i = 0; i < n; i += 8) {
        const int width = n - i < 8 ? (int)(n - i) : 8;
        double in[8], out[8];
        for (int j = 0; j < 8; j++) in[j] = 1.0;
        memcpy(in, x + i, width * sizeof(double));
        sks_log8(in, out);
        memcpy(x + i, out, width * sizeof(double));
    }
}

#endif
