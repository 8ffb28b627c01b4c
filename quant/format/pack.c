// SPDX-License-Identifier: Apache-2.0
#include "quant/format/pack.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/min_max.h"

#define TILE_REGISTERS 16
#define REGISTER_BYTES 64

/* --- where things lie --------------------------------------------------------------------------------------------- */

static bool widths_valid(const int8_t *bits, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bits[i] < GRID_BITS_MIN || bits[i] > GRID_BITS_MAX)
            return false;
    return true;
}

static bool blocks_uniform(const int8_t *bits, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bits[i] != bits[i / PACK_BLOCK_CHANNELS * PACK_BLOCK_CHANNELS])
            return false;
    return true;
}

/* A stable counting sort by falling width; channels[n]. */
static void order_by_width(const int8_t *bits, size_t n, uint32_t *channels) {
    size_t next[GRID_BITS_MAX + 2] = { 0 }; /* by width: first position of the channels that are narrower by one */

    for (size_t i = 0; i < n; i++)
        next[bits[i] - 1]++;
    for (int width = GRID_BITS_MAX; width >= 0; width--)
        next[width] += next[width + 1];
    for (size_t i = 0; i < n; i++)
        channels[next[bits[i]]++] = (uint32_t)i;
}

/* The narrowest of a block: its last one. */
static uint32_t last_channel(const PackPlan *plan, size_t block) {
    const size_t first = block * PACK_BLOCK_CHANNELS, left = plan->n - first;

    return plan->channels[first + MIN(left, PACK_BLOCK_CHANNELS) - 1];
}

/**
 * pack_plan_init() - compute order, widths and places of the blocks of one matrix
 * @plan:   out; untouched on error; freed by pack_plan_deinit()
 * @grid:   of the levels
 * @bits:   i8[n]: width of every channel, 1..8
 *
 * Equal widths give equal plans on every machine, so a file keeps the widths only. Channels of one width keep their
 * order.
 *
 * Return: 0; -EINVAL: a width outside 1..8, n or k of 0, a matrix whose bytes do not fit 63 bits or whose channels do
 * not fit 32, or GRID_NORMAL and a block of more than one width; -ENOMEM.
 */
int pack_plan_init(PackPlan *plan, Grid grid, const int8_t *bits, size_t n, size_t k) {
    PackPlan made = { .n = n, .k = k, .grid = grid };

    if (!n || !k || n > PACK_CHANNEL_NONE - PACK_BLOCK_CHANNELS || k > (size_t)INT64_MAX / 2 || !widths_valid(bits, n))
        return -EINVAL;
    made.n_blocks = (n + PACK_BLOCK_CHANNELS - 1) / PACK_BLOCK_CHANNELS;
    made.k_tiles = (k + PACK_TILE_INPUTS - 1) / PACK_TILE_INPUTS;
    if (made.k_tiles > (size_t)INT64_MAX / pack_tile_bytes(GRID_BITS_MAX) / made.n_blocks)
        return -EINVAL;
    made.in_order = blocks_uniform(bits, n);
    made.bits = malloc(made.n_blocks);
    made.offsets = malloc((made.n_blocks + 1) * sizeof(*made.offsets));
    made.channels = malloc(made.n_blocks * PACK_BLOCK_CHANNELS * sizeof(*made.channels));
    if (!made.bits || !made.offsets || !made.channels) {
        pack_plan_deinit(&made);
        return -ENOMEM;
    }
    for (size_t p = 0; p < made.n_blocks * PACK_BLOCK_CHANNELS; p++)
        made.channels[p] = p < n ? (uint32_t)p : PACK_CHANNEL_NONE;
    if (!made.in_order)
        order_by_width(bits, n, made.channels);
    made.offsets[0] = 0;
    for (size_t block = 0; block < made.n_blocks; block++) {
        /* The first channel of a block is its widest. */
        made.bits[block] = (uint8_t)bits[made.channels[block * PACK_BLOCK_CHANNELS]];
        if (grid != GRID_UNIFORM && bits[last_channel(&made, block)] != made.bits[block]) {
            pack_plan_deinit(&made);
            return -EINVAL;
        }
        made.offsets[block + 1] = made.offsets[block] + made.k_tiles * pack_tile_bytes(made.bits[block]);
    }
    *plan = made;
    return 0;
}

void pack_plan_deinit(PackPlan *plan) {
    free(plan->bits);
    free(plan->offsets);
    free(plan->channels);
    *plan = (PackPlan){ 0 };
}

/**
 * pack_widen() - raise every channel to the width of its block in storage
 * @bits: i8[n], each 1..8
 *
 * The packed matrix keeps its number of bytes.
 */
int pack_widen(int8_t *bits, size_t n) {
    _cleanup_(freep) uint32_t *channels = malloc(n * sizeof(*channels));

    if (!channels)
        return -ENOMEM;
    if (blocks_uniform(bits, n))
        return 0;
    order_by_width(bits, n, channels);
    for (size_t p = 0; p < n; p++)
        bits[channels[p]] = bits[channels[p / PACK_BLOCK_CHANNELS * PACK_BLOCK_CHANNELS]];
    return 0;
}

/* --- tiles -------------------------------------------------------------------------------------------------------- */

/* The weightlets of a code of one width, most significant first. */
typedef struct Component {
    int bits;  /* of a weightlet: 4, 2 or 1 */
    int shift; /* of the weightlet within the code */
} Component;

typedef struct Components {
    size_t n;
    Component at[3];
} Components;

static Components components_of(int bits) {
    Components components = { 0 };

    assert(bits >= GRID_BITS_MIN && bits <= GRID_BITS_MAX);
    for (int left = bits; left;) {
        int width = left >= 4 ? 4 : left >= 2 ? 2 : 1;

        left -= width;
        components.at[components.n++] = (Component){ width, left };
    }
    return components;
}

