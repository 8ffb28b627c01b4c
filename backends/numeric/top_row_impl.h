// SPDX-License-Identifier: Apache-2.0
/* Source of top_row, compiled once for each instruction set; the including file defines TOP_ROW_NAME and
 * TOP_ROW_NEED. */
#ifndef COORDGEN_NUMERIC_TOP_ROW_IMPL_H
#define COORDGEN_NUMERIC_TOP_ROW_IMPL_H

#include <math.h>

#include "backends/numeric/lanes.h"
#include "backends/numeric/top_row.h"
#include "base/system/cpu.h"

enum {
    TOP_ROW_BLOCK = 4 * N_LANES /* values that are looked at one by one only if their maximum matters */
};

#define TOP_ROW_FAR 20 /* exp(-20) is 2e-9 */

static float top_row_block_max(const float *x, size_t n) {
    Lanes a = lanes_of(-INFINITY); /* a NaN is ignored, also as x's first value */

    for (size_t i = 0; i < TOP_ROW_BLOCK && i < n; i += N_LANES)
        a = lanes_max(a, lanes_load_n(x + i, n - i, -INFINITY));
    return lanes_horizontal_max(a);
}

/* Inserts a value after all values that are not smaller; drops the last of k. */
static size_t top_row_insert(uint32_t index, float value, size_t n, size_t k, uint32_t *indices, float *values) {
    size_t at = n < k ? n : k - 1;

    for (; at && values[at - 1] < value; at--) {
        indices[at] = indices[at - 1];
        values[at] = values[at - 1];
    }
    indices[at] = index;
    values[at] = value;
    return n < k ? n + 1 : k;
}

static size_t top_row_top(const float *x, size_t n, size_t first, size_t k, size_t found, uint32_t *indices,
                          float *values) {
    float least; /* lower bound that a value must exceed */

    if (!k)
        return 0;
    least = found == k ? values[k - 1] : -INFINITY;
    for (size_t i = 0; i < n; i += TOP_ROW_BLOCK) {
        const size_t end = n - i < TOP_ROW_BLOCK ? n : i + TOP_ROW_BLOCK;

        if (!(top_row_block_max(x + i, n - i) > least))
            continue;
        for (size_t j = i; j < end; j++) {
            if (!(x[j] > least))
                continue;
            found = top_row_insert((uint32_t)(first + j), x[j], found, k, indices, values);
            least = found == k ? values[k - 1] : -INFINITY;
        }
    }
    return found;
}

static float top_row_mass(const float *x, size_t n, float max) {
    const Lanes shift = lanes_of(-max);
    Lanes sum = lanes_of(0);

    for (size_t i = 0; i < n; i += TOP_ROW_BLOCK) {
        if (top_row_block_max(x + i, n - i) < max - TOP_ROW_FAR)
            continue;
        for (size_t j = i; j < n && j < i + TOP_ROW_BLOCK; j += N_LANES)
            sum = lanes_add(sum, lanes_exp(lanes_add(lanes_load_n(x + j, n - j, -INFINITY), shift)));
    }
    return lanes_sum(sum);
}

extern const TopRow TOP_ROW_NAME;
#define NAME_TEXT_(name) #name
#define NAME_TEXT(name) NAME_TEXT_(name)
const TopRow TOP_ROW_NAME = {
    .name = NAME_TEXT(TOP_ROW_NAME), .need = TOP_ROW_NEED, .top = top_row_top, .mass = top_row_mass
};

#endif
