// SPDX-License-Identifier: Apache-2.0
/* How many instructions a function takes: counted by single-stepping a child process, hence exact, the same in every
 * run and on a busy machine, and without performance counters. */
#ifndef COORDGEN_BENCH_INSTRUCTION_COUNT_H
#define COORDGEN_BENCH_INSTRUCTION_COUNT_H

#include <stdint.h>

typedef struct InstructionCount {
    uint64_t all;
    uint64_t vector; /* those on vector registers: MMX to AVX-512, or Advanced SIMD and SVE; floating point included */
} InstructionCount;

/* Counts one call fn(argument), without what an empty function takes. 0, or -errno: -ENOSYS where the machine's
 * instructions are not known or an emulator has no ptrace, -EPERM where ptrace is forbidden. */
int instruction_count(void (*fn)(const void *argument), const void *argument, InstructionCount *countp);

#endif
