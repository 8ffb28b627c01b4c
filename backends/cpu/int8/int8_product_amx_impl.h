// SPDX-License-Identifier: Apache-2.0
/* The AMX kernel. The including file provides the tile intrinsics (immintrin.h, or their portable model) and names the
 * kernels. Tile numbers are literals because the instructions encode them.
 *
 * A round is 32 rows (a panel) x 2 blocks of 16 outputs (a pair) x 64 inputs: 4 tiles of sums stay in registers, 4 are
 * loaded, 4 TDPBSSD multiply. These products take 20 ns if the first-level cache feeds them, and 44 ns if both operands
 * come from the second level. Products are therefore made in slices of inputs. The panel's part of a slice stays in the
 * first level while the pairs of a pass go by. Sums wait for the next slice in scratch, in the second level.
 *
 * While a pair is multiplied, the vector units turn the previous pair's sums into outputs, and the next slice's weights
 * are prefetched; neither takes extra time. With few rows, reading the weights from memory takes the time. A pass of
 * few rows is one pair, and a slice all inputs, so that memory is read as one stream. */
#ifndef COORDGEN_BACKENDS_CPU_INT8_PRODUCT_AMX_IMPL_H
#define COORDGEN_BACKENDS_CPU_INT8_PRODUCT_AMX_IMPL_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "backends/cpu/int8/int8_product.h"
#include "backends/numeric/lanes_gate.h"
#include "base/min_max.h"

enum {
    TILE_ROWS = INT8_TILE_ROWS,
    PANEL_ROWS = 2 * TILE_ROWS,
    TILE_ROW_BYTES = 64,
    STREAM_ROWS = INT8_TILE_SOURCE_ROWS, /* rows up to which a pass is one pair */
    BLOCK_ROWS = 512, /* rows that pass over the weights together: their inputs and sums stay in the second level */
    RING_ROUNDS = 4,  /* tiles of a source: those in use, and those made in advance */
    PASS_PAIRS = 8,   /* 256 outputs */
    SLICE_TILES = 12, /* at most; 768 inputs: a panel's are 24 KB of the first level's 48 */
    STREAMED_BYTES = 1 << 20,   /* of outputs, above which the second level would not keep them anyway */
    RESIDENT_BYTES = 512 << 10, /* inputs of a block of rows that stay cached, so that a pass need not prefetch them */
};

_Static_assert(BLOCK_ROWS / PANEL_ROWS * PASS_PAIRS * 4 * INT8_TILE_BYTES == INT8_TILE_SCRATCH_BYTES, "sums of a pass");

/* Operand of LDTILECFG. */
typedef struct TileConfig {
    uint8_t palette, start_row, reserved0[14];
    uint16_t row_bytes[8], reserved1[8];
    uint8_t rows[8], reserved2[8];
} TileConfig;

_Static_assert(sizeof(TileConfig) == 64, "the size of a tile configuration");

/* Sums of a panel and a pair: 32 rows of the first block, then 32 of the second. */
typedef int32_t PairSums[2][PANEL_ROWS][INT8_TILE_OUTPUTS];

/* A call. Pair i is blocks begin + 2 i and begin + 2 i + 1, or, if gated, block begin + i of both matrices. */
typedef struct TileProduct {
    const Int8Weights *weights, *up; /* up: gated; NULL otherwise */
    const Int8Rows *rows;
    size_t begin, end, n_pairs;
    float *y;
    size_t y_stride;
    PairSums *sums; /* [panels of a block of rows][PASS_PAIRS] */
    bool streams;   /* outputs bypass the caches; lines of y are whole */
    size_t n_next;  /* lines of the weights' `next` (and of up's) that are prefetched with every visit */
} TileProduct;

/* Sums that become outputs while others are computed. */
typedef struct Finishing {
    PairSums sums[2]; /* used alternately */
    int current;
    size_t block, row, n_rows; /* the pair's first block; the panel's first row and number of rows */
    size_t at;                 /* completed rows of the panel; n_rows: nothing to do */
    size_t n_visits;           /* visits of the call so far */
} Finishing;

/* Configures the tiles: sums 0 to 3; activations 4 (upper rows), 5 (lower rows); weights 6 and 7. Loading clears all
 * tiles. */
