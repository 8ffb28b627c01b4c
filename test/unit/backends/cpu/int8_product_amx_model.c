// SPDX-License-Identifier: Apache-2.0
#include "backends/numeric/lanes.h" /* its immintrin.h comes before the model */

#include "test/unit/backends/cpu/amx_tile_model.h"

#include "backends/cpu/int8/int8_product_amx_impl.h"
#include "test/unit/backends/cpu/int8_product_amx_model.h"

#ifdef __x86_64__
#define NEEDS 0
#else
#define NEEDS UINT32_MAX
#endif

/* Source of int8_product__amx compiled for the portable model of its instructions. Any x86-64 machine can run it; other
 * architectures leave it out. */
const Int8ProductKernel int8_product_amx_model = {
    .name = "int8_product__amx (tile model)",
    .need = NEEDS,
    .tile_rows = INT8_TILE_ROWS,
    .scratch_bytes = INT8_TILE_SCRATCH_BYTES,
    .source_rows = INT8_TILE_SOURCE_ROWS,
    .fn = tile_product_plain,
    .gated = tile_product_gated,
};
