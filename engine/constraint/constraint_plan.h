// SPDX-License-Identifier: Apache-2.0
/* What an answer may be, as a plan of segments that follow each other. The plan for a JSON schema is one GRAMMAR
 * segment; thinking and tool calls have segments around that.
 *
 * Control tokens are never text, so a grammar cannot mean them: TOKENS segments and triggers do. A mark that is text
 * ("</think>" of a vocabulary without such a token) needs no segment: a grammar says "any text without the mark, then
 * the mark, then the rest". */
#ifndef COORDGEN_ENGINE_CONSTRAINT_PLAN_H
#define COORDGEN_ENGINE_CONSTRAINT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/constraint/constraint_vocabulary.h"
#include "text/grammar/grammar.h"

enum {
    CONSTRAINT_E_REFUSED = 1,     /* the constraint does not allow that token here */
    CONSTRAINT_E_TOO_COMPLEX = 2, /* a limit on fuel or memory is reached: SCHEMA_TOO_COMPLEX */
    CONSTRAINT_E_DEAD_END = 4,    /* the text must go on, and no token of the vocabulary does so */
    CONSTRAINT_E_PLAN = 3,        /* the plan has no segment, or names one that it does not have; the text says which */
};

#define CONSTRAINT_END 0xffffffffu     /* in place of a segment: the answer ends */
#define CONSTRAINT_REFUSED 0xfffffffeu /* in place of a trigger's segment: the token may not come */

enum {
    CONSTRAINT_SEGMENTS_MAX = 1024, /* of a plan */
    CONSTRAINT_TRIGGERS_MAX = 64,   /* of a segment */
    CONSTRAINT_TOKENS_MAX = 4096,   /* of a segment */
    CONSTRAINT_ENTRIES_MAX = 2,
};

typedef enum ConstraintKind {
    CONSTRAINT_GRAMMAR, /* a text of the grammar, whole; then `next` */
    CONSTRAINT_FREE,    /* any tokens, until a trigger comes */
    CONSTRAINT_TOKENS,  /* exactly these tokens; then `next` */
    CONSTRAINT_CHOICE,  /* a token leads to a segment; else `next` begins */
} ConstraintKind;

/* In a FREE segment, the token (of any kind, the end tokens excepted) leads to a segment, which begins behind it. */
typedef struct ConstraintTrigger {
    uint32_t token;
    uint32_t segment; /* or CONSTRAINT_END, CONSTRAINT_REFUSED */
} ConstraintTrigger;

/* Free text: begin with CONSTRAINT_FREE_TEXT. */
typedef struct ConstraintFree {
    ConstraintTrigger triggers[CONSTRAINT_TRIGGERS_MAX];
    uint32_t n_triggers;
    bool is_end_allowed; /* the answer may end in the segment */
    uint32_t tokens_max; /* tokens that may stay in the segment; then `over` begins. UINT32_MAX: any number; 0: `over`
                          * begins at once */
    uint32_t over;       /* a TOKENS segment, needed with tokens_max; CONSTRAINT_END: none. Near the end of the
                          * answer's room it begins earlier, to leave room for what follows */
} ConstraintFree;

#define CONSTRAINT_FREE_TEXT ((ConstraintFree){ .tokens_max = UINT32_MAX, .over = CONSTRAINT_END })

/* A plan under construction; zero-initialised it is empty. Segments are numbered from 0 in the order in which they are
 * added, and may name segments that come later. A failed allocation or a limit stays with the plan until
 * constraint_new(). Used by one thread at a time. */
typedef struct ConstraintPlan {
    struct ConstraintSegment *segments; /* private */
    uint32_t n, room;
    uint32_t start; /* segment where the answer begins; 0 by default */
    /* Further segments where an answer may begin, by what its prompt has. An answer chooses by number: 0 is `start`,
     * and so is every number that the plan does not have. */
    uint32_t entries[CONSTRAINT_ENTRIES_MAX];
    uint32_t n_entries;
    int failure;
} ConstraintPlan;

void constraint_plan_deinit(ConstraintPlan *plan);
/* Add a segment and return its number. The grammar is counted; tokens are copied. A grammar goes on as long as it
 * allows the next token, and hands over to `next` where it may end and does not allow it. So what follows must not need
 * a token with which the grammar could go on. */
uint32_t constraint_plan_add_grammar(ConstraintPlan *plan, Grammar *grammar, uint32_t next);
uint32_t constraint_plan_add_tokens(ConstraintPlan *plan, const uint32_t *tokens, size_t n, uint32_t next);
uint32_t constraint_plan_add_free(ConstraintPlan *plan, const ConstraintFree *segment);
uint32_t constraint_plan_add_choice(ConstraintPlan *plan, uint32_t token, uint32_t chosen, uint32_t next);
/* Limits a GRAMMAR segment to so many tokens; then `over` begins, a TOKENS segment, wherever the text is. As in a FREE
 * segment it begins earlier near the end of the answer's room. */
void constraint_plan_set_limit(ConstraintPlan *plan, uint32_t segment, uint32_t tokens_max, uint32_t over);
/* Sets what follows a GRAMMAR, TOKENS or CHOICE segment. */
void constraint_plan_set_next(ConstraintPlan *plan, uint32_t segment, uint32_t next);

/* Checks that all segments exist that a plan names, and that their tokens do. 0; as constraint_new(). */
int constraint_plan_check(const ConstraintPlan *plan, const ConstraintVocabulary *vocabulary, ErrText *err);

#endif
