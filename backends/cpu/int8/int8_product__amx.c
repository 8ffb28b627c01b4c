// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "backends/cpu/int8/int8_product_amx_impl.h"

Int8Product int8_product__amx;
Int8GatedProduct int8_product__amx_gated;

void int8_product__amx(const Int8Weights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end, float *y,
                       size_t y_stride, void *scratch) {
    tile_product_plain(weights, rows, block_begin, block_end, y, y_stride, scratch);
}

void int8_product__amx_gated(const Int8Weights *gate, const Int8Weights *up, const Int8Rows *rows, Int8Gate activation,
                             size_t block_begin, size_t block_end, float *y, size_t y_stride, void *scratch) {
    tile_product_gated(gate, up, rows, activation, block_begin, block_end, y, y_stride, scratch);
}
