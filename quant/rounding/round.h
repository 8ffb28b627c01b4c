// SPDX-License-Identifier: Apache-2.0
/* Rounds an output channel to the levels of its width (grid.h). */
#ifndef COORDGEN_QUANT_ROUND_H
#define COORDGEN_QUANT_ROUND_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/min_max.h"
#include "quant/format/grid.h"

/* Returns the level nearest to w. inverse: 1 / scale; nearest: grid_nearest() of these bits. round_channel(),
 * rounding_error and error-compensated rounding agree with this definition to the bit. Ties go away from zero, weights
 * beyond the largest level get that level, and zero becomes the least positive level of a grid without zero (1..7
 * bits). */
static inline int round_level(const float *nearest, float w, float inverse, int bits) {
    float t = fabsf(w) * inverse, top;
    int level;

    if (nearest) {
        t *= 2;
        top = GRID_NEAREST_CELLS - 1;
        level = (int)nearest[(int)(MIN(t, top))];
    } else if (bits == GRID_BITS_MAX) {
        t += 0.5f;
        top = 127;
        level = (int)(MIN(t, top));
    } else {
        t *= 0.5f;
        top = (float)((1 << (bits - 1)) - 1);
        level = 2 * (int)(MIN(t, top)) + 1;
    }
    return w < 0 ? -level : level;
}

/* Sets q[n] to round_level() of w[n]; a scale of 0 (a channel of zeros) gives the smallest levels. */
void round_channel(const float *w, size_t n, Grid grid, int bits, float scale, int8_t *q);

/* Sets q[n] in -127..127 and *scalep = amax / 127, so that x ~ q * scale; false, with nothing written, if a value is
 * not finite. */
bool round_channel_int8(const float *x, size_t n, int8_t *q, float *scalep);

#endif
