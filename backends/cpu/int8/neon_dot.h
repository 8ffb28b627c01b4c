// SPDX-License-Identifier: Apache-2.0
/* Sums of int8 products on AArch64, four channels per register: with SDOT if the file is compiled with it, else with
 * widening products. Both give the same sums, in different registers. quad and side are constants after inlining. */
#ifndef COORDGEN_BACKENDS_CPU_NEON_DOT_H
#define COORDGEN_BACKENDS_CPU_NEON_DOT_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NEON_INLINE static inline __attribute__((always_inline, unused))

/* Rows that share a register of weights: 16 accumulators for 16 channels, and 16 registers for everything else. */
enum {
#if defined(__ARM_FEATURE_DOTPROD)
    DOT_ROWS = 4,
    DOT_PARTS = 1
#else
    DOT_ROWS = 2,
    DOT_PARTS = 2
#endif
};

/* Sums of channels 0..3. Without SDOT there are two parts: pairs of sums of channels 0 and 1, and of 2 and 3. */
typedef struct DotSum {
    int32x4_t part[DOT_PARTS];
} DotSum;

NEON_INLINE DotSum dot_zero(void) {
    DotSum sum;

    for (int i = 0; i < DOT_PARTS; i++)
        sum.part[i] = vdupq_n_s32(0);
    return sum;
}

/* sum += w0[channel][input] x[quad][input] + w1[channel][input] x[quad + 1][input] over 4 inputs, for 4 channels.
 *
 * Without SDOT two products are added in int16: |w| <= 128 and |x| <= 127, so at most 2 x 128 x 127 = 32512. */
NEON_INLINE DotSum dot_two_quads(DotSum sum, int8x16_t w0, int8x16_t w1, int8x16_t x, const int quad) {
#if defined(__ARM_FEATURE_DOTPROD)
    if (quad == 0) {
        sum.part[0] = vdotq_laneq_s32(sum.part[0], w0, x, 0);
        sum.part[0] = vdotq_laneq_s32(sum.part[0], w1, x, 1);
    } else {
        sum.part[0] = vdotq_laneq_s32(sum.part[0], w0, x, 2);
        sum.part[0] = vdotq_laneq_s32(sum.part[0], w1, x, 3);
    }
#else
    const int32x4_t quads = vreinterpretq_s32_s8(x);
    const int8x16_t x0 = vreinterpretq_s8_s32(quad ? vdupq_laneq_s32(quads, 2) : vdupq_laneq_s32(quads, 0));
    const int8x16_t x1 = vreinterpretq_s8_s32(quad ? vdupq_laneq_s32(quads, 3) : vdupq_laneq_s32(quads, 1));

    sum.part[0] = vpadalq_s16(sum.part[0],
                              vmlal_s8(vmull_s8(vget_low_s8(w0), vget_low_s8(x0)), vget_low_s8(w1), vget_low_s8(x1)));
    sum.part[1] = vpadalq_s16(sum.part[1], vmlal_high_s8(vmull_high_s8(w0, x0), w1, x1));
#endif
    return sum;
}

NEON_INLINE int32x4_t dot_total(DotSum sum) {
    return DOT_PARTS == 1 ? sum.part[0] : vpaddq_s32(sum.part[0], sum.part[DOT_PARTS - 1]);
}

/* Returns float(sum) x (x_scale x scale), plus the bias if there is one. */
NEON_INLINE float32x4_t dot_scaled(int32x4_t sum, float x_scale, const float *scales, const float *bias) {
    const float32x4_t value = vmulq_f32(vcvtq_f32_s32(sum), vmulq_f32(vdupq_n_f32(x_scale), vld1q_f32(scales)));

    return bias ? vaddq_f32(value, vld1q_f32(bias)) : value;
}

/* Writes the first n of 4 outputs, or all. */
NEON_INLINE void dot_store(float *y, size_t n, float32x4_t value) {
    float values[4];

    if (n >= 4) {
        vst1q_f32(y, value);
        return;
    }
    vst1q_f32(values, value);
    memcpy(y, values, n * sizeof(*y));
}

#endif
