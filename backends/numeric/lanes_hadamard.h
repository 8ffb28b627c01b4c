// SPDX-License-Identifier: Apache-2.0
/* Walsh-Hadamard transform of a row by blocks, and its levels of int8; by lanes, with the same bits on every
 * instruction set. */
#ifndef COORDGEN_BACKENDS_NUMERIC_LANES_HADAMARD_H
#define COORDGEN_BACKENDS_NUMERIC_LANES_HADAMARD_H

#include <assert.h>

#include "backends/numeric/lanes.h"
#include "base/min_max.h"

/* Number of a block's vectors that butterflies take at once: as many as fit in registers. */
#if LANES_PART == 4
#define HADAMARD_LOW 8
#elif LANES_PART == 8
#define HADAMARD_LOW 4
#else
#define HADAMARD_LOW 16
#endif

/* Butterflies of distance 1, 2, 4 or 8 within 16 lanes: lane i gets partner + value, or partner - value if bit h of i
 * is set. A product with 1 or -1 is exact, so the fused operation gives exactly that sum or difference. */
LANES_INLINE Lanes butterflies_within(Lanes v, const int h) {
    if (h >= LANES_PART) {
        Lanes out = v;

        EACH_PART (p) {
            const int partner = p ^ (h / LANES_PART);

            out.part[p] = partner < p ? v.part[partner] - v.part[p] : v.part[p] + v.part[partner];
        }
        return out;
    }
    EACH_PART (p) {
        PartI partner;
        PartF sign, other, x = v.part[p];

        UNROLL for (int i = 0; i < LANES_PART; i++) {
            partner[i] = i ^ h;
            sign[i] = i & h ? -1 : 1;
        }
#if defined(__clang__)
        UNROLL for (int i = 0; i < LANES_PART; i++) other[i] = x[i ^ h];
#else
        other = __builtin_shuffle(x, partner);
#endif
        v.part[p] = HAS_FMA ? part_fma(x, sign, other) : other + (PartF)((PartI)x ^ ((PartI)sign & INT32_MIN));
    }
    return v;
}

/* Butterflies of distance 1, 2, ... n / 2 among n vectors. */
LANES_INLINE void butterflies_across(Lanes *v, const size_t n) {
    UNROLL
    for (size_t h = 1; h < n; h *= 2)
        UNROLL
    for (size_t i = 0; i < n; i++) {
        if (i & h)
            continue;
        EACH_PART (p) {
            PartF a = v[i].part[p], b = v[i + h].part[p];

            v[i].part[p] = a + b;
            v[i + h].part[p] = a - b;
        }
    }
}

/* Returns the maximum of max and |v|; NaN is ignored. */
LANES_INLINE Lanes greatest(Lanes max, Lanes v) {
    EACH_PART (p)
        v.part[p] = part_abs(v.part[p]);
    return lanes_max(max, v);
}

/* Transforms a block of n_low * n_high vectors: first n_low neighbouring vectors in registers at a time, then n_high
 * distant ones. */
LANES_INLINE Lanes hadamard_block(const float *x, float *y, float factor, Lanes max, const size_t n_low,
                                  const size_t n_high) {
    for (size_t high = 0; high < n_high; high++) {
        const size_t at = high * n_low * N_LANES;
        Lanes v[HADAMARD_LOW];

        UNROLL
        for (size_t i = 0; i < n_low; i++) {
            v[i] = lanes_load(x + at + i * N_LANES);
            v[i] = butterflies_within(v[i], 1);
            v[i] = butterflies_within(v[i], 2);
            v[i] = butterflies_within(v[i], 4);
            v[i] = butterflies_within(v[i], 8);
        }
        butterflies_across(v, n_low);
        UNROLL
        for (size_t i = 0; i < n_low; i++) {
            if (n_high == 1) {
                v[i] = lanes_mul(v[i], lanes_of(factor));
                max = greatest(max, v[i]);
            }
            lanes_store(y + at + i * N_LANES, v[i]);
        }
    }
    for (size_t low = 0; n_high > 1 && low < n_low; low++) {
        Lanes v[512 / N_LANES / 4];

        UNROLL
        for (size_t i = 0; i < n_high; i++)
            v[i] = lanes_load(y + (i * n_low + low) * N_LANES);
        butterflies_across(v, n_high);
        UNROLL
        for (size_t i = 0; i < n_high; i++) {
            v[i] = lanes_mul(v[i], lanes_of(factor));
            max = greatest(max, v[i]);
            lanes_store(y + (i * n_low + low) * N_LANES, v[i]);
        }
    }
    return max;
}

