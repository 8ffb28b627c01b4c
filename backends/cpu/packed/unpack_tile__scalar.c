// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/packed/unpack_tile.h"
#include "quant/format/pack.h"

UnpackTile unpack_tile__scalar;

/* Reference: unpacks by quant/format/pack.c, then looks up the levels. */
void unpack_tile__scalar(const uint8_t *packed, Grid grid, int bits, size_t n_tiles, int8_t *tiles) {
    for (size_t t = 0; t < n_tiles; t++, packed += pack_tile_bytes(bits), tiles += PACK_TILE_WEIGHTS) {
        uint8_t codes[PACK_TILE_WEIGHTS];

        unpack_tile(packed, bits, codes);
        for (size_t i = 0; i < PACK_TILE_WEIGHTS; i++)
            tiles[i] = (int8_t)grid_level(grid, codes[i], bits);
    }
}
