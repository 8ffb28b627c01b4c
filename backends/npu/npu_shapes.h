// SPDX-License-Identifier: Apache-2.0
/* Chooses the shape of a product: all rows of a graph at once, or part by part, with the same bits (the equivalent
 * shapes of llm.npu). The fastest shape is found on the machine while the first products run: each shape of a product
 * is tried a few times, and then the one with the least time stays. */
#ifndef COORDGEN_BACKENDS_NPU_NPU_SHAPES_H
#define COORDGEN_BACKENDS_NPU_NPU_SHAPES_H

#include <stddef.h>
#include <stdint.h>

enum {
    NPU_SHAPES_MAX = 4,    /* of a product: 256, 128, 64 and 32 rows at a time; or 32 and 16 */
    NPU_PRODUCTS_MAX = 64, /* of different sizes; further ones are computed with all rows at once */
    NPU_TRIES = 3,         /* of each shape; the least time counts, for other programs use the machine, too */
};

typedef struct NpuProduct {
    size_t inputs, outputs, rows; /* of a graph; outputs of all its matrices */
    uint64_t least_ns[NPU_SHAPES_MAX];
    size_t n_tries; /* of all shapes, in turns */
    size_t best;    /* shape, when all tries are done */
} NpuProduct;

/* Zero: nothing is known. Thread: one. */
typedef struct NpuShapes {
    NpuProduct products[NPU_PRODUCTS_MAX];
    size_t n;
} NpuShapes;

/* Returns the rows that the next product of these sizes takes at a time. *productp: records the product's time; NULL:
 * the time is not needed. */
size_t npu_shapes_choose(NpuShapes *shapes, size_t inputs, size_t outputs, size_t rows, NpuProduct **productp);
/* Records how long the product took. */
void npu_shapes_took(NpuProduct *product, uint64_t ns);

#endif