static void configure(size_t upper_rows, size_t lower_rows) {
    _Alignas(64) TileConfig config = { .palette = 1 };
    const size_t rows[8] = { upper_rows, upper_rows, lower_rows, lower_rows,
                             upper_rows, lower_rows, TILE_ROWS,  TILE_ROWS };

    for (int tile = 0; tile < 8; tile++) {
        config.rows[tile] = (uint8_t)rows[tile];
        config.row_bytes[tile] = rows[tile] ? TILE_ROW_BYTES : 0;
    }
    __asm__ volatile("" : : "r"(&config) : "memory"); /* gcc's intrinsic does not declare that it reads all 64 bytes */
    _tile_loadconfig(&config);
}

static inline size_t quotient_up(size_t a, size_t b) {
    return (a + b - 1) / b;
}

/* --- outputs ------------------------------------------------------------------------------------------------------ */

/* Scales and bias that turn a block's sums into outputs. */
typedef struct BlockScales {
    Lanes scale, bias;
    bool has_bias;
} BlockScales;

LANES_INLINE BlockScales block_scales(const Int8Weights *weights, size_t block) {
    const size_t first = block * INT8_TILE_OUTPUTS;

    return (BlockScales){ lanes_load(weights->scales + first),
                          weights->bias ? lanes_load(weights->bias + first) : lanes_of(0), weights->bias };
}

LANES_INLINE Lanes outputs_of(const int32_t *sums, const BlockScales *block, Lanes x_scale) {
    const Lanes scale = lanes_mul(x_scale, block->scale);
    Lanes value;

    EACH_PART (p)
        value.part[p] = __builtin_convertvector(*(const PartI *)(sums + p * LANES_PART), PartF) * scale.part[p];
    return block->has_bias ? lanes_add(value, block->bias) : value;
}

/* Stores 16 outputs, bypassing the caches with `streams`. */
LANES_INLINE void store_whole(float *y, Lanes value, const bool streams) {
#if LANES_PART == 16
    if (streams) {
        _mm512_stream_ps(y, (__m512)value.part[0]);
        return;
    }
#endif
    lanes_store(y, value);
}

/* Finishes the panel's rows up to `end`; n_first and n_second outputs of the blocks, 16 or more with `is_whole`. */
LANES_INLINE void finish_rows(const TileProduct *product, Finishing *finishing, size_t end, const bool gated,
                              const Int8Gate activation, const bool is_whole, const bool streams) {
    const size_t first = finishing->block * INT8_TILE_OUTPUTS, n_first = product->weights->n - first,
                 n_second = finishing->block + 1 < product->end ? n_first - INT8_TILE_OUTPUTS : 0;
    const BlockScales scales = block_scales(product->weights, finishing->block),
                      second = gated      ? block_scales(product->up, finishing->block)
                               : n_second ? block_scales(product->weights, finishing->block + 1)
                                          : scales;
    const float *x_scales = product->rows->scales + finishing->row;
    float *y = product->y + finishing->row * product->y_stride + first;

    for (size_t i = finishing->at; i < end; i++) {
        const int32_t(*sums)[PANEL_ROWS][INT8_TILE_OUTPUTS] = (const void *)finishing->sums[finishing->current];
        const Lanes x_scale = lanes_of(x_scales[i]);
        Lanes value = outputs_of(sums[0][i], &scales, x_scale), other = outputs_of(sums[1][i], &second, x_scale);
        float *to = y + i * product->y_stride;

        if (gated)
            value = activation == INT8_GATE_GELU ? lanes_gelu_mul(value, other) : lanes_silu_mul(value, other);
        if (is_whole) {
            store_whole(to, value, streams);
            if (!gated)
                store_whole(to + INT8_TILE_OUTPUTS, other, streams);
            continue;
        }
        lanes_store_n(to, n_first, value);
        if (!gated && n_second)
            lanes_store_n(to + INT8_TILE_OUTPUTS, n_second, other);
    }
    finishing->at = end;
}

