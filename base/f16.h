// SPDX-License-Identifier: Apache-2.0
/* Converts IEEE binary16 to binary32 and back in integer arithmetic: every machine gives the same bits, as F16C does.
 * */
#ifndef COORDGEN_BASE_F16_H
#define COORDGEN_BASE_F16_H

#include <stdint.h>
#include <string.h>

static inline float f32_from_bits(uint32_t bits) {
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t f32_to_bits(float value) {
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float f16_to_f32(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;

    if (rest >= 0x7c00) /* infinity and NaN */
        return f32_from_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    /* The exponent is rebiased by an exact multiplication, which normalises subnormals too. */
    return f32_from_bits(sign | f32_to_bits(f32_from_bits(rest << 13) * 0x1p112f));
}

/* Rounds to nearest even; values past the largest finite half become infinity. */
static inline uint16_t f32_to_f16(float value) {
    uint32_t bits = f32_to_bits(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;

    if (rest >= 0x47800000) /* 65536 and more, infinity, NaN (kept quiet) */
        return (uint16_t)(sign | (rest > 0x7f800000 ? 0x7e00 | (rest >> 13 & 0x3ff) : 0x7c00));
    if (rest < 0x38800000) { /* below the smallest normal half: an addition aligns and rounds the fraction */
        uint32_t aligned = f32_to_bits(f32_from_bits(rest) + 0.5f);
        return (uint16_t)(sign | (aligned - 0x3f000000));
    }
    return (uint16_t)(sign | ((rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13));
}

static inline float bf16_to_f32(uint16_t half) {
    return f32_from_bits((uint32_t)half << 16);
}

#endif
