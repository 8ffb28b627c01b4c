// SPDX-License-Identifier: Apache-2.0
/* The AMX-INT8 tile instructions in portable C, under the names of the compiler's intrinsics. A kernel written with
 * them can thus be tested on a machine without AMX. The model replaces macros of immintrin.h, which must be included
 * before this header. Assertions stand for the hardware's faults: bad configurations, tiles that are not configured,
 * incompatible shapes. A test can name the regions of memory that tiles may touch; all else then faults, too. Source:
 * Intel 64 and IA-32 SDM, volume 1, chapter 18, and the pages of the instructions. */
#ifndef COORDGEN_TEST_UNIT_AMX_TILE_MODEL_H
#define COORDGEN_TEST_UNIT_AMX_TILE_MODEL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbssd
#undef _tile_dpbsud
#undef _tile_dpbusd
#define _tile_loadconfig tile_model_loadconfig
#define _tile_release tile_model_release

enum {
    TILE_MODEL_TILES = 8,
    TILE_MODEL_ROWS = 16,
    TILE_MODEL_ROW_BYTES = 64,
    TILE_MODEL_REGIONS = 32,
    TILE_MODEL_STACK_BYTES = 64 << 10 /* callers' frames, which a kernel's own buffers are in */
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

/* Memory that tiles may be loaded from, and stored to; without any region, all memory is allowed. */
static _Thread_local struct {
    size_t n;
    struct {
        uintptr_t begin, end;
        bool writable;
    } at[TILE_MODEL_REGIONS];
} tile_model_regions;

static inline void tile_model_allow(const void *base, size_t n_bytes, bool writable) {
    assert(tile_model_regions.n < TILE_MODEL_REGIONS);
    tile_model_regions.at[tile_model_regions.n].begin = (uintptr_t)base;
    tile_model_regions.at[tile_model_regions.n].end = (uintptr_t)base + n_bytes;
    tile_model_regions.at[tile_model_regions.n++].writable = writable;
}

static inline bool tile_model_allowed(const void *base, size_t n_bytes, bool writes) {
    const uintptr_t begin = (uintptr_t)base, frame = (uintptr_t)__builtin_frame_address(0);

#if defined(__SANITIZE_ADDRESS__)
    /* Arrays of a function are elsewhere than its frame. */
    if (__asan_addr_is_in_fake_stack(__asan_get_current_fake_stack(), (void *)begin, NULL, NULL))
        return true;
#endif
    if (!tile_model_regions.n || (begin >= frame && begin + n_bytes <= frame + TILE_MODEL_STACK_BYTES))
        return true;
    for (size_t i = 0; i < tile_model_regions.n; i++)
        if (begin >= tile_model_regions.at[i].begin && begin + n_bytes <= tile_model_regions.at[i].end)
            return tile_model_regions.at[i].writable || !writes;
    return false;
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
    for (int row = 0; row < tile_model.rows[tile]; row++) {
        const uint8_t *from = (const uint8_t *)base + row * stride;

        assert(tile_model_allowed(from, tile_model.row_bytes[tile], false));
        memcpy(tile_model.data[tile][row], from, tile_model.row_bytes[tile]);
    }
}

/* TILELOADDT1: as TILELOADD, with a cache hint. */
static inline void _tile_stream_loadd(int tile, const void *base, ptrdiff_t stride) {
    _tile_loadd(tile, base, stride);
}

static inline void _tile_stored(int tile, void *base, ptrdiff_t stride) {
    assert(tile_model_usable(tile));
    for (int row = 0; row < tile_model.rows[tile]; row++) {
        uint8_t *to = (uint8_t *)base + row * stride;

        assert(tile_model_allowed(to, tile_model.row_bytes[tile], true));
        memcpy(to, tile_model.data[tile][row], tile_model.row_bytes[tile]);
    }
}

/* Signs of the operands' bytes: TDPBSSD, TDPBSUD, TDPBUSD. */
typedef enum TileModelSigns {
    TILE_MODEL_SS,
    TILE_MODEL_SU,
    TILE_MODEL_US
} TileModelSigns;

/* c[m][n] += sum over k of a[m][4k + i] b[k][4n + i], bytes x bytes, int32 modulo 2^32. */
static inline void tile_model_multiply(int c, int a, int b, TileModelSigns signs) {
    const int m_rows = tile_model.rows[c], n_cols = tile_model.row_bytes[c] / 4, k_quads = tile_model.row_bytes[a] / 4;

    assert(c != a && c != b && a != b && tile_model_usable(c) && tile_model_usable(a) && tile_model_usable(b));
    assert(tile_model.row_bytes[c] % 4 == 0 && tile_model.row_bytes[a] % 4 == 0 && tile_model.row_bytes[b] % 4 == 0);
    assert(tile_model.rows[a] == m_rows && tile_model.rows[b] == k_quads && tile_model.row_bytes[b] == n_cols * 4);
    for (int m = 0; m < m_rows; m++)
        for (int n = 0; n < n_cols; n++) {
            uint32_t sum;

            memcpy(&sum, &tile_model.data[c][m][4 * n], sizeof(sum));
            for (int k = 0; k < k_quads; k++)
                for (int i = 0; i < 4; i++) {
                    const uint8_t x = tile_model.data[a][m][4 * k + i], y = tile_model.data[b][k][4 * n + i];

                    sum +=
                        (uint32_t)((signs == TILE_MODEL_US ? x : (int8_t)x) * (signs == TILE_MODEL_SU ? y : (int8_t)y));
                }
            memcpy(&tile_model.data[c][m][4 * n], &sum, sizeof(sum));
        }
}

static inline void _tile_dpbssd(int c, int a, int b) {
    tile_model_multiply(c, a, b, TILE_MODEL_SS);
}

static inline void _tile_dpbsud(int c, int a, int b) {
    tile_model_multiply(c, a, b, TILE_MODEL_SU);
}

static inline void _tile_dpbusd(int c, int a, int b) {
    tile_model_multiply(c, a, b, TILE_MODEL_US);
}

#endif
