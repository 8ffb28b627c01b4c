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

size_t row_ops_n(void) {
    return ARRAY_LEN(builds);
}

const RowOps *row_ops_at(size_t index) {
    assert(index < ARRAY_LEN(builds));
    return builds[index];
}
