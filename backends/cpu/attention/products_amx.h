// SPDX-License-Identifier: Apache-2.0
/* The two integer products of attention on AMX tiles, in rounds of up to 4 TDP instructions, so that vector work fits
 * between rounds. The including file provides the tile intrinsics (immintrin.h, or their portable model), and products
 * of few row-heads on the same cache and weights: few_products_of_keys(), few_products_of_values(), store_weights(),
 * ATTENTION_KEY_BIAS of 128, WEIGHTS_PART_BYTES.
 *
 * Tile numbers are literals because the instructions encode them. One configuration serves both products:
 *
 *     0 to 3   sums, rows x 16
 *     4        levels of 64 channels, or one plane of weights of 64 positions; rows x 64 bytes
 *     5        levels of the last channels of a head size that is no multiple of 64
 *     6        keys of 64 channels and 16 positions, or values of 64 positions and 16 channels; 16 x 64 bytes
 *     7        keys of the last channels
 *
 * A round loads 5 tiles (40 cycles from the first-level cache) for 4 products (64 cycles with 16 rows). */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_AMX_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_AMX_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/attention/kv_head.h"
#include "backends/numeric/lanes.h"
#include "base/min_max.h"

enum {
    ATTENTION_GROUP = 96, /* 6 steps, between which attention_amx_impl.h overlaps tiles and vectors */
    TILE_ROWS = 16,       /* row-heads of a tile */
    TILE_ROW_BYTES = 64,
    TILE_COLUMNS = TILE_ROW_BYTES / sizeof(int32_t), /* sums in a tile's row */
    TILES_FROM = 4,                                  /* row-heads from which tiles pay */
    KEY_TILE_STRIDE = 4 * KV_BLOCK,                  /* bytes from 4 channels of a block's keys to the next 4 */
    WEIGHTS_PLANE_BYTES = KV_BLOCK                   /* a part's weights: all low bytes, then all high bytes */
};

_Static_assert(ATTENTION_KEY_BIAS == 128, "TDPBSUD takes keys as unsigned bytes");
_Static_assert(WEIGHTS_PART_BYTES == 2 * WEIGHTS_PLANE_BYTES, "two planes of unsigned bytes");

/* Operand of LDTILECFG. */
typedef struct TileConfig {
    uint8_t palette, start_row, reserved0[14];
    uint16_t row_bytes[8], reserved1[8];
    uint8_t rows[8], reserved2[8];
} TileConfig;

_Static_assert(sizeof(TileConfig) == 64, "the size of a tile configuration");

/* Sums in the form of a tile. */
typedef int32_t TileSums[TILE_ROWS][TILE_COLUMNS];

/* Configures this thread's tiles for `rows` row-heads. tiles_release() ends the use, so that no context switch saves
 * tiles between calls. */
static void tiles_configure(size_t rows, size_t head_size) {
    const size_t last = head_size % TILE_ROW_BYTES;
    _Alignas(64) TileConfig config = { .palette = 1 };
    const size_t n_rows[8] = { rows, rows, rows, rows, rows, last ? rows : 0, TILE_ROWS, last / 4 };

    assert(rows <= TILE_ROWS && head_size % 16 == 0);
    for (int tile = 0; tile < 8; tile++) {
        config.rows[tile] = (uint8_t)n_rows[tile];
        config.row_bytes[tile] = n_rows[tile] ? TILE_ROW_BYTES : 0;
    }
    config.row_bytes[5] = (uint16_t)last;
    __asm__ volatile("" : : "r"(&config) : "memory"); /* gcc's intrinsic does not declare that it reads all 64 bytes */
    _tile_loadconfig(&config);
}

static inline void tiles_release(void) {
    _tile_release();
}

/* Completes stores before the tile loads that follow: gcc's intrinsics do not declare that they read memory. */
LANES_INLINE void tiles_see_memory(void) {
    __asm__ volatile("" : : : "memory");
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

/* Products of the configured number of row-heads with the keys of some parts, and the next round. */
typedef struct KeyProducts {
    const int8_t *levels;
    size_t levels_bytes; /* from a row-head's levels to the next one's */
    const TileSums *starts;
    const uint8_t *const *keys; /* [n_parts] */
    size_t n_parts, head_size;
    int32_t *sums; /* [row-heads][stride], KV_BLOCK of each part in turn */
    size_t stride;
    size_t part, d; /* the next round's part and first channel */
} KeyProducts;

/* Fills each row with the row-head's start. */
static inline void starts_spread(const int32_t *starts, size_t rows, TileSums *to) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < TILE_COLUMNS; j++)
            (*to)[i][j] = starts[i];
}