/* Finishes up to n further rows. */
LANES_INLINE void finish(const TileProduct *product, Finishing *finishing, size_t n, const bool gated,
                         const Int8Gate activation) {
    const size_t end = MIN(finishing->at + n, finishing->n_rows), blocks = gated ? 1 : 2;
    const bool is_whole = finishing->block + blocks <= product->end &&
                          (finishing->block + blocks) * INT8_TILE_OUTPUTS <= product->weights->n;

    if (!is_whole)
        finish_rows(product, finishing, end, gated, activation, false, false);
    else if (product->streams)
        finish_rows(product, finishing, end, gated, activation, true, true);
    else
        finish_rows(product, finishing, end, gated, activation, true, false);
}

/* Makes the sums of a pair and a panel, in finishing->sums[current], the next to finish. */
static inline void hand_over(const TileProduct *product, Finishing *finishing, size_t pair, size_t row,
                             const bool gated) {
    finishing->current ^= 1;
    finishing->block = product->begin + (gated ? 1 : 2) * pair;
    finishing->row = row;
    finishing->n_rows = MIN(product->rows->rows - row, PANEL_ROWS);
    finishing->at = 0;
}

/* --- rounds ------------------------------------------------------------------------------------------------------- */

/* Data prefetched into the second level meanwhile, some lines of each with every round: weights of the next slice, and
 * rows. */
typedef struct Fetches {
    const int8_t *first, *second, *upper, *lower;
    size_t weight_lines, row_lines;
} Fetches;

/* Addresses of a panel's and a pair's tiles, from the first tile of a slice on. */
typedef struct Operands {
    const int8_t *upper, *lower;
    ptrdiff_t row_bytes, tile_bytes; /* from a row of a tile to the next; from a tile to the next */
    const int8_t *first, *second;
    size_t n_tiles;
} Operands;

/* A prefetch past the end of the weights does not fault. */
LANES_INLINE void fetch(const int8_t *a, const int8_t *b, size_t lines) {
    for (size_t i = 0; i < lines; i++) {
        __builtin_prefetch(a + i * 64, 0, 2);
        __builtin_prefetch(b + i * 64, 0, 2);
    }
}

/* Adds the rounds of a slice to the sums of the previous slices. */
LANES_INLINE void multiply(const TileProduct *product, const Operands *operands, const Fetches *fetches,
                           Finishing *finishing, const bool has_lower, const bool has_second, const bool gated,
                           const Int8Gate activation) {
    const size_t n_tiles = operands->n_tiles, n_left = finishing->n_rows - finishing->at,
                 n_finish = n_left ? quotient_up(n_left, n_tiles) : 0;
    const int8_t *upper = operands->upper, *lower = operands->lower, *first = operands->first,
                 *second = operands->second;
    const ptrdiff_t row_bytes = operands->row_bytes;

    for (size_t t = 0; t < n_tiles; t++) {
        _tile_stream_loadd(6, first, TILE_ROW_BYTES);
        if (has_second)
            _tile_stream_loadd(7, second, TILE_ROW_BYTES);
        _tile_loadd(4, upper, row_bytes);
        _tile_dpbssd(0, 4, 6);
        if (has_second)
            _tile_dpbssd(1, 4, 7);
        if (has_lower) {
            _tile_loadd(5, lower, row_bytes);
            _tile_dpbssd(2, 5, 6);
            if (has_second)
                _tile_dpbssd(3, 5, 7);
        }
        upper += operands->tile_bytes;
        lower += operands->tile_bytes;
        first += INT8_TILE_BYTES;
        second += INT8_TILE_BYTES;
        fetch(fetches->first + t * fetches->weight_lines * 64, fetches->second + t * fetches->weight_lines * 64,
              fetches->weight_lines);
        fetch(fetches->upper + t * fetches->row_lines * 64, fetches->lower + t * fetches->row_lines * 64,
              fetches->row_lines);
        if (n_finish)
            finish(product, finishing, n_finish, gated, activation);
    }
}

LANES_INLINE void load_sums(const PairSums *sums, const bool has_lower, const bool has_second) {
    _tile_loadd(0, (*sums)[0][0], TILE_ROW_BYTES);
    if (has_second)
        _tile_loadd(1, (*sums)[1][0], TILE_ROW_BYTES);
    if (has_lower)
        _tile_loadd(2, (*sums)[0][TILE_ROWS], TILE_ROW_BYTES);
    if (has_lower && has_second)
        _tile_loadd(3, (*sums)[1][TILE_ROWS], TILE_ROW_BYTES);
}

