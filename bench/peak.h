/* What a core's arithmetic can do at most: loops over registers, one for each instruction set. */
#ifndef COORDGEN_BENCH_PEAK_H
#define COORDGEN_BENCH_PEAK_H

#include <stddef.h>
#include <stdint.h>

#include "base/worker_pool.h"

typedef struct Peak {
    const char *name;       /* "AVX-512 vpdpbusd" */
    const char *kernel;     /* the kernel that these instructions make: "int8_product__avx512vnni" */
    const char *type;       /* "int8", "f32" */
    uint32_t need;          /* CPU_* bits */
    void (*loop)(size_t n); /* n rounds */
    double ops;             /* of a round; a product and its sum are 2 */
} Peak;

/* None for an architecture without loops. */
size_t peak_n(void);
const Peak *peak_at(size_t index);
const Peak *peak_of_kernel(const char *kernel); /* NULL: unknown */
/* Giga-operations a second of the pool's threads together. The machine must have the instructions. */
double peak_measure(const Peak *peak, WorkerPool *pool);

#endif
