// SPDX-License-Identifier: Apache-2.0
/* Scores, units and weights of a block: what stands between attention's two integer products. attention_impl.h includes
 * this header behind the products of its instruction set. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_ATTENTION_WEIGHTS_IMPL_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_ATTENTION_WEIGHTS_IMPL_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "backends/cpu/attention/attention.h"
#include "backends/numeric/lanes.h"
#include "backends/numeric/lanes_exp2.h"
#include "base/min_max.h"

enum {
    WEIGHT_TOP = 32639, /* greatest weight: 127 x 257, which is an int16, two signed digits and two unsigned bytes */
    COLUMNS_MAX = ATTENTION_PARTS_MAX * KV_BLOCK,
    UNIT_ROWS = 16 /* row-heads whose units are searched together */
};

/* --- powers of two ------------------------------------------------------------------------------------------------ */

/* Returns 2^x of an integer x: 0 below -126, 2^127 at most, 2^127 for NaN. */
static float power_of_two(float x) {
    const int32_t exponent = !(x < 127) ? 127 : x >= -126 ? (int32_t)x : -127;
    const uint32_t bits = (uint32_t)(exponent + 127) << 23;
    float power;

    memcpy(&power, &bits, sizeof(power));
    return power;
}

/* Returns the least integer that is not below x. */
static float ceiling(float x) {
    float whole;

    if (!(fabsf(x) < 0x1p23f))
        return x;
    whole = (float)(int32_t)x;
    return whole < x ? whole + 1 : whole;
}

/* Returns ceiling() of each lane; a zero may have either sign. */
LANES_INLINE PartF part_ceiling(PartF x) {
#if LANES_PART == 16
    return (PartF)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
#elif LANES_PART == 8
    return (PartF)_mm256_ceil_ps((__m256)x);
#else
    UNROLL for (int i = 0; i < LANES_PART; i++) x[i] = ceiling(x[i]);
    return x;
#endif
}

/* Returns, for each scale, the integer e with scale < 2^e, at least -64. */
LANES_INLINE Lanes exponents_of(Lanes v) {
    EACH_PART (p) {
        const PartI exponent = (PartI)((PartU)v.part[p] >> 23) - 126;

        v.part[p] = part_greater(__builtin_convertvector(exponent, PartF), part_of(-64));
    }
    return v;
}

/* --- positions and scales ----------------------------------------------------------------------------------------- */

/* Replaces lanes whose bit is 0 by `other`. */
LANES_INLINE Lanes lanes_where(Lanes v, uint32_t bits, float other) {
#if LANES_PART == 16
    v.part[0] = (PartF)_mm512_mask_blend_ps((__mmask16)bits, (__m512)part_of(other), (__m512)v.part[0]);
#else
    EACH_PART (p) {
        PartI bit;

        UNROLL for (int i = 0; i < LANES_PART; i++) bit[i] = 1 << (p * LANES_PART + i);
        v.part[p] = part_select((bit & (int32_t)bits) == bit, v.part[p], part_of(other));
    }
#endif
    return v;
}

/* Returns the positions of a part that any row-head may read. */
LANES_INLINE size_t part_positions(const AttentionParts *parts, const AttentionMask *masks, size_t part) {
    return masks && part + 1 == parts->n && parts->n_last ? parts->n_last : KV_BLOCK;
}

/* Scales of the values of one block, made once for all row-heads. */
typedef struct ValueScales {
    float exponents[COLUMNS_MAX];
    float tops[COLUMNS_MAX]; /* scale x WEIGHT_TOP; 0 where no row-head reads */
    float greatest;          /* exponent; more than 127 if a scale that is read is not finite */
} ValueScales;

