// SPDX-License-Identifier: Apache-2.0
#include "test/bench/kquant.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/f16.h"

#define KQUANT_OPS(name) extern const KquantOps name;
#include "test/bench/kquant.inc"
#undef KQUANT_OPS

static const KquantOps *const builds[] = {
#define KQUANT_OPS(name) &name,
#include "test/bench/kquant.inc"
#undef KQUANT_OPS
};

const KquantOps *kquant_select(uint32_t cpu) {
    for (size_t i = 0; i + 1 < ARRAY_LEN(builds); i++)
        if (!(builds[i]->need & ~cpu))
            return builds[i];
    return builds[ARRAY_LEN(builds) - 1];
}

size_t kquant_n(void) {
    return ARRAY_LEN(builds);
}

const KquantOps *kquant_at(size_t index) {
    assert(index < ARRAY_LEN(builds));
    return builds[index];
}

static uint8_t clamp_to(float value, int max) {
    return (uint8_t)(value < 0 ? 0 : value > (float)max ? max : (int)value);
}

static float inverse(float value) {
    return value > 0 ? 1 / value : 0;
}

/* Stores the 6-bit fields. s < 4 are in bytes s and s + 4. The others have low nibbles in byte s + 4, and their two
 * high bits above the first fields. */
static void put_factors(uint8_t packed[12], size_t sub, uint8_t scale, uint8_t minimum) {
    if (sub < 4) {
        packed[sub] |= scale;
        packed[sub + 4] |= minimum;
    } else {
        packed[sub + 4] = (uint8_t)((scale & 15) | (minimum & 15) << 4);
        packed[sub - 4] |= (uint8_t)(scale >> 4 << 6);
        packed[sub] |= (uint8_t)(minimum >> 4 << 6);
    }
}

/* Packs the codes of one super-block and the fields before them. */
static void pack_block_codes(const float *w, int max, uint16_t *d, uint16_t *dmin, uint8_t packed[12],
                             uint8_t codes[KQUANT_BLOCK]) {
    float scales[KQUANT_SUBS], minima[KQUANT_SUBS], scale_max = 0, minimum_max = 0;

    for (size_t s = 0; s < KQUANT_SUBS; s++) {
        float least = 0, largest = 0;

        for (size_t i = 0; i < KQUANT_SUB; i++) {
            least = fminf(least, w[s * KQUANT_SUB + i]);
            largest = fmaxf(largest, w[s * KQUANT_SUB + i]);
        }
        scales[s] = (largest - least) / (float)max;
        minima[s] = -least;
        scale_max = fmaxf(scale_max, scales[s]);
        minimum_max = fmaxf(minimum_max, minima[s]);
    }
    *d = f32_to_f16(scale_max / 63);
    *dmin = f32_to_f16(minimum_max / 63);
    memset(packed, 0, 12);
    for (size_t s = 0; s < KQUANT_SUBS; s++) {
        const uint8_t scale = clamp_to(scales[s] * inverse(f16_to_f32(*d)) + 0.5f, 63);
        const uint8_t minimum = clamp_to(minima[s] * inverse(f16_to_f32(*dmin)) + 0.5f, 63);
        const float step = f16_to_f32(*d) * (float)scale, offset = f16_to_f32(*dmin) * (float)minimum;

        put_factors(packed, s, scale, minimum);
        for (size_t i = 0; i < KQUANT_SUB; i++)
            codes[s * KQUANT_SUB + i] = clamp_to((w[s * KQUANT_SUB + i] + offset) * inverse(step) + 0.5f, max);
    }
}

static void put_nibbles(const uint8_t codes[KQUANT_BLOCK], uint8_t low[128]) {
    for (size_t i = 0; i < 128; i++) {
        const size_t first = i / KQUANT_SUB * 2 * KQUANT_SUB + i % KQUANT_SUB;

        low[i] = (uint8_t)((codes[first] & 15) | (codes[first + KQUANT_SUB] & 15) << 4);
    }
}

void kquant_pack_row(const float *w, size_t k, int bits, void *blocks) {
    assert(k % KQUANT_BLOCK == 0 && (bits == 4 || bits == 5));
    for (size_t b = 0; b < k / KQUANT_BLOCK; b++) {
        uint8_t codes[KQUANT_BLOCK];

        if (bits == 4) {
            KquantBlock4 *block = (KquantBlock4 *)blocks + b;

            pack_block_codes(w + b * KQUANT_BLOCK, 15, &block->d, &block->dmin, block->scales, codes);
            put_nibbles(codes, block->low);
        } else {
            KquantBlock5 *block = (KquantBlock5 *)blocks + b;

            pack_block_codes(w + b * KQUANT_BLOCK, 31, &block->d, &block->dmin, block->scales, codes);
            put_nibbles(codes, block->low);
            memset(block->high, 0, sizeof(block->high));
            for (size_t i = 0; i < KQUANT_BLOCK; i++)
                block->high[i % KQUANT_SUB] |= (uint8_t)(codes[i] >> 4 << i / KQUANT_SUB);
        }
    }
}

void kquant_quantize(const float *x, size_t k, KquantInputs *inputs) {
    assert(k % KQUANT_BLOCK == 0);
    for (size_t b = 0; b < k / KQUANT_BLOCK; b++, x += KQUANT_BLOCK) {
        float largest = 0, factor;

        for (size_t i = 0; i < KQUANT_BLOCK; i++)
            largest = fmaxf(largest, fabsf(x[i]));
        factor = largest > 0 ? 127 / largest : 0;
        inputs[b].scale = largest / 127;
        for (size_t s = 0; s < KQUANT_SUBS; s++) {
            int sum = 0;

            for (size_t i = 0; i < KQUANT_SUB; i++) {
                const int8_t q = (int8_t)rintf(x[s * KQUANT_SUB + i] * factor);

                inputs[b].x[kquant_input_offset(s) + i] = q;
                sum += q;
            }
            inputs[b].sums[s] = (int16_t)sum;
        }
    }
}
