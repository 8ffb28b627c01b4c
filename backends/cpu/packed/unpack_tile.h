// SPDX-License-Identifier: Apache-2.0
/* Expansion of packed tiles to tiles of the int8 products: codes become levels (pack.h, grid.h). */
#ifndef COORDGEN_BACKENDS_CPU_UNPACK_TILE_H
#define COORDGEN_BACKENDS_CPU_UNPACK_TILE_H

#include <stddef.h>
#include <stdint.h>

#include "quant/format/grid.h"

/* Expands n_tiles consecutive packed tiles of one width (1..8) and grid. Packed tiles have 128 * bits bytes, the
 * results 1024 bytes, both aligned to 64. Results are int8 levels in the layout of int8_product.h. Code 0 of the
 * padding becomes the lowest level (-128 at 8 bits). Never reads or writes beyond these bytes. */
typedef void UnpackTile(const uint8_t *packed, Grid grid, int bits, size_t n_tiles, int8_t *tiles);

typedef struct UnpackTileKernel {
    const char *name;
    uint32_t need; /* CPU_* bits */
    UnpackTile *fn;
} UnpackTileKernel;

/* Returns the best kernel whose needs are all in cpu; the scalar kernel needs nothing. */
const UnpackTileKernel *unpack_tile_select(uint32_t cpu);
size_t unpack_tile_n_kernels(void);
const UnpackTileKernel *unpack_tile_kernel_at(size_t index);

#endif
