// SPDX-License-Identifier: Apache-2.0
#include "quant/rounding/rounding_error.h"

#include <assert.h>

#include "base/cleanup.h"
#include "base/system/cpu.h"

#define KERNEL(need, fn) RoundingError fn;
#include "quant/rounding/rounding_error.inc"
#undef KERNEL

static const RoundingErrorKernel kernels[] = {
#define KERNEL(need, fn) { #fn, need, fn },
#include "quant/rounding/rounding_error.inc"
#undef KERNEL
};

RoundingError *rounding_error_select(uint32_t cpu) {
    for (size_t i = 0; i + 1 < ARRAY_LEN(kernels); i++)
        if (!(kernels[i].need & ~cpu))
            return kernels[i].fn;
    return kernels[ARRAY_LEN(kernels) - 1].fn;
}

size_t rounding_error_n(void) {
    return ARRAY_LEN(kernels);
}

const RoundingErrorKernel *rounding_error_at(size_t index) {
    assert(index < ARRAY_LEN(kernels));
    return &kernels[index];
}
