// SPDX-License-Identifier: Apache-2.0
/* cos and sin of rotary positions, by a routine of our own in double: the same bits whatever the libm. */
#ifndef COORDGEN_NUMERIC_ROPE_TABLE_H
#define COORDGEN_NUMERIC_ROPE_TABLE_H

#include <stddef.h>

typedef struct RopeParams {
    double base;           /* theta */
    double position_scale; /* 1 / rope.scaling.factor (linear), else 1 */
    const float *divisors; /* [n_rot / 2] rope_freqs, or NULL */
    size_t n_rot;
} RopeParams;

/* Of pairs that turn at least `fast` times within `original` positions, so large a share turns as if nothing was
 * scaled; of those up to `slow` turns none; between them it falls by the pair. */
typedef struct RopeYarn {
    double share;
    double fast, slow, original;
} RopeYarn;

/* angle_i = position * position_scale * base^(-2i / n_rot) / divisors[i]; frequencies into f64 freqs[n_rot / 2]. */
void rope_frequencies(const RopeParams *params, double *freqs);
/* The same with position_scale for the pairs that turn slowly only. */
void rope_yarn_frequencies(const RopeParams *params, const RopeYarn *yarn, double *freqs);
/* ln x, x normal and > 0: the nearest double or its neighbour. */
double rope_log(double x);
/* cos, sin of position * freqs[i], each f32[n]; exact to float32 rounding for positions below 2^20. */
void rope_row(const double *freqs, size_t n, size_t position, float *cos, float *sin);

#endif
