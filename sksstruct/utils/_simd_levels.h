/* The instruction sets for which the kernels of `_simd.h` were compiled, and a test
   which of them the processor and the operating system support.

   SKS_X86_LEVELS is defined if setup.py has compiled more than the baseline. A level
   requires the instructions that its compiler options enable. */
#ifndef SKSSTRUCT_SIMD_LEVELS_H
#define SKSSTRUCT_SIMD_LEVELS_H

#include "sksstruct/utils/_simd.h"

extern const sks_kernels sks_kernels_baseline;

#if defined(SKS_X86_LEVELS) && (defined(__x86_64__) || defined(_M_X64))

extern const sks_kernels sks_kernels_avx2, sks_kernels_avx512;
#define SKS_N_LEVELS 3

#if defined(_MSC_VER)
#include <immintrin.h>
#include <intrin.h>
#else
#include <cpuid.h>
#endif

/* Query the processor by CPUID; writes registers eax, ebx, ecx and edx, or zeros if the
   processor does not support the question. */
static void sks_cpuid(uint32_t question, uint32_t registers[4])
{
    memset(registers, 0, 4 * sizeof *registers);
#if defined(_MSC_VER)
    int highest[4];
    __cpuid(highest, (int)(question & 0x80000000u));
    if ((uint32_t)highest[0] >= question)
        __cpuidex((int *)registers, (int)question, 0);
#else
    /* an unsigned number for gcc, a signed one for clang */
    if ((uint32_t)__get_cpuid_max(question & 0x80000000u, NULL) >= question)
        __cpuid_count(question, 0, registers[0], registers[1], registers[2],
                      registers[3]);
#endif
}

/* Bits of the registers that the operating system saves when it switches threads. */
static uint64_t sks_saved_registers(void)
{
#if defined(_MSC_VER)
    return _xgetbv(0);
#else
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
#endif
}

/* The highest level that runs here: 0 is the baseline, 1 AVX2, 2 AVX-512. */
static int sks_highest_level(void)
{
    /* bits of FMA, MOVBE, OSXSAVE, AVX, F16C */
    const uint32_t basic = 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29;
    const uint32_t avx2 = 1u << 3 | 1u << 5 | 1u << 8; /* bits of BMI1, AVX2, BMI2 */
    const uint32_t lzcnt = 1u << 5;
    /* bits of the parts F, DQ, CD, BW, VL of AVX-512 */
    const uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    uint32_t first[4], seventh[4], extended[4];
    uint64_t saved;
    sks_cpuid(1, first);
    sks_cpuid(7, seventh);
    sks_cpuid(0x80000001u, extended);
    if ((first[2] & basic) != basic || (seventh[1] & avx2) != avx2
        || (extended[2] & lzcnt) != lzcnt)
        return 0;
    saved = sks_saved_registers();
    if ((saved & 0x6) != 0x6) return 0;
#if defined(__APPLE__)
    /* macOS saves the AVX-512 registers only after a thread's first use of them, and
       reports them only then */
    saved |= 0xe0;
#endif
    return (seventh[1] & avx512) == avx512 && (saved & 0xe0) == 0xe0 ? 2 : 1;
}

static const sks_kernels *sks_level(int level)
{
    if (level == 2) return &sks_kernels_avx512;
    return level == 1 ? &sks_kernels_avx2 : &sks_kernels_baseline;
}

#else

#define SKS_N_LEVELS 1

static int sks_highest_level(void) { return 0; }

static const sks_kernels *sks_level(int level)
{
    (void)level;
    return &sks_kernels_baseline;
}

#endif
#endif