LANES_INLINE void clear_sums(const bool has_lower, const bool has_second) {
    _tile_zero(0);
    if (has_second)
        _tile_zero(1);
    if (has_lower)
        _tile_zero(2);
    if (has_lower && has_second)
        _tile_zero(3);
}

LANES_INLINE void store_sums(PairSums *sums, const bool has_lower, const bool has_second) {
    _tile_stored(0, (*sums)[0][0], TILE_ROW_BYTES);
    if (has_second)
        _tile_stored(1, (*sums)[1][0], TILE_ROW_BYTES);
    if (has_lower)
        _tile_stored(2, (*sums)[0][TILE_ROWS], TILE_ROW_BYTES);
    if (has_lower && has_second)
        _tile_stored(3, (*sums)[1][TILE_ROWS], TILE_ROW_BYTES);
}

/* --- passes ------------------------------------------------------------------------------------------------------- */

/* Tiles [tile, tile + n_tiles) of the pairs [pair, pair + n_pairs). */
typedef struct Slice {
    size_t pair, n_pairs, tile, n_tiles;
} Slice;

/* Returns the next slice, or the next pass after the last slice; n_pairs is 0 after the last pass. */
static Slice next_slice(const TileProduct *product, const Slice *slice, size_t pass_pairs, size_t n_slices) {
    const size_t k_tiles = product->weights->k_tiles;
    Slice next = { slice->pair, slice->n_pairs, slice->tile + slice->n_tiles, 0 };

    if (next.tile == k_tiles) {
        next.pair += slice->n_pairs;
        next.n_pairs = MIN(product->n_pairs - next.pair, pass_pairs);
        next.tile = 0;
    }
    next.n_tiles = quotient_up(k_tiles - next.tile, quotient_up((k_tiles - next.tile) * n_slices, k_tiles));
    return next;
}

/* Sets the addresses of a slice's first tile in a pair's first and second block; second is NULL if there is none. */
static void pair_tiles(const TileProduct *product, size_t pair, size_t tile, const int8_t **firstp,
                       const int8_t **secondp) {
    const Int8Weights *weights = product->weights;
    const size_t block_bytes = weights->k_tiles * INT8_TILE_BYTES,
                 block = product->begin + (product->up ? 1 : 2) * pair,
                 at = block * block_bytes + tile * INT8_TILE_BYTES;

    *firstp = weights->tiles + at;
    *secondp = product->up ? product->up->tiles + at : block + 1 < product->end ? *firstp + block_bytes : NULL;
}

/* A block of rows in a slice, and the prefetches of each of its visits. */
typedef struct PassRows {
    size_t row, n_rows, n_panels; /* the first row of the block */
    bool fetches;                 /* prefetches its rows, too */
} PassRows;

/* Prefetching of the next slice. Each panel takes a share of the lines of every pair's weights; each pair takes a share
 * of the lines of the next panel's rows. Fields give the lines per visit and per round. Weights that have a `next` are
 * in the cache already, and `next` is prefetched instead. */
typedef struct Shares {
    size_t weights, weights_a_round, rows, rows_a_round;
} Shares;

static Shares shares_of(const TileProduct *product, const PassRows *rows, const Slice *slice, const Slice *next) {
    const size_t tile_lines = INT8_TILE_BYTES / 64;
    Shares shares = { 0 };

    if (product->weights->next)
        shares.weights = product->n_next;
    else if (next->n_pairs)
        shares.weights = quotient_up(next->n_tiles * tile_lines, rows->n_panels);
    shares.weights_a_round = quotient_up(shares.weights, slice->n_tiles);
    if (rows->fetches)
        shares.rows = quotient_up(slice->n_tiles * tile_lines, slice->n_pairs);
    shares.rows_a_round = quotient_up(shares.rows, slice->n_tiles);
    return shares;
}

/* Returns the address of a panel's upper tiles of a slice. */
static const int8_t *panel_tiles(const TileProduct *product, size_t row, size_t tile) {
    return product->rows->x + row * product->rows->stride_bytes + tile * product->rows->tile_rows * INT8_TILE_INPUTS;
}

