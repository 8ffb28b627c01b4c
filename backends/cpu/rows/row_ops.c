// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/rows/row_ops.h"

#include <assert.h>

#include "base/cleanup.h"

#define ROW_OPS(name) extern const RowOps name;
#include "backends/cpu/rows/row_ops.inc"
#undef ROW_OPS

static const RowOps *const builds[] = {
#define ROW_OPS(name) &name,
#include "backends/cpu/rows/row_ops.inc"
#undef ROW_OPS
};

const RowOps *row_ops_select(uint32_t cpu) {
    for (size_t i = 0; i + 1 < ARRAY_LEN(builds); i++)
        if (!(builds[i]->need & ~cpu))
            return builds[i];
    return builds[ARRAY_LEN(builds) - 1];
}

/* Sums up queries, outputs, scores of a block, 16 sums, the maximum, the factor and the range of each row-head, as
 * row_ops_attention.h lays them out, and one block in float32. */
size_t attention_scratch_floats(size_t n_row_heads, size_t head_size) {
    const size_t padded = attention_padded(n_row_heads);

    return n_row_heads * (2 * head_size + KV_BLOCK + 16) + 2 * padded + padded / 2 + KV_BLOCK * head_size;
}

size_t row_ops_n(void) {
    return ARRAY_LEN(builds);
}

const RowOps *row_ops_at(size_t index) {
    assert(index < ARRAY_LEN(builds));
    return builds[index];
}
