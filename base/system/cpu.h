// SPDX-License-Identifier: Apache-2.0
/* Instruction sets: what the machine has, and what a run is allowed to use. */
#ifndef COORDGEN_BASE_CPU_H
#define COORDGEN_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Feature bits; a kernel names the bits it needs. The operating system's consent is part of each. */
enum {
    CPU_AVX2 = 1u << 0,       /* AVX2, FMA, F16C */
    CPU_AVX512 = 1u << 1,     /* AVX-512 F, BW, DQ, VL */
    CPU_AVX512VNNI = 1u << 2, /* AVX512-VNNI */
    CPU_AMX_INT8 = 1u << 3,   /* AMX-TILE, AMX-INT8, permission granted to this process */
    CPU_NEON = 1u << 4,       /* Advanced SIMD of AArch64, which every one has */
    CPU_NEONDOT = 1u << 5,    /* SDOT, UDOT (FEAT_DotProd) */
    CPU_I8MM = 1u << 6,       /* SMMLA, USDOT (FEAT_I8MM) */
    CPU_AVX512VBMI = 1u << 7, /* AVX512-VBMI: permutations of bytes */
    CPU_ALL = (1u << 8) - 1,
};

/* Levels a user can name: each includes the ones before it of its machine, and all include scalar. AVX512-VBMI belongs
 * to avx512vnni where the machine has it: some have the one without the other. */
typedef enum Isa {
    ISA_SCALAR,
    ISA_AVX2, /* x86-64 */
    ISA_AVX512VNNI,
    ISA_AMX,
    ISA_NEON, /* AArch64 */
    ISA_NEONDOT,
    ISA_I8MM,
    _ISA_N,
    ISA_BEST = _ISA_N, /* the highest that the machine has */
} Isa;

/* In a loop that waits for another thread: a hint that the processor need not hurry. */
static inline void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

uint32_t cpu_features(void);
/* For tests, while no other thread looks: cpu_features() has no more than these from now on; UINT32_MAX: all again. */
void cpu_features_limit(uint32_t features);
const char *isa_name(Isa isa);
int isa_parse(const char *name, Isa *isap, ErrText *err);
uint32_t isa_features(Isa isa);
bool isa_present(Isa isa);
/* What the machine has of the level's features; an error naming the level when it lacks one. */
int isa_select(Isa isa, uint32_t *featuresp, ErrText *err);

#endif
