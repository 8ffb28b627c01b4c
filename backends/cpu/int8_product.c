#include "backends/cpu/int8_product.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/cpu.h"

#define KERNEL(needs, function) Int8Product function;
#include "backends/cpu/int8_product.inc"
#undef KERNEL

static const Int8ProductKernel kernels[] = {
#define KERNEL(needs, function) { #function, needs, function },
#include "backends/cpu/int8_product.inc"
#undef KERNEL
};

const Int8ProductKernel *int8_product_select(uint32_t cpu) {
    for (size_t i = 0; i + 1 < ARRAY_LEN(kernels); i++)
        if (!(kernels[i].need & ~cpu))
            return &kernels[i];
    return &kernels[ARRAY_LEN(kernels) - 1];
}

size_t int8_product_n_kernels(void) {
    return ARRAY_LEN(kernels);
}

const Int8ProductKernel *int8_product_kernel_at(size_t index) {
    assert(index < ARRAY_LEN(kernels));
    return &kernels[index];
}

/* Where input i of output o (0..15) sits in a block. */
static size_t tile_offset(size_t o, size_t i) {
    return i / INT8_TILE_INPUTS * INT8_TILE_BYTES + i % INT8_TILE_INPUTS / 4 * (INT8_TILE_OUTPUTS * 4) + o * 4 + i % 4;
}

/**
 * int8_weights_layout() - bring a part of a row-major matrix into tiles
 * @w:            i8[n][k], the whole matrix
 * @block_begin:  first block of 16 outputs to write; blocks may be laid out in any order and by several threads
 * @tiles:        out: base of the whole [n_blocks][k_tiles][INT8_TILE_BYTES]; only the named blocks are written
 * @sums:         out: base of the whole [n_blocks * 16]; only the named blocks are written
 *
 * Values are -127..127 by contract; -128 is laid out and multiplied exactly as well.
 */
void int8_weights_layout(const int8_t *w, size_t n, size_t k, size_t block_begin, size_t block_end, int8_t *tiles,
                         int32_t *sums) {
    size_t block_bytes = int8_tiles_for(k) * INT8_TILE_BYTES;

    assert(k <= INT8_K_MAX && block_begin <= block_end && block_end <= int8_blocks_for(n));
    for (size_t block = block_begin; block < block_end; block++) {
        int8_t *to = tiles + block * block_bytes;

        if (k % INT8_TILE_INPUTS || (block + 1) * INT8_TILE_OUTPUTS > n)
            memset(to, 0, block_bytes);
        for (size_t o = 0; o < INT8_TILE_OUTPUTS; o++) {
            size_t output = block * INT8_TILE_OUTPUTS + o;
            int32_t sum = 0;

            if (output < n) {
                const int8_t *from = w + output * k;
                size_t i = 0;

                for (; i + 4 <= k; i += 4)
                    memcpy(to + tile_offset(o, i), from + i, 4);
                for (; i < k; i++)
                    to[tile_offset(o, i)] = from[i];
                for (i = 0; i < k; i++)
                    sum += from[i];
            }
            sums[output] = sum;
        }
    }
}

void int8_weights_row(const Int8Weights *weights, size_t output, int8_t *q) {
    const int8_t *block;

    assert(output < weights->n);
    block = weights->tiles + output / INT8_TILE_OUTPUTS * weights->k_tiles * INT8_TILE_BYTES;
    for (size_t i = 0; i < weights->k; i++)
        q[i] = block[tile_offset(output % INT8_TILE_OUTPUTS, i)];
}