static inline bool key_rounds_left(const KeyProducts *products) {
    return products->part < products->n_parts;
}

static inline size_t key_rounds(size_t n_parts, size_t head_size) {
    return n_parts * ((head_size + TILE_ROW_BYTES - 1) / TILE_ROW_BYTES);
}

/* Multiplies 64 channels, or the last ones, of all positions of a part. The part's last round stores its sums. */
static inline void key_round(KeyProducts *products) {
    const int8_t *levels = products->levels + products->d;
    const uint8_t *keys = products->keys[products->part] + kv_key_offset(0, products->d);
    const size_t levels_bytes = products->levels_bytes, stride_bytes = products->stride * sizeof(int32_t);
    int32_t *sums = products->sums + products->part * KV_BLOCK;

    tiles_see_memory();
    if (!products->d) {
        _tile_loadd(0, *products->starts, TILE_ROW_BYTES);
        _tile_loadd(1, *products->starts, TILE_ROW_BYTES);
        _tile_loadd(2, *products->starts, TILE_ROW_BYTES);
        _tile_loadd(3, *products->starts, TILE_ROW_BYTES);
    }
/* Tile numbers are literals, so both kinds of rounds are written from one text. */
#define KEY_PRODUCTS(sum, levels_tile, keys_tile)                                                                      \
    _tile_loadd(keys_tile, keys + (sum)*TILE_ROW_BYTES, KEY_TILE_STRIDE);                                              \
    _tile_dpbsud(sum, levels_tile, keys_tile)
#define KEY_ROUND(levels_tile, keys_tile)                                                                              \
    _tile_loadd(levels_tile, levels, levels_bytes);                                                                    \
    KEY_PRODUCTS(0, levels_tile, keys_tile);                                                                           \
    KEY_PRODUCTS(1, levels_tile, keys_tile);                                                                           \
    KEY_PRODUCTS(2, levels_tile, keys_tile);                                                                           \
    KEY_PRODUCTS(3, levels_tile, keys_tile)
    if (products->head_size - products->d >= TILE_ROW_BYTES) {
        KEY_ROUND(4, 6);
    } else {
        KEY_ROUND(5, 7);
    }
#undef KEY_ROUND
#undef KEY_PRODUCTS
    products->d += TILE_ROW_BYTES;
    if (products->d < products->head_size)
        return;
    _tile_stored(0, sums, stride_bytes);
    _tile_stored(1, sums + TILE_COLUMNS, stride_bytes);
    _tile_stored(2, sums + 2 * TILE_COLUMNS, stride_bytes);
    _tile_stored(3, sums + 3 * TILE_COLUMNS, stride_bytes);
    products->d = 0;
    products->part++;
}

/* sums[i * stride + j] = starts[i] + sum over d of levels[i * levels_bytes + d] * key(j, d), for j < KV_BLOCK. */
static void products_of_keys(const int8_t *levels, size_t levels_bytes, const int32_t *starts, size_t n,
                             const uint8_t *keys, size_t head_size, int32_t *sums, size_t stride) {
    if (n < TILES_FROM) {
        few_products_of_keys(levels, levels_bytes, starts, n, keys, head_size, sums, stride);
        return;
    }
    for (size_t at = 0; at < n; at += TILE_ROWS) {
        const size_t rows = MIN(n - at, TILE_ROWS);
        _Alignas(64) TileSums spread;
        KeyProducts products = {
            .levels = levels + at * levels_bytes,
            .levels_bytes = levels_bytes,
            .starts = (const TileSums *)&spread,
            .keys = &keys,
            .n_parts = 1,
            .head_size = head_size,
            .sums = sums + at * stride,
            .stride = stride,
        };

        starts_spread(starts + at, rows, &spread);
        tiles_configure(rows, head_size);
        while (key_rounds_left(&products))
            key_round(&products);
        tiles_release();
    }
}

/* --- values ------------------------------------------------------------------------------------------------------- */

/* Sums of 32 channels: of the low bytes of weights and the high bytes, for 16 channels and for the next 16. */
typedef struct PlaneSums {
    TileSums low, high, low2, high2;
} PlaneSums;

enum {
    ROUND_CHANNELS = 2 * TILE_COLUMNS
};

/* Products of weights of the configured number of row-heads with the values of some parts, and the next round. */
typedef struct ValueProducts {
    const uint8_t *weights; /* [row-heads][stride_bytes] */
    size_t stride_bytes, rows;
    const int8_t *const *values; /* [n_parts] */
    size_t n_parts, head_size;
    int32_t *outputs;  /* [row-heads][head_size] */
    PlaneSums *planes; /* [2], used alternately: joined one turn later, because stores reach the cache late */
    size_t d, part;    /* the next round's first channel and part */
    size_t joined;     /* channels whose outputs are written */
} ValueProducts;

