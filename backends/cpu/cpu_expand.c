// SPDX-License-Identifier: Apache-2.0
/* Expansion of packed weights for a device that multiplies int8 tiles only. Codes are expanded (unpack_tile). Channels
 * that are out of order move to their places, so that no other file depends on their order. The tiles' sums are taken
 * while the tiles are in the cache. Padding keeps the value that it has in packed weights, code 0; the sums include it,
 * as products expect. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu_private.h"
#include "base/min_max.h"
#include "quant/format/pack.h"

enum {
    EXPAND_TILES = 4, /* expanded, summed and moved to their places at a time */
    VECTOR_OUTPUTS = 4,
    TILE_VECTORS = INT8_TILE_OUTPUTS / VECTOR_OUTPUTS, /* vectors per 4 inputs */
    TILE_STEPS = INT8_TILE_INPUTS / 4,
};

/* Vectors of the compiler's extension, which every machine has. */
typedef int8_t Bytes __attribute__((vector_size(16)));
typedef uint16_t Pairs __attribute__((vector_size(16)));

struct LinearExpansion {
    AccountedBlock memory;
    Grid grid;
    const uint64_t *offsets;  /* [n_blocks + 1], into the packed bytes */
    const uint32_t *channels; /* [n_blocks * 16], output at each position; NULL: in order */
    const uint8_t *bits;      /* [n_blocks] */
};

LinearExpansion *expansion_free(LinearExpansion *expansion) {
    if (!expansion)
        return NULL;
    accounted_block_deinit(&expansion->memory);
    free(expansion);
    return NULL;
}
DEFINE_CLEANUP(LinearExpansion, expansion_free)

int expansion_new(LinearExpansion **expansionp, AccountTable *accounts, const PackPlan *plan) {
    const size_t n_positions = plan->n_blocks * INT8_TILE_OUTPUTS,
                 offsets_bytes = (plan->n_blocks + 1) * sizeof(*plan->offsets),
                 channels_bytes = plan->in_order ? 0 : n_positions * sizeof(*plan->channels);
    _cleanup_(expansion_freep) LinearExpansion *expansion = calloc(1, sizeof(*expansion));
    uint8_t *at;
    int r;

    if (!expansion)
        return err_raise(-ENOMEM);
    r = accounted_block_init(&expansion->memory, accounts, ACCOUNT_WEIGHTS,
                             offsets_bytes + channels_bytes + plan->n_blocks);
    if (r)
        return r < 0 ? r : BACKEND_E_MEMORY;
    at = expansion->memory.data;
    expansion->grid = plan->grid;
    expansion->offsets = memcpy(at, plan->offsets, offsets_bytes);
    at += offsets_bytes;
    if (!plan->in_order) {
        uint32_t *channels = memcpy(at, plan->channels, channels_bytes);

        for (size_t p = plan->n; p < n_positions; p++) /* padding stays in place */
            channels[p] = (uint32_t)p;
        expansion->channels = channels;
        at += channels_bytes;
    }
    expansion->bits = memcpy(at, plan->bits, plan->n_blocks);
    *expansionp = steal(&expansion);
    return 0;
}

size_t expansion_offset(const LinearExpansion *expansion, size_t block) {
    return (size_t)expansion->offsets[block];
}

/* Adds up a few tiles, by position. */
static void add_sums(const int8_t *tiles, size_t n_tiles, int32_t sums[INT8_TILE_OUTPUTS]) {
    Pairs pairs[TILE_VECTORS] = { { 0 } }; /* sums of x + 128: at most 4 * 16 * 510 */

    for (size_t i = 0; i < n_tiles * TILE_STEPS; i++)
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            Bytes x;
            Pairs shifted;

            memcpy(&x, tiles + (i * TILE_VECTORS + v) * sizeof(x), sizeof(x));
            shifted = (Pairs)(x ^ -128);
            pairs[v] += (shifted & 0xff) + (shifted >> 8);
        }
    for (size_t o = 0; o < INT8_TILE_OUTPUTS; o++)
        sums[o] += pairs[o / VECTOR_OUTPUTS][o % VECTOR_OUTPUTS * 2] +
                   pairs[o / VECTOR_OUTPUTS][o % VECTOR_OUTPUTS * 2 + 1] - 128 * (int32_t)(n_tiles * INT8_TILE_INPUTS);
}

