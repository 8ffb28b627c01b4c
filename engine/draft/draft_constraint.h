// SPDX-License-Identifier: Apache-2.0
/* The constraint of an answer as its drafts see it: a grammar of tokens (spec/sources/grammar_drafter.h). */
#ifndef COORDGEN_ENGINE_DRAFT_CONSTRAINT_H
#define COORDGEN_ENGINE_DRAFT_CONSTRAINT_H

#include "engine/constraint/constraint_run.h"
#include "spec/sources/grammar_drafter.h"

/* Embedded; all zero: the answer has no constraint. Thread: the one that computes. */
typedef struct DraftConstraint {
    ConstraintRun *run;           /* of the answer, which its drafts share with its sampling */
    const ConstraintState *state; /* behind the answer so far, kept by whoever samples it */
    const uint32_t *text;         /* [n_text]: the text so far, whose last tokens the answer ends with */
    size_t n_text;
} DraftConstraint;

/* Returns the grammar, valid as long as the constraint stays where it is; without a run a grammar without ops. */
DraftGrammar draft_constraint_grammar(DraftConstraint *constraint);
/* Begins to draft behind the text[n]: the state is that behind it, and drafts of a step have fuel of their own. */
void draft_constraint_begin(DraftConstraint *constraint, const uint32_t *text, size_t n);

#endif
