// SPDX-License-Identifier: Apache-2.0
/* Loops over the registers of AArch64 and their table, included by peak.c. 24 independent sums keep up to 6 pipes busy
 * with products of 4 cycles. */
#ifndef COORDGEN_BENCH_PEAK_LOOPS_AARCH64_H
#define COORDGEN_BENCH_PEAK_LOOPS_AARCH64_H

#include "base/cleanup.h"
#include "base/system/cpu.h"

#define EIGHT(text) text("0") text("1") text("2") text("3") text("4") text("5") text("6") text("7")
#define TWENTY_FOUR(text)                                                                                              \
    EIGHT(text)                                                                                                        \
    text("8") text("9") text("10") text("11") text("12") text("13") text("14") text("15") text("16") text("17")        \
        text("18") text("19") text("20") text("21") text("22") text("23")
#define CLOBBERS                                                                                                       \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16",       \
        "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

/* The instruction's code, for assemblers without FEAT_I8MM: smmla v<i>.4s, v24.16b, v25.16b */
#define SMMLA_STEP(i) ".inst 0x4e99a700 + " i "\n\t"
static void smmla_loop(size_t n) {
    for (size_t i = 0; i < n; i++)
        __asm__ volatile(TWENTY_FOUR(SMMLA_STEP) : : : CLOBBERS);
}

/* The instruction's code, for assemblers without FEAT_DotProd: sdot v<i>.4s, v24.16b, v25.16b */
#define SDOT_STEP(i) ".inst 0x4e999700 + " i "\n\t"
static void sdot_loop(size_t n) {
    for (size_t i = 0; i < n; i++)
        __asm__ volatile(TWENTY_FOUR(SDOT_STEP) : : : CLOBBERS);
}

/* The three instructions of 16 products; in v16 to v23, which take turns, two of them are added in int16. */
#define WIDENING_STEP(sum, pairs)                                                                                      \
    "smull v" pairs ".8h, v24.8b, v25.8b\n\tsmlal v" pairs ".8h, v26.8b, v27.8b\n\t"                                   \
    "sadalp v" sum ".4s, v" pairs ".8h\n\t"
static void widening_loop(size_t n) {
    for (size_t i = 0; i < n; i++)
        __asm__ volatile(WIDENING_STEP("0", "16") WIDENING_STEP("1", "17") WIDENING_STEP("2", "18")
                             WIDENING_STEP("3", "19") WIDENING_STEP("4", "20") WIDENING_STEP("5", "21")
                                 WIDENING_STEP("6", "22") WIDENING_STEP("7", "23")
                         :
                         :
                         : CLOBBERS);
}

#define FMLA_STEP(i) "fmla v" i ".4s, v24.4s, v25.4s\n\t"
static void fmla_loop(size_t n) {
    for (size_t i = 0; i < n; i++)
        __asm__ volatile(TWENTY_FOUR(FMLA_STEP) : : : CLOBBERS);
}

/* A product and its sum are 2 operations. */
static const Peak peaks[] = {
    { "I8MM smmla", "int8_product__i8mm", "int8", CPU_I8MM, smmla_loop, 24.0 * 2 * 32 },
    { "DotProd sdot", "int8_product__neondot", "int8", CPU_NEONDOT, sdot_loop, 24.0 * 2 * 16 },
    { "NEON smull, sadalp", "int8_product__neon", "int8", CPU_NEON, widening_loop, 8.0 * 2 * 16 },
    { "NEON fmla", "row_ops__neon", "f32", CPU_NEON, fmla_loop, 24.0 * 2 * 4 },
};
#define N_PEAKS ARRAY_LEN(peaks)

#endif