/* Returns whether -128 is among a tile's first outputs and inputs; the padding may hold it. */
static bool is_below_range(const int8_t *tile, size_t n_outputs, size_t n_inputs) {
    int8_t least = 0;

    for (size_t i = 0; i < INT8_TILE_BYTES; i++)
        least = MIN(tile[i], least);
    for (size_t i = 0; least < -127 && i < INT8_TILE_BYTES; i++)
        if (tile[i] < -127 && i / 64 * 4 + i % 4 < n_inputs && i % 64 / 4 < n_outputs)
            return true;
    return false;
}

/* Moves the outputs at a block's positions to their channels' places, tiles from `first` on. */
static void scatter(const int8_t *from, const uint32_t *channels, size_t k_tiles, size_t first, size_t n_tiles,
                    int8_t *tiles) {
    for (size_t p = 0; p < INT8_TILE_OUTPUTS; p++) {
        int8_t *to = tiles + (channels[p] / INT8_TILE_OUTPUTS * k_tiles + first) * INT8_TILE_BYTES +
                     channels[p] % INT8_TILE_OUTPUTS * 4;

        for (size_t i = 0; i < n_tiles * TILE_STEPS; i++)
            memcpy(to + i * INT8_TILE_OUTPUTS * 4, from + (i * INT8_TILE_OUTPUTS + p) * 4, 4);
    }
}

/* Expands one block. Returns whether it is free of -128. */
static bool expand_block(const CpuBackend *self, const BackendLinear *linear, size_t block, const uint8_t *packed,
                         int8_t *tiles, int32_t *sums) {
    const LinearExpansion *expansion = linear->expansion;
    const uint32_t *channels = expansion->channels ? expansion->channels + block * INT8_TILE_OUTPUTS : NULL;
    const size_t n_left = linear->n - block * INT8_TILE_OUTPUTS;
    const int bits = expansion->bits[block];
    int32_t block_sums[INT8_TILE_OUTPUTS] = { 0 };
    bool is_good = true;

    for (size_t t = 0, n; t < linear->k_tiles; t += n) {
        _Alignas(64) int8_t aside[EXPAND_TILES * INT8_TILE_BYTES];
        int8_t *to = channels ? aside : tiles + (block * linear->k_tiles + t) * INT8_TILE_BYTES;

        n = MIN(linear->k_tiles - t, EXPAND_TILES);
        self->kernels.unpack->fn(packed + t * pack_tile_bytes(bits), expansion->grid, bits, n, to);
        add_sums(to, n, block_sums);
        for (size_t i = 0; bits == GRID_BITS_MAX && i < n; i++)
            is_good &= !is_below_range(to + i * INT8_TILE_BYTES, n_left, linear->k - (t + i) * INT8_TILE_INPUTS);
        if (channels)
            scatter(aside, channels, linear->k_tiles, t, n, tiles);
    }
    for (size_t p = 0; p < INT8_TILE_OUTPUTS; p++)
        sums[channels ? channels[p] : block * INT8_TILE_OUTPUTS + p] = block_sums[p];
    return is_good;
}

bool cpu_linear_expand(const Backend *backend, const BackendLinear *linear, size_t block_begin, size_t block_end,
                       const void *bytes, void *integers) {
    const LinearExpansion *expansion = linear->expansion;
    int32_t *sums = (int32_t *)((uint8_t *)integers + linear->sums_offset_bytes);
    bool is_good = true;

    assert(block_begin <= block_end && block_end <= linear->n_blocks && !linear->packed.offsets);
    if (!expansion)
        return !int8_weights_layout(bytes, linear->n, linear->k, block_begin, block_end, integers, sums);
    for (size_t block = block_begin; block < block_end; block++)
        is_good &= expand_block((const CpuBackend *)backend, linear, block,
                                (const uint8_t *)bytes + (expansion->offsets[block] - expansion->offsets[block_begin]),
                                integers, sums);
    return is_good;
}
