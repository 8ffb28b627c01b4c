// SPDX-License-Identifier: Apache-2.0
/* Products on packed weights for any number of rows: by the kernel for a few of them (packed_product.h), or on panels
 * of blocks that are expanded once into scratch, under an int8 product. Both give the same bits. */
#ifndef COORDGEN_BACKENDS_CPU_PACKED_KERNELS_H
#define COORDGEN_BACKENDS_CPU_PACKED_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/packed/packed_coding.h"
#include "backends/cpu/packed/packed_product.h"
#include "backends/cpu/packed/unpack_tile.h"

typedef struct PackedKernels {
    const PackedProductKernel *few;
    const UnpackTileKernel *unpack;
    const Int8ProductKernel *product;
    size_t few_rows[PACKED_CODINGS_N]; /* up to how many rows `few` takes a coding; kernel_rates.h measures it */
    size_t few_rows_max;               /* the greatest of the codings that there are */
} PackedKernels;

/* Most rows that `few` takes where the product wants others in tiles: it takes rows as they are. */
#define PACKED_FEW_ROWS_MAX 16

/* No coding is there yet. */
PackedKernels packed_kernels_select(uint32_t cpu);
/* Blocks of the coding go to `few` up to so many rows. */
void packed_kernels_take(PackedKernels *kernels, Grid grid, int bits, size_t few_rows);
/* Scratch of one thread, for packed weights and for products that are not packed; aligned to 64. */
size_t packed_kernels_scratch_bytes(const PackedKernels *kernels, size_t k_tiles);
/* Int8Rows.tile_rows that packed_kernels_run() wants of so many rows. */
size_t packed_kernels_tile_rows(const PackedKernels *kernels, size_t rows);
/* By whichever is faster for these rows. */
void packed_kernels_run(const PackedKernels *kernels, const PackedWeights *weights, const Int8Rows *rows,
                        size_t block_begin, size_t block_end, float *y, size_t y_stride, void *scratch);
/* By panels; uses unpack and product alone. */
void packed_kernels_expanded(const PackedKernels *kernels, const PackedWeights *weights, const Int8Rows *rows,
                             size_t block_begin, size_t block_end, float *y, size_t y_stride, void *scratch);
/* activation(gate) * up of the same blocks of two matrices whose outputs are in order, as Int8GatedProduct; by panels,
 * where the product has a gated form and the rows lie in tiles. */
void packed_kernels_gated(const PackedKernels *kernels, const PackedWeights *gate, const PackedWeights *up,
                          const Int8Rows *rows, Int8Gate activation, size_t block_begin, size_t block_end, float *y,
                          size_t y_stride, void *scratch);

#endif
