// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "backends/cpu/int8/int8_product.h"

Int8Product int8_product__scalar;

/**
 * int8_product__scalar() - the reference: portable C, on any machine
 *
 * All other kernels must give these bits. The int32 sum is exact, so any order of addition gives it. In float32 follow
 * float(sum) x (row scale x output scale) and, only if there is a bias, one separate addition.
 */
void int8_product__scalar(const Int8Weights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end,
                          float *y, size_t y_stride, void *scratch) {
    assert(rows->tile_rows == 1 && rows->stride_bytes == weights->k_tiles * INT8_TILE_INPUTS);
    assert(weights->k <= INT8_K_MAX);
    for (size_t block = block_begin; block < block_end; block++) {
        const int8_t *tiles = weights->tiles + block * weights->k_tiles * INT8_TILE_BYTES;
        size_t first = block * INT8_TILE_OUTPUTS, n = weights->n - first;

        if (n > INT8_TILE_OUTPUTS)
            n = INT8_TILE_OUTPUTS;
        for (size_t r = 0; r < rows->rows; r++) {
            const int8_t *x = rows->x + r * rows->stride_bytes;
            int32_t sum[INT8_TILE_OUTPUTS] = { 0 };

            for (size_t quad = 0; quad < rows->stride_bytes / 4; quad++)
                for (size_t o = 0; o < INT8_TILE_OUTPUTS; o++) {
                    const int8_t *w = tiles + (quad * INT8_TILE_OUTPUTS + o) * 4;

                    sum[o] +=
                        x[4 * quad] * w[0] + x[4 * quad + 1] * w[1] + x[4 * quad + 2] * w[2] + x[4 * quad + 3] * w[3];
                }
            for (size_t o = 0; o < n; o++) {
                float value = (float)sum[o] * (rows->scales[r] * weights->scales[first + o]);

                y[r * y_stride + first + o] = weights->bias ? value + weights->bias[first + o] : value;
            }
        }
    }
}