static Fetches fetches_of(const TileProduct *product, const PassRows *rows, const Shares *shares, const Slice *slice,
                          const Slice *next, size_t panel, size_t i, size_t n_visits) {
    const bool is_last_panel = panel + 1 == rows->n_panels;
    const int8_t *any = product->weights->tiles;
    Fetches fetches = { any, any, any, any, 0, 0 };

    if (product->weights->next) {
        fetches.first = (const int8_t *)product->weights->next + n_visits * shares->weights * 64;
        fetches.second =
            product->up ? (const int8_t *)product->up->next + n_visits * shares->weights * 64 : fetches.first;
        fetches.weight_lines = shares->weights_a_round;
    } else if (i < next->n_pairs) {
        pair_tiles(product, next->pair + i, next->tile, &fetches.first, &fetches.second);
        fetches.first += panel * shares->weights * 64;
        fetches.second = fetches.second ? fetches.second + panel * shares->weights * 64 : fetches.first;
        fetches.weight_lines = shares->weights_a_round;
    }
    if (shares->rows && (is_last_panel || (panel + 2) * PANEL_ROWS <= rows->n_rows)) {
        fetches.upper = panel_tiles(product, rows->row + (is_last_panel ? 0 : (panel + 1) * PANEL_ROWS),
                                    is_last_panel ? next->tile : slice->tile) +
                        i * shares->rows * 64;
        fetches.lower = fetches.upper + TILE_ROWS * product->rows->stride_bytes;
        fetches.row_lines = shares->rows_a_round;
    }
    return fetches;
}

/* Visits a panel and a pair in a slice. */
LANES_INLINE void visit(const TileProduct *product, const PassRows *rows, const Shares *shares, const Slice *slice,
                        const Slice *next, size_t panel, size_t i, Finishing *finishing, const bool has_lower,
                        const bool has_second, const bool gated, const Int8Gate activation) {
    const Fetches fetches = fetches_of(product, rows, shares, slice, next, panel, i, finishing->n_visits++);
    const size_t row = rows->row + panel * PANEL_ROWS, tile_rows = product->rows->tile_rows,
                 stride_bytes = product->rows->stride_bytes;
    PairSums *sums = &product->sums[panel * PASS_PAIRS + i];
    Operands operands = {
        .upper = panel_tiles(product, row, slice->tile),
        .row_bytes = tile_rows > 1 ? TILE_ROW_BYTES : (ptrdiff_t)stride_bytes,
        .tile_bytes = (ptrdiff_t)(tile_rows * TILE_ROW_BYTES),
        .n_tiles = slice->n_tiles,
    };

    operands.lower = has_lower ? operands.upper + TILE_ROWS * stride_bytes : operands.upper;
    pair_tiles(product, slice->pair + i, slice->tile, &operands.first, &operands.second);
    if (slice->tile)
        load_sums(sums, has_lower, has_second);
    else
        clear_sums(has_lower, has_second);
    multiply(product, &operands, &fetches, finishing, has_lower, has_second, gated, activation);
    if (slice->tile + slice->n_tiles < product->weights->k_tiles) {
        store_sums(sums, has_lower, has_second);
        return;
    }
    hand_over(product, finishing, slice->pair + i, row, gated);
    store_sums(&finishing->sums[finishing->current], has_lower, has_second);
}

/* Visits all panels and pairs of a slice. */
LANES_INLINE void run_slice(const TileProduct *product, const PassRows *rows, const Slice *slice, const Slice *next,
                            Finishing *finishing, const bool gated, const Int8Gate activation) {
    const Shares shares = shares_of(product, rows, slice, next);

    for (size_t panel = 0; panel < rows->n_panels; panel++) {
        const bool has_lower = rows->n_rows - panel * PANEL_ROWS > TILE_ROWS;

        for (size_t i = 0; i < slice->n_pairs; i++) {
            const bool has_second = gated || product->begin + 2 * (slice->pair + i) + 1 < product->end;

            if (has_lower && has_second)
                visit(product, rows, &shares, slice, next, panel, i, finishing, true, true, gated, activation);
            else if (has_lower)
                visit(product, rows, &shares, slice, next, panel, i, finishing, true, false, gated, activation);
            else if (has_second)
                visit(product, rows, &shares, slice, next, panel, i, finishing, false, true, gated, activation);
            else
                visit(product, rows, &shares, slice, next, panel, i, finishing, false, false, gated, activation);
        }
    }
}

