// SPDX-License-Identifier: Apache-2.0
/* exp and soft cap of a row of floats. The error of exp is below 2 ulp, and every instruction set gives the same bits
 * (part_exp() in backends/numeric/lanes.h). */
#ifndef COORDGEN_NUMERIC_EXP_ROW_H
#define COORDGEN_NUMERIC_EXP_ROW_H

#include <stddef.h>
#include <stdint.h>

typedef struct ExpRow {
    const char *name;
    uint32_t need; /* CPU_* bits */

    /* y[i] = exp(x[i]) for i < n; y may be x. Infinities give 0 and infinity, NaN stays NaN. */
    void (*exp)(const float *x, size_t n, float *y);
    /* x[i] = cap tanh(x[i] / cap) for i < n, cap > 0, within 2^-22 cap; NaN stays NaN. */
    void (*soft_cap)(float *x, size_t n, float cap);
} ExpRow;

/* Returns the best build for a set of CPU_* bits; 0: the scalar one. */
const ExpRow *exp_row_select(uint32_t cpu);

/* Access to all builds, for tests and benchmarks: best first, the scalar one last. */
size_t exp_row_n(void);
const ExpRow *exp_row_at(size_t index);

#endif
