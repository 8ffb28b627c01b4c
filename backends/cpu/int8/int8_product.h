// SPDX-License-Identifier: Apache-2.0
/* Exact int8 products with an int32 sum: y[r][o] = float(sum_k x[r][k] * w[o][k]) * (x_scale[r] * w_scale[o]) +
 * bias[o]. One weight layout serves every kernel, so that a matrix is laid out once, at load. */
#ifndef COORDGEN_BACKENDS_CPU_INT8_PRODUCT_H
#define COORDGEN_BACKENDS_CPU_INT8_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/min_max.h"

/* Tile: 16 outputs x 64 inputs, 1024 bytes, byte [k / 4][o][k % 4]. A block of 16 outputs is its tiles in rising k;
 * blocks follow each other. Inputs past k and outputs past n are zero. This is AMX's B tile, a VNNI register row and
 * four SDOT registers. */
#define INT8_TILE_OUTPUTS 16
#define INT8_TILE_INPUTS 64
#define INT8_TILE_BYTES (INT8_TILE_OUTPUTS * INT8_TILE_INPUTS)
#define INT8_K_MAX 131072 /* 127 * 127 * k stays below 2^31 */

/* Source of tiles that are not laid out in memory: writes tile `tile` of block `block` to `tiles`, 1024 bytes aligned
 * to 64. Thread: the multiplying one. */
typedef struct Int8Source {
    void (*tile)(const void *arg, size_t block, size_t tile, int8_t *tiles);
    const void *arg;
} Int8Source;

typedef struct Int8Weights {
    size_t n;            /* outputs */
    size_t k;            /* inputs */
    size_t k_tiles;      /* ceil(k / 64) */
    size_t n_blocks;     /* ceil(n / 16) */
    const int8_t *tiles; /* [n_blocks][k_tiles][INT8_TILE_BYTES], aligned to 64 */
    const int32_t *sums; /* [n_blocks * 16]: sum over k of w[o][k], for kernels that shift x to unsigned */
    const float *scales; /* [n_blocks * 16], zero past n */
    const float *bias;   /* [n_blocks * 16] or NULL */
    const void *next;    /* next memory that the caller will read, to be prefetched; or NULL */
    size_t next_bytes;
    const Int8Source *source; /* makes tiles while they are multiplied (`tiles` is NULL then); up to source_rows rows */
} Int8Weights;

/* Rows of quantized activations, in groups of `tile_rows` rows (1..INT8_TILE_ROWS). A group has a tile for every 64
 * inputs, in rising k; a tile has 64 bytes per row. With tile_rows 1 a row's bytes are contiguous; with 16 a tile is
 * AMX's A tile. The last group's rows past the last row may hold anything. int8_rows_piece() locates a piece. */
#define INT8_TILE_ROWS 16

typedef struct Int8Rows {
    size_t rows;
    size_t tile_rows;
    size_t stride_bytes;    /* k_tiles * 64: bytes of a row; those past k are zero */
    const int8_t *x;        /* [int8_rows_bytes()], aligned to 64, values -127..127 */
    const float *scales;    /* [rows] */
    const int32_t *sums;    /* [rows]: sum of x; packed products only, or NULL */
    const uint8_t *shifted; /* as x, every byte + 128; for kernels with `shifted`, or NULL */
} Int8Rows;

/* Returns the offset of a row's inputs [64 piece, 64 piece + 64) within x or shifted. */
static inline size_t int8_rows_piece(const Int8Rows *rows, size_t row, size_t piece) {
    return row / rows->tile_rows * rows->tile_rows * rows->stride_bytes +
           (piece * rows->tile_rows + row % rows->tile_rows) * INT8_TILE_INPUTS;
}

/* Returns the bytes of x or shifted, including the last group's rows past the last row. */
static inline size_t int8_rows_bytes(size_t rows, size_t tile_rows, size_t stride_bytes) {
    return (rows + tile_rows - 1) / tile_rows * tile_rows * stride_bytes;
}

/* Activation of gate rows; the product with `up` follows: activation(gate) * up. */
typedef enum Int8Gate {
    INT8_GATE_SILU,
    INT8_GATE_GELU,
} Int8Gate;

/* Multiplies output blocks [block_begin, block_end) for all rows, into y[r * y_stride + o]; never writes past output n
 * - 1. scratch: the kernel's scratch_bytes, aligned to 64; content undefined. */
typedef void Int8Product(const Int8Weights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end,
                         float *y, size_t y_stride, void *scratch);
/* Multiplies by two matrices of one shape, into y = activation(gate) * up, with the bits of both products and
 * RowOps.silu_mul or gelu_mul. */
typedef void Int8GatedProduct(const Int8Weights *gate, const Int8Weights *up, const Int8Rows *rows, Int8Gate activation,
                              size_t block_begin, size_t block_end, float *y, size_t y_stride, void *scratch);

typedef struct Int8ProductKernel {
    const char *name;
    uint32_t need;    /* CPU_* bits */
    bool shifted;     /* multiplies unsigned rows: wants Int8Rows.shifted */
    size_t tile_rows; /* layout for this many rows or more; fewer rows form one group; 1 is also accepted */
    size_t scratch_bytes;
    size_t source_rows; /* number of rows up to which weights may come from a source; 0: never */
    Int8Product *fn;
    Int8GatedProduct *gated; /* or NULL */
} Int8ProductKernel;

/* Scratch of a kernel that takes tiles of rows: sums of 512 rows by 256 outputs. */
#define INT8_TILE_SCRATCH_BYTES (512 << 10)
/* Number of rows up to which such a kernel takes weights from a source: each tile is used once. */
#define INT8_TILE_SOURCE_ROWS 32

/* Returns the layout that a kernel wants for `rows` rows. */
static inline size_t int8_tile_rows(const Int8ProductKernel *kernel, size_t rows) {
    return MIN(rows, kernel->tile_rows);
}

/* Returns the best kernel whose needs are all in cpu; the scalar kernel needs nothing. */
const Int8ProductKernel *int8_product_select(uint32_t cpu);
size_t int8_product_n_kernels(void);
const Int8ProductKernel *int8_product_kernel_at(size_t index);

static inline size_t int8_tiles_for(size_t k) {
    return (k + INT8_TILE_INPUTS - 1) / INT8_TILE_INPUTS;
}

static inline size_t int8_blocks_for(size_t n) {
    return (n + INT8_TILE_OUTPUTS - 1) / INT8_TILE_OUTPUTS;
}

/* Makes Int8Rows.shifted from x. */
static inline void int8_rows_shift(const int8_t *x, size_t n, uint8_t *shifted) {
    for (size_t i = 0; i < n; i++)
        shifted[i] = (uint8_t)x[i] ^ 0x80;
}

/* Lays out blocks [block_begin, block_end), whose rows begin at `rows`, and their sums. Returns whether -128 is among
 * the weights. */
bool int8_weights_layout(const int8_t *rows, size_t n, size_t k, size_t block_begin, size_t block_end, int8_t *tiles,
                         int32_t *sums);
/* Reads one output's weights back from the tiles: q[k]. */
void int8_weights_row(const Int8Weights *weights, size_t output, int8_t *q);

#endif
