// SPDX-License-Identifier: Apache-2.0
/* 16 float lanes, in as many machine vectors as the including file's instruction set needs. Every operation works lane
 * by lane, so the width of the machine's vectors does not change a bit. Selections and conversions use the compiler's
 * vector extension. Float16, maxima and fused multiply-adds use instructions of the machine if the file is compiled
 * with them or, on AArch64, defines LANES_NEON. */
#ifndef COORDGEN_NUMERIC_LANES_H
#define COORDGEN_NUMERIC_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backends/numeric/unroll.h"

#if defined(__AVX512F__)
#define LANES_PART 16
#elif defined(__AVX2__)
#define LANES_PART 8
#else
#define LANES_PART 4
#endif
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(LANES_NEON)
#include <arm_neon.h>
#endif

#if defined(__FMA__) || defined(LANES_NEON)
#define HAS_FMA 1
#else
#define HAS_FMA 0 /* part_fma() takes many instructions */
#endif

enum {
    N_LANES = 16,
    LANES_PARTS = N_LANES / LANES_PART
};

typedef float PartF __attribute__((vector_size(LANES_PART * 4)));
typedef int32_t PartI __attribute__((vector_size(LANES_PART * 4)));
typedef uint32_t PartU __attribute__((vector_size(LANES_PART * 4)));
typedef int8_t PartB __attribute__((vector_size(LANES_PART)));
typedef float Quad __attribute__((vector_size(16)));
typedef PartF PartFLoose __attribute__((aligned(4), may_alias));
typedef PartI PartILoose __attribute__((aligned(4), may_alias));
typedef Quad QuadLoose __attribute__((aligned(4), may_alias));
typedef PartB PartBLoose __attribute__((aligned(1), may_alias));

typedef struct Lanes {
    PartF part[LANES_PARTS];
} Lanes;

#define LANES_INLINE static inline __attribute__((always_inline, unused))
#define EACH_PART(p) UNROLL for (int p = 0; p < LANES_PARTS; p++)

LANES_INLINE PartF part_of(float value) {
    return value - (PartF){ 0 }; /* exact for -0 too, so that the compiler drops the subtraction */
}

LANES_INLINE PartF part_select(PartI mask, PartF yes, PartF no) {
    return (PartF)((mask & (PartI)yes) | (~mask & (PartI)no));
}

#if LANES_PART == 16
#define PART_CHOICE(machine, is_better) (PartF) _mm512_##machine##_ps((__m512)a, (__m512)b)
#elif LANES_PART == 8
#define PART_CHOICE(machine, is_better) (PartF) _mm256_##machine##_ps((__m256)a, (__m256)b)
#else
#define PART_CHOICE(machine, is_better) part_select(a is_better b, a, b)
#endif

/* Returns a > b ? a : b, hence b if either is NaN. */
LANES_INLINE PartF part_max(PartF a, PartF b) {
    return PART_CHOICE(max, >);
}

/* Returns a < b ? a : b, hence b if either is NaN. */
LANES_INLINE PartF part_min(PartF a, PartF b) {
    return PART_CHOICE(min, <);
}
#undef PART_CHOICE

/* Returns the greater of a and b, which is no NaN; b if a is NaN. A zero may have either sign. */
LANES_INLINE PartF part_greater(PartF a, PartF b) {
#if defined(LANES_NEON)
    return (PartF)vmaxnmq_f32((float32x4_t)a, (float32x4_t)b);
#else
    return part_max(a, b);
#endif
}

/* Returns the lesser of a and b, which is no NaN; b if a is NaN. A zero may have either sign. */
LANES_INLINE PartF part_lesser(PartF a, PartF b) {
#if defined(LANES_NEON)
    return (PartF)vminnmq_f32((float32x4_t)a, (float32x4_t)b);
#else
    return part_min(a, b);
#endif
}

LANES_INLINE PartF part_abs(PartF x) {
    return (PartF)((PartI)x & 0x7fffffff);
}

LANES_INLINE Lanes lanes_of(float value) {
    Lanes v;

    EACH_PART (p)
        v.part[p] = part_of(value);
    return v;
}

