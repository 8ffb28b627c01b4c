// SPDX-License-Identifier: Apache-2.0
/* A source of drafts: guesses of the tokens that a text goes on with. A draft tree (draft_tree.h) is grown node by
 * node; a source has a cursor at each node, which says where in its own memory that node's path has led it. A source
 * knows tokens alone: no model, no device, no text. */
#ifndef COORDGEN_SPEC_DRAFTER_H
#define COORDGEN_SPEC_DRAFTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DRAFT_CHOICES_MAX = 8 /* that a source has behind one node */
};

/* Where a source is behind a path; what the numbers mean is the source's business. All zero: nowhere. */
typedef struct DraftCursor {
    uint32_t a, b, c;
} DraftCursor;

/* A token that may come next. */
typedef struct DraftChoice {
    uint32_t token;
    uint16_t bucket;  /* how good the match is that it rests on, below DRAFT_BUCKETS: statistics are kept by it */
    uint16_t rank;    /* 0: the source's first choice behind this node */
    bool of_prompt;   /* it rests on what the target said at rows of the prompt */
    DraftCursor next; /* the source's cursor behind this token */
} DraftChoice;

enum {
    DRAFT_BUCKETS = 16,
    DRAFT_RANKS = DRAFT_CHOICES_MAX
};

typedef struct DrafterOps {
    /* Chances of a choice to be right before any statistics: by bucket and rank, each within [0.001, 0.999]. */
    float (*prior)(uint16_t bucket, uint16_t rank);
    /* Tokens that the text has now, behind those of before. 0, -ENOMEM, DRAFTER_E_MEMORY: nothing was taken in. */
    int (*append)(void *drafter, const uint32_t *tokens, size_t n);
    /* Behind all tokens that were appended. */
    DraftCursor (*root)(const void *drafter);
    /* Up to max (at most DRAFT_CHOICES_MAX) choices behind the cursor, distinct tokens, by rank. Allocates nothing. */
    size_t (*choices)(const void *drafter, DraftCursor at, DraftChoice *choices, size_t max);
    /* Behind one token more, whichever source it came from. */
    DraftCursor (*follow)(const void *drafter, DraftCursor at, uint32_t token);
    void (*free)(void *drafter);
} DrafterOps;

enum {
    DRAFTER_E_MEMORY = 1 /* the limit of the account draftdb */
};

typedef struct Drafter {
    const DrafterOps *ops;
    void *self;
} Drafter;

#endif