LANES_INLINE void value_scales_of(ValueScales *scales, const AttentionParts *parts, const AttentionMask *masks,
                                  size_t n) {
    Lanes greatest_exponent = lanes_of(-64);

    for (size_t part = 0; part < parts->n; part++) {
        const size_t end = part_positions(parts, masks, part);
        uint64_t bits = masks ? 0 : UINT64_MAX;

        for (size_t i = 0; masks && i < n; i++)
            bits |= masks[i][part];
        for (size_t at = 0; at < end; at += N_LANES) {
            const size_t column = part * KV_BLOCK + at;
            const Lanes scale = lanes_where(lanes_load(parts->at[part].value_scales + at), (uint32_t)(bits >> at), 0);
            const Lanes exponent = exponents_of(scale);

            lanes_store(scales->exponents + column, exponent);
            lanes_store(scales->tops + column, lanes_mul(scale, lanes_of(WEIGHT_TOP)));
            greatest_exponent = lanes_max(greatest_exponent, exponent);
        }
    }
    scales->greatest = lanes_horizontal_max(greatest_exponent);
}

static void value_scales(ValueScales *scales, const AttentionParts *parts, const AttentionMask *masks, size_t n) {
    if (masks)
        value_scales_of(scales, parts, masks, n);
    else
        value_scales_of(scales, parts, NULL, n);
}

/* --- scores ------------------------------------------------------------------------------------------------------- */

/* Greatest score, and score + exponent of the value, of up to UNIT_ROWS row-heads, lane by lane. */
typedef struct Greatest {
    float scores[UNIT_ROWS][N_LANES], values[UNIT_ROWS][N_LANES];
} Greatest;

/* Scores become cap x ((1 - e) / (1 + e)) with their own sign, e = 2^-|score|. */
LANES_INLINE Lanes lanes_capped(Lanes v, float cap) {
    const PartF one = part_of(1);

    EACH_PART (p) {
        const PartF e = part_exp2(-part_abs(v.part[p])), y = (one - e) / (one + e) * part_of(cap);

        v.part[p] = (PartF)((PartU)y | ((PartU)v.part[p] & 0x80000000));
    }
    return v;
}

/* Turns a row-head's products with one part into scores, in place. The greatest of each lane are kept as row `row` of
 * greatest_of, from part 0 on. masks [parts] and cap are NULL and 0 by the caller's constants where there are none. */
LANES_INLINE void scores_of_part(float *scores, const AttentionParts *parts, size_t part, const ValueScales *scales,
                                 float factor, float cap, const uint64_t *mask, size_t end, Greatest *greatest_of,
                                 size_t row) {
    const float *key_scales = parts->at[part].key_scales, *exponents = scales->exponents + part * KV_BLOCK;
    Lanes greatest_score = lanes_of(-INFINITY), greatest_value = greatest_score;

    if (part) {
        greatest_score = lanes_load(greatest_of->scores[row]);
        greatest_value = lanes_load(greatest_of->values[row]);
    }
    UNROLL
    for (size_t at = 0; at < KV_BLOCK; at += N_LANES) {
        Lanes v;

        if (mask && at >= end)
            break;
        v = lanes_load(scores + at);
        EACH_PART (p)
            v.part[p] = __builtin_convertvector((PartI)v.part[p], PartF) *
                        *(const PartFLoose *)(key_scales + at + p * LANES_PART) * part_of(factor);
        if (cap > 0)
            v = lanes_capped(v, cap);
        if (mask)
            v = lanes_where(v, (uint32_t)(mask[part] >> at), -INFINITY);
        lanes_store(scores + at, v);
        EACH_PART (p) {
            const PartF exponent = *(const PartFLoose *)(exponents + at + p * LANES_PART);

            greatest_score.part[p] = part_greater(v.part[p], greatest_score.part[p]);
            greatest_value.part[p] = part_greater(v.part[p] + exponent, greatest_value.part[p]);
        }
    }
    lanes_store(greatest_of->scores[row], greatest_score);
    lanes_store(greatest_of->values[row], greatest_value);
}

