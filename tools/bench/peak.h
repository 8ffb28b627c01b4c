// SPDX-License-Identifier: Apache-2.0
/* What a core's arithmetic can do at most: loops over registers, one for each instruction set; and ", fed", the same
 * instructions with the loads that bring a kernel its operands, all from the first-level cache. On a core of one's own
 * the loads cost nothing; where another hardware thread takes its part of the core, they show what is left. */
#ifndef COORDGEN_BENCH_PEAK_H
#define COORDGEN_BENCH_PEAK_H

#include <stddef.h>
#include <stdint.h>

#include "base/system/worker_pool.h"

#define PEAK_TRIES 16

typedef struct Peak {
    const char *name;       /* "AVX-512 vpdpbusd" */
    const char *kernel;     /* the kernel that these instructions make: "int8_product__avx512vnni"; "": fed */
    const char *type;       /* "int8", "f32" */
    uint32_t need;          /* CPU_* bits */
    void (*loop)(size_t n); /* n rounds */
    double ops;             /* of a round; a product and its sum are 2 */
} Peak;

/* None for an architecture without loops. */
size_t peak_n(void);
const Peak *peak_at(size_t index);
const Peak *peak_of_kernel(const char *kernel); /* NULL: unknown */
const Peak *peak_fed(const Peak *peak);         /* NULL: there is none */
/* Giga-operations a second of the pool's threads together. The machine must have the instructions. */
void peak_tries(const Peak *peak, WorkerPool *pool, double values[PEAK_TRIES]);
double peak_measure(const Peak *peak, WorkerPool *pool); /* of the best try */

#endif