/* Returns the number of slices of a pass. */
static size_t n_slices_of(size_t k_tiles, size_t n_rows) {
    return n_rows <= STREAM_ROWS ? 1 : quotient_up(k_tiles, SLICE_TILES);
}

/* Multiplies a block of rows by all pairs. */
LANES_INLINE void run_rows(const TileProduct *product, const PassRows *rows, Finishing *finishing, const bool gated,
                           const Int8Gate activation) {
    const size_t k_tiles = product->weights->k_tiles, pass_pairs = rows->n_rows <= STREAM_ROWS ? 1 : PASS_PAIRS,
                 n_slices = n_slices_of(k_tiles, rows->n_rows);
    Slice slice = { 0, 0, 0, k_tiles }; /* as if after a pass of no pairs */

    for (slice = next_slice(product, &slice, pass_pairs, n_slices); slice.n_pairs;) {
        const Slice next = next_slice(product, &slice, pass_pairs, n_slices);

        run_slice(product, rows, &slice, &next, finishing, gated, activation);
        slice = next;
    }
}

/* --- weights from a source ---------------------------------------------------------------------------------------- */

/* Tiles that a source makes, one round after the other. A tile is made some rounds before it is loaded, because stores
 * reach the cache late. */
typedef struct Ring {
    _Alignas(64) int8_t tiles[RING_ROUNDS][2][INT8_TILE_BYTES];
    size_t pair, tile; /* of the round that is made next */
    size_t made, used; /* rounds */
} Ring;

LANES_INLINE void ring_make(const TileProduct *product, Ring *ring, const bool gated) {
    const size_t block = product->begin + (gated ? 1 : 2) * ring->pair;
    int8_t(*tiles)[INT8_TILE_BYTES] = ring->tiles[ring->made++ % RING_ROUNDS];
    const Int8Source *source = product->weights->source, *second = gated ? product->up->source : source;

    if (ring->pair == product->n_pairs)
        return;
    source->tile(source->arg, block, ring->tile, tiles[0]);
    if (gated || block + 1 < product->end)
        second->tile(second->arg, gated ? block : block + 1, ring->tile, tiles[1]);
    if (++ring->tile == product->weights->k_tiles) {
        ring->tile = 0;
        ring->pair++;
    }
}

/* Multiplies by all pairs, up to 32 rows. The missing block of a pair of one block gets undefined sums, which are never
 * read. */
LANES_INLINE void run_source(const TileProduct *product, Finishing *finishing, const bool has_lower, const bool gated,
                             const Int8Gate activation) {
    const Int8Rows *rows = product->rows;
    const size_t k_tiles = product->weights->k_tiles, tile_bytes = rows->tile_rows * TILE_ROW_BYTES,
                 lower_bytes = has_lower ? TILE_ROWS * rows->stride_bytes : 0;
    const ptrdiff_t row_bytes = rows->tile_rows > 1 ? TILE_ROW_BYTES : (ptrdiff_t)rows->stride_bytes;
    Ring ring;

    memset(ring.tiles, 0, sizeof(ring.tiles));
    ring.pair = ring.tile = ring.made = ring.used = 0;
    for (int i = 0; i + 1 < RING_ROUNDS; i++)
        ring_make(product, &ring, gated);
    for (size_t pair = 0; pair < product->n_pairs; pair++) {
        const size_t n_finish = quotient_up(finishing->n_rows - finishing->at, k_tiles);
        const int8_t *upper = rows->x;

        clear_sums(has_lower, true);
        for (size_t t = 0; t < k_tiles; t++, upper += tile_bytes) {
            const int8_t(*tiles)[INT8_TILE_BYTES] = (const void *)ring.tiles[ring.used++ % RING_ROUNDS];

            _tile_loadd(6, tiles[0], TILE_ROW_BYTES);
            _tile_loadd(7, tiles[1], TILE_ROW_BYTES);
            _tile_loadd(4, upper, row_bytes);
            _tile_dpbssd(0, 4, 6);
            _tile_dpbssd(1, 4, 7);
            if (has_lower) {
                _tile_loadd(5, upper + lower_bytes, row_bytes);
                _tile_dpbssd(2, 5, 6);
                _tile_dpbssd(3, 5, 7);
            }
            ring_make(product, &ring, gated);
            if (n_finish)
                finish(product, finishing, n_finish, gated, activation);
        }
        hand_over(product, finishing, pair, 0, gated);
        store_sums(&finishing->sums[finishing->current], has_lower, true);
    }
}

