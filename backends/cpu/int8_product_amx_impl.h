/* The AMX kernel. The including file brings the tile intrinsics (immintrin.h, or their portable model) and gives the
 * kernel's name. Tile numbers are literals because the instructions encode them. */
#ifndef COORDGEN_BACKENDS_CPU_INT8_PRODUCT_AMX_IMPL_H
#define COORDGEN_BACKENDS_CPU_INT8_PRODUCT_AMX_IMPL_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "backends/cpu/int8_product.h"

enum {
    TILE_ROWS = 16,
    PANEL_ROWS = 2 * TILE_ROWS,
    TILE_ROW_BYTES = 64
};

/* What LDTILECFG reads. */
typedef struct TileConfig {
    uint8_t palette, start_row, reserved0[14];
    uint16_t row_bytes[8], reserved1[8];
    uint8_t rows[8], reserved2[8];
} TileConfig;

_Static_assert(sizeof(TileConfig) == 64, "the size of a tile configuration");

/* Tiles of a panel of up to 32 rows by 2 blocks: sums 0 (upper rows, first block), 1 (upper, second), 2 (lower, first),
 * 3 (lower, second); activations 4 (upper rows), 5 (lower rows); weights 6 and 7. Loading clears all tiles. */
static void configure(size_t upper_rows, size_t lower_rows) {
    _Alignas(64) TileConfig config = { .palette = 1 };
    const size_t rows[8] = { upper_rows, upper_rows, lower_rows, lower_rows,
                             upper_rows, lower_rows, TILE_ROWS,  TILE_ROWS };

    for (int tile = 0; tile < 8; tile++) {
        config.rows[tile] = (uint8_t)rows[tile];
        config.row_bytes[tile] = rows[tile] ? TILE_ROW_BYTES : 0;
    }
    __asm__ volatile("" : : "r"(&config) : "memory"); /* gcc's intrinsic does not say that it reads all 64 bytes */
    _tile_loadconfig(&config);
}

/* Sums of 1 or 2 tiles of one block become outputs. */
static void finish(const Int8Weights *weights, const Int8Rows *rows, size_t row, size_t n_rows, size_t block,
                   int32_t sums[][INT8_TILE_OUTPUTS], float *y, size_t y_stride) {
    const size_t first = block * INT8_TILE_OUTPUTS, left = weights->n - first;
    const size_t n = left < INT8_TILE_OUTPUTS ? left : INT8_TILE_OUTPUTS;
    const float *scales = weights->scales + first, *bias = weights->bias ? weights->bias + first : NULL;

    for (size_t r = 0; r < n_rows; r++) {
        float *to = y + (row + r) * y_stride + first, x_scale = rows->scales[row + r], values[INT8_TILE_OUTPUTS];

        for (size_t o = 0; o < INT8_TILE_OUTPUTS; o++)
            values[o] = (float)sums[r][o] * (x_scale * scales[o]);
        for (size_t o = 0; bias && o < INT8_TILE_OUTPUTS; o++)
            values[o] = values[o] + bias[o];
        memcpy(to, values, n * sizeof(*to));
    }
}

/* One panel of n_rows <= 32 rows by 1 or 2 blocks, under the configuration for n_rows. With each tile of inputs it
 * fetches ahead_bytes from `ahead` into the second-level cache (a prefetch past the end of the weights does not
 * fault). */
