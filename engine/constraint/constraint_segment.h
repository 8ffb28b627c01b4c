// SPDX-License-Identifier: Apache-2.0
/* A segment of a plan. Private to engine/constraint/; constraint_plan.h comes before. */
#ifndef COORDGEN_ENGINE_CONSTRAINT_SEGMENT_H
#define COORDGEN_ENGINE_CONSTRAINT_SEGMENT_H

#include <stdint.h>

#include "text/grammar/grammar.h"

typedef struct ConstraintSegment {
    ConstraintKind kind;
    uint32_t next;     /* GRAMMAR, TOKENS */
    Grammar *grammar;  /* GRAMMAR: counted */
    uint32_t source;   /* GRAMMAR: its ConstraintSource */
    uint32_t *tokens;  /* TOKENS: owned */
    uint32_t n_tokens; /* at least 1 */
    uint32_t token;    /* CHOICE: leads to `chosen` */
    uint32_t chosen;
    bool is_limited; /* GRAMMAR: to tokens_max tokens, then `over` */
    uint32_t tokens_max, over;
    ConstraintFree *free; /* FREE: owned */
    uint32_t least;       /* tokens of a short way from its start to an end of the answer */
} ConstraintSegment;

#endif
