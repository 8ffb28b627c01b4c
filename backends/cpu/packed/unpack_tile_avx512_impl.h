// SPDX-License-Identifier: Apache-2.0
/* Expansion of packed tiles with AVX-512, compiled once with AVX512-VBMI and once without; the including file defines
 * UNPACK_TILE_NAME. */
#ifndef COORDGEN_BACKENDS_CPU_UNPACK_TILE_AVX512_IMPL_H
#define COORDGEN_BACKENDS_CPU_UNPACK_TILE_AVX512_IMPL_H

#include <assert.h>
#include <stdbool.h>

#include "backends/cpu/packed/packed_codes__avx512.h"
#include "backends/cpu/packed/packed_coding.h"
#include "backends/cpu/packed/unpack_tile.h"
#include "backends/numeric/unroll.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"

UnpackTile UNPACK_TILE_NAME;

/* Expands codes to levels factor * u - offset (codes are taken shifted up by one if the factor is 2), or to the
 * table's. */
CODES_INLINE void expand(const uint8_t *restrict packed, size_t n_tiles, int8_t *restrict tiles, const Grid grid,
                         const int bits) {
    const __m512i offset = _mm512_set1_epi8((char)grid_offset(bits));
    const bool has_table = grid_has_table(grid, bits);
    const int up = has_table ? 0 : grid_factor(bits) - 1;
    CodesTable table;

    if (has_table)
        table = codes_table(bits, 0);

    for (size_t t = 0; t < n_tiles; t++, packed += pack_tile_bytes(bits))
        for (size_t half = 0; half < 2; half++, tiles += PACK_TILE_WEIGHTS / 2)
            UNROLL
    for (int i = 0; i < CODES_HALF_REGISTERS; i++) {
        const __m512i codes = codes_register(packed, bits, half, i, up);

        _mm512_store_si512(tiles + i * 64,
                           has_table ? codes_levels(&table, codes, bits) : _mm512_sub_epi8(codes, offset));
    }
}

/**
 * unpack_tile__avx512(), unpack_tile__avx512vbmi() - expand tiles
 *
 * Each component takes a shift and a mask, which merges in the same instruction. A subtraction or a lookup follows,
 * then one store.
 */
void UNPACK_TILE_NAME(const uint8_t *packed, Grid grid, int bits, size_t n_tiles, int8_t *tiles) {
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

#endif
