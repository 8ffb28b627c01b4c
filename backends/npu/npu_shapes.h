// SPDX-License-Identifier: Apache-2.0
/* The same product in several shapes: all rows of a graph at once, or part by part, with the same bits (llm.npu: its
 * equivalent shapes). Which is fastest is found out on the machine, while the first products run: each shape of a
 * product gets some tries, and then the one of the least time has it. */
#ifndef COORDGEN_BACKENDS_NPU_NPU_SHAPES_H
#define COORDGEN_BACKENDS_NPU_NPU_SHAPES_H

#include <stddef.h>
#include <stdint.h>

enum {
    NPU_SHAPES_MAX = 4,    /* of a product: 256, 128, 64 and 32 rows at a time; or 32 and 16 */
    NPU_PRODUCTS_MAX = 64, /* that differ in their sizes; more are computed with all rows at once */
    NPU_TRIES = 3,         /* of each shape; the least time counts, for others are at work on the machine */
};

typedef struct NpuProduct {
    size_t inputs, outputs, rows; /* of a graph; outputs of all its matrices */
    uint64_t least_ns[NPU_SHAPES_MAX];
    size_t n_tries; /* of all shapes, in turns */
    size_t best;    /* when all are done */
} NpuProduct;

/* Zero: nothing is known. One thread. */
typedef struct NpuShapes {
    NpuProduct products[NPU_PRODUCTS_MAX];
    size_t n;
} NpuShapes;

/* Rows that the next product of these sizes takes at a time, and where its time belongs: *productp, which may be
 * NULL. */
size_t npu_shapes_choose(NpuShapes *shapes, size_t inputs, size_t outputs, size_t rows, NpuProduct **productp);
/* How long it took. */
void npu_shapes_took(NpuProduct *product, uint64_t ns);

#endif
