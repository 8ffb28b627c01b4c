// SPDX-License-Identifier: Apache-2.0
/* Products on packed weights for any number of rows. Few rows use a kernel of their own (packed_product.h). More rows
 * use an int8 product on panels of blocks that are expanded once into scratch. Both give the same bits. */
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
    size_t few_rows[PACKED_CODINGS_N]; /* number of rows up to which `few` takes a coding; measured by kernel_rates.h */
    size_t few_rows_max;               /* the greatest among the codings in use */
} PackedKernels;

/* Maximum of rows for `few` if the product wants rows in tiles: `few` takes rows as they are. */
#define PACKED_FEW_ROWS_MAX 16

/* Selects kernels; no coding is in use yet. */
PackedKernels packed_kernels_select(uint32_t cpu);
/* Puts a coding into use: `few` takes its blocks up to few_rows rows. */
void packed_kernels_take(PackedKernels *kernels, Grid grid, int bits, size_t few_rows);
/* Returns the scratch of one thread, for packed and int8 weights; aligned to 64. */
size_t packed_kernels_scratch_bytes(const PackedKernels *kernels, size_t k_tiles);
/* Returns the Int8Rows.tile_rows that packed_kernels_run() wants for `rows` rows. */
size_t packed_kernels_tile_rows(const PackedKernels *kernels, size_t rows);
/* Multiplies by the faster way for these rows. */
void packed_kernels_run(const PackedKernels *kernels, const PackedWeights *weights, const Int8Rows *rows,
                        size_t block_begin, size_t block_end, float *y, size_t y_stride, void *scratch);
/* Multiplies by expanded panels; uses only unpack and product. */
void packed_kernels_expanded(const PackedKernels *kernels, const PackedWeights *weights, const Int8Rows *rows,
                             size_t block_begin, size_t block_end, float *y, size_t y_stride, void *scratch);
/* Computes activation(gate) * up for the same blocks of two matrices with outputs in order, as Int8GatedProduct. Uses
 * panels if the product has a gated form and the rows lie in tiles. */
void packed_kernels_gated(const PackedKernels *kernels, const PackedWeights *gate, const PackedWeights *up,
                          const Int8Rows *rows, Int8Gate activation, size_t block_begin, size_t block_end, float *y,
                          size_t y_stride, void *scratch);

#endif
