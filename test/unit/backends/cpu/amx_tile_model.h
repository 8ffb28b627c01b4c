// SPDX-License-Identifier: Apache-2.0
/* The AMX-INT8 tile instructions in portable C, under the names of the compiler's intrinsics. A kernel written with
 * them can thus be tested on a machine without AMX. The model replaces macros of immintrin.h, which must be included
 * before this header. Assertions stand for the hardware's faults: bad configurations, tiles that are not configured,
 * incompatible shapes. Source: Intel 64 and IA-32 SDM, volume 1, chapter 18, and the pages of the instructions. */
#ifndef COORDGEN_TEST_UNIT_AMX_TILE_MODEL_H
#define COORDGEN_TEST_UNIT_AMX_TILE_MODEL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbssd
#define _tile_loadconfig tile_model_loadconfig
#define _tile_release tile_model_release

enum {
    TILE_MODEL_TILES = 8,
    TILE_MODEL_ROWS = 16,
    TILE_MODEL_ROW_BYTES = 64
};

/* Tile state belongs to a thread. */
static _Thread_local struct {
    bool configured;
    uint8_t rows[TILE_MODEL_TILES];
    uint16_t row_bytes[TILE_MODEL_TILES];
    uint8_t data[TILE_MODEL_TILES][TILE_MODEL_ROWS][TILE_MODEL_ROW_BYTES];
} tile_model;

static inline bool tile_model_usable(int tile) {
    return tile_model.configured && tile >= 0 && tile < TILE_MODEL_TILES && tile_model.rows[tile] &&
           tile_model.row_bytes[tile];
}

/* LDTILECFG: 64 bytes: palette, start row, 14 zeros, bytes of a row by tile (u16), 16 zeros, rows by tile, 8 zeros. */
static inline void _tile_loadconfig(const void *config) {
    const uint8_t *bytes = config;

    assert(bytes[0] == 1 && bytes[1] == 0);
    for (int i = 2; i < 64; i++)
        assert((i >= 16 && i < 32) || (i >= 48 && i < 56) || bytes[i] == 0);
    memset(&tile_model, 0, sizeof(tile_model)); /* loading a configuration clears the tiles */
    for (int tile = 0; tile < TILE_MODEL_TILES; tile++) {
        memcpy(&tile_model.row_bytes[tile], bytes + 16 + 2 * tile, sizeof(uint16_t));
        tile_model.rows[tile] = bytes[48 + tile];
        assert(tile_model.row_bytes[tile] <= TILE_MODEL_ROW_BYTES && tile_model.rows[tile] <= TILE_MODEL_ROWS);
        assert(!tile_model.row_bytes[tile] == !tile_model.rows[tile]);
    }
    tile_model.configured = true;
}

static inline void _tile_release(void) {
    memset(&tile_model, 0, sizeof(tile_model));
}

static inline void _tile_zero(int tile) {
    assert(tile_model_usable(tile));
    memset(tile_model.data[tile], 0, sizeof(tile_model.data[tile]));
}

/* TILELOADD: reads exactly rows x row_bytes; the rest of the tile becomes zero. */
static inline void _tile_loadd(int tile, const void *base, ptrdiff_t stride) {
    assert(tile_model_usable(tile));
    memset(tile_model.data[tile], 0, sizeof(tile_model.data[tile]));
    for (int row = 0; row < tile_model.rows[tile]; row++)
        memcpy(tile_model.data[tile][row], (const uint8_t *)base + row * stride, tile_model.row_bytes[tile]);
}

/* TILELOADDT1: as TILELOADD, with a cache hint. */
static inline void _tile_stream_loadd(int tile, const void *base, ptrdiff_t stride) {
    _tile_loadd(tile, base, stride);
}

static inline void _tile_stored(int tile, void *base, ptrdiff_t stride) {
    assert(tile_model_usable(tile));
    for (int row = 0; row < tile_model.rows[tile]; row++)
        memcpy((uint8_t *)base + row * stride, tile_model.data[tile][row], tile_model.row_bytes[tile]);
}

/* TDPBSSD: c[m][n] += sum over k of a[m][4k + i] b[k][4n + i], int8 x int8, int32 modulo 2^32. */
static inline void _tile_dpbssd(int c, int a, int b) {
    const int m_rows = tile_model.rows[c], n_cols = tile_model.row_bytes[c] / 4, k_quads = tile_model.row_bytes[a] / 4;

    assert(c != a && c != b && a != b && tile_model_usable(c) && tile_model_usable(a) && tile_model_usable(b));
    assert(tile_model.row_bytes[c] % 4 == 0 && tile_model.row_bytes[a] % 4 == 0 && tile_model.row_bytes[b] % 4 == 0);
    assert(tile_model.rows[a] == m_rows && tile_model.rows[b] == k_quads && tile_model.row_bytes[b] == n_cols * 4);
    for (int m = 0; m < m_rows; m++)
        for (int n = 0; n < n_cols; n++) {
            uint32_t sum;

            memcpy(&sum, &tile_model.data[c][m][4 * n], sizeof(sum));
            for (int k = 0; k < k_quads; k++)
                for (int i = 0; i < 4; i++)
                    sum +=
                        (uint32_t)((int8_t)tile_model.data[a][m][4 * k + i] * (int8_t)tile_model.data[b][k][4 * n + i]);
            memcpy(&tile_model.data[c][m][4 * n], &sum, sizeof(sum));
        }
}

#endif
