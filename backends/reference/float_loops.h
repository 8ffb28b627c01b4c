// SPDX-License-Identifier: Apache-2.0
/* Inner loops of the reference device: products of float rows, in one fixed order that every build shares. */
#ifndef COORDGEN_BACKENDS_REFERENCE_FLOAT_LOOPS_H
#define COORDGEN_BACKENDS_REFERENCE_FLOAT_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct FloatLoops {
    const char *name;
    uint32_t need; /* CPU_* bits */

    /* y[r * y_stride + o] = sum over i < k of x[r * x_stride + i] * w[o * w_stride + i], for r < rows and o < n. */
    void (*products)(const float *x, size_t x_stride, size_t rows, const float *w, size_t w_stride, size_t n, size_t k,
                     float *y, size_t y_stride);
    /* y[i] = sum over j < n, in rising j, of weights[j] * v[j * v_stride + i], for i < width. The sum continues from
     * y[i], or starts anew with is_first. */
    void (*mix)(const float *weights, size_t n, const float *v, size_t v_stride, size_t width, bool is_first, float *y);
} FloatLoops;

/* Returns the best build for these CPU_* bits. */
const FloatLoops *float_loops_select(uint32_t cpu);
size_t float_loops_n(void);
const FloatLoops *float_loops_at(size_t index);

#endif
