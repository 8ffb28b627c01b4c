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

/**
 * rotation_for() - how the importer rotates k inputs
 *
 * k = block times an odd number, but where block is 512: a channel of large values stays within its block, which is a
 * ninth of the inputs of smollm2-135m, and makes the one scale of the row coarse for all others. So a second transform
 * mixes values of as many blocks as there are, up to 16: as many as vector registers hold, and more bring little.
 */
Rotation rotation_for(size_t k, bool wide) {
    Rotation rotation = { .block = rotate_block_size(k) };

    if (!wide || !rotation.block)
        return rotation;
    for (uint32_t across = 2; across <= ROTATE_ACROSS_MAX; across *= 2)
        if (k % (across * ROTATE_ACROSS_RUN) == 0 && k / rotation.block > across / 2)
            rotation.across = across;
    return rotation;
}

bool rotation_fits(Rotation rotation, uint64_t k) {
    if (!rotation.block)
        return !rotation.across;
    if (!is_power_of_two(rotation.block) || rotation.block < ROTATE_BLOCK_MIN || rotation.block > ROTATE_BLOCK_MAX ||
        k % rotation.block)
        return false;
    return !rotation.across || (is_power_of_two(rotation.across) && rotation.across >= 2 &&
                                rotation.across <= ROTATE_ACROSS_MAX && k % (rotation.across * ROTATE_ACROSS_RUN) == 0);
}

float rotate_factor(uint32_t n) {
    return (float)(1.0 / sqrt((double)n)); /* sqrt and division are correctly rounded: the same bits everywhere */
}

/* (a, b) -> (a + b, a - b) on n pairs. */
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
 * Butterflies (a, b) -> (a + b, a - b) on pairs (i, i + h) for h = 1, 2, 4, ..., block / 2, then one product with
 * rotate_factor(). This order is part of the number contract: packages and results depend on its bits. H is its own
 * inverse up to rounding. Thread: any.
 */
void rotate_row(float *x, size_t n, uint32_t block) {
    float factor = rotate_factor(block);

    assert(block <= ROTATE_BLOCK_MAX && is_power_of_two(block) && n % block == 0);
    for (size_t start = 0; start < n; start += block) {
        for (uint32_t h = 1; h < block; h *= 2)
            for (uint32_t i = 0; i < block; i += 2 * h)
                butterflies(x + start + i, x + start + i + h, h);
        for (uint32_t i = 0; i < block; i++)
            x[start + i] *= factor;
    }
}

/**
 * rotate_across() - mix values that are n / across apart
 *
 * Butterflies on pairs (i, i + h n / across) for h = 1, 2, 4, ..., across / 2, then one product with rotate_factor():
 * part of the number contract as well. Its own inverse up to rounding. Thread: any.
 */
void rotate_across(float *x, size_t n, uint32_t across) {
    const size_t stride = n / across;
    const float factor = rotate_factor(across);

    assert(is_power_of_two(across) && n % across == 0);
    for (uint32_t h = 1; h < across; h *= 2)
        for (uint32_t i = 0; i < across; i += 2 * h)
            butterflies(x + i * stride, x + (i + h) * stride, h * stride);
    for (size_t i = 0; i < n; i++)
        x[i] *= factor;
}

void rotation_apply(float *x, size_t n, Rotation rotation) {
    if (rotation.block)
        rotate_row(x, n, rotation.block);
    if (rotation.across)
        rotate_across(x, n, rotation.across);
}

void rotation_undo(float *x, size_t n, Rotation rotation) {
    if (rotation.across)
        rotate_across(x, n, rotation.across);
    if (rotation.block)
        rotate_row(x, n, rotation.block);
}
