// SPDX-License-Identifier: Apache-2.0
#include "test/bench/kquant.h"

#include "base/f16.h"
#include "test/bench/kquant_factors.h"

static inline void factors_of(const uint8_t packed[12], uint8_t factors[16]) {
    uint64_t first, second;

    kquant_factors(packed, &first, &second);
    for (size_t i = 0; i < 4; i++) {
        factors[i] = (uint8_t)(first >> 8 * i);
        factors[8 + i] = (uint8_t)(first >> (32 + 8 * i));
        factors[4 + i] = (uint8_t)(second >> 8 * i);
        factors[12 + i] = (uint8_t)(second >> (32 + 8 * i));
    }
}

/* high: NULL with 4 bits. */
static inline void codes_of(const uint8_t *low, const uint8_t *high, uint8_t *codes) {
    for (size_t c = 0; c < KQUANT_SUBS / 2; c++, low += KQUANT_SUB, codes += 2 * KQUANT_SUB)
        for (size_t i = 0; i < KQUANT_SUB; i++) {
            codes[i] = low[i] & 15;
            codes[KQUANT_SUB + i] = low[i] >> 4;
            if (high) {
                codes[i] |= (uint8_t)((high[i] >> 2 * c & 1) << 4);
                codes[KQUANT_SUB + i] |= (uint8_t)((high[i] >> (2 * c + 1) & 1) << 4);
            }
        }
}

static inline float block_product(uint16_t d, uint16_t dmin, const uint8_t packed[12], const uint8_t *low,
                                  const uint8_t *high, const KquantInputs *inputs) {
    uint8_t codes[KQUANT_BLOCK], factors[16];
    int32_t sum = 0, minima = 0;

    factors_of(packed, factors);
    codes_of(low, high, codes);
    for (size_t s = 0; s < KQUANT_SUBS; s++) {
        const int8_t *x = inputs->x + kquant_input_offset(s);
        int32_t part = 0;

        for (size_t i = 0; i < KQUANT_SUB; i++)
            part += codes[s * KQUANT_SUB + i] * x[i];
        sum += factors[s] * part;
        minima += factors[8 + s] * inputs->sums[s];
    }
    return inputs->scale * (f16_to_f32(d) * (float)sum - f16_to_f32(dmin) * (float)minima);
}

static void product(const KquantMatrix *matrix, const KquantInputs *inputs, size_t begin, size_t end, float *y) {
    for (size_t o = begin; o < end; o++) {
        float sum = 0;

        for (size_t b = 0; b < matrix->k_blocks; b++)
            if (matrix->bits == 4) {
                const KquantBlock4 *block = (const KquantBlock4 *)matrix->blocks + o * matrix->k_blocks + b;

                sum += block_product(block->d, block->dmin, block->scales, block->low, NULL, &inputs[b]);
            } else {
                const KquantBlock5 *block = (const KquantBlock5 *)matrix->blocks + o * matrix->k_blocks + b;

                sum += block_product(block->d, block->dmin, block->scales, block->low, block->high, &inputs[b]);
            }
        y[o] = sum;
    }
}

static void expand(const KquantMatrix *matrix, size_t row, uint8_t *codes, uint8_t *factors) {
    for (size_t b = 0; b < matrix->k_blocks; b++, codes += KQUANT_BLOCK, factors += 16)
        if (matrix->bits == 4) {
            const KquantBlock4 *block = (const KquantBlock4 *)matrix->blocks + row * matrix->k_blocks + b;

            factors_of(block->scales, factors);
            codes_of(block->low, NULL, codes);
        } else {
            const KquantBlock5 *block = (const KquantBlock5 *)matrix->blocks + row * matrix->k_blocks + b;

            factors_of(block->scales, factors);
            codes_of(block->low, block->high, codes);
        }
}

const KquantOps kquant__scalar = { "kquant__scalar", 0, product, expand };
