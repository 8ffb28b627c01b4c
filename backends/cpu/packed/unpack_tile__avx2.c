// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdbool.h>

#include "backends/cpu/packed/packed_codes__avx2.h"
#include "backends/cpu/packed/packed_coding.h"
#include "backends/cpu/packed/unpack_tile.h"
#include "backends/numeric/unroll.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"

UnpackTile unpack_tile__avx2;

/* Expands codes to levels factor * u - offset (codes are taken shifted up by one if the factor is 2), or to the
 * table's. */
CODES_INLINE void expand(const uint8_t *restrict packed, size_t n_tiles, int8_t *restrict tiles, const Grid grid,
                         const int bits) {
    const __m256i offset = _mm256_set1_epi8((char)grid_offset(bits));
    const bool has_table = grid_has_table(grid, bits);
    CodesTable table;

    if (has_table)
        table = codes_table(bits);

    for (size_t h = 0; h < 2 * n_tiles; h++, tiles += PACK_TILE_WEIGHTS / 2)
        UNROLL
    for (int i = 0; i < 2 * CODES_HALF_REGISTERS; i++) {
        const uint8_t *tile = packed + h / 2 * pack_tile_bytes(bits);
        const __m256i levels =
            has_table ? codes_levels(&table, tile, bits, h % 2, i / 2, i % 2)
                      : _mm256_sub_epi8(codes_register(tile, bits, h % 2, i / 2, i % 2, grid_factor(bits) - 1), offset);

        _mm256_store_si256((__m256i *)(tiles + i * 32), levels);
    }
}

/**
 * unpack_tile__avx2() - expand tiles: a shift, a mask and a merge per component; a subtraction or lookup; a store
 */
void unpack_tile__avx2(const uint8_t *packed, Grid grid, int bits, size_t n_tiles, int8_t *tiles) {
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