LANES_INLINE Lanes lanes_load(const float *x) {
    Lanes v;

    EACH_PART (p)
        v.part[p] = *(const PartFLoose *)(x + p * LANES_PART);
    return v;
}

LANES_INLINE void lanes_store(float *x, Lanes v) {
    EACH_PART (p)
        *(PartFLoose *)(x + p * LANES_PART) = v.part[p];
}

/* Loads the first n lanes (all 16 if n is more); the others are `rest`. */
LANES_INLINE Lanes lanes_load_n(const float *x, size_t n, float rest) {
    float full[N_LANES];

    if (__builtin_expect(n >= N_LANES, 1))
        return lanes_load(x);
    for (size_t i = 0; i < N_LANES; i++)
        full[i] = rest;
    memcpy(full, x, n * sizeof(*x));
    return lanes_load(full);
}

LANES_INLINE void lanes_store_n(float *x, size_t n, Lanes v) {
    float full[N_LANES];

    if (__builtin_expect(n >= N_LANES, 1)) {
        lanes_store(x, v);
        return;
    }
    lanes_store(full, v);
    memcpy(x, full, n * sizeof(*x));
}

LANES_INLINE Lanes lanes_add(Lanes a, Lanes b) {
    EACH_PART (p)
        a.part[p] = a.part[p] + b.part[p];
    return a;
}

LANES_INLINE Lanes lanes_mul(Lanes a, Lanes b) {
    EACH_PART (p)
        a.part[p] = a.part[p] * b.part[p];
    return a;
}

/* Returns sum + a b, rounded twice. */
LANES_INLINE Lanes lanes_add_product(Lanes sum, Lanes a, Lanes b) {
    EACH_PART (p)
        sum.part[p] = sum.part[p] + a.part[p] * b.part[p];
    return sum;
}

#if !defined(__FMA__) && defined(__SSE2__)
/* Adds product and addend, rounding to odd: the last bit of an inexact sum is 1. */
LANES_INLINE __m128d add_to_odd(__m128d product, __m128d addend) {
    const __m128d sum = _mm_add_pd(product, addend), back = _mm_sub_pd(sum, product);
    const __m128d error = _mm_add_pd(_mm_sub_pd(product, _mm_sub_pd(sum, back)), _mm_sub_pd(addend, back));
    const __m128d inexact = _mm_or_pd(_mm_cmplt_pd(error, _mm_setzero_pd()), _mm_cmpgt_pd(error, _mm_setzero_pd()));
    const __m128i bits = _mm_castpd_si128(sum), one = _mm_set1_epi64x(1);
    /* An even sum goes to its neighbour on the error's side: up in magnitude if the signs agree, else down. */
    const __m128i down = _mm_srli_epi64(_mm_castpd_si128(_mm_xor_pd(error, sum)), 63);
    const __m128i step = _mm_sub_epi64(one, _mm_add_epi64(down, down)),
                  even = _mm_sub_epi64(_mm_and_si128(bits, one), one);

    return _mm_castsi128_pd(_mm_add_epi64(bits, _mm_and_si128(_mm_castpd_si128(inexact), _mm_and_si128(step, even))));
}

static __attribute__((noinline, cold, unused)) PartF part_fma_to_odd(PartF a, PartF b, PartF c) {
    const __m128 x = (__m128)a, y = (__m128)b, z = (__m128)c;
    const __m128d low = add_to_odd(_mm_mul_pd(_mm_cvtps_pd(x), _mm_cvtps_pd(y)), _mm_cvtps_pd(z));
    const __m128d high = add_to_odd(_mm_mul_pd(_mm_cvtps_pd(_mm_movehl_ps(x, x)), _mm_cvtps_pd(_mm_movehl_ps(y, y))),
                                    _mm_cvtps_pd(_mm_movehl_ps(z, z)));

    return (PartF)_mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}
#endif

/**
 * part_fma() - a b + c, rounded once, as in IEEE 754
 *
 * x86 without FMA instructions: the product of two float32 is exact in double. Only the sum with c is rounded, first
 * to double, then to float32. Both roundings together equal one, unless the double lies half-way between two floats
 * (its low 29 bits are 1 and zeros) or the float is subnormal. In these cases the sum is rounded to odd (Knuth's TwoSum
 * gives its error), after which rounding to float32 is right (Boldo and Melquiond, "Emulation of FMA and correctly
 * rounded sums", 2008). With infinities and NaN the error is NaN and counts as zero.
 */
