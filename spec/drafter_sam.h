// SPDX-License-Identifier: Apache-2.0
/* Drafts from the running text: what followed the longest suffix that occurred before, at its first occurrence. Memory
 * is the suffix automaton's. A cursor: a is the state, b the length of the match. */
#ifndef COORDGEN_SPEC_DRAFTER_SAM_H
#define COORDGEN_SPEC_DRAFTER_SAM_H

#include "base/account.h"
#include "base/cleanup.h"
#include "spec/drafter.h"

extern const DrafterOps drafter_sam_ops;

typedef struct DrafterSam DrafterSam;

/* 0, -ENOMEM, -errno of the hash's key. */
int drafter_sam_new(AccountTable *accounts, DrafterSam **samp);
void drafter_sam_free(DrafterSam *sam);
DEFINE_CLEANUP(DrafterSam, drafter_sam_free)

#endif
