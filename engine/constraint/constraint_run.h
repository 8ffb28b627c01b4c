// SPDX-License-Identifier: Apache-2.0
/* Follows a constraint through one answer. A state is a value: a draft tree has one in each node, the sampler one for
 * the answer so far. Equal states allow equal tokens, whoever made them and in whatever order. */
#ifndef COORDGEN_ENGINE_CONSTRAINT_RUN_H
#define COORDGEN_ENGINE_CONSTRAINT_RUN_H

#include "engine/constraint/constraint.h"
#include "text/grammar/grammar_matcher.h"

/* Where an answer is. Valid until constraint_run_renew() of its run. */
typedef struct ConstraintState {
    uint32_t segment;     /* CONSTRAINT_END: only the end may come */
    GrammarState grammar; /* in a GRAMMAR segment */
    uint32_t count;       /* tokens in the segment */
} ConstraintState;

typedef struct ConstraintRun ConstraintRun; /* used by one thread at a time */

/* Makes a run of a constraint, which is counted. 0 or -errno. */
int constraint_run_new(ConstraintRun **runp, Constraint *constraint);
ConstraintRun *constraint_run_free(ConstraintRun *run); /* leaves small matchers to later runs; returns NULL */
DEFINE_CLEANUP(ConstraintRun, constraint_run_free)
size_t constraint_run_memory_bytes(const ConstraintRun *run);
const Constraint *constraint_run_constraint(const ConstraintRun *run);

/* Gives the run fuel for so many rows (1 or more), which the functions below share until the next call: a row takes
 * 5 ms at most, whatever the grammar. A function that lacks fuel returns CONSTRAINT_E_TOO_COMPLEX, and says nothing
 * about the token then. Whoever samples refuels for each row; drafts have fuel of their own, so that they cannot spend
 * a row's. */
void constraint_run_refuel(ConstraintRun *run, uint32_t n_rows);
/* Before a step: forgets states that take too much memory. All states but *statep become invalid; *statep, the state
 * behind the answer tokens[n], is made anew of them. 0; CONSTRAINT_E_TOO_COMPLEX; -errno. */
int constraint_run_renew(ConstraintRun *run, const uint32_t *tokens, size_t n, ConstraintState *statep);

ConstraintState constraint_run_start(const ConstraintRun *run);
ConstraintState constraint_run_start_at(const ConstraintRun *run, uint32_t entry); /* an entry of the plan */
/* Finds the state of an answer that has begun with a text, which the run copies. The text is followed byte by byte, for
 * text is never a control token: where only such a token may come, the text is refused. Called once, before the first
 * token. 0; CONSTRAINT_E_REFUSED: *n_takenp bytes are allowed, the next one is not; CONSTRAINT_E_TOO_COMPLEX;
 * -errno. */
int constraint_run_start_behind(ConstraintRun *run, uint32_t entry, const char *text, size_t n_bytes,
                                ConstraintState *statep, size_t *n_takenp);
/* Advances by a token of any kind; this is also how a single candidate is tested. An end token leads to CONSTRAINT_END
 * where the answer may end. 0: *nextp is the state behind it; CONSTRAINT_E_REFUSED; CONSTRAINT_E_TOO_COMPLEX;
 * -errno. */
int constraint_run_advance(ConstraintRun *run, ConstraintState state, uint32_t token, ConstraintState *nextp);
/* Whether the answer may end here, so that end tokens are allowed. */
bool constraint_run_is_end_allowed(const ConstraintRun *run, ConstraintState state);
/* Whether nothing but the end may come. */
bool constraint_run_is_complete(const ConstraintRun *run, ConstraintState state);

/* Sets the bits of all tokens that may come next, end tokens included, mask[TOKEN_MASK_WORDS(n_vocab)]. 0,
 * CONSTRAINT_E_TOO_COMPLEX, -errno. */
int constraint_run_mask(ConstraintRun *run, ConstraintState state, uint64_t *mask);

/* --- an end in time ----------------------------------------------------------------------------------------------- */

/* Counts the tokens of a short way to an allowed end, the end token excluded. UINT32_MAX: there is none. 0,
 * CONSTRAINT_E_TOO_COMPLEX, -errno. */
int constraint_run_end_tokens(ConstraintRun *run, ConstraintState state, uint32_t *n_tokensp);
/* Returns the state that the next token is sampled from if n_left tokens may still come: `state`, or the start of
 * `over` where a FREE segment must end now to leave room for what follows. */
ConstraintState constraint_run_in_time(const ConstraintRun *run, ConstraintState state, uint32_t n_left);
/* Whether an end can still be reached in time behind a token that leads to `next`, n_left counting the token. 0: yes;
 * CONSTRAINT_E_REFUSED; CONSTRAINT_E_TOO_COMPLEX; -errno. */
int constraint_run_check_time(ConstraintRun *run, ConstraintState next, uint32_t n_left);
/* Sets the bits of the tokens that constraint_run_check_time() allows, and of end tokens where the answer may end. From
 * a state with n end_tokens, n_left = n allows at least one. 0, CONSTRAINT_E_TOO_COMPLEX, -errno. */
int constraint_run_mask_to_end(ConstraintRun *run, ConstraintState state, uint32_t n_left, uint64_t *mask);

/* --- what must come ----------------------------------------------------------------------------------------------- */

/* Writes tokens that spell what must come behind the state, at most n_max, as the tokenizer would write them behind
 * the answer's last tokens, text[n_text]. The bytes (or control tokens) are certain, the division into tokens is not:
 * verify them like drafts. *np: how many; 0: nothing is certain. 0, CONSTRAINT_E_TOO_COMPLEX, -errno. */
int constraint_run_forced(ConstraintRun *run, ConstraintState state, const uint32_t *text, size_t n_text,
                          uint32_t *tokens, size_t n_max, size_t *np);

#endif
