// SPDX-License-Identifier: Apache-2.0
/* Prompt lookup decoding (Saxena 2023): one chain, what followed the earliest place where the text's last three tokens
 * stood before, or its last two, or the last one. Appending and searching cost O(1) a token. */
#ifndef COORDGEN_SPEC_DRAFTER_LOOKUP_H
#define COORDGEN_SPEC_DRAFTER_LOOKUP_H

#include "base/cleanup.h"
#include "base/memory/account.h"
#include "spec/sources/drafter.h"

enum {
    LOOKUP_NGRAM_MAX = 3,
    LOOKUP_TOKENS = 10,     /* tokens of a draft */
    LOOKUP_TOKEN_BYTES = 28 /* charged for each token of the capacity, which doubles */
};

extern const DrafterOps drafter_lookup_ops;

typedef struct DrafterLookup DrafterLookup;

int drafter_lookup_new(AccountTable *accounts, DrafterLookup **lookupp); /* 0, -ENOMEM, -errno */
void drafter_lookup_free(DrafterLookup *lookup);
DEFINE_CLEANUP(DrafterLookup, drafter_lookup_free)

#endif
