// SPDX-License-Identifier: Apache-2.0
/* Loops over the registers of x86-64 and their table, included by peak.c. */
#ifndef COORDGEN_BENCH_PEAK_LOOPS_X86_64_H
#define COORDGEN_BENCH_PEAK_LOOPS_X86_64_H

#include "base/cleanup.h"
#include "base/system/cpu.h"

#define SIX(text) text("0") text("1") text("2") text("3") text("4") text("5")
#define TWELVE(text) SIX(text) text("6") text("7") text("8") text("9") text("10") text("11")
#define CLOBBERS                                                                                                       \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",         \
        "xmm13", "xmm14", "xmm15"

#define VNNI_STEP(i) "vpdpbusd %%zmm12, %%zmm13, %%zmm" i "\n\t"
static void vnni_loop(size_t n) {
    for (size_t i = 0; i < n; i++)
        __asm__ volatile(TWELVE(VNNI_STEP) : : : CLOBBERS);
}

/* Operands of a panel of 6 rows x 4 blocks for 4 inputs: 10 loads from the first-level cache feed 24 products. (Code
 * compiled for every machine keeps nothing in registers 16 to 31.) */
static const _Alignas(64) uint8_t fed_operands[4 * 64 + 6 * 4];
#define FED_STEP(w, sum) "vpdpbusd %%zmm" w ", %%zmm28, %%zmm" sum "\n\t"
#define FED_ROW(at, a, b, c, d)                                                                                        \
    "vpbroadcastd 256+4*" at "(%0), %%zmm28\n\t" FED_STEP("24", a) FED_STEP("25", b) FED_STEP("26", c) FED_STEP("27", d)
static void vnni_fed_loop(size_t n) {
    for (size_t i = 0; i < n; i++)
        __asm__ volatile("vmovdqa64 (%0), %%zmm24\n\tvmovdqa64 64(%0), %%zmm25\n\t"
                         "vmovdqa64 128(%0), %%zmm26\n\tvmovdqa64 192(%0), %%zmm27\n\t" FED_ROW("0", "0", "1", "2", "3")
                             FED_ROW("1", "4", "5", "6", "7") FED_ROW("2", "8", "9", "10", "11")
                                 FED_ROW("3", "12", "13", "14", "15") FED_ROW("4", "16", "17", "18", "19")
                                     FED_ROW("5", "20", "21", "22", "23")
                         :
                         : "r"(fed_operands)
                         : CLOBBERS);
}

/* The four instructions of 32 products. */
#define AVX2_STEP(i)                                                                                                   \
    "vpsignb %%ymm12, %%ymm13, %%ymm14\n\tvpmaddubsw %%ymm14, %%ymm12, %%ymm14\n\t"                                    \
    "vpmaddwd %%ymm13, %%ymm14, %%ymm14\n\tvpaddd %%ymm14, %%ymm" i ", %%ymm" i "\n\t"
static void avx2_loop(size_t n) {
    for (size_t i = 0; i < n; i++)
        __asm__ volatile(SIX(AVX2_STEP) : : : CLOBBERS);
}

#define FMA_STEP(reg, i) "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg i "\n\t"
#define FMA_ZMM_STEP(i) FMA_STEP("zmm", i)
#define FMA_YMM_STEP(i) FMA_STEP("ymm", i)
static void fma_avx512_loop(size_t n) {
    for (size_t i = 0; i < n; i++)
        __asm__ volatile(TWELVE(FMA_ZMM_STEP) : : : CLOBBERS);
}

static void fma_avx2_loop(size_t n) {
    for (size_t i = 0; i < n; i++)
        __asm__ volatile(TWELVE(FMA_YMM_STEP) : : : CLOBBERS);
}

/* A product and a sum, rounded apart. */
#define F32_XMM_STEP(i) "movaps %%xmm12, %%xmm14\n\tmulps %%xmm13, %%xmm14\n\taddps %%xmm14, %%xmm" i "\n\t"
static void f32_scalar_loop(size_t n) {
    if (cpu_features() & CPU_AVX2)
        __asm__ volatile("vzeroupper" : : : CLOBBERS); /* upper halves left by an AVX loop slow SSE down */
    for (size_t i = 0; i < n; i++)
        __asm__ volatile(TWELVE(F32_XMM_STEP) : : : CLOBBERS);
}

/* 16 x 16 x 64 products an instruction into 4 tiles. */
static void amx_loop(size_t n) {
    _Alignas(64) uint8_t config[64] = { 1 };

    for (int tile = 0; tile < 8; tile++) {
        config[16 + 2 * tile] = 64;
        config[48 + tile] = 16;
    }
    __asm__ volatile("ldtilecfg (%0)" : : "r"(config) : "memory");
    for (size_t i = 0; i < n; i++)
        __asm__ volatile("tdpbssd %%tmm6, %%tmm4, %%tmm0\n\ttdpbssd %%tmm7, %%tmm4, %%tmm1\n\t"
                         "tdpbssd %%tmm6, %%tmm5, %%tmm2\n\ttdpbssd %%tmm7, %%tmm5, %%tmm3"
                         :
                         :);
    __asm__ volatile("tilerelease" : :);
}

/* A product and its sum are 2 operations. */
static const Peak peaks[] = {
    { "AMX tdpbssd", "int8_product__amx", "int8", CPU_AMX_INT8, amx_loop, 4.0 * 2 * 16 * 16 * 64 },
    { "AVX-512 vpdpbusd", "int8_product__avx512vnni", "int8", CPU_AVX512VNNI, vnni_loop, 12.0 * 2 * 64 },
    { "AVX-512 vpdpbusd, fed", "", "int8", CPU_AVX512VNNI, vnni_fed_loop, 24.0 * 2 * 64 },
    { "AVX2 vpmaddubsw", "int8_product__avx2", "int8", CPU_AVX2, avx2_loop, 6.0 * 2 * 32 },
    { "AVX-512 fma", "row_ops__avx512", "f32", CPU_AVX512, fma_avx512_loop, 12.0 * 2 * 16 },
    { "AVX2 fma", "row_ops__avx2", "f32", CPU_AVX2, fma_avx2_loop, 12.0 * 2 * 8 },
    { "SSE2 mul, add", "row_ops__scalar", "f32", 0, f32_scalar_loop, 12.0 * 2 * 4 },
};
#define N_PEAKS ARRAY_LEN(peaks)

#endif
