/* Max-plus products with tables of any width, without padding, as users' tables are
   not copied. Blocks of constant width let the compiler keep accumulators in registers;
   if the width is no multiple of eight, the last block of eight overlaps the one before
   it, which does not change a maximum. */
#ifndef SKSSTRUCT_SIMD_TABLES_H
#define SKSSTRUCT_SIMD_TABLES_H

#include "sksstruct/utils/_simd_common.h"

/* out[j] = max_i scores[i] + weight table[i, j], for `width` columns */
SKS_INLINE void sks_forward_block(const int width, ptrdiff_t rows, ptrdiff_t cols,
                                  double weight, const double *SKS_RESTRICT scores,
                                  const double *SKS_RESTRICT table,
                                  double *SKS_RESTRICT out)
{
    double best[32];
    for (int j = 0; j < width; j++) best[j] = scores[0] + weight * table[j];
    for (ptrdiff_t i = 1; i < rows; i++) {
        const double score = scores[i];
        const double *row = table + i * cols;
        for (int j = 0; j < width; j++) {
            const double candidate = score + weight * row[j];
            best[j] = SKS_MAX(candidate, best[j]);
        }
    }
    for (int j = 0; j < width; j++) out[j] = best[j];
}

/* out[j] = max_i scores[i] + weight table[i, j] */
static void sks_forward(ptrdiff_t rows, ptrdiff_t cols, double weight,
                        const double *scores, const double *table,
                        double *out)
{
    ptrdiff_t j = 0;
    for (; j + 32 <= cols; j += 32)
        sks_forward_block(32, rows, cols, weight, scores, table + j, out + j);
    for (; j + 8 <= cols; j += 8)
        sks_forward_block(8, rows, cols, weight, scores, table + j, out + j);
    if (j == cols) return;
    if (cols >= 8) {
        j = cols - 8;
        sks_forward_block(8, rows, cols, weight, scores, table + j, out + j);
        return;
    }
    /* fewer than eight columns: there is no block to overlap with */
    if (j + 4 <= cols) {
        sks_forward_block(4, rows, cols, weight, scores, table + j, out + j);
        j += 4;
    }
    if (j + 2 <= cols) {
        sks_forward_block(2, rows, cols, weight, scores, table + j, out + j);
        j += 2;
    }
    if (j < cols) sks_forward_block(1, rows, cols, weight, scores, table + j, out + j);
}

/* out[i] = max_j scores[j] + weight table[i, j] */
static void sks_backward(ptrdiff_t rows, ptrdiff_t cols, double weight,
                         const double *scores, const double *table,
                         double *out)
{
    for (ptrdiff_t i = 0; i < rows; i++)
        out[i] = sks_row_best(cols, weight, scores, table + i * cols);
}

/* out[j] = max(out[j], score + weight row[j]); returns the least new value */
static double sks_row_raise(ptrdiff_t n, double score, double weight,
                            const double *SKS_RESTRICT row,
                            double *SKS_RESTRICT out)
{
    double low[8];
    ptrdiff_t first = 0;
    for (int j = 0; j < 8; j++) low[j] = DBL_MAX;
    for (; first + 8 <= n; first += 8)
        for (int j = 0; j < 8; j++) {
            const double candidate = score + weight * row[first + j];
            const double raised = SKS_MAX(candidate, out[first + j]);
            out[first + j] = raised;
            low[j] = raised < low[j] ? raised : low[j];
        }
    for (; first < n; first++) {
        const double candidate = score + weight * row[first];
        out[first] = SKS_MAX(candidate, out[first]);
        low[0] = out[first] < low[0] ? out[first] : low[0];
    }
    for (int j = 1; j < 8; j++) low[0] = low[j] < low[0] ? low[j] : low[0];
    return low[0];
}

/* row_high[i] = max_j table[i, j], col_high[j] = max_i table[i, j] */
static void sks_extremes(ptrdiff_t rows, ptrdiff_t cols,
                         const double *SKS_RESTRICT table,
                         double *SKS_RESTRICT row_high,
                         double *SKS_RESTRICT col_high)
{
    for (ptrdiff_t j = 0; j < cols; j++) col_high[j] = table[j];
    /* both in one pass over the rows, as a pass over columns would miss the cache */
    for (ptrdiff_t i = 0; i < rows; i++) {
        const double *row = table + i * cols;
        double best[8];
        ptrdiff_t first = 0;
        for (int j = 0; j < 8; j++) best[j] = row[0];
        for (; first + 8 <= cols; first += 8)
            for (int j = 0; j < 8; j++) {
                const double entry = row[first + j];
                col_high[first + j] = SKS_MAX(entry, col_high[first + j]);
                best[j] = SKS_MAX(entry, best[j]);
            }
        for (; first < cols; first++) {
            col_high[first] = SKS_MAX(row[first], col_high[first]);
            best[0] = SKS_MAX(row[first], best[0]);
        }
        for (int j = 1; j < 8; j++) best[0] = SKS_MAX(best[j], best[0]);
        row_high[i] = best[0];
    }
}

#endif
