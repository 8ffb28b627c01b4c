// SPDX-License-Identifier: Apache-2.0
/* Counts a function's instructions by single-stepping a child process. The count is exact, the same on a busy machine,
 * and needs no performance counters. */
#ifndef COORDGEN_BENCH_INSTRUCTION_COUNT_H
#define COORDGEN_BENCH_INSTRUCTION_COUNT_H

#include <stdint.h>

typedef struct InstructionCount {
    uint64_t all;
    uint64_t vector; /* on vector registers, floating point included: MMX to AVX-512, Advanced SIMD, SVE */
} InstructionCount;

/* Counts one call fn(argument), minus an empty function's instructions. Returns 0 or -errno: -ENOSYS if the machine's
 * instructions are not known or an emulator has no ptrace, -EPERM if ptrace is forbidden. */
int instruction_count(void (*fn)(const void *argument), const void *argument, InstructionCount *countp);

#endif
