// SPDX-License-Identifier: Apache-2.0
#include "engine/constraint/answer_constraint.h"

#include <errno.h>
#include <stdlib.h>

#include "spec/sources/draft_tree.h"

enum {
    PICK_ROWS = 1,          /* fuel of a token: its masks, and the ends behind the candidates */
    BEHIND_ROWS = 8,        /* fuel to follow a text of the prompt, about 40 ms */
    CHARGE_BYTES = 1 << 18, /* memory is charged in such pieces */
};

typedef struct AnswerPick {
    ConstraintState next;
    bool is_hurried;
    int r; /* 0; why no token was sampled */
} AnswerPick;

struct AnswerConstraint {
    ConstraintRun *run;
    ConstraintState state; /* behind the answer */
    bool ends_in_time, was_hurried;
    AnswerPick picks[DRAFT_ROWS_MAX];
    size_t n_taken; /* of picks */
    uint64_t *mask;
    AccountTable *accounts;
    Bill bill;
};

size_t answer_constraint_missing_bytes(const AnswerConstraint *answer) {
    const size_t n_bytes = constraint_run_memory_bytes(answer->run);

    return n_bytes <= answer->bill.bytes ? 0 : n_bytes - answer->bill.bytes + CHARGE_BYTES;
}

/* Charges what the run has grown. */
static int charge(AnswerConstraint *answer) {
    const size_t n_bytes = answer_constraint_missing_bytes(answer);

    return n_bytes ? account_charge(answer->accounts, ACCOUNT_ACTIVATIONS, &answer->bill, n_bytes) : 0;
}

int answer_constraint_new(AnswerConstraint **answerp, Constraint *constraint, uint32_t entry, bool ends_in_time,
                          AccountTable *accounts) {
    _cleanup_(answer_constraint_freep) AnswerConstraint *answer = calloc(1, sizeof(*answer));
    const uint32_t n_vocab = constraint_vocabulary_n_vocab(constraint_vocabulary(constraint));
    int r;

    if (!answer)
        return err_raise(-ENOMEM);
    answer->ends_in_time = ends_in_time;
    answer->accounts = accounts;
    r = account_charge(accounts, ACCOUNT_ACTIVATIONS, &answer->bill,
                       sizeof(*answer) + TOKEN_MASK_WORDS(n_vocab) * sizeof(*answer->mask));
    if (r)
        return r;
    r = constraint_run_new(&answer->run, constraint);
    if (r)
        return err_fold(r);
    r = charge(answer);
    if (r)
        return r;
    answer->mask = calloc(TOKEN_MASK_WORDS(n_vocab), sizeof(*answer->mask));
    if (!answer->mask)
        return err_raise(-ENOMEM);
    answer->state = constraint_run_start_at(answer->run, entry);
    *answerp = steal(&answer);
    return 0;
}

AnswerConstraint *answer_constraint_free(AnswerConstraint *answer) {
    if (!answer)
        return NULL;
    constraint_run_free(answer->run);
    bill_settle(&answer->bill);
    free(answer->mask);
    free(answer);
    return NULL;
}

int answer_constraint_begin_behind(AnswerConstraint *answer, uint32_t entry, const char *text, size_t n_bytes,
                                   size_t *n_takenp) {
    int r;

    constraint_run_refuel(answer->run, BEHIND_ROWS);
    r = constraint_run_start_behind(answer->run, entry, text, n_bytes, &answer->state, n_takenp);
    return r ? r : charge(answer) ? -ENOBUFS : 0;
}

int answer_constraint_least_tokens(AnswerConstraint *answer, uint32_t *leastp) {
    constraint_run_refuel(answer->run, BEHIND_ROWS);
    return constraint_run_end_tokens(answer->run, answer->state, leastp);
}

int answer_constraint_begin_step(AnswerConstraint *answer, const uint32_t *tokens, size_t n) {
    int r = constraint_run_renew(answer->run, tokens, n, &answer->state);

    answer->n_taken = 0;
    return r ? r : charge(answer) ? -ENOBUFS : 0;
}

ConstraintRun *answer_constraint_run(const AnswerConstraint *answer) {
    return answer->run;
}

ConstraintState answer_constraint_state(const AnswerConstraint *answer) {
    return answer->state;
}

/* --- sampling ----------------------------------------------------------------------------------------------------- */

/* A row under way. */
typedef struct PickWork {
    AnswerConstraint *answer;
    ConstraintState from;
    bool is_limited;
    uint32_t n_left; /* if it is limited */
} PickWork;