/* Stores the units of n row-heads: the greatest of each one's lanes, rounded up to an integer. */
static void units_of(const float (*lanes)[N_LANES], size_t n, float *units) {
    if (n < LANES_PART / 4) { /* one search for all row-heads would take longer */
        for (size_t i = 0; i < n; i++)
            units[i] = ceiling(lanes_horizontal_max(lanes_load(lanes[i])));
        return;
    }
    for (size_t first = 0; first < n; first += LANES_PART) {
        PartF rows[LANES_PART];

        UNROLL
        for (size_t r = 0; r < LANES_PART; r++) {
            const Lanes v = lanes_load(lanes[MIN(first + r, n - 1)]);

            rows[r] = v.part[0];
            UNROLL
            for (int p = 1; p < LANES_PARTS; p++)
                rows[r] = part_max(v.part[p], rows[r]);
        }
        UNROLL
        for (size_t n_rows = LANES_PART; n_rows > 1; n_rows /= 2)
            UNROLL
        for (size_t r = 0; r < n_rows / 2; r++)
            rows[r] = part_max_pairs(rows[2 * r], rows[2 * r + 1]);
        rows[0] = part_ceiling(rows[0]);
        memcpy(units + first, &rows[0], MIN(n - first, LANES_PART) * sizeof(*units));
    }
}

/* --- weights ------------------------------------------------------------------------------------------------------ */

/* Rounds values within 0 and 2^22 to nearest even. */
LANES_INLINE PartI part_rounded(PartF v) {
#if LANES_PART == 16
    return (PartI)_mm512_cvtps_epi32((__m512)v);
#elif LANES_PART == 8
    return (PartI)_mm256_cvtps_epi32((__m256)v);
#elif defined(__SSE2__)
    return (PartI)_mm_cvtps_epi32((__m128)v);
#elif defined(LANES_NEON)
    return (PartI)vcvtnq_s32_f32((float32x4_t)v);
#else
    const PartF magic = part_of(0x1.8p23f);

    return (PartI)(v + magic) - (PartI)magic;
#endif
}

/* Returns the sum of all lanes, modulo 2^32. */
LANES_INLINE uint32_t parts_sum(const PartU *sum) {
#if LANES_PART == 16
    return (uint32_t)_mm512_reduce_add_epi32((__m512i)sum[0]);
#else
    PartU all = sum[0];
    uint32_t total = 0;

    UNROLL
    for (int p = 1; p < LANES_PARTS; p++)
        all += sum[p];
    UNROLL
    for (int i = 0; i < LANES_PART; i++)
        total += all[i];
    return total;
#endif
}

#ifndef WEIGHTS_BY_PART
/* Stores a part's weights; each set stores those of 16 positions. */
LANES_INLINE void store_part_weights(uint8_t *part, const PartI w[][LANES_PARTS]) {
    UNROLL
    for (size_t at = 0; at < KV_BLOCK; at += N_LANES)
        store_weights(part, at, w[at / N_LANES]);
}
#endif

/* Returns the sum of n_positions integers, to each of which the bits of `offset` were added. */
LANES_INLINE int32_t sum_without(const PartU *sum, size_t n_positions, float offset) {
    uint32_t bits;

    memcpy(&bits, &offset, sizeof(bits));
    return (int32_t)(parts_sum(sum) - (uint32_t)n_positions * bits);
}

/* Makes a row-head's weights from scores of any magnitude, value scales of any magnitude. Returns the normaliser: the
 * sum of 2^(score - unit), in units of 2^-22. Adding 2 rounds a power of two, 1 at most, to that unit: its bits are
 * then those of 2, plus the integer. */