LANES_INLINE PartF part_fma(PartF a, PartF b, PartF c) {
#if LANES_PART == 16
    return (PartF)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif LANES_PART == 8
    return (PartF)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(LANES_NEON)
    return (PartF)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#elif !defined(__FMA__) && defined(__SSE2__)
    const __m128 x = (__m128)a, y = (__m128)b, z = (__m128)c;
    const __m128d low = _mm_add_pd(_mm_mul_pd(_mm_cvtps_pd(x), _mm_cvtps_pd(y)), _mm_cvtps_pd(z));
    const __m128d high = _mm_add_pd(_mm_mul_pd(_mm_cvtps_pd(_mm_movehl_ps(x, x)), _mm_cvtps_pd(_mm_movehl_ps(y, y))),
                                    _mm_cvtps_pd(_mm_movehl_ps(z, z)));
    const __m128 low_halves = _mm_shuffle_ps(_mm_castpd_ps(low), _mm_castpd_ps(high), 0x88),
                 high_halves = _mm_shuffle_ps(_mm_castpd_ps(low), _mm_castpd_ps(high), 0xdd);
    const __m128i is_between = _mm_cmpeq_epi32(_mm_and_si128(_mm_castps_si128(low_halves), _mm_set1_epi32(0x1fffffff)),
                                               _mm_set1_epi32(0x10000000));
    const __m128i is_small = _mm_cmplt_epi32(_mm_and_si128(_mm_castps_si128(high_halves), _mm_set1_epi32(0x7fffffff)),
                                             _mm_set1_epi32(0x38100000)); /* 2^-126 */

    if (__builtin_expect(_mm_movemask_ps(_mm_castsi128_ps(_mm_or_si128(is_between, is_small))), 0))
        return part_fma_to_odd(a, b, c);
    return (PartF)_mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
#else
    UNROLL for (int i = 0; i < LANES_PART; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#endif
}

LANES_INLINE Lanes lanes_fma(Lanes a, Lanes b, Lanes c) {
    EACH_PART (p)
        c.part[p] = part_fma(a.part[p], b.part[p], c.part[p]);
    return c;
}

/* A NaN in b is ignored. */
LANES_INLINE Lanes lanes_max(Lanes a, Lanes b) {
    EACH_PART (p)
        a.part[p] = part_max(b.part[p], a.part[p]);
    return a;
}

LANES_INLINE float lanes_horizontal_max(Lanes v) {
    Quad quad;

#if LANES_PART == 16
    quad = (Quad)_mm_max_ps(
        _mm_max_ps(_mm512_extractf32x4_ps((__m512)v.part[0], 0), _mm512_extractf32x4_ps((__m512)v.part[0], 1)),
        _mm_max_ps(_mm512_extractf32x4_ps((__m512)v.part[0], 2), _mm512_extractf32x4_ps((__m512)v.part[0], 3)));
#elif LANES_PART == 8
    const PartF half = part_max(v.part[0], v.part[1]);

    quad = (Quad)_mm_max_ps(_mm256_extractf128_ps((__m256)half, 0), _mm256_extractf128_ps((__m256)half, 1));
#else
    quad = part_max(part_max(v.part[0], v.part[1]), part_max(v.part[2], v.part[3]));
#endif
    quad[0] = quad[1] > quad[0] ? quad[1] : quad[0];
    quad[2] = quad[3] > quad[2] ? quad[3] : quad[2];
    return quad[2] > quad[0] ? quad[2] : quad[0];
}

/* Maxima of neighbours: of a's in the first half, of b's in the second. */
LANES_INLINE PartF part_max_pairs(PartF a, PartF b) {
#if LANES_PART == 16
    return part_max(__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
                    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
#elif LANES_PART == 8
    return part_max(__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14),
                    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15));
#else
    return part_max(__builtin_shufflevector(a, b, 0, 2, 4, 6), __builtin_shufflevector(a, b, 1, 3, 5, 7));
#endif
}

