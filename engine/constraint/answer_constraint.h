// SPDX-License-Identifier: Apache-2.0
/* The constraint of one generation: its run, the state behind the answer so far, and what a step has sampled. Thread:
 * the one that computes. */
#ifndef COORDGEN_ENGINE_ANSWER_CONSTRAINT_H
#define COORDGEN_ENGINE_ANSWER_CONSTRAINT_H

#include "base/memory/account.h"
#include "engine/constraint/constraint_run.h"
#include "engine/sampling/sampler.h"

typedef struct AnswerConstraint AnswerConstraint;

/* Makes the constraint of an answer that begins at an entry of the plan. Its memory is charged to the account of
 * activations: it grows with the states that the answer meets. ends_in_time: the answer becomes whole before the last
 * token that may come; room for constraint_least_tokens() is needed then. 0; ACCOUNT_E_LIMIT: no memory; -errno. */
int answer_constraint_new(AnswerConstraint **answerp, Constraint *constraint, uint32_t entry, bool ends_in_time,
                          AccountTable *accounts);
AnswerConstraint *answer_constraint_free(AnswerConstraint *answer);
DEFINE_CLEANUP(AnswerConstraint, answer_constraint_free)

/* Lets the answer go on behind a text that its prompt has of it already; called once, before the first step. 0;
 * CONSTRAINT_E_REFUSED: the constraint does not allow byte *n_takenp of the text; CONSTRAINT_E_TOO_COMPLEX; -errno;
 * -ENOBUFS: the account has no room for the states. */
int answer_constraint_begin_behind(AnswerConstraint *answer, uint32_t entry, const char *text, size_t n_bytes,
                                   size_t *n_takenp);
/* Counts the tokens of a short way from the answer so far to its end; UINT32_MAX: there is none. 0,
 * CONSTRAINT_E_TOO_COMPLEX, -errno. */
int answer_constraint_least_tokens(AnswerConstraint *answer, uint32_t *leastp);

/* Prepares a step behind the answer tokens[n]. 0, CONSTRAINT_E_TOO_COMPLEX, -errno; -ENOBUFS: the account has no room
 * for the states. */
int answer_constraint_begin_step(AnswerConstraint *answer, const uint32_t *tokens, size_t n);
/* Returns the bytes that the account lacked for the states of the last step. */
size_t answer_constraint_missing_bytes(const AnswerConstraint *answer);
/* Run and state for drafts behind the answer; whoever uses the run refuels it first. */
ConstraintRun *answer_constraint_run(const AnswerConstraint *answer);
ConstraintState answer_constraint_state(const AnswerConstraint *answer);

/* Samples the step's token number `index`, behind those of lower numbers. n_left: tokens that may still come, this one
 * counted. The tokens are taken by answer_constraint_take() in their order, which also reports a failure to sample.
 * Return: the token; any after a failure. */
uint32_t answer_constraint_pick(AnswerConstraint *answer, const SamplerRow *row, size_t index, uint32_t n_left);
/* Whether no token may come behind the step's token number `index`, or it could not be sampled. */
bool answer_constraint_is_last(const AnswerConstraint *answer, size_t index);
/* Moves behind the next token that the step has sampled. 0; CONSTRAINT_E_DEAD_END; as
 * answer_constraint_begin_step(). */
int answer_constraint_take(AnswerConstraint *answer);

/* Whether the answer taken so far is a whole text, to which nothing can be added. */
bool answer_constraint_is_complete(const AnswerConstraint *answer);
/* Whether the answer taken so far is a whole text. */
bool answer_constraint_is_whole(const AnswerConstraint *answer);
/* Whether a token taken so far would have been another one if more tokens could come. */
bool answer_constraint_was_hurried(const AnswerConstraint *answer);

#endif
