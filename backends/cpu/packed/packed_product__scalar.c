// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "backends/cpu/packed/packed_product.h"
#include "backends/cpu/packed/unpack_tile.h"
#include "base/min_max.h"
#include "quant/format/pack.h"

PackedProduct packed_product__scalar;
UnpackTile unpack_tile__scalar;

/* Rows that share the unpacking of a tile. */
enum {
    PANEL_ROWS = 8
};

static void panel(const PackedWeights *weights, const Int8Rows *rows, size_t row, size_t n_rows, size_t block, float *y,
                  size_t y_stride) {
    const size_t first = block * INT8_TILE_OUTPUTS;
    const int bits = weights->bits[block];
    const uint8_t *packed = weights->packed + weights->offsets[block];
    int32_t sums[PANEL_ROWS][INT8_TILE_OUTPUTS] = { 0 };

    for (size_t t = 0; t < weights->k_tiles; t++, packed += pack_tile_bytes(bits)) {
        int8_t levels[PACK_TILE_WEIGHTS];

        unpack_tile__scalar(packed, weights->grid, bits, 1, levels);
        for (size_t r = 0; r < n_rows; r++) {
            const int8_t *x = rows->x + (row + r) * rows->stride_bytes + t * INT8_TILE_INPUTS;

            for (size_t quad = 0; quad < INT8_TILE_INPUTS / 4; quad++, x += 4)
                for (size_t o = 0; o < INT8_TILE_OUTPUTS; o++) {
                    const int8_t *q = levels + (quad * INT8_TILE_OUTPUTS + o) * 4;

                    sums[r][o] += x[0] * q[0] + x[1] * q[1] + x[2] * q[2] + x[3] * q[3];
                }
        }
    }
    for (size_t r = 0; r < n_rows; r++)
        for (size_t o = 0; o < INT8_TILE_OUTPUTS && first + o < weights->n; o++) {
            const size_t p = first + o, channel = weights->channels ? weights->channels[p] : p;
            float value = (float)sums[r][o] * (rows->scales[row + r] * weights->scales[p]);

            y[(row + r) * y_stride + channel] = weights->bias ? value + weights->bias[p] : value;
        }
}

/**
 * packed_product__scalar() - the reference: portable C, on any machine
 *
 * All other kernels give these bits, which are the bits of int8_product on the unpacked matrix.
 */
void packed_product__scalar(const PackedWeights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end,
                            float *y, size_t y_stride) {
    assert(rows->tile_rows == 1 && rows->stride_bytes == weights->k_tiles * INT8_TILE_INPUTS);
    assert(weights->k <= INT8_K_MAX && rows->sums);
    for (size_t block = block_begin; block < block_end; block++)
        for (size_t row = 0; row < rows->rows; row += PANEL_ROWS) {
            const size_t left = rows->rows - row;

            panel(weights, rows, row, MIN(left, PANEL_ROWS), block, y, y_stride);
        }
}
