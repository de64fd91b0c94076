/* All kernels of `_simd.h` as one translation unit. setup.py compiles it once for each
   instruction set, whose name is SKS_LEVEL; only the table is visible to the linker. */
#include "sksstruct/utils/_simd.h"
#include "sksstruct/utils/_simd_features.h"
#include "sksstruct/utils/_simd_many.h"
#include "sksstruct/utils/_simd_rows.h"
#include "sksstruct/utils/_simd_series.h"
#include "sksstruct/utils/_simd_single.h"
#include "sksstruct/utils/_simd_sums.h"
#include "sksstruct/utils/_simd_tables.h"

#define SKS_JOIN(level) sks_kernels_##level
#define SKS_TABLE(level) SKS_JOIN(level)
#define SKS_ENTRY(type, name, arguments) name,
extern const sks_kernels SKS_TABLE(SKS_LEVEL);
const sks_kernels SKS_TABLE(SKS_LEVEL) = {SKS_KERNELS(SKS_ENTRY)};
