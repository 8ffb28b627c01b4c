// SPDX-License-Identifier: Apache-2.0
#include "backends/reference/float_loops.h"

#include <assert.h>

#include "base/cleanup.h"

#define FLOAT_LOOPS(name) extern const FloatLoops name;
#include "backends/reference/float_loops.inc"
#undef FLOAT_LOOPS

static const FloatLoops *const builds[] = {
#define FLOAT_LOOPS(name) &name,
#include "backends/reference/float_loops.inc"
#undef FLOAT_LOOPS
};

const FloatLoops *float_loops_select(uint32_t cpu) {
    for (size_t i = 0; i + 1 < ARRAY_LEN(builds); i++)
        if (!(builds[i]->need & ~cpu))
            return builds[i];
    return builds[ARRAY_LEN(builds) - 1];
}

size_t float_loops_n(void) {
    return ARRAY_LEN(builds);
}

const FloatLoops *float_loops_at(size_t index) {
    assert(index < ARRAY_LEN(builds));
    return builds[index];
}
