// SPDX-License-Identifier: Apache-2.0
/* The constraint of one generation: its run, the state behind the answer so far, and the tokens that a step has
 * sampled. */
#ifndef COORDGEN_ENGINE_ANSWER_CONSTRAINT_H
#define COORDGEN_ENGINE_ANSWER_CONSTRAINT_H

#include "engine/constraint/constraint_run.h"
#include "engine/core/engine_core.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/sampler_filter.h"

typedef struct AnswerConstraint AnswerConstraint;

/* Makes the constraint of an answer; its memory is charged to the account of activations and grows with the states that
 * the answer meets. ends_in_time: answers end whole before the last token that may come. 0, CONSTRAINT_E_TOO_COMPLEX,
 * ENGINE_E_MEMORY + ..., -errno, with a text. */
int answer_constraint_new(AnswerConstraint **answerp, Constraint *constraint, bool ends_in_time,
                          AccountTable *accounts);
AnswerConstraint *answer_constraint_free(AnswerConstraint *answer);
DEFINE_CLEANUP(AnswerConstraint, answer_constraint_free)

#endif
