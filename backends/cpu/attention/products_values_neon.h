// SPDX-License-Identifier: Apache-2.0
/* The walk over row-heads that the products of values of all AArch64 builds share. Each build has a values_tile(). */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_VALUES_NEON_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_VALUES_NEON_H

#include <stddef.h>
#include <stdint.h>

typedef void ValuesPanel(const uint8_t *weights, size_t stride_bytes, const int8_t *const *values, size_t n_parts,
                         size_t head_size, int32_t *outputs);

/* Defines values_ROWS(), which computes all outputs of so many row-heads by tiles of some channels. The other arguments
 * are those of values_tile() behind the outputs. */
#define VALUES_PANEL(n_rows, n_channels, ...)                                                                          \
    static void values_##n_rows(const uint8_t *weights, size_t stride_bytes, const int8_t *const *values,              \
                                size_t n_parts, size_t head_size, int32_t *outputs) {                                  \
        for (size_t d = 0; d < head_size; d += n_channels)                                                             \
            values_tile(weights, stride_bytes, values, n_parts, head_size, d, outputs, __VA_ARGS__);                   \
    }

/* Computes n row-heads by panels of nearly equal height, n_rows_max at most; panels [n_rows_max]. */
static void values_by_panels(ValuesPanel *const *panels, size_t n_rows_max, const uint8_t *weights, size_t stride_bytes,
                             size_t n, const int8_t *const *values, size_t n_parts, size_t head_size,
                             int32_t *outputs) {
    const size_t n_panels = (n + n_rows_max - 1) / n_rows_max;

    for (size_t p = 0, row = 0, next; p < n_panels; p++, row = next) {
        next = n * (p + 1) / n_panels;
        panels[next - row - 1](weights + row * stride_bytes, stride_bytes, values, n_parts, head_size,
                               outputs + row * head_size);
    }
}

#endif
