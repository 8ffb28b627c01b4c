// SPDX-License-Identifier: Apache-2.0
/* Conversion of row-major int8 matrices to the tiles of the products, and back. A load converts every weight, so the
 * conversion must keep up with memory. Units of 4 outputs x 16 inputs are transposed in registers as 4 x 4 groups of
 * four bytes. The same pass sums the rows and looks for -128. Vectors are the compiler's own, of 16 bytes, which every
 * machine has. */
#include <assert.h>
#include <string.h>

#include "backends/cpu/int8/int8_product.h"
#include "base/min_max.h"

enum {
    UNIT_INPUTS = 16,
    UNIT_OUTPUTS = 4,
    SUM_UNITS = 128, /* units of 16 inputs, whose u16 sums stay below 128 * 2 * 255 < 2^16 */
};

typedef int8_t Bytes __attribute__((vector_size(16)));
typedef uint16_t Pairs __attribute__((vector_size(16)));
typedef uint32_t Fours __attribute__((vector_size(16)));

/* Returns the offset of input i of output o (0..15) in a block. */
static size_t tile_offset(size_t o, size_t i) {
    return i / INT8_TILE_INPUTS * INT8_TILE_BYTES + i % INT8_TILE_INPUTS / 4 * (INT8_TILE_OUTPUTS * 4) + o * 4 + i % 4;
}

/* Results of one pass over 4 rows: sums of x + 128 in 8 lanes, and the places of -128. */
typedef struct UnitSums {
    Pairs sums[UNIT_OUTPUTS];
    Bytes below;
} UnitSums;

/* Transposes a unit. rows: 4, k apart, 16 inputs of each; to: the tile at these inputs and the first of the outputs. */
static inline void transpose_unit(const int8_t *rows, size_t k, int8_t *to, UnitSums *sums) {
    Bytes x[UNIT_OUTPUTS];
    Fours w[UNIT_OUTPUTS], pairs[UNIT_OUTPUTS], out[UNIT_OUTPUTS];

    for (size_t o = 0; o < UNIT_OUTPUTS; o++) {
        Pairs shifted;

        memcpy(&x[o], rows + o * k, sizeof(x[o]));
        sums->below |= x[o] == -128;
        shifted = (Pairs)(x[o] ^ -128);
        sums->sums[o] += (shifted & 0xff) + (shifted >> 8);
        w[o] = (Fours)x[o];
    }
    pairs[0] = __builtin_shufflevector(w[0], w[1], 0, 4, 1, 5);
    pairs[1] = __builtin_shufflevector(w[0], w[1], 2, 6, 3, 7);
    pairs[2] = __builtin_shufflevector(w[2], w[3], 0, 4, 1, 5);
    pairs[3] = __builtin_shufflevector(w[2], w[3], 2, 6, 3, 7);
    out[0] = __builtin_shufflevector(pairs[0], pairs[2], 0, 1, 4, 5);
    out[1] = __builtin_shufflevector(pairs[0], pairs[2], 2, 3, 6, 7);
    out[2] = __builtin_shufflevector(pairs[1], pairs[3], 0, 1, 4, 5);
    out[3] = __builtin_shufflevector(pairs[1], pairs[3], 2, 3, 6, 7);
    for (size_t q = 0; q < 4; q++)
        memcpy(to + q * INT8_TILE_OUTPUTS * 4, &out[q], sizeof(out[q]));
}

/* Adds the rows' sums over n_units units, minus the 128 that each input was raised by. */
static inline void add_sums(const UnitSums *unit, size_t n_units, int32_t *sums) {
    for (size_t o = 0; o < UNIT_OUTPUTS; o++) {
        int32_t sum = 0;

        for (size_t lane = 0; lane < 8; lane++)
            sum += unit->sums[o][lane];
        sums[o] += sum - 128 * UNIT_INPUTS * (int32_t)n_units;
    }
}

