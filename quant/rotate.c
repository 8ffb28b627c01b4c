// SPDX-License-Identifier: Apache-2.0
#include "quant/rotate.h"

#include <assert.h>
#include <math.h>

static bool is_power_of_two(uint32_t n) {
    return n && (n & (n - 1)) == 0;
}

uint32_t rotate_block_size(size_t k) {
    for (uint32_t block = ROTATE_BLOCK_MAX; block >= ROTATE_BLOCK_MIN; block /= 2)
        if (k && k % block == 0)
            return block;
    return 0;
}

bool rotate_block_fits(uint32_t block, uint64_t k) {
    return !block ||
           (is_power_of_two(block) && block >= ROTATE_BLOCK_MIN && block <= ROTATE_BLOCK_MAX && k % block == 0);
}

float rotate_factor(uint32_t n) {
    return (float)(1.0 / sqrt((double)n)); /* correctly rounded: the same bits on every machine */
}

/* Maps (a, b) to (a + b, a - b) on n pairs. */
static void butterflies(float *restrict low, float *restrict high, size_t n) {
    for (size_t j = 0; j < n; j++) {
        float a = low[j], b = high[j];

        low[j] = a + b;
        high[j] = a - b;
    }
}

/**
 * rotate_row() - rotate one row by blocks
 *
 * Butterflies (a, b) -> (a + b, a - b) run on pairs (i, i + h) for h = 1, 2, 4, ..., block / 2, then one product with
 * rotate_factor(). The order is part of the number contract: packages and results depend on its bits. H is its own
 * inverse up to rounding. Thread: any.
 */
void rotate_row(float *x, size_t n, uint32_t block) {
    float factor;

    if (!block)
        return;
    factor = rotate_factor(block);
    assert(block <= ROTATE_BLOCK_MAX && is_power_of_two(block) && n % block == 0);
    for (size_t start = 0; start < n; start += block) {
        for (uint32_t h = 1; h < block; h *= 2)
            for (uint32_t i = 0; i < block; i += 2 * h)
                butterflies(x + start + i, x + start + i + h, h);
        for (uint32_t i = 0; i < block; i++)
            x[start + i] *= factor;
    }
}
