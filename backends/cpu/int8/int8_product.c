// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/int8/int8_product.h"

#include <assert.h>

#include "base/cleanup.h"
#include "base/system/cpu.h"

#define KERNEL(needs, shifted, function) Int8Product function;
#define TILE_KERNEL(needs, function)                                                                                   \
    Int8Product function;                                                                                              \
    Int8GatedProduct function##_gated;
#include "backends/cpu/int8/int8_product.inc"
#undef KERNEL
#undef TILE_KERNEL

static const Int8ProductKernel kernels[] = {
#define KERNEL(needs, shifted, function) { #function, needs, shifted, 1, 0, 0, function, NULL },
#define TILE_KERNEL(needs, function)                                                                                   \
    { #function, needs,           false, INT8_TILE_ROWS, INT8_TILE_SCRATCH_BYTES, INT8_TILE_SOURCE_ROWS,               \
      function,  function##_gated },
#include "backends/cpu/int8/int8_product.inc"
#undef KERNEL
#undef TILE_KERNEL
};

const Int8ProductKernel *int8_product_select(uint32_t cpu) {
    for (size_t i = 0; i + 1 < ARRAY_LEN(kernels); i++)
        if (!(kernels[i].need & ~cpu))
            return &kernels[i];
    return &kernels[ARRAY_LEN(kernels) - 1];
}

size_t int8_product_n_kernels(void) {
    return ARRAY_LEN(kernels);
}

const Int8ProductKernel *int8_product_kernel_at(size_t index) {
    assert(index < ARRAY_LEN(kernels));
    return &kernels[index];
}
