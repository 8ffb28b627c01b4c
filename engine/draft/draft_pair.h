// SPDX-License-Identifier: Apache-2.0
/* A draft model and the target that it drafts for: two engines whose token tables begin with the same tokens. What
 * generations share of it; each has a timeline of its own (engine/draft/draft_timeline.h). */
#ifndef COORDGEN_ENGINE_DRAFT_PAIR_H
#define COORDGEN_ENGINE_DRAFT_PAIR_H

#include "base/cleanup.h"
#include "engine/core/engine_core.h"
#include "spec/control/row_times.h"

enum {
    DRAFT_PAIR_E_VOCAB = 1,  /* other tokens than the target's; the text names the first difference */
    DRAFT_PAIR_E_MEMORY = 2, /* a memory account's limit is reached */
};

typedef struct DraftPair {
    Engine *engine;        /* of the draft */
    uint32_t n_tokens;     /* shared: ids that may be proposed, and that the draft can read, are below it */
    uint32_t stand_in;     /* what the draft reads in place of a token of the target's own */
    AccountedBlock logits; /* f32[n_vocab] of the draft, of the pass that runs */
    RowTimes times;        /* of passes of trees; what one generation measures serves the next one */
} DraftPair;               /* thread: the one that computes */

/* Compares the tokens that both tables begin with. The draft engine outlives the pair; of the target nothing is kept.
 * 0, DRAFT_PAIR_E_*, -ENOMEM, with a text. */
int draft_pair_new(DraftPair **pairp, Engine *draft, const Engine *target, ErrText *err);
DraftPair *draft_pair_free(DraftPair *pair); /* all timelines must be freed before */
DEFINE_CLEANUP(DraftPair, draft_pair_free)

#endif
