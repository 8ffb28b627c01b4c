#include <assert.h>

#include "backends/cpu/packed_codes__neon.h"
#include "backends/cpu/unpack_tile.h"
#include "backends/cpu/unroll.h"
#include "quant/grid.h"
#include "quant/pack.h"

UnpackTile unpack_tile__neon;

/* Levels factor * u - offset. */
CODES_INLINE void expand(const uint8_t *restrict packed, size_t n_tiles, int8_t *restrict tiles, const int bits) {
    const uint8x16_t offset = vdupq_n_u8((uint8_t)grid_offset(bits));

    for (size_t h = 0; h < 2 * n_tiles; h++, tiles += PACK_TILE_WEIGHTS / 2) {
        const uint8_t *tile = packed + h / 2 * pack_tile_bytes(bits);

        UNROLL
        for (int quarter = 0; quarter < 4; quarter++)
            UNROLL
        for (int i = 0; i < CODES_HALF_REGISTERS; i++) {
            const uint8x16_t codes = codes_register(tile, bits, h % 2, i, quarter) << (grid_factor(bits) - 1);

            vst1q_s8(tiles + i * 64 + quarter * 16, vreinterpretq_s8_u8(codes - offset));
        }
    }
}

/**
 * unpack_tile__neon() - a shift and an insertion a component, a mask, a doubling, one subtraction, one store
 */
void unpack_tile__neon(const uint8_t *packed, int bits, size_t n_tiles, int8_t *tiles) {
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
