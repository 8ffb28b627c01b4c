// SPDX-License-Identifier: Apache-2.0
/* Drafts from rejected drafts (CoordGen's reuse, Eq. 3). Behind the first wrong token the target may still have agreed
 * with the draft's next tokens. That run is proposed again: with the wrong token ("missing": the target had one token
 * more before it) or without it ("synonym": the target had another token in its place). A run lives for a few steps. */
#ifndef COORDGEN_SPEC_DRAFT_REUSE_H
#define COORDGEN_SPEC_DRAFT_REUSE_H

#include "base/cleanup.h"
#include "spec/sources/drafter.h"
#include "spec/sources/draft_tree.h"

enum {
    DRAFT_REUSE_TOKENS_MAX = 32, /* most tokens of all runs together */
    DRAFT_REUSE_STEPS_MAX = 3    /* steps that a run lives */
};

extern const DrafterOps draft_reuse_ops;

typedef struct DraftReuse DraftReuse;

int draft_reuse_new(DraftReuse **reusep); /* 0 or -ENOMEM */
void draft_reuse_free(DraftReuse *reuse);
DEFINE_CLEANUP(DraftReuse, draft_reuse_free)
/* Learns from a verification: the accepted rows, from the root's child down, and the target's first choice at every row
 * (NULL: not known, no run is added). Every earlier run grows a step older. */
void draft_reuse_learn(DraftReuse *reuse, const DraftTree *tree, const uint32_t *accepted, uint32_t n_accepted,
                       const uint32_t *top_of_rows);

#endif