static __attribute__((noinline)) int32_t any_weights_of(const float *scores, const AttentionParts *parts, float unit,
                                                        float power, const AttentionMask *masks, size_t i,
                                                        uint8_t *weights) {
    PartU sum[LANES_PARTS] = { 0 };
    size_t n_positions = 0;

    for (size_t part = 0; part < parts->n; part++, weights += WEIGHTS_PART_BYTES, scores += KV_BLOCK) {
        const uint64_t bits = masks ? masks[i][part] : UINT64_MAX;
        const size_t end = part_positions(parts, masks, part);
        PartI w[KV_BLOCK / N_LANES][LANES_PARTS] = { 0 };

        n_positions += end;
        for (size_t at = 0; at < end; at += N_LANES) {
            const Lanes score = lanes_load(scores + at), scale = lanes_load(parts->at[part].value_scales + at);
            Lanes weight;

            EACH_PART (p) {
                const PartF power_of_score = part_exp2(score.part[p] - part_of(unit));

                sum[p] += (PartU)(power_of_score + part_of(2));
                weight.part[p] =
                    part_lesser(power_of_score * (scale.part[p] * part_of(WEIGHT_TOP * power)), part_of(WEIGHT_TOP));
            }
            weight = lanes_where(weight, (uint32_t)(bits >> at), 0);
            EACH_PART (p)
                w[at / N_LANES][p] = part_rounded(weight.part[p]);
        }
        store_part_weights(weights, w);
    }
    return sum_without(sum, n_positions, 2);
}

/* Returns whether usual_weights_of() gives the bits of any_weights_of(). power: exponent of the factor of weights.
 *
 *  - A weight below 1/2 is 0, and so is its part of the normaliser. Powers below 2^-63 make nothing else: products with
 *    scales are below 2^(greatest + 15 + power - 63). Masked positions have such powers.
 *  - No weight exceeds 32639. A score + exponent is at most T, an integer below 512, once rounded, so the exact sum is
 *    at most T + 2^-16. Such a score is within 41 of S, and its distance is rounded by 2^-19. The weight grows by 0.41
 *    at most, all other roundings included, and is then rounded to nearest.
 *  - All factors are powers of two, and no product with them is subnormal or too great. */
LANES_INLINE bool is_usual(float value_unit, float power, float greatest_exponent) {
    return fabsf(value_unit) < 512 && fabsf(power) <= 60 && power + greatest_exponent <= 40;
}

/* Makes weights like any_weights_of(). The power of two of all weights is a factor of 2^x from the start, and comes off
 * the normaliser at the end. */
LANES_INLINE int32_t usual_weights_of(const float *scores, const AttentionParts *parts, const float *tops, float unit,
                                      float power, const AttentionMask *masks, uint8_t *weights) {
    const Exp2Factors factors = exp2_factors(power);
    PartU sum[LANES_PARTS] = { 0 };
    size_t n_positions = 0;

    for (size_t part = 0; part < parts->n; part++, weights += WEIGHTS_PART_BYTES) {
        const size_t end = part_positions(parts, masks, part);
        PartI w[KV_BLOCK / N_LANES][LANES_PARTS];

        n_positions += end;
        UNROLL
        for (size_t at = 0; at < KV_BLOCK; at += N_LANES, scores += N_LANES, tops += N_LANES)
            EACH_PART (p) {
                PartF power_of_score;

                if (at >= end) {
                    w[at / N_LANES][p] = (PartI){ 0 };
                    continue;
                }
                power_of_score =
                    part_exp2_times(*(const PartFLoose *)(scores + p * LANES_PART) - part_of(unit), &factors);
                sum[p] += (PartU)(power_of_score + part_of(2 * power));
                w[at / N_LANES][p] = part_rounded(power_of_score * *(const PartFLoose *)(tops + p * LANES_PART));
            }
        store_part_weights(weights, (const PartI(*)[LANES_PARTS])w);
    }
    return sum_without(sum, n_positions, 2 * power);
}

/* Makes the weights and the normaliser of sums' i-th row-head, whose units are known. */
LANES_INLINE void weights_of(const float *scores, const AttentionParts *parts, const ValueScales *scales,
                             const AttentionMask *masks, uint8_t *weights, const AttentionSums *sums, size_t i) {
    const float unit = sums->score_units[i], value_unit = sums->value_units[i], power = MIN(unit - value_unit, 64);

    if (is_usual(value_unit, power, scales->greatest))
        sums->normalizers[i] = usual_weights_of(scores, parts, scales->tops, unit, power_of_two(power), masks, weights);
    else
        sums->normalizers[i] = any_weights_of(scores, parts, unit, power_of_two(power), masks, i, weights);
}

#endif
