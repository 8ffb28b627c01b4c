// SPDX-License-Identifier: Apache-2.0
#include "backends/numeric/top_row.h"

#include <assert.h>

#include "base/cleanup.h"

#define TOP_ROW(name) extern const TopRow name;
#include "backends/numeric/top_row.inc"
#undef TOP_ROW

static const TopRow *const builds[] = {
#define TOP_ROW(name) &name,
#include "backends/numeric/top_row.inc"
#undef TOP_ROW
};

const TopRow *top_row_select(uint32_t cpu) {
    for (size_t i = 0; i + 1 < ARRAY_LEN(builds); i++)
        if (!(builds[i]->need & ~cpu))
            return builds[i];
    return builds[ARRAY_LEN(builds) - 1];
}

size_t top_row_n(void) {
    return ARRAY_LEN(builds);
}

const TopRow *top_row_at(size_t index) {
    assert(index < ARRAY_LEN(builds));
    return builds[index];
}
