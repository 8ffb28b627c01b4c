// SPDX-License-Identifier: Apache-2.0
/* Activations of a gated feed-forward block, times the gated values. RowOps and products with a gate share them. */
#ifndef COORDGEN_NUMERIC_LANES_GATE_H
#define COORDGEN_NUMERIC_LANES_GATE_H

#include "backends/numeric/lanes.h"

/* (a / (1 + exp(-a))) up. If exp overflows, a / inf is -0. */
LANES_INLINE Lanes lanes_silu_mul(Lanes a, Lanes up) {
    EACH_PART (p)
        a.part[p] = a.part[p] / (part_of(1) + part_exp(-a.part[p])) * up.part[p];
    return a;
}

/* (a / (1 + exp(a (c + d a^2)))) up with c = -2 sqrt(2 / pi), d = 0.044715 c. The exponent of a finite a may overflow,
 * but only to the infinity of the right sign. The quotient is then a or -0. */
LANES_INLINE Lanes lanes_gelu_mul(Lanes a, Lanes up) {
    EACH_PART (p) {
        PartF x = a.part[p], exponent = x * (part_of(-1.5957691216057308f) + part_of(-0.07135481627260025f) * (x * x));

        a.part[p] = x / (part_of(1) + part_exp(exponent)) * up.part[p];
    }
    return a;
}

#endif
