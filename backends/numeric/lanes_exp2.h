// SPDX-License-Identifier: Apache-2.0
/* Powers of two for attention's weights. */
#ifndef COORDGEN_BACKENDS_NUMERIC_LANES_EXP2_H
#define COORDGEN_BACKENDS_NUMERIC_LANES_EXP2_H

#include "backends/numeric/lanes.h"

/* Coefficients of 2^r = 1 + r p(r), the highest power's first, each times a power of two. */
typedef struct Exp2Factors {
    PartF of[6];
} Exp2Factors;

LANES_INLINE Exp2Factors exp2_factors(float power) {
    return (Exp2Factors){ { part_of(0x1.5bba14p-10f * power), part_of(0x1.3cea88p-7f * power),
                            part_of(0x1.c6b752p-5f * power), part_of(0x1.ebf9bcp-3f * power),
                            part_of(0x1.62e42ap-1f * power), part_of(power) } };
}

/* Computes a power of two times 2^x for exponents that need no limit. */
LANES_INLINE PartF part_exp2_unlimited(PartF x, const Exp2Factors *factors) {
    PartF r, p;
#if LANES_PART < 16
    const PartF magic = part_of(0x1.8p23f);
    const PartF shifted = x + magic;

    r = x - (shifted - magic);
#else
    r = (PartF)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#endif
    p = factors->of[0];
    UNROLL
    for (int i = 1; i < 6; i++)
        p = part_fma(p, r, factors->of[i]);
#if LANES_PART < 16
    return (PartF)((PartU)p + ((PartU)shifted << 23)); /* the shift drops the magic number */
#else
    return (PartF)_mm512_scalef_ps((__m512)p, (__m512)(x - r));
#endif
}

/**
 * part_exp2() - 2^x for x <= 0; values below -125 and NaN count as -125
 *
 * x = n + r, |r| <= 1/2, n to nearest even: by adding 1.5 x 2^23, or by an instruction, with the same exact r. 2^r =
 * 1 + r p(r), p of degree 4 (least relative error, 9.2e-8), by fused multiply-adds. n is added to the exponent. The
 * function takes a third of part_exp()'s instructions, because arguments are never positive and results never
 * subnormal; every score needs one call.
 */
LANES_INLINE PartF part_exp2(PartF x) {
    const Exp2Factors factors = exp2_factors(1);

    return part_exp2_unlimited(part_greater(x, part_of(-125)), &factors);
}

/* Returns part_exp2(x) times the power of the factors, 2^-60 to 2^60, for x >= -63. Lesser x, -infinity among them,
 * give some number from 0 to 2^-62 times the power. */
LANES_INLINE PartF part_exp2_times(PartF x, const Exp2Factors *factors) {
#if LANES_PART < 16
    x = part_greater(x, part_of(-63));
#endif
    return part_exp2_unlimited(x, factors);
}

#endif
