// SPDX-License-Identifier: Apache-2.0
/* A source of drafts: guesses of the tokens that a text goes on with. A draft tree (draft_tree.h) is grown node by
 * node, and a source has a cursor at each node: the place in its own memory where that node's path has led. Sources
 * know tokens alone, no model, device or text. */
#ifndef COORDGEN_SPEC_DRAFTER_H
#define COORDGEN_SPEC_DRAFTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DRAFT_CHOICES_MAX = 8 /* most choices of a source behind one node */
};

/* A source's place behind a path; only the source knows what the numbers mean. All zero: nowhere. */
typedef struct DraftCursor {
    uint32_t a, b, c;
} DraftCursor;

/* A token that may come next. */
typedef struct DraftChoice {
    uint32_t token;
    uint16_t bucket; /* quality of the match that the choice rests on, below DRAFT_BUCKETS; statistics are kept by it */
    uint16_t rank;   /* 0: the source's first choice behind this node */
    bool of_prompt;  /* the choice rests on what the target predicted at rows of the prompt */
    DraftCursor next; /* the source's cursor behind this token */
} DraftChoice;

enum {
    DRAFT_BUCKETS = 16,
    DRAFT_RANKS = DRAFT_CHOICES_MAX
};

typedef struct DrafterOps {
    /* Chance of a choice before any statistics, by bucket and rank; within [0.001, 0.999]. */
    float (*prior)(uint16_t bucket, uint16_t rank);
    /* Appends tokens to the text. 0; -ENOMEM or DRAFTER_E_MEMORY: nothing was taken in. */
    int (*append)(void *drafter, const uint32_t *tokens, size_t n);
    /* The cursor behind all appended tokens. */
    DraftCursor (*root)(const void *drafter);
    /* Lists up to max (at most DRAFT_CHOICES_MAX) choices behind the cursor, distinct tokens, by rank. Allocates
     * nothing. */
    size_t (*choices)(const void *drafter, DraftCursor at, DraftChoice *choices, size_t max);
    /* The cursor behind a further token, whichever source proposed it. */
    DraftCursor (*follow)(const void *drafter, DraftCursor at, uint32_t token);
    void (*free)(void *drafter);
} DrafterOps;

enum {
    DRAFTER_E_MEMORY = 1 /* the account draftdb has reached its limit */
};

typedef struct Drafter {
    const DrafterOps *ops;
    void *self;
} Drafter;

#endif
