// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/packed/unpack_tile.h"

#include <assert.h>

#include "base/cleanup.h"
#include "base/system/cpu.h"

#define KERNEL(needs, function) UnpackTile function;
#include "backends/cpu/packed/unpack_tile.inc"
#undef KERNEL

static const UnpackTileKernel kernels[] = {
#define KERNEL(needs, function) { #function, needs, function },
#include "backends/cpu/packed/unpack_tile.inc"
#undef KERNEL
};

const UnpackTileKernel *unpack_tile_select(uint32_t cpu) {
    const UnpackTileKernel *kernel = kernels;

    while (kernel->need & ~cpu) /* the last row needs nothing */
        kernel++;
    return kernel;
}

size_t unpack_tile_n_kernels(void) {
    return ARRAY_LEN(kernels);
}

const UnpackTileKernel *unpack_tile_kernel_at(size_t index) {
    assert(index < ARRAY_LEN(kernels));
    return &kernels[index];
}
