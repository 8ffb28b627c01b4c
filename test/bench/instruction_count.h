// SPDX-License-Identifier: Apache-2.0
/* Counts the instructions of a function by single-stepping a child process. Counts are exact, equal in every run and on
 * a busy machine, and need no performance counters. */
#ifndef COORDGEN_BENCH_INSTRUCTION_COUNT_H
#define COORDGEN_BENCH_INSTRUCTION_COUNT_H

#include <stdint.h>

typedef struct InstructionCount {
    uint64_t all;
    /* instructions on vector registers: MMX to AVX-512, or Advanced SIMD and SVE; floating point included */
    uint64_t vector;
} InstructionCount;

/* Counts one call fn(argument), minus an empty function's instructions. Returns 0 or -errno: -ENOSYS if the machine's
 * instructions are not known or an emulator has no ptrace, -EPERM if ptrace is forbidden. */
int instruction_count(void (*fn)(const void *argument), const void *argument, InstructionCount *countp);

#endif
