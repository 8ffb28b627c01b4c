#include "quant/rotate.h"

#include <assert.h>
#include <math.h>

uint32_t rotate_block_size(size_t k) {
    for (uint32_t block = ROTATE_BLOCK_MAX; block >= 32; block /= 2)
        if (k && k % block == 0)
            return block;
    return 0;
}

float rotate_factor(uint32_t block) {
    return (float)(1.0 / sqrt((double)block)); /* sqrt and division are correctly rounded: the same bits everywhere */
}

/**
 * rotate_row() - rotate one row by blocks
 *
 * Butterflies (a, b) -> (a + b, a - b) on pairs (i, i + h) for h = 1, 2, 4, ..., block / 2, then one product with
 * rotate_factor(). This order is part of the number contract: packages and results depend on its bits. H is its own
 * inverse up to rounding. Thread: any.
 */
void rotate_row(float *x, size_t n, uint32_t block) {
    float factor = rotate_factor(block);

    assert(block && block <= ROTATE_BLOCK_MAX && (block & (block - 1)) == 0 && n % block == 0);
    for (size_t start = 0; start < n; start += block) {
        for (uint32_t h = 1; h < block; h *= 2)
            for (uint32_t i = 0; i < block; i += 2 * h) {
                float *restrict low = x + start + i, *restrict high = x + start + i + h;

                for (uint32_t j = 0; j < h; j++) {
                    float a = low[j], b = high[j];

                    low[j] = a + b;
                    high[j] = a - b;
                }
            }
        for (uint32_t i = 0; i < block; i++)
            x[start + i] *= factor;
    }
}
