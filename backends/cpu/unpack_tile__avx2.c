#include <assert.h>

#include "backends/cpu/packed_codes__avx2.h"
#include "backends/cpu/unpack_tile.h"
#include "backends/cpu/unroll.h"
#include "quant/grid.h"
#include "quant/pack.h"

UnpackTile unpack_tile__avx2;

/* Levels factor * u - offset: the codes are taken shifted up by one where the factor is 2. */
CODES_INLINE void expand(const uint8_t *restrict packed, size_t n_tiles, int8_t *restrict tiles, const int bits) {
    const __m256i offset = _mm256_set1_epi8((char)grid_offset(bits));

    for (size_t h = 0; h < 2 * n_tiles; h++, tiles += PACK_TILE_WEIGHTS / 2)
        UNROLL
    for (int i = 0; i < 2 * CODES_HALF_REGISTERS; i++) {
        const __m256i codes =
            codes_register(packed + h / 2 * pack_tile_bytes(bits), bits, h % 2, i / 2, i % 2, grid_factor(bits) - 1);

        _mm256_store_si256((__m256i *)(tiles + i * 32), _mm256_sub_epi8(codes, offset));
    }
}

/**
 * unpack_tile__avx2() - a shift, a mask and a merging a component, one subtraction, one store
 */
void unpack_tile__avx2(const uint8_t *packed, int bits, size_t n_tiles, int8_t *tiles) {
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
