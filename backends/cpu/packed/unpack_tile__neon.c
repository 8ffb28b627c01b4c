// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdbool.h>

#include "backends/cpu/packed/packed_codes__neon.h"
#include "backends/cpu/packed/packed_coding.h"
#include "backends/cpu/packed/unpack_tile.h"
#include "backends/numeric/unroll.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"

UnpackTile unpack_tile__neon;

/* Expands codes to levels factor * u - offset, or to the table's. */
CODES_INLINE void expand(const uint8_t *restrict packed, size_t n_tiles, int8_t *restrict tiles, const Grid grid,
                         const int bits) {
    const uint8x16_t offset = vdupq_n_u8((uint8_t)grid_offset(bits));
    const bool has_table = grid_has_table(grid, bits);
    CodesTable table;

    if (has_table)
        table = codes_table(bits);

    for (size_t h = 0; h < 2 * n_tiles; h++, tiles += PACK_TILE_WEIGHTS / 2) {
        const uint8_t *tile = packed + h / 2 * pack_tile_bytes(bits);

        UNROLL
        for (int quarter = 0; quarter < 4; quarter++)
            UNROLL
        for (int i = 0; i < CODES_HALF_REGISTERS; i++) {
            const uint8x16_t codes = codes_register(tile, bits, h % 2, i, quarter);
            const int8x16_t levels = has_table ? codes_levels(&table, codes, bits)
                                               : vreinterpretq_s8_u8((codes << (grid_factor(bits) - 1)) - offset);

            vst1q_s8(tiles + i * 64 + quarter * 16, levels);
        }
    }
}

/**
 * unpack_tile__neon() - expand tiles: per component a shift and an insertion; then a mask and a subtraction or lookup
 *
 * A doubling precedes the subtraction; one store follows.
 */
void unpack_tile__neon(const uint8_t *packed, Grid grid, int bits, size_t n_tiles, int8_t *tiles) {
    switch (packed_coding(grid, bits)) {
#define EXPAND(grid, bits)                                                                                             \
    case PACKED_CODING(GRID_##grid, bits):                                                                             \
        expand(packed, n_tiles, tiles, GRID_##grid, bits);                                                             \
        return;
        PACKED_CODINGS(EXPAND)
#undef EXPAND
    default:
        assert(bits >= GRID_BITS_MIN && bits <= GRID_BITS_MAX);
    }
}
