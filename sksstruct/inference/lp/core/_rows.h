/* Max-plus products with tables of any width, which are not padded: users' tables are
   shared and not copied. The last block of eight overlaps the one before it. */
#ifndef SKSSTRUCT_ROWS_H
#define SKSSTRUCT_ROWS_H

#include "sksstruct/utils/_simd.h"

#define SKS_MAX(x, y) ((x) > (y) ? (x) : (y))

/* out[j] = max_i a[i] + w table[i, j] */
SKS_INLINE void sks_forward_block(const int width, ptrdiff_t rows, ptrdiff_t cols,
                                  double w, const double *SKS_RESTRICT a,
                                  const double *SKS_RESTRICT table,
                                  double *SKS_RESTRICT out)
{
    double acc[32];
    for (int j = 0; j < width; j++) acc[j] = a[0] + w * table[j];
    for (ptrdiff_t i = 1; i < rows; i++) {
        const double p = a[i];
        const double *row = table + i * cols;
        for (int j = 0; j < width; j++) {
            const double c = p + w * row[j];
            acc[j] = SKS_MAX(c, acc[j]);
        }
    }
    for (int j = 0; j < width; j++) out[j] = acc[j];
}

SKS_CLONES SKS_UNUSED void sks_forward(ptrdiff_t rows, ptrdiff_t cols, double w,
                                       const double *a, const double *table,
                                       double *out)
{
    ptrdiff_t b = 0;
    for (; b + 32 <= cols; b += 32)
        sks_forward_block(32, rows, cols, w, a, table + b, out + b);
    for (; b + 8 <= cols; b += 8)
        sks_forward_block(8, rows, cols, w, a, table + b, out + b);
    if (b == cols) return;
    if (cols >= 8) {
        sks_forward_block(8, rows, cols, w, a, table + cols - 8, out + cols - 8);
        return;
    }
    if (b + 4 <= cols) {
        sks_forward_block(4, rows, cols, w, a, table + b, out + b);
        b += 4;
    }
    if (b + 2 <= cols) {
        sks_forward_block(2, rows, cols, w, a, table + b, out + b);
        b += 2;
    }
    if (b < cols) sks_forward_block(1, rows, cols, w, a, table + b, out + b);
}

/* max_j a[j] + w row[j] */
SKS_INLINE double sks_row_best(ptrdiff_t n, double w, const double *SKS_RESTRICT a,
                               const double *SKS_RESTRICT row)
{
    if (n < 8) {
        double best = a[0] + w * row[0];
        for (ptrdiff_t j = 1; j < n; j++) {
            const double c = a[j] + w * row[j];
            best = SKS_MAX(c, best);
        }
        return best;
    }
    double acc[8];
    for (int j = 0; j < 8; j++) acc[j] = a[n - 8 + j] + w * row[n - 8 + j];
    for (ptrdiff_t b = 0; b + 8 <= n; b += 8)
        for (int j = 0; j < 8; j++) {
            const double c = a[b + j] + w * row[b + j];
            acc[j] = SKS_MAX(c, acc[j]);
        }
    for (int j = 0; j < 4; j++) acc[j] = SKS_MAX(acc[j], acc[j + 4]);
    acc[0] = SKS_MAX(acc[0], acc[2]);
    acc[1] = SKS_MAX(acc[1], acc[3]);
    return SKS_MAX(acc[0], acc[1]);
}

/* out[i] = max_j a[j] + w table[i, j] */
SKS_CLONES SKS_UNUSED void sks_backward(ptrdiff_t rows, ptrdiff_t cols, double w,
                                        const double *a, const double *table,
                                        double *out)
{
    for (ptrdiff_t i = 0; i < rows; i++)
        out[i] = sks_row_best(cols, w, a, table + i * cols);
}

/* out[j] = max(out[j], p + w row[j]); the least of the new values */
SKS_CLONES SKS_UNUSED double sks_row_raise(ptrdiff_t n, double p, double w,
                                           const double *SKS_RESTRICT row,
                                           double *SKS_RESTRICT out)
{
    double low[8];
    ptrdiff_t b = 0;
    for (int j = 0; j < 8; j++) low[j] = DBL_MAX;
    for (; b + 8 <= n; b += 8)
        for (int j = 0; j < 8; j++) {
            const double c = p + w * row[b + j];
            const double d = SKS_MAX(c, out[b + j]);
            out[b + j] = d;
            low[j] = d < low[j] ? d : low[j];
        }
    for (; b < n; b++) {
        const double c = p + w * row[b];
        out[b] = SKS_MAX(c, out[b]);
        low[0] = out[b] < low[0] ? out[b] : low[0];
    }
    for (int j = 1; j < 8; j++) low[0] = low[j] < low[0] ? low[j] : low[0];
    return low[0];
}

/* max_i a[i]; out[i] = a[i] + b[i] and the like, for messages */
SKS_CLONES SKS_UNUSED double sks_largest(ptrdiff_t n, const double *SKS_RESTRICT a)
{
    double acc[8], best;
    ptrdiff_t b = 0;
    if (n < 8) {
        best = a[0];
        for (b = 1; b < n; b++) best = SKS_MAX(a[b], best);
        return best;
    }
    for (int j = 0; j < 8; j++) acc[j] = a[n - 8 + j];
    for (; b + 8 <= n; b += 8)
        for (int j = 0; j < 8; j++) acc[j] = SKS_MAX(a[b + j], acc[j]);
    best = acc[0];
    for (int j = 1; j < 8; j++) best = SKS_MAX(acc[j], best);
    return best;
}

/* high[j] = max_i table[i, j], row_high[i] = max_j table[i, j] */
SKS_CLONES SKS_UNUSED void sks_extremes(ptrdiff_t rows, ptrdiff_t cols,
                                        const double *SKS_RESTRICT table,
                                        double *SKS_RESTRICT row_high,
                                        double *SKS_RESTRICT col_high)
{
    for (ptrdiff_t j = 0; j < cols; j++) col_high[j] = table[j];
    for (ptrdiff_t i = 0; i < rows; i++) {
        const double *row = table + i * cols;
        double acc[8];
        for (int j = 0; j < 8; j++) acc[j] = row[0];
        ptrdiff_t b = 0;
        for (; b + 8 <= cols; b += 8)
            for (int j = 0; j < 8; j++) {
                const double c = row[b + j];
                col_high[b + j] = SKS_MAX(c, col_high[b + j]);
                acc[j] = SKS_MAX(c, acc[j]);
            }
        for (; b < cols; b++) {
            col_high[b] = SKS_MAX(row[b], col_high[b]);
            acc[0] = SKS_MAX(row[b], acc[0]);
        }
        for (int j = 1; j < 8; j++) acc[0] = SKS_MAX(acc[j], acc[0]);
        row_high[i] = acc[0];
    }
}

#endif