/* Return the place of register r's weightlet: the stripe of its component, and the shift within the byte. */
static size_t stripe_of(size_t r, int width) {
    return r * (size_t)width / 8;
}

static int place_of(size_t r, int width) {
    return 8 - width - (int)(r * (size_t)width % 8);
}

/* Computes to |= (`bits` bits of from >> down) << up for each of 64 bytes, 8 bytes at a time. A mask removes bits that
 * a shift brings from a neighbouring byte, so the order of bytes in a word does not matter. */
static void merge_register(const uint8_t *from, int down, uint8_t *to, int up, int bits) {
    const uint64_t mask = (((uint64_t)1 << bits) - 1) * 0x0101010101010101u;

    for (size_t i = 0; i < REGISTER_BYTES; i += sizeof(uint64_t)) {
        uint64_t word, merged;

        memcpy(&word, from + i, sizeof(word));
        memcpy(&merged, to + i, sizeof(merged));
        merged |= (word >> down & mask) << up;
        memcpy(to + i, &merged, sizeof(merged));
    }
}

/**
 * pack_tile() - pack codes of 16 channels x 64 inputs into 128 * bits bytes
 * @codes:   u8[16 registers][64], in the order of the int8 tile: [input / 4][channel][input % 4]; each below 2^bits
 * @packed:  out: components with the most significant bits first; EdgeFlow 4.2, quant/format/pack.h
 */
void pack_tile(const uint8_t codes[PACK_TILE_WEIGHTS], int bits, uint8_t *packed) {
    const Components components = components_of(bits);

    memset(packed, 0, pack_tile_bytes(bits));
    for (size_t c = 0; c < components.n; c++) {
        const Component part = components.at[c];

        for (size_t r = 0; r < TILE_REGISTERS; r++)
            merge_register(codes + r * REGISTER_BYTES, part.shift, packed + stripe_of(r, part.bits) * REGISTER_BYTES,
                           place_of(r, part.bits), part.bits);
        packed += pack_tile_bytes(part.bits);
    }
}

/* Unpacks a tile, as the reference of every unpack kernel. */
void unpack_tile(const uint8_t *packed, int bits, uint8_t codes[PACK_TILE_WEIGHTS]) {
    const Components components = components_of(bits);

    memset(codes, 0, PACK_TILE_WEIGHTS);
    for (size_t c = 0; c < components.n; c++) {
        const Component part = components.at[c];

        for (size_t r = 0; r < TILE_REGISTERS; r++)
            merge_register(packed + stripe_of(r, part.bits) * REGISTER_BYTES, place_of(r, part.bits),
                           codes + r * REGISTER_BYTES, part.shift, part.bits);
        packed += pack_tile_bytes(part.bits);
    }
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

static size_t code_place(size_t channel, size_t input) {
    return input / 4 * REGISTER_BYTES + channel * 4 + input % 4;
}

static size_t inputs_of_tile(const PackPlan *plan, size_t tile) {
    size_t left = plan->k - tile * PACK_TILE_INPUTS;

    return MIN(left, PACK_TILE_INPUTS);
}

/**
 * pack_block() - pack the channels of one block into their bytes
 * @q:       i8[n][k], the whole matrix; a channel holds levels of its width (grid.h), which on the uniform grid are
 *           levels of every greater width too, so that a narrower channel in the block is stored as it is
 * @packed:  out: base of the whole, offsets[n_blocks] bytes; only the bytes of the block are written
 *
 * Blocks may be packed in any order and by several threads. Inputs past k and channels past n become code 0.
 */
void pack_block(const PackPlan *plan, size_t block, const int8_t *q, uint8_t *packed) {
    const int bits = plan->bits[block];
    const uint32_t *channels = plan->channels + block * PACK_BLOCK_CHANNELS;

    packed += plan->offsets[block];
    for (size_t tile = 0; tile < plan->k_tiles; tile++, packed += pack_tile_bytes(bits)) {
        const size_t n_inputs = inputs_of_tile(plan, tile);
        uint8_t codes[PACK_TILE_WEIGHTS] = { 0 };

        for (size_t c = 0; c < PACK_BLOCK_CHANNELS && channels[c] != PACK_CHANNEL_NONE; c++) {
            const int8_t *from = q + channels[c] * plan->k + tile * PACK_TILE_INPUTS;

            for (size_t i = 0; i < n_inputs; i++) {
                int code = grid_code(plan->grid, from[i], bits), top = grid_max(plan->grid, bits);

                assert(from[i] >= -top && from[i] <= top && grid_level(plan->grid, code, bits) == from[i]);
                codes[code_place(c, i)] = (uint8_t)code;
            }
        }
        pack_tile(codes, bits, packed);
    }
}

/* Unpacks one block; other channels of q stay as they are. */
void unpack_block(const PackPlan *plan, size_t block, const uint8_t *packed, int8_t *q) {
    const int bits = plan->bits[block];
    const uint32_t *channels = plan->channels + block * PACK_BLOCK_CHANNELS;

    packed += plan->offsets[block];
    for (size_t tile = 0; tile < plan->k_tiles; tile++, packed += pack_tile_bytes(bits)) {
        const size_t n_inputs = inputs_of_tile(plan, tile);
        uint8_t codes[PACK_TILE_WEIGHTS];

        unpack_tile(packed, bits, codes);
        for (size_t c = 0; c < PACK_BLOCK_CHANNELS && channels[c] != PACK_CHANNEL_NONE; c++)
            for (size_t i = 0; i < n_inputs; i++)
                q[channels[c] * plan->k + tile * PACK_TILE_INPUTS + i] =
                    (int8_t)grid_level(plan->grid, codes[code_place(c, i)], bits);
    }
}