static void product_panel(const Int8Weights *weights, const Int8Rows *rows, size_t row, size_t n_rows, size_t block,
                          size_t n_blocks, float *y, size_t y_stride, const int8_t *ahead, size_t ahead_bytes) {
    _Alignas(64) int32_t sums[2][PANEL_ROWS][INT8_TILE_OUTPUTS];
    const ptrdiff_t stride = (ptrdiff_t)rows->stride_bytes;
    const bool has_lower = n_rows > TILE_ROWS, has_second = n_blocks > 1;
    const int8_t *upper = rows->x + row * rows->stride_bytes, *lower = has_lower ? upper + TILE_ROWS * stride : upper;
    const int8_t *first = weights->tiles + block * weights->k_tiles * INT8_TILE_BYTES;
    const int8_t *second = has_second ? first + weights->k_tiles * INT8_TILE_BYTES : first;

    _tile_zero(0);
    _tile_zero(1);
    if (has_lower) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t t = 0; t < weights->k_tiles; t++) {
        for (size_t i = 0; i < ahead_bytes; i += 64)
            __builtin_prefetch(ahead + t * ahead_bytes + i, 0, 2);
        _tile_loadd(4, upper + t * INT8_TILE_INPUTS, stride);
        _tile_loadd(6, first + t * INT8_TILE_BYTES, TILE_ROW_BYTES);
        _tile_dpbssd(0, 4, 6);
        if (has_second) {
            _tile_loadd(7, second + t * INT8_TILE_BYTES, TILE_ROW_BYTES);
            _tile_dpbssd(1, 4, 7);
        }
        if (has_lower) {
            _tile_loadd(5, lower + t * INT8_TILE_INPUTS, stride);
            _tile_dpbssd(2, 5, 6);
            if (has_second)
                _tile_dpbssd(3, 5, 7);
        }
    }
    _tile_stored(0, sums[0], TILE_ROW_BYTES);
    _tile_stored(1, sums[1], TILE_ROW_BYTES);
    if (has_lower) {
        _tile_stored(2, sums[0] + TILE_ROWS, TILE_ROW_BYTES);
        _tile_stored(3, sums[1] + TILE_ROWS, TILE_ROW_BYTES);
    }
    for (size_t b = 0; b < n_blocks; b++)
        finish(weights, rows, row, n_rows, block + b, sums[b], y, y_stride);
}

/**
 * int8_product_amx_body() - TDPBSSD: 16 rows x 16 outputs x 64 inputs an instruction
 *
 * A pair of blocks is read once from memory and stays in the second-level cache while all rows pass over it in panels
 * of 32; each panel fetches its share of the next pair, so that memory is read while products are made. The
 * configuration is the thread's: loaded when the height of the panel changes (once for up to 32 rows), released at the
 * end, so that no context switch saves tiles between calls. Rows past the last are not read: tiles are as high as the
 * rows there are.
 */
static void int8_product_amx_body(const Int8Weights *weights, const Int8Rows *rows, size_t block_begin,
                                  size_t block_end, float *y, size_t y_stride) {
    const size_t n_panels = (rows->rows + PANEL_ROWS - 1) / PANEL_ROWS;
    size_t configured_rows = 0;

    assert(rows->stride_bytes == weights->k_tiles * INT8_TILE_INPUTS && weights->k <= INT8_K_MAX);
    for (size_t block = block_begin; block < block_end; block += 2) {
        const bool is_last = block_end - block <= 2;
        const int8_t *ahead =
            is_last ? weights->next : weights->tiles + (block + 2) * weights->k_tiles * INT8_TILE_BYTES;
        const size_t last_share = weights->next ? (weights->next_bytes + weights->k_tiles - 1) / weights->k_tiles : 0;
        /* Bytes that all panels together fetch with a tile, and each of them. */
        const size_t tile_share = is_last ? last_share : 2 * INT8_TILE_BYTES;
        const size_t share_bytes = (tile_share / 64 + n_panels - 1) / n_panels * 64;

        for (size_t p = 0; p < n_panels; p++) {
            const size_t row = p * PANEL_ROWS, left = rows->rows - row, n_rows = left < PANEL_ROWS ? left : PANEL_ROWS;
            const size_t ahead_bytes = p * share_bytes < tile_share ? share_bytes : 0;

            if (n_rows != configured_rows)
                configure(n_rows < TILE_ROWS ? n_rows : TILE_ROWS, n_rows > TILE_ROWS ? n_rows - TILE_ROWS : 0);
            configured_rows = n_rows;
            product_panel(weights, rows, row, n_rows, block, block_end - block > 1 ? 2 : 1, y, y_stride,
                          ahead_bytes ? ahead + p * ahead_bytes * weights->k_tiles : NULL, ahead_bytes);
        }
    }
    if (configured_rows)
        _tile_release();
}

#endif