/**
 * hadamard() - y = H x by blocks, with the bits of rotate_row(); returns the greatest |y|
 *
 * For h = 1, 2, 4, ... block / 2: pairs (i, i + h) become (a + b, a - b). The last step is a product with the float32
 * nearest to 1 / sqrt(block).
 */
__attribute__((unused)) static float hadamard(const float *x, size_t n, size_t block, float *y) {
    /* 1 / sqrt(block), for which a root and divisions would take as long as a short row */
    static const float factors[] = { 0x1p-2f, 0x1.6a09e6p-3f, 0x1p-3f, 0x1.6a09e6p-4f, 0x1p-4f, 0x1.6a09e6p-5f };
    const float factor = factors[__builtin_ctzll(block / 16)];
    Lanes max = lanes_of(0);

    assert(block >= 16 && block <= 512 && (block & (block - 1)) == 0 && (n & (block - 1)) == 0);
    for (size_t i = 0; i < n; i += block) {
        if (block == 16)
            max = hadamard_block(x + i, y + i, factor, max, 1, 1);
        else if (block == 32)
            max = hadamard_block(x + i, y + i, factor, max, 2, 1);
        else if (block == 64)
            max = hadamard_block(x + i, y + i, factor, max, 4, 1);
        else if (block == 128)
            max = hadamard_block(x + i, y + i, factor, max, MIN(HADAMARD_LOW, 8),
                                 HADAMARD_LOW < 8 ? 8 / HADAMARD_LOW : 1);
        else if (block == 256)
            max = hadamard_block(x + i, y + i, factor, max, HADAMARD_LOW, 16 / HADAMARD_LOW);
        else
            max = hadamard_block(x + i, y + i, factor, max, HADAMARD_LOW, 32 / HADAMARD_LOW);
    }
    return lanes_horizontal_max(max);
}

/* Rounds N_LANES scaled values to levels: to nearest even, within +-127; NaN becomes 127. */
LANES_INLINE void store_levels(int8_t *q, Lanes scaled) {
    const PartF limit = part_of(127);

    EACH_PART (p)
        scaled.part[p] = part_max(part_min(scaled.part[p], limit), -limit);
    {
#if LANES_PART == 16
        _mm_storeu_si128((__m128i *)q, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32((__m512)scaled.part[0])));
#elif LANES_PART == 8
        const __m256i words =
            _mm256_packs_epi32(_mm256_cvtps_epi32((__m256)scaled.part[0]), _mm256_cvtps_epi32((__m256)scaled.part[1]));
        const __m256i bytes = _mm256_packs_epi16(words, words); /* quads 0, 2, -, -, 1, 3, -, - */

        _mm_storeu_si128((__m128i *)q, _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(
                                           bytes, _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5))));
#elif defined(__SSE2__)
        __m128i whole[4];

        EACH_PART (p)
            whole[p] = _mm_cvtps_epi32((__m128)scaled.part[p]);
        _mm_storeu_si128((__m128i *)q,
                         _mm_packs_epi16(_mm_packs_epi32(whole[0], whole[1]), _mm_packs_epi32(whole[2], whole[3])));
#else
        const PartF magic = part_of(0x1.8p23f);

        EACH_PART (p)
            *(PartBLoose *)(q + p * LANES_PART) =
                __builtin_convertvector((PartI)(scaled.part[p] + magic) - (PartI)magic, PartB);
#endif
    }
}

#endif
