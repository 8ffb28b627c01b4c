// SPDX-License-Identifier: Apache-2.0
/* A draft model and its target: two engines whose token tables begin with the same tokens. Generations share the pair;
 * each has a timeline of its own (engine/draft/draft_timeline.h). */
#ifndef COORDGEN_ENGINE_DRAFT_PAIR_H
#define COORDGEN_ENGINE_DRAFT_PAIR_H

#include "base/cleanup.h"
#include "engine/core/engine_core.h"
#include "spec/control/row_times.h"

enum {
    DRAFT_PAIR_E_VOCAB = 1,  /* the token tables differ; the text names the first difference */
    DRAFT_PAIR_E_MEMORY = 2, /* a memory account's limit is reached */
};

typedef struct DraftPair {
    Engine *engine;        /* engine of the draft model */
    uint32_t n_tokens;     /* both models share ids below this, which may be proposed and read */
    uint32_t stand_in;     /* token that the draft reads in place of one that only the target has */
    AccountedBlock logits; /* f32[n_vocab] of the draft, scratch of a pass */
    RowTimes times;        /* durations of passes of trees, measured by all generations */
} DraftPair;               /* thread: the one that computes */

/* Makes a pair if both tables begin with the same tokens. The draft engine outlives the pair; the target is not kept.
 * 0, DRAFT_PAIR_E_*, -ENOMEM, with a text. */
int draft_pair_new(DraftPair **pairp, Engine *draft, const Engine *target, ErrText *err);
DraftPair *draft_pair_free(DraftPair *pair); /* all timelines must be freed before */
DEFINE_CLEANUP(DraftPair, draft_pair_free)

#endif
