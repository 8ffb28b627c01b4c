// SPDX-License-Identifier: Apache-2.0
#include "backends/numeric/exp_row.h"

#include <assert.h>

#include "base/cleanup.h"

#define EXP_ROW(name) extern const ExpRow name;
#include "backends/numeric/exp_row.inc"
#undef EXP_ROW

static const ExpRow *const builds[] = {
#define EXP_ROW(name) &name,
#include "backends/numeric/exp_row.inc"
#undef EXP_ROW
};

const ExpRow *exp_row_select(uint32_t cpu) {
    for (size_t i = 0; i + 1 < ARRAY_LEN(builds); i++)
        if (!(builds[i]->need & ~cpu))
            return builds[i];
    return builds[ARRAY_LEN(builds) - 1];
}

size_t exp_row_n(void) {
    return ARRAY_LEN(builds);
}

const ExpRow *exp_row_at(size_t index) {
    assert(index < ARRAY_LEN(builds));
    return builds[index];
}
