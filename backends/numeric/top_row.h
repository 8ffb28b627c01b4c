// SPDX-License-Identifier: Apache-2.0
/* The greatest values of a row of floats, and what share of its softmax they have; the same bits with every instruction
 * set. */
#ifndef COORDGEN_NUMERIC_TOP_ROW_H
#define COORDGEN_NUMERIC_TOP_ROW_H

#include <stddef.h>
#include <stdint.h>

typedef struct TopRow {
    const char *name;
    uint32_t need; /* CPU_* bits */

    /* The k greatest of x[n], whose indices count from `first`, and of the `found` ones before them, whose indices are
     * lower and which `indices` and `values` have: greatest first, of equals the one of the lower index. How many there
     * are: fewer than k where there were no more; NaN and -infinity are none. */
    size_t (*top)(const float *x, size_t n, size_t first, size_t k, size_t found, uint32_t *indices, float *values);
    /* Sum of exp(x[i] - max), max being the greatest value: what the softmax divides by. Values so far below the
     * greatest that a million of them would not change it by a hundredth may be left out. */
    float (*mass)(const float *x, size_t n, float max);
} TopRow;

/* The best build for a set of CPU_* bits; 0: the scalar one. */
const TopRow *top_row_select(uint32_t cpu);

/* All builds, for tests and benchmarks: best first, the scalar one last. */
size_t top_row_n(void);
const TopRow *top_row_at(size_t index);

#endif