/* Lays out 4 whole rows from output o of the block on; returns whether -128 is among them. */
static bool layout_four(const int8_t *rows, size_t k, size_t o, int8_t *block, int32_t *sums) {
    const size_t n_units = k / UNIT_INPUTS;
    Bytes below = { 0 };
    bool is_below = false;

    for (size_t first = 0; first < n_units; first += SUM_UNITS) {
        const size_t last = n_units - first < SUM_UNITS ? n_units : first + SUM_UNITS;
        UnitSums unit = { .below = below };

        for (size_t u = first; u < last; u++)
            transpose_unit(rows + u * UNIT_INPUTS, k, block + tile_offset(o, u * UNIT_INPUTS), &unit);
        add_sums(&unit, last - first, sums);
        below = unit.below;
    }
    for (size_t lane = 0; lane < sizeof(below); lane++)
        is_below = is_below || below[lane];
    return is_below;
}

/* Lays out one row from input i on. */
static bool layout_row(const int8_t *row, size_t i, size_t k, size_t o, int8_t *block, int32_t *sum) {
    bool is_below = false;

    for (; i < k; i++) {
        block[tile_offset(o, i)] = row[i];
        *sum += row[i];
        is_below = is_below || row[i] == -128;
    }
    return is_below;
}

/**
 * int8_weights_layout() - lay out a part of a row-major matrix in tiles
 * @rows:         i8[min(16 * block_end, n) - 16 * block_begin][k]: only the rows of the named blocks
 * @block_begin:  first block of 16 outputs to write; blocks may be laid out in any order and by several threads
 * @tiles:        out: base of the whole [n_blocks][k_tiles][INT8_TILE_BYTES]; only the named blocks are written
 * @sums:         out: base of the whole [n_blocks * 16]; only the named blocks are written
 *
 * Values are -127..127 by contract; -128 is laid out and multiplied exactly as well.
 * Return: whether -128 is among the values.
 */
bool int8_weights_layout(const int8_t *rows, size_t n, size_t k, size_t block_begin, size_t block_end, int8_t *tiles,
                         int32_t *sums) {
    const size_t block_bytes = int8_tiles_for(k) * INT8_TILE_BYTES;
    bool is_below = false;

    assert(k <= INT8_K_MAX && block_begin <= block_end && block_end <= int8_blocks_for(n));
    for (size_t block = block_begin; block < block_end; block++, rows += INT8_TILE_OUTPUTS * k) {
        const size_t left = n - block * INT8_TILE_OUTPUTS, n_rows = MIN(left, INT8_TILE_OUTPUTS);
        int8_t *to = tiles + block * block_bytes;
        int32_t *to_sums = sums + block * INT8_TILE_OUTPUTS;
        size_t o = 0;

        if (k % INT8_TILE_INPUTS || n_rows < INT8_TILE_OUTPUTS)
            memset(to, 0, block_bytes);
        memset(to_sums, 0, INT8_TILE_OUTPUTS * sizeof(*to_sums));
        for (; o + UNIT_OUTPUTS <= n_rows; o += UNIT_OUTPUTS)
            is_below |= layout_four(rows + o * k, k, o, to, to_sums + o);
        for (size_t row = 0; row < n_rows; row++)
            is_below |=
                layout_row(rows + row * k, row < o ? k / UNIT_INPUTS * UNIT_INPUTS : 0, k, row, to, to_sums + row);
    }
    return is_below;
}

void int8_weights_row(const Int8Weights *weights, size_t output, int8_t *q) {
    const int8_t *block;
    size_t i = 0;

    assert(output < weights->n);
    block = weights->tiles + output / INT8_TILE_OUTPUTS * weights->k_tiles * INT8_TILE_BYTES;
    for (; i + 4 <= weights->k; i += 4)
        memcpy(q + i, block + tile_offset(output % INT8_TILE_OUTPUTS, i), 4);
    for (; i < weights->k; i++)
        q[i] = block[tile_offset(output % INT8_TILE_OUTPUTS, i)];
}