static inline bool value_rounds_left(const ValueProducts *products) {
    return products->d < products->head_size;
}

static inline size_t value_rounds(size_t n_parts, size_t head_size) {
    return n_parts * ((head_size + ROUND_CHANNELS - 1) / ROUND_CHANNELS);
}

/* Writes 16 outputs of each row-head: 256 x the sum of the high bytes + the sum of the low bytes. */
LANES_INLINE void planes_join(const TileSums *low, const TileSums *high, size_t rows, int32_t *outputs, size_t stride) {
    for (size_t i = 0; i < rows; i++)
        EACH_PART (p) {
            const PartI sum =
                *(const PartI *)&(*high)[i][p * LANES_PART] * 256 + *(const PartI *)&(*low)[i][p * LANES_PART];

            memcpy(outputs + i * stride + p * LANES_PART, &sum, sizeof(sum));
        }
}

/* Writes the outputs of up to 32 channels whose sums are stored. */
static inline void values_join(ValueProducts *products) {
    const PlaneSums *planes = &products->planes[products->joined / ROUND_CHANNELS % 2];
    int32_t *outputs = products->outputs + products->joined;
    const size_t rows = products->rows, head_size = products->head_size;

    planes_join((const TileSums *)&planes->low, (const TileSums *)&planes->high, rows, outputs, head_size);
    if (head_size - products->joined >= ROUND_CHANNELS)
        planes_join((const TileSums *)&planes->low2, (const TileSums *)&planes->high2, rows, outputs + TILE_COLUMNS,
                    head_size);
    products->joined += ROUND_CHANNELS;
}

/* Multiplies a part's positions for 32 channels, or for the last 16. The last part's round stores the sums. */
static inline void value_round(ValueProducts *products) {
    const bool has_second = products->head_size - products->d >= ROUND_CHANNELS;
    const size_t values_stride = 4 * products->head_size, stride_bytes = products->stride_bytes;
    const uint8_t *weights = products->weights + products->part * WEIGHTS_PART_BYTES;
    const int8_t *values = products->values[products->part] + kv_value_offset(products->head_size, 0, products->d);
    PlaneSums *planes = &products->planes[products->d / ROUND_CHANNELS % 2];

    tiles_see_memory();
    if (!products->part) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    _tile_loadd(4, weights, stride_bytes);
    _tile_loadd(6, values, values_stride);
    _tile_dpbusd(0, 4, 6);
    if (has_second) {
        _tile_loadd(6, values + TILE_ROW_BYTES, values_stride);
        _tile_dpbusd(2, 4, 6);
        _tile_loadd(4, weights + WEIGHTS_PLANE_BYTES, stride_bytes);
        _tile_dpbusd(3, 4, 6);
        _tile_loadd(6, values, values_stride);
        _tile_dpbusd(1, 4, 6);
    } else {
        _tile_loadd(4, weights + WEIGHTS_PLANE_BYTES, stride_bytes);
        _tile_dpbusd(1, 4, 6);
    }
    if (++products->part < products->n_parts)
        return;
    _tile_stored(0, planes->low, TILE_ROW_BYTES);
    _tile_stored(1, planes->high, TILE_ROW_BYTES);
    if (has_second) {
        _tile_stored(2, planes->low2, TILE_ROW_BYTES);
        _tile_stored(3, planes->high2, TILE_ROW_BYTES);
    }
    if (products->d)
        values_join(products);
    products->part = 0;
    products->d += ROUND_CHANNELS;
}

/* outputs[i * head_size + d] = sum over parts and positions of weight(i, j) * value(j, d). */
static void products_of_values(const uint8_t *weights, size_t stride_bytes, size_t n, const int8_t *const *values,
                               size_t n_parts, size_t head_size, int32_t *outputs) {
    if (n < TILES_FROM) {
        few_products_of_values(weights, stride_bytes, n, values, n_parts, head_size, outputs);
        return;
    }
    for (size_t at = 0; at < n; at += TILE_ROWS) {
        const size_t rows = MIN(n - at, TILE_ROWS);
        _Alignas(64) PlaneSums planes[2];
        ValueProducts products = {
            .weights = weights + at * stride_bytes,
            .stride_bytes = stride_bytes,
            .rows = rows,
            .values = values,
            .n_parts = n_parts,
            .head_size = head_size,
            .outputs = outputs + at * head_size,
            .planes = planes,
        };

        tiles_configure(rows, head_size);
        while (value_rounds_left(&products))
            value_round(&products);
        tiles_release();
        values_join(&products);
    }
}

#endif
