// SPDX-License-Identifier: Apache-2.0
/* Sequences that begin with another one's pages, as those of kept prompts do. */
#ifndef COORDGEN_TEST_UNIT_FORK_H
#define COORDGEN_TEST_UNIT_FORK_H

#include <assert.h>

#include "engine/engine_private.h"

/* Begins with the first n_tokens positions of `source`, not more than it has. A tree that is open there stays there. */
static inline int fork_sequence(Sequence **sequencep, const Sequence *source, size_t n_tokens, size_t capacity_tokens,
                                ErrText *err) {
    assert(n_tokens <= source->n_tokens);
    return sequence_new_after(sequencep, source->engine, source->pages, n_tokens, capacity_tokens, err);
}

#endif
