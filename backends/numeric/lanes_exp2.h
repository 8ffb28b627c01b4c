// SPDX-License-Identifier: Apache-2.0
/* Powers of two for attention's weights. */
#ifndef COORDGEN_BACKENDS_NUMERIC_LANES_EXP2_H
#define COORDGEN_BACKENDS_NUMERIC_LANES_EXP2_H

#include "backends/numeric/lanes.h"

/**
 * part_exp2() - 2^x for x <= 0; values below -125 and NaN count as -125
 *
 * x = n + r, |r| <= 1/2, n to nearest even: by adding 1.5 x 2^23, or by an instruction, with the same exact r. 2^r =
 * 1 + r p(r), p of degree 4 (least relative error, 9.2e-8), by fused multiply-adds. n is added to the exponent. The
 * function takes a third of part_exp()'s instructions, because arguments are never positive and results never
 * subnormal; every score needs one call.
 */
LANES_INLINE PartF part_exp2(PartF x) {
    PartF r, p;
#if LANES_PART < 16
    const PartF magic = part_of(0x1.8p23f);
    PartF shifted;
#endif

    x = part_greater(x, part_of(-125));
#if LANES_PART == 16
    r = (PartF)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    shifted = x + magic;
    r = x - (shifted - magic);
#endif
    p = part_of(0x1.5bba14p-10f);
    p = part_fma(p, r, part_of(0x1.3cea88p-7f));
    p = part_fma(p, r, part_of(0x1.c6b752p-5f));
    p = part_fma(p, r, part_of(0x1.ebf9bcp-3f));
    p = part_fma(p, r, part_of(0x1.62e42ap-1f));
    p = part_fma(p, r, part_of(1));
#if LANES_PART == 16
    return (PartF)_mm512_scalef_ps((__m512)p, (__m512)(x - r));
#else
    return (PartF)((PartU)p + ((PartU)shifted << 23)); /* the shift drops the magic number */
#endif
}

#endif
