// SPDX-License-Identifier: Apache-2.0
#include "quant/rounding/round.h"

#include <assert.h>
#include <float.h>
#include <string.h>

#include "base/f16.h"
#include "base/min_max.h"

/* Adding and subtracting 1.5 * 2^23 rounds to the nearest integer, ties to even, for |v| < 2^22. Unlike rintf(), this
 * needs no SSE4.1 to stay in vector registers. */
#define ROUND_MAGIC 0x1.8p23f

/**
 * round_channel() - round to nearest on the grid of a width
 * @w:     f32[n], finite
 * @grid:  the grid of the levels
 * @bits:  1..8
 * @scale: from scale_search.h; positive and normal, or 0
 * @q:     out: int8[n], levels of that width; w ~ scale * q
 *
 * Within the range of the grid, |w - scale * q| is at most half the distance of two levels, except for rounding of the
 * last bit: scale at 1..7 bits of the uniform grid, scale / 2 at 8. Thread: any.
 */
void round_channel(const float *w, size_t n, Grid grid, int bits, float scale, int8_t *q) {
    const float inverse = scale > 0 ? 1.0f / scale : 0, *nearest = grid_nearest(grid, bits);

    assert(bits >= GRID_BITS_MIN && bits <= GRID_BITS_MAX);
    /* Three loops, so that grid and width are constant in each. */
    if (nearest)
        for (size_t i = 0; i < n; i++)
            q[i] = (int8_t)round_level(nearest, w[i], inverse, bits);
    else if (bits == GRID_BITS_MAX)
        for (size_t i = 0; i < n; i++)
            q[i] = (int8_t)round_level(NULL, w[i], inverse, GRID_BITS_MAX);
    else
        for (size_t i = 0; i < n; i++)
            q[i] = (int8_t)round_level(NULL, w[i], inverse, bits);
}

/**
 * round_channel_int8() - round to nearest, ties to even, on the grid scale * (-127..127), scale = amax / 127
 * @x:      f32[n]
 * @q:      out: int8[n]
 * @scalep: out: 0 for a channel of zeros, or so small that its scale would not be a normal number; q is then 0
 *
 * |x - q * scale| is at most scale / 2, except for rounding of the last bit. Thread: any.
 */
bool round_channel_int8(const float *x, size_t n, int8_t *q, float *scalep) {
    int32_t magnitude = 0; /* bits of positive floats have the order of their values */
    float amax, inverse;

    for (size_t i = 0; i < n; i++) {
        int32_t bits;

        memcpy(&bits, x + i, sizeof(bits));
        bits &= 0x7fffffff;
        magnitude = MAX(bits, magnitude);
    }
    if (magnitude >= 0x7f800000)
        return false;
    amax = f32_from_bits((uint32_t)magnitude);
    if (amax / 127.0f < FLT_MIN) {
        memset(q, 0, n);
        *scalep = 0;
        return true;
    }
    *scalep = amax / 127.0f;
    inverse = 127.0f / amax;
    for (size_t i = 0; i < n; i++) {
        float v = x[i] * inverse;

        q[i] = (int8_t)(int32_t)((v + ROUND_MAGIC) - ROUND_MAGIC);
    }
    return true;
}
