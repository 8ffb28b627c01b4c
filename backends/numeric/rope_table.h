// SPDX-License-Identifier: Apache-2.0
/* cos and sin of rotary positions, computed by our own routine in double: the bits don't depend on the libm. */
#ifndef COORDGEN_NUMERIC_ROPE_TABLE_H
#define COORDGEN_NUMERIC_ROPE_TABLE_H

#include <stddef.h>

typedef struct RopeParams {
    double base;           /* theta */
    double position_scale; /* 1 / rope.scaling.factor (linear), else 1 */
    const float *divisors; /* [n_rot / 2] rope_freqs, or NULL */
    size_t n_rot;
} RopeParams;

/* YaRN: scaling by the number of turns that a pair makes within `original` positions. Pairs with at least `fast` turns
 * use the unscaled frequency with weight `share`. Pairs with up to `slow` turns use it with weight 0. Between both the
 * weight falls linearly with the pair's index. */
typedef struct RopeYarn {
    double share;
    double fast, slow, original;
} RopeYarn;

/* Writes n_rot / 2 frequencies: angle_i = position * position_scale * base^(-2i / n_rot) / divisors[i]. */
void rope_frequencies(const RopeParams *params, double *freqs);
/* Writes the frequencies of YaRN: position_scale applies to slowly turning pairs only. */
void rope_yarn_frequencies(const RopeParams *params, const RopeYarn *yarn, double *freqs);
/* Returns ln x, x normal and > 0: the nearest double or its neighbour. */
double rope_log(double x);
/* Writes cos and sin of position * freqs[i], each f32[n]; exact to float32 rounding for positions below 2^20. */
void rope_row(const double *freqs, size_t n, size_t position, float *cos, float *sin);

#endif
