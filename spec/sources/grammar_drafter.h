// SPDX-License-Identifier: Apache-2.0
/* A grammar that the text must keep, as drafts meet it: it refuses tokens, which are cut from a tree before they are
 * computed, and it forces bytes, whose tokens are drafts of the source `grammar`. */
#ifndef COORDGEN_SPEC_GRAMMAR_DRAFTER_H
#define COORDGEN_SPEC_GRAMMAR_DRAFTER_H

#include "base/cleanup.h"
#include "base/memory/account.h"
#include "spec/sources/draft_tree.h"
#include "spec/sources/drafter.h"

enum {
    GRAMMAR_FORCED_MAX = 48,   /* most tokens of a run of forced bytes; a longer run goes on behind them */
    GRAMMAR_PLACES_MAX = 1024, /* places behind the text in a step; drafts end where there are no more */
    GRAMMAR_NOWHERE = 0        /* the place where every token is refused */
};

/* State of a grammar behind some tokens; its bytes mean something to the grammar's owner alone. */
typedef struct DraftGrammarState {
    uint64_t words[2];
} DraftGrammarState;

/* Tokens that write the bytes which a grammar forces. */
typedef struct DraftForced {
    uint32_t tokens[GRAMMAR_FORCED_MAX];
    uint32_t n;
} DraftForced;

/* The owner of a grammar. Thread: the one that computes, for all calls. */
typedef struct DraftGrammarOps {
    /* Returns the state behind the text. */
    DraftGrammarState (*root)(void *self);
    /* Advances a state by a token. Return: whether the grammar allows the token, and whether that could be told within
     * its limits; an end token is allowed where the text may end, and nothing behind it. */
    bool (*advance)(void *self, const DraftGrammarState *at, uint32_t token, DraftGrammarState *nextp);
    /* Fills the tokens of what is forced at a state, whose way behind the text is path[n_path]. */
    void (*forced)(void *self, const DraftGrammarState *at, const uint32_t *path, uint32_t n_path, DraftForced *forced);
} DraftGrammarOps;

typedef struct DraftGrammar {
    const DraftGrammarOps *ops; /* NULL: the text has no grammar */
    void *self;
} DraftGrammar;

extern const DrafterOps grammar_drafter_ops; /* free() does nothing: the drafter has another owner */

typedef struct GrammarDrafter GrammarDrafter;

/* Makes the drafter; the grammar outlives it. 0, -ENOMEM, DRAFTER_E_MEMORY. */
int grammar_drafter_new(AccountTable *accounts, DraftGrammar grammar, GrammarDrafter **drafterp);
void grammar_drafter_free(GrammarDrafter *drafter);
DEFINE_CLEANUP(GrammarDrafter, grammar_drafter_free)

/* Forgets all places and begins anew behind the text. */
void grammar_drafter_begin(GrammarDrafter *drafter);
/* Returns the place behind the text. */
uint32_t grammar_drafter_root(const GrammarDrafter *drafter);
/* Returns whether the grammar allows the token at a place. */
bool grammar_drafter_allows(GrammarDrafter *drafter, uint32_t place, uint32_t token);
/* Returns the place behind a token, or GRAMMAR_NOWHERE if the token is refused or no more places are left. */
uint32_t grammar_drafter_step(GrammarDrafter *drafter, uint32_t place, uint32_t token);

#endif