/* First steps of the fixed tree: adds lanes i and i + 8, then i and i + 4. */
LANES_INLINE Quad lanes_fold(Lanes v) {
#if LANES_PART == 16
    typedef float Half __attribute__((vector_size(32)));
    PartF a = v.part[0];
    Half half = __builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7) +
                __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15);
#elif LANES_PART == 8
    PartF half = v.part[0] + v.part[1];
#endif
#if LANES_PART == 4
    return (v.part[0] + v.part[2]) + (v.part[1] + v.part[3]);
#else
    return __builtin_shufflevector(half, half, 0, 1, 2, 3) + __builtin_shufflevector(half, half, 4, 5, 6, 7);
#endif
}

/* Last steps of the fixed tree, for four sums side by side: adds lanes i and i + 2, then i and i + 1. */
LANES_INLINE Quad quads_fold(Quad a, Quad b, Quad c, Quad d) {
    Quad ab = __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
    Quad cd = __builtin_shufflevector(c, d, 0, 1, 4, 5) + __builtin_shufflevector(c, d, 2, 3, 6, 7);

    return __builtin_shufflevector(ab, cd, 0, 2, 4, 6) + __builtin_shufflevector(ab, cd, 1, 3, 5, 7);
}

/* Sums the 16 lanes in the fixed tree. */
LANES_INLINE float lanes_sum(Lanes v) {
    Quad quad = lanes_fold(v);

    return (quad[0] + quad[2]) + (quad[1] + quad[3]);
}

/**
 * part_exp() - exp(x), error below 2 ulp, for every finite x and for infinities; NaN stays NaN
 *
 * x = n ln 2 + r. Adding 1.5 x 2^23 rounds to the integer n, whose bits are then the low bits of the float. ln 2 has
 * two parts, the first of 9 bits, so that n times this part and the difference from x are exact. exp(r) = 1 + r + r^2
 * q(r), q of degree 5 (coefficients of Cephes expf). 2^n is applied in two factors, both normal numbers, so that a
 * subnormal result is rounded once; some machines have an instruction that does so. At the clamped ends the product
 * itself gives 0 and infinity.
 */
LANES_INLINE PartF part_exp(PartF x) {
    const PartF magic = part_of(0x1.8p23f);
    PartF shifted, n, r, q;

    x = part_min(part_of(89), part_max(part_of(-105), x));
    shifted = x * part_of(0x1.715476p0f) + magic;
    n = shifted - magic;
    r = (x - n * part_of(0.693359375f)) - n * part_of(-2.12194440e-4f);
    q = part_of(1.9875691500e-4f);
    q = q * r + part_of(1.3981999507e-3f);
    q = q * r + part_of(8.3334519073e-3f);
    q = q * r + part_of(4.1665795894e-2f);
    q = q * r + part_of(1.6666665459e-1f);
    q = q * r + part_of(5.0000001201e-1f);
    q = (q * (r * r) + r) + part_of(1);
#if LANES_PART == 16
    return (PartF)_mm512_scalef_ps((__m512)q, (__m512)n);
#else
    PartU k = (PartU)shifted - (PartU)magic, k_low = (PartU)((PartI)k >> 1);

    return (q * (PartF)((k_low + 127) << 23)) * (PartF)((k - k_low + 127) << 23);
#endif
}

LANES_INLINE Lanes lanes_exp(Lanes x) {
    EACH_PART (p)
        x.part[p] = part_exp(x.part[p]);
    return x;
}

/* Computes cap tanh(x / cap) as cap (1 - e) / (1 + e), e = exp(-|x| (2 / cap)), with the sign of x; NaN stays NaN. */
LANES_INLINE Lanes lanes_soft_cap(Lanes x, float cap) {
    const PartF factor = part_of(-2.0f / cap), one = part_of(1);

    EACH_PART (p) {
        const PartF e = part_exp(part_abs(x.part[p]) * factor), y = (one - e) / (one + e) * part_of(cap);

        x.part[p] = (PartF)((PartU)y | ((PartU)x.part[p] & 0x80000000));
    }
    return x;
}

#endif
