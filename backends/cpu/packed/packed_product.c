// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/packed/packed_product.h"

#include <assert.h>

#include "base/cleanup.h"
#include "base/system/cpu.h"

#define KERNEL(needs, function) PackedProduct function;
#include "backends/cpu/packed/packed_product.inc"
#undef KERNEL

static const PackedProductKernel kernels[] = {
#define KERNEL(needs, function) { #function, needs, function },
#include "backends/cpu/packed/packed_product.inc"
#undef KERNEL
};

const PackedProductKernel *packed_product_select(uint32_t cpu) {
    const PackedProductKernel *kernel = kernels;

    while (kernel->need & ~cpu) /* the last row needs nothing */
        kernel++;
    return kernel;
}

size_t packed_product_n_kernels(void) {
    return ARRAY_LEN(kernels);
}

const PackedProductKernel *packed_product_kernel_at(size_t index) {
    assert(index < ARRAY_LEN(kernels));
    return &kernels[index];
}
