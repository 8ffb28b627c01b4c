// SPDX-License-Identifier: Apache-2.0
/* Products on packed weights (quant/format/pack.h), with the contract and the bits of the int8 products on the unpacked
 * matrix: y[r][o] = float(sum_k x[r][k] * q[o][k]) * (x_scale[r] * w_scale[o]) + bias[o].
 *
 * A kernel expands codes u in registers. With q = factor * u - offset for the block's width, sum x q = factor * sum x u
 * - offset * sum x, in int32 modulo 2^32 (the final value is within int32). If the levels are in a table (grid.h), the
 * kernel looks them up in registers. */
#ifndef COORDGEN_BACKENDS_CPU_PACKED_PRODUCT_H
#define COORDGEN_BACKENDS_CPU_PACKED_PRODUCT_H

#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/int8/int8_product.h"
#include "quant/format/grid.h"

/* A packed matrix. Arrays are in order of positions, not channels: [n_blocks * 16]. */
typedef struct PackedWeights {
    size_t n;                 /* outputs */
    size_t k;                 /* inputs, at most INT8_K_MAX */
    size_t k_tiles;           /* ceil(k / 64) */
    size_t n_blocks;          /* ceil(n / 16) */
    const uint8_t *packed;    /* the blocks, aligned to 64 */
    const uint64_t *offsets;  /* [n_blocks + 1] bytes */
    const uint8_t *bits;      /* [n_blocks] */
    Grid grid;                /* meaning of the codes */
    const uint32_t *channels; /* output at each position, or PACK_CHANNEL_NONE; NULL: position p is output p */
    const int32_t *sums;      /* sum over k_tiles * 64 of the level, padding included; only for expanded panels */
    const float *scales;      /* zero past n */
    const float *bias;        /* or NULL */
} PackedWeights;

/* Multiplies output blocks [block_begin, block_end) for all rows, into y[r * y_stride + output]; writes no other
 * outputs. Needs rows->sums. */
typedef void PackedProduct(const PackedWeights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end,
                           float *y, size_t y_stride);

typedef struct PackedProductKernel {
    const char *name;
    uint32_t need; /* CPU_* bits */
    PackedProduct *fn;
} PackedProductKernel;

/* Returns the best kernel whose needs are all in cpu; the scalar kernel needs nothing. */
const PackedProductKernel *packed_product_select(uint32_t cpu);
size_t packed_product_n_kernels(void);
const PackedProductKernel *packed_product_kernel_at(size_t index);

#endif
