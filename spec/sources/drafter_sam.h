// SPDX-License-Identifier: Apache-2.0
/* Drafts from the running text: what followed the longest suffix that occurred before, at its first occurrence. The
 * suffix automaton holds all memory. A cursor: a is the state, b the length of the match. */
#ifndef COORDGEN_SPEC_DRAFTER_SAM_H
#define COORDGEN_SPEC_DRAFTER_SAM_H

#include "base/cleanup.h"
#include "base/memory/account.h"
#include "spec/sources/drafter.h"

enum {
    SAM_DRAFT_MAX = 40,  /* most tokens of a draft in SAM-Decoding (Hu et al. 2024) */
    SAM_DRAFT_FACTOR = 4 /* tokens of a draft for each token of the match */
};

extern const DrafterOps drafter_sam_ops;

typedef struct DrafterSam DrafterSam;

/* 0, -ENOMEM, -errno of the hash's key. */
int drafter_sam_new(AccountTable *accounts, DrafterSam **samp);
void drafter_sam_free(DrafterSam *sam);
DEFINE_CLEANUP(DrafterSam, drafter_sam_free)
/* Returns how long SAM-Decoding's draft behind the text is: 1 plus a factor of the match's length, up to the most. */
uint32_t drafter_sam_draft_tokens(const DrafterSam *sam);

#endif
