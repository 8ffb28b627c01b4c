// SPDX-License-Identifier: Apache-2.0
/* Drafts from what the target itself held for likely ("recycling"): the newest most probable tokens after every token
 * and every pair that the target computed, rejected guesses included. */
#ifndef COORDGEN_SPEC_CONTINUATION_TABLE_H
#define COORDGEN_SPEC_CONTINUATION_TABLE_H

#include "spec/sources/context_map.h"

enum {
    CONTINUATION_PAIRS_MAX = 1 << 14,
    CONTINUATION_TOKENS_MAX = 1 << 18
};

extern const DrafterOps continuation_table_ops;

typedef struct ContinuationTable ContinuationTable;

/* 0, -ENOMEM, -errno of a hash's key. */
int continuation_table_new(AccountTable *accounts, ContinuationTable **tablep);
void continuation_table_free(ContinuationTable *table);
DEFINE_CLEANUP(ContinuationTable, continuation_table_free)
/* Learns what comes behind `token` that comes behind `before` (or CONTEXT_NO_TOKEN), most probable first. The first
 * DRAFT_CHOICES_MAX are kept; an empty list drops nothing. of_prompt: the row is one of the prompt. Errors as
 * DrafterOps.append. */
int continuation_table_observe(ContinuationTable *table, uint32_t before, uint32_t token, const ContextTop *top,
                               size_t n, bool of_prompt);

#endif
