#include <assert.h>

#include "backends/cpu/packed_codes__avx512.h"
#include "backends/cpu/unpack_tile.h"
#include "backends/cpu/unroll.h"
#include "quant/grid.h"
#include "quant/pack.h"

UnpackTile unpack_tile__avx512;

/* Levels factor * u - offset: the codes are taken shifted up by one where the factor is 2. */
CODES_INLINE void expand(const uint8_t *restrict packed, size_t n_tiles, int8_t *restrict tiles, const int bits) {
    const __m512i offset = _mm512_set1_epi8((char)grid_offset(bits));

    for (size_t t = 0; t < n_tiles; t++, packed += pack_tile_bytes(bits))
        for (size_t half = 0; half < 2; half++, tiles += PACK_TILE_WEIGHTS / 2)
            UNROLL
    for (int i = 0; i < CODES_HALF_REGISTERS; i++)
        _mm512_store_si512(tiles + i * 64,
                           _mm512_sub_epi8(codes_register(packed, bits, half, i, grid_factor(bits) - 1), offset));
}

/**
 * unpack_tile__avx512() - a shift and a mask (one instruction with the merging) a component, one subtraction, one store
 */
void unpack_tile__avx512(const uint8_t *packed, int bits, size_t n_tiles, int8_t *tiles) {
    switch (bits) {
#define WIDTH(bits)                                                                                                    \
    case bits:                                                                                                         \
        expand(packed, n_tiles, tiles, bits);                                                                          \
        return;
        WIDTH(1)
        WIDTH(2)
        WIDTH(3)
        WIDTH(4)
        WIDTH(5)
        WIDTH(6)
        WIDTH(7)
        WIDTH(8)
#undef WIDTH
    default:
        assert(bits >= GRID_BITS_MIN && bits <= GRID_BITS_MAX);
    }
}
