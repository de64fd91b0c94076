/* Sum-product: messages as scaled exponentials or logarithms. See `_simd.h`. */
#ifndef SKSSTRUCT_SIMD_SUMS_H
#define SKSSTRUCT_SIMD_SUMS_H

#include "sksstruct/utils/_simd_common.h"

/* ---- sum-product: sums of products of exponentials ---- */

/* exp of eight numbers x <= 0: 2^n e^r with |r| <= log(2)/2 and the Taylor series of
   e^r, accurate to two units in the last place. Exactly zero below -708 and at -inf. */
SKS_INLINE void sks_exp8(const double *x, double *out)
{
#ifdef SKS_VECTORS
    const sks_v8 v = *(const sks_v8 *)x;
    /* adding 1.5 * 2^52 rounds to the nearest integer, stored in the low bits */
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

/* exp(in - top) of eight numbers; numbers above top are replaced by top */
SKS_INLINE void sks_exp8_below(const double *in, double top, double *out)
{
    double x[8];
    for (int j = 0; j < 8; j++) x[j] = in[j] - top;
    for (int j = 0; j < 8; j++) x[j] = x[j] > 0.0 ? 0.0 : x[j];
    sks_exp8(x, out);
}

/* out = exp(in - max), zero in the padding; returns the maximum of the n entries.
   *low is the smallest entry other than -inf, minus the maximum. If all entries are
   -inf, out is zero. */
static double sks_exp_row(ptrdiff_t n, ptrdiff_t ld, const double *in,
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
    /* the padding may be above the maximum */
    if (ld == 4) {
        double x[8] = {in[0], in[1], in[2], in[3], top, top, top, top}, e[8];
        sks_exp8_below(x, top, e);
        for (int j = 0; j < 4; j++) out[j] = e[j];
    } else {
        for (ptrdiff_t b = 0; b < ld; b += 8) sks_exp8_below(in + b, top, out + b);
    }
    for (ptrdiff_t b = n; b < ld; b++) out[b] = 0.0;
    return top;
}

/* out[b] += log sum_a exp(prev[a] + table[a, b]), a < n, without overflow for any scores:
   one step of sum-product in log space. */
static void sks_logplus(ptrdiff_t n, ptrdiff_t ld,
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

/* out[k] = sum_b table[k, b] after[b], and sums[k, :] += scale[k] after[:], k < n: a
   backward step of sum-product, and its contribution to means, if sums is not NULL. */
static void sks_step_back(ptrdiff_t n, ptrdiff_t ld, const double *SKS_RESTRICT table,
                          const double *SKS_RESTRICT after,
                          const double *SKS_RESTRICT scale, double *SKS_RESTRICT out,
                          double *SKS_RESTRICT sums)
{
    for (ptrdiff_t k = 0; k < n; k++) {
        const double *row = table + k * ld;
        out[k] = sks_dot(ld, row, after);
        if (sums == NULL) continue;
        for (ptrdiff_t b = 0; b < ld; b += 4)
            for (int j = 0; j < 4; j++) sums[k * ld + b + j] += scale[k] * after[b + j];
    }
}

/* Terms exp(x) with x below this number do not change a sum of at least 1. */
#define SKS_NOTHING -100.0

/* log sum_b exp(row[b] + after[b]), where the padding of `after` is -inf. Exponentials
   of blocks with negligible terms are not computed. */
static double sks_logsum(ptrdiff_t ld, const double *SKS_RESTRICT row,
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

/* e = exp(row + after - total); next += share e / sum(e), and if pair is not NULL,
   pair += weight share e / sum(e). */
static void sks_share(ptrdiff_t ld, const double *SKS_RESTRICT row,
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
