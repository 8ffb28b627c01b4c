// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/attention/attention.h"

#include <assert.h>

#include "base/cleanup.h"

#define ATTENTION(name) extern const AttentionOps name;
#include "backends/cpu/attention/attention.inc"
#undef ATTENTION

static const AttentionOps *const builds[] = {
#define ATTENTION(name) &name,
#include "backends/cpu/attention/attention.inc"
#undef ATTENTION
};

const AttentionOps *attention_select(uint32_t cpu) {
    for (size_t i = 0; i + 1 < ARRAY_LEN(builds); i++)
        if (!(builds[i]->need & ~cpu))
            return builds[i];
    return builds[ARRAY_LEN(builds) - 1];
}

size_t attention_n_ops(void) {
    return ARRAY_LEN(builds);
}

const AttentionOps *attention_ops_at(size_t index) {
    assert(index < ARRAY_LEN(builds));
    return builds[index];
}

/* Sums up scores and weights of a group, and what is made of value scales (attention_weights_impl.h). */
size_t attention_scratch_bytes(size_t group) {
    const size_t columns = ATTENTION_PARTS_MAX * KV_BLOCK;

    return columns * (group * (sizeof(float) + sizeof(int16_t)) + 2 * sizeof(float)) + 64;
}