static bool is_end(const PickWork *work, uint32_t token) {
    const Constraint *constraint = constraint_run_constraint(work->answer->run);

    return constraint_vocabulary_is_end(constraint_vocabulary(constraint), token);
}

static int test(void *arg, uint32_t token) {
    const PickWork *work = arg;
    ConstraintState next;
    int r = constraint_run_advance(work->answer->run, work->from, token, &next);

    if (!r && work->is_limited && !is_end(work, token))
        r = constraint_run_check_time(work->answer->run, next, work->n_left);
    return r == CONSTRAINT_E_REFUSED ? SAMPLER_FILTER_REFUSED : r == CONSTRAINT_E_TOO_COMPLEX ? -E2BIG : r;
}

static bool is_empty(const uint64_t *mask, size_t n_words) {
    for (size_t w = 0; w < n_words; w++)
        if (mask[w])
            return false;
    return true;
}

/* A vocabulary without a token for each byte may have no token that goes on: -ENODATA. */
static int find_mask(void *arg, const uint64_t **maskp) {
    const PickWork *work = arg;
    AnswerConstraint *answer = work->answer;
    int r = work->is_limited ? constraint_run_mask_to_end(answer->run, work->from, work->n_left, answer->mask)
                             : constraint_run_mask(answer->run, work->from, answer->mask);

    *maskp = answer->mask;
    if (!r && is_empty(answer->mask, TOKEN_MASK_WORDS(constraint_vocabulary_n_vocab(
                                         constraint_vocabulary(constraint_run_constraint(answer->run))))))
        return -ENODATA;
    return r > 0 ? -E2BIG : r;
}

/* Samples a token of the mask, and finds out where it leads. */
static int pick(PickWork *work, const SamplerRow *row, uint32_t *tokenp, ConstraintState *nextp) {
    const SamplerFilter filter = { test, find_mask, work };
    int r = sampler_pick_allowed(row, &filter, tokenp);

    if (!r)
        r = constraint_run_advance(work->answer->run, work->from, *tokenp, nextp);
    return r == -E2BIG                 ? CONSTRAINT_E_TOO_COMPLEX
           : r == -ENODATA             ? CONSTRAINT_E_DEAD_END
           : r == CONSTRAINT_E_REFUSED ? err_raise(-EPROTO)
                                       : r;
}

/**
 * answer_constraint_pick() - a token that the constraint allows
 *
 * The token is sampled from all that are allowed. If no end can be reached in time behind it, it is sampled anew, with
 * the same random numbers, from those behind which an end can. Most answers end long before, and pay nothing for it.
 */
uint32_t answer_constraint_pick(AnswerConstraint *answer, const SamplerRow *row, size_t index, uint32_t n_left) {
    const ConstraintState before = index ? answer->picks[index - 1].next : answer->state;
    AnswerPick *picked = &answer->picks[index];
    PickWork work = { .answer = answer, .from = before, .n_left = n_left };
    uint32_t token = 0;

    constraint_run_refuel(answer->run, PICK_ROWS);
    if (answer->ends_in_time)
        work.from = constraint_run_in_time(answer->run, before, n_left);
    *picked = (AnswerPick){ .is_hurried = work.from.segment != before.segment };
    picked->r = pick(&work, row, &token, &picked->next);
    if (!picked->r && answer->ends_in_time && !is_end(&work, token)) {
        picked->r = constraint_run_check_time(answer->run, picked->next, n_left);
        if (picked->r == CONSTRAINT_E_REFUSED) {
            work.is_limited = picked->is_hurried = true;
            constraint_run_refuel(answer->run, PICK_ROWS);
            picked->r = pick(&work, row, &token, &picked->next);
        }
    }
    return token;
}

bool answer_constraint_is_last(const AnswerConstraint *answer, size_t index) {
    return answer->picks[index].r || constraint_run_is_complete(answer->run, answer->picks[index].next);
}

int answer_constraint_take(AnswerConstraint *answer) {
    const AnswerPick *picked = &answer->picks[answer->n_taken];

    if (picked->r)
        return picked->r;
    answer->n_taken++;
    answer->state = picked->next;
    answer->was_hurried = answer->was_hurried || picked->is_hurried;
    return 0;
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

bool answer_constraint_is_complete(const AnswerConstraint *answer) {
    return constraint_run_is_complete(answer->run, answer->state);
}

bool answer_constraint_is_whole(const AnswerConstraint *answer) {
    return constraint_run_is_end_allowed(answer->run, answer->state);
}

bool answer_constraint_was_hurried(const AnswerConstraint *answer) {
    return answer->was_hurried;
}
