// SPDX-License-Identifier: Apache-2.0
/* The greatest values of a row of floats, and their share of its softmax. Every instruction set gives the same bits. */
#ifndef COORDGEN_NUMERIC_TOP_ROW_H
#define COORDGEN_NUMERIC_TOP_ROW_H

#include <stddef.h>
#include <stdint.h>

typedef struct TopRow {
    const char *name;
    uint32_t need; /* CPU_* bits */

    /* Finds the k greatest of x[n], whose indices count from `first`, and of `found` earlier entries in `indices` and
     * `values`, whose indices are lower. Entries are sorted, greatest first; equal values by lower index. Returns the
     * number of entries, below k if there are fewer values. NaN and -infinity are skipped. */
    size_t (*top)(const float *x, size_t n, size_t first, size_t k, size_t found, uint32_t *indices, float *values);
    /* Returns the sum of exp(x[i] - max), max being the greatest value: the softmax's divisor. Values may be left out
     * if a million of them would change the sum by less than a hundredth. */
    float (*mass)(const float *x, size_t n, float max);
} TopRow;

/* Returns the best build for a set of CPU_* bits; 0: the scalar one. */
const TopRow *top_row_select(uint32_t cpu);

/* Access to all builds, for tests and benchmarks: best first, the scalar one last. */
size_t top_row_n(void);
const TopRow *top_row_at(size_t index);

#endif
