// SPDX-License-Identifier: Apache-2.0
/* Peak arithmetic of a core, by loops over registers, one for each instruction set. A loop named ", fed" also loads a
 * kernel's operands from the first-level cache. The loads cost nothing on a core of one's own; beside another hardware
 * thread they show the speed that is left. */
#ifndef COORDGEN_BENCH_PEAK_H
#define COORDGEN_BENCH_PEAK_H

#include <stddef.h>
#include <stdint.h>

#include "base/system/worker_pool.h"

#define PEAK_TRIES 16

typedef struct Peak {
    const char *name;       /* "AVX-512 vpdpbusd" */
    const char *kernel;     /* the kernel that uses these instructions: "int8_product__avx512vnni"; "": fed */
    const char *type;       /* "int8", "f32" */
    uint32_t need;          /* CPU_* bits */
    void (*loop)(size_t n); /* n rounds */
    double ops;             /* operations of a round; a product and its sum are 2 */
} Peak;

/* Returns the number of loops; 0 for an architecture without any. */
size_t peak_n(void);
const Peak *peak_at(size_t index);
const Peak *peak_of_kernel(const char *kernel); /* NULL: unknown */
const Peak *peak_fed(const Peak *peak);         /* NULL: there is none */
/* Measures giga-operations a second of all the pool's threads. The machine must have the instructions. */
void peak_tries(const Peak *peak, WorkerPool *pool, double values[PEAK_TRIES]);
double peak_measure(const Peak *peak, WorkerPool *pool); /* Returns the speed of the best try. */

#endif
