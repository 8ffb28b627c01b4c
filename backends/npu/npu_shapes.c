// SPDX-License-Identifier: Apache-2.0
#include "backends/npu/npu_shapes.h"

#define LEAST_ROWS 16 /* a tile of the kernels */

/* Returns the number of shapes: the rows are halved as long as the halves are whole tiles. */
static size_t n_shapes(size_t rows) {
    size_t n = 1;

    while (n < NPU_SHAPES_MAX && (rows >> n) >= LEAST_ROWS && (rows >> n) % LEAST_ROWS == 0)
        n++;
    return n;
}

static NpuProduct *product_of(NpuShapes *shapes, size_t inputs, size_t outputs, size_t rows) {
    for (size_t i = 0; i < shapes->n; i++) {
        NpuProduct *product = &shapes->products[i];

        if (product->inputs == inputs && product->outputs == outputs && product->rows == rows)
            return product;
    }
    if (shapes->n == NPU_PRODUCTS_MAX)
        return NULL;
    shapes->products[shapes->n] = (NpuProduct){ .inputs = inputs, .outputs = outputs, .rows = rows };
    return &shapes->products[shapes->n++];
}

size_t npu_shapes_choose(NpuShapes *shapes, size_t inputs, size_t outputs, size_t rows, NpuProduct **productp) {
    NpuProduct *product = product_of(shapes, inputs, outputs, rows);

    *productp = NULL;
    if (!product)
        return rows;
    if (product->n_tries == NPU_TRIES * n_shapes(rows))
        return rows >> product->best;
    *productp = product;
    return rows >> (product->n_tries % n_shapes(rows));
}

void npu_shapes_took(NpuProduct *product, uint64_t ns) {
    const size_t n = n_shapes(product->rows), shape = product->n_tries++ % n;

    if (product->n_tries <= n || ns < product->least_ns[shape])
        product->least_ns[shape] = ns;
    for (size_t i = 0; product->n_tries == NPU_TRIES * n && i < n; i++)
        if (product->least_ns[i] < product->least_ns[product->best])
            product->best = i;
}
