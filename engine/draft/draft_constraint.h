// SPDX-License-Identifier: Apache-2.0
/* The constraint of an answer as its drafts see it: a grammar of tokens (spec/sources/grammar_drafter.h). */
#ifndef COORDGEN_ENGINE_DRAFT_CONSTRAINT_H
#define COORDGEN_ENGINE_DRAFT_CONSTRAINT_H

#include "engine/constraint/answer_constraint.h"
#include "spec/sources/grammar_drafter.h"

/* Embedded; all zero: the answer has no constraint. Thread: the one that computes. */
typedef struct DraftConstraint {
    AnswerConstraint *answer; /* whose run drafts share with sampling; outlives the drafts */
    const uint32_t *text;     /* [n_text]: prompt and answer so far */
    size_t n_text;
} DraftConstraint;

/* Returns the grammar, valid as long as the constraint stays where it is; without an answer a grammar without ops. */
DraftGrammar draft_constraint_grammar(DraftConstraint *constraint);
/* Begins to draft behind the text[n], whose tokens the answer has taken. Drafts of a step have fuel of their own. */
void draft_constraint_begin(DraftConstraint *constraint, const uint32_t *text, size_t n);

#endif
