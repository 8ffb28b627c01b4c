// SPDX-License-Identifier: Apache-2.0
/* Instruction sets of the machine, and those that a run may use. */
#ifndef COORDGEN_BASE_CPU_H
#define COORDGEN_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strings/choice.h"

/* Feature bits; a kernel names the bits that it needs. A bit is set only if the operating system permits the feature.
 * */
enum {
    CPU_AVX2 = 1u << 0,       /* AVX2, FMA, F16C */
    CPU_AVX512 = 1u << 1,     /* AVX-512 F, BW, DQ, VL */
    CPU_AVX512VNNI = 1u << 2, /* AVX512-VNNI */
    CPU_AMX_INT8 = 1u << 3,   /* AMX-TILE, AMX-INT8, permission granted to this process */
    CPU_NEON = 1u << 4,       /* Advanced SIMD, a part of every AArch64 */
    CPU_NEONDOT = 1u << 5,    /* SDOT, UDOT (FEAT_DotProd) */
    CPU_I8MM = 1u << 6,       /* SMMLA, USDOT (FEAT_I8MM) */
    CPU_AVX512VBMI = 1u << 7, /* AVX512-VBMI: permutations of bytes */
    CPU_ALL = (1u << 8) - 1,
};

/* Levels that a user can name. A level includes those before it of its machine, and all include scalar. avx512vnni uses
 * AVX512-VBMI too if the machine has it; some machines have one without the other. */
typedef enum Isa {
    ISA_SCALAR,
    ISA_AVX2, /* x86-64 */
    ISA_AVX512VNNI,
    ISA_AMX,
    ISA_NEON, /* AArch64 */
    ISA_NEONDOT,
    ISA_I8MM,
    _ISA_N,
    ISA_BEST = _ISA_N, /* the highest level of the machine */
} Isa;

/* Hints to the processor that a loop waits for another thread. */
static inline void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

uint32_t cpu_features(void);
/* Limits cpu_features() from now on; UINT32_MAX: no limit. For tests, while no other thread calls cpu_features(). */
void cpu_features_limit(uint32_t features);
extern const Choice isa_choices[]; /* Isa */
const char *isa_name(Isa isa);
int isa_parse(const char *name, Isa *isap, ErrText *err);
uint32_t isa_features(Isa isa);
bool isa_present(Isa isa);
/* Gets the features of a level; an error names the level if the machine lacks it. */
int isa_select(Isa isa, uint32_t *featuresp, ErrText *err);

#endif