/* Returns the visits of a call: all panels, pairs and slices. */
static size_t n_visits_of(const TileProduct *product) {
    size_t n = 0;

    for (size_t row = 0; row < product->rows->rows; row += BLOCK_ROWS) {
        const size_t n_rows = MIN(product->rows->rows - row, BLOCK_ROWS);

        n += quotient_up(n_rows, PANEL_ROWS) * product->n_pairs * n_slices_of(product->weights->k_tiles, n_rows);
    }
    return n;
}

/**
 * tile_product() - multiply with TDPBSSD: 16 rows x 16 outputs x 64 inputs per instruction
 *
 * The tile configuration belongs to the thread. It is loaded once and released at the end, so that no context switch
 * saves tiles between calls. Up to 16 rows tiles are as high as the number of rows. With more rows, padding rows of the
 * last group are multiplied and discarded.
 */
LANES_INLINE void tile_product(TileProduct *product, const bool gated, const Int8Gate activation) {
    const Int8Rows *rows = product->rows;
    const size_t n_rows = rows->rows, n_blocks = product->end - product->begin;
    Finishing finishing;

    assert(rows->stride_bytes == product->weights->k_tiles * INT8_TILE_INPUTS && product->weights->k <= INT8_K_MAX);
    assert(!product->weights->source || n_rows <= STREAM_ROWS);
    assert(rows->tile_rows == TILE_ROWS ||
           (n_rows <= TILE_ROWS && (rows->tile_rows == 1 || rows->tile_rows == n_rows)));
    if (!n_rows || !n_blocks)
        return;
    product->n_pairs = gated ? n_blocks : quotient_up(n_blocks, 2);
    product->streams = n_rows * n_blocks * INT8_TILE_OUTPUTS * sizeof(float) > STREAMED_BYTES &&
                       ((uintptr_t)product->y | product->y_stride * sizeof(float)) % 64 == 0;
    finishing.current = 0;
    finishing.at = finishing.n_rows = finishing.block = finishing.n_visits = 0;
    if (product->weights->next)
        product->n_next = quotient_up(product->weights->next_bytes / 64, n_visits_of(product));
    configure(MIN(n_rows, TILE_ROWS), n_rows > TILE_ROWS ? TILE_ROWS : 0);
    if (product->weights->source && n_rows > TILE_ROWS)
        run_source(product, &finishing, true, gated, activation);
    else if (product->weights->source)
        run_source(product, &finishing, false, gated, activation);
    for (size_t row = 0; row < n_rows && !product->weights->source; row += BLOCK_ROWS) {
        const size_t n = MIN(n_rows - row, BLOCK_ROWS);
        const PassRows block = { row, n, quotient_up(n, PANEL_ROWS),
                                 n > STREAM_ROWS && n * rows->stride_bytes > RESIDENT_BYTES };

        run_rows(product, &block, &finishing, gated, activation);
    }
    finish(product, &finishing, PANEL_ROWS, gated, activation);
#if LANES_PART == 16
    _mm_sfence(); /* orders streamed outputs before this thread's next store, after which other threads read them */
#endif
    _tile_release();
}

static void tile_product_plain(const Int8Weights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end,
                               float *y, size_t y_stride, void *scratch) {
    TileProduct product = { weights, NULL, rows, block_begin, block_end, 0, y, y_stride, scratch, false, 0 };

    tile_product(&product, false, INT8_GATE_SILU);
}

static void tile_product_gated(const Int8Weights *gate, const Int8Weights *up, const Int8Rows *rows,
                               Int8Gate activation, size_t block_begin, size_t block_end, float *y, size_t y_stride,
                               void *scratch) {
    TileProduct product = { gate, up, rows, block_begin, block_end, 0, y, y_stride, scratch, false, 0 };

    assert(gate->n == up->n && gate->k == up->k);
    if (activation == INT8_GATE_GELU)
        tile_product(&product, true, INT8_GATE_GELU);
    else
        tile_product(&product, true, INT8_GATE_SILU);
}

#endif
