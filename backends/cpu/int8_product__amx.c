#include <immintrin.h>

#include "backends/cpu/int8_product_amx_impl.h"

Int8Product int8_product__amx;

void int8_product__amx(const Int8Weights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end, float *y,
                       size_t y_stride) {
    int8_product_amx_body(weights, rows, block_begin, block_end, y, y_stride);
}
