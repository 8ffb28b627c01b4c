// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/draft_constraint.h"

#include <assert.h>
#include <string.h>

#include "base/min_max.h"

enum {
    TAIL_MAX = 16, /* tokens of the text that may change how forced bytes become tokens */
};

static_assert(sizeof(ConstraintState) <= sizeof(DraftGrammarState), "a place of the drafts has room for a state");

static DraftGrammarState to_place(ConstraintState state) {
    DraftGrammarState place = { 0 };

    memcpy(&place, &state, sizeof(state));
    return place;
}

static ConstraintState of_place(const DraftGrammarState *place) {
    ConstraintState state;

    memcpy(&state, place, sizeof(state));
    return state;
}

static DraftGrammarState root(void *self) {
    const DraftConstraint *constraint = self;

    return to_place(answer_constraint_state(constraint->answer));
}

/* A token that could not be judged within the limits is no draft; sampling judges it with fuel of its own. */
static bool advance(void *self, const DraftGrammarState *at, uint32_t token, DraftGrammarState *nextp) {
    const DraftConstraint *constraint = self;
    ConstraintState next;

    if (constraint_run_advance(answer_constraint_run(constraint->answer), of_place(at), token, &next))
        return false;
    *nextp = to_place(next);
    return true;
}

static void find_forced(void *self, const DraftGrammarState *at, const uint32_t *path, uint32_t n_path,
                        DraftForced *forced) {
    const DraftConstraint *constraint = self;
    const size_t n_tail = MIN(constraint->n_text, (size_t)TAIL_MAX), n_path_tail = MIN(n_path, TAIL_MAX);
    uint32_t tail[2 * TAIL_MAX];
    size_t n = 0;

    memcpy(tail, constraint->text + constraint->n_text - n_tail, n_tail * sizeof(*tail));
    memcpy(tail + n_tail, path + n_path - n_path_tail, n_path_tail * sizeof(*tail));
    if (constraint_run_forced(answer_constraint_run(constraint->answer), of_place(at), tail, n_tail + n_path_tail,
                              forced->tokens, GRAMMAR_FORCED_MAX, &n))
        n = 0;
    forced->n = (uint32_t)n;
}

DraftGrammar draft_constraint_grammar(DraftConstraint *constraint) {
    static const DraftGrammarOps ops = { root, advance, find_forced };

    return (DraftGrammar){ constraint->answer ? &ops : NULL, constraint };
}

void draft_constraint_begin(DraftConstraint *constraint, const uint32_t *text, size_t n) {
    if (!constraint->answer)
        return;
    constraint->text = text;
    constraint->n_text = n;
    constraint_run_refuel(answer_constraint_run(constraint->answer), 1);
}
