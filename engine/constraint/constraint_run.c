// SPDX-License-Identifier: Apache-2.0
/* The life of runs, and states: where a token leads. */
#include "engine/constraint/constraint_run.h"

#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "engine/constraint/constraint_private.h"
#include "engine/constraint/constraint_run_private.h"

enum {
    RENEW_BYTES = 12 << 20, /* a matcher that has grown by that forgets its states before the next step */
    RENEW_ROWS = 8,         /* fuel to follow the answer anew: a common text meets the same states again and again */
};

int constraint_run_new(ConstraintRun **runp, Constraint *constraint) {
    _cleanup_(constraint_run_freep) ConstraintRun *run = calloc(1, sizeof(*run));
    const uint32_t n_vocab = constraint_vocabulary_n_vocab(constraint->vocabulary);

    if (!run)
        return err_raise(-ENOMEM);
    run->constraint = constraint_ref(constraint);
    run->matchers = calloc(MAX(constraint->n_sources, 1u), sizeof(*run->matchers));
    run->scratch = calloc(TOKEN_MASK_WORDS(n_vocab), sizeof(*run->scratch));
    run->taken = calloc(TOKEN_MASK_WORDS(n_vocab), sizeof(*run->taken));
    if (!run->matchers || !run->scratch || !run->taken)
        return err_raise(-ENOMEM);
    for (uint32_t i = 0; i < constraint->n_sources; i++) {
        int r = constraint_take_matcher(constraint, i, &run->matchers[i].it);

        if (r)
            return r;
        run->matchers[i].first_bytes = grammar_matcher_memory_bytes(run->matchers[i].it);
    }
    constraint_run_refuel(run, 1);
    *runp = steal(&run);
    return 0;
}

ConstraintRun *constraint_run_free(ConstraintRun *run) {
    if (!run)
        return NULL;
    for (uint32_t i = 0; run->matchers && i < run->constraint->n_sources; i++)
        constraint_give_matcher(run->constraint, i, run->matchers[i].it);
    free(run->matchers);
    free(run->scratch);
    free(run->taken);
    free(run->prefix.text);
    constraint_unref(run->constraint);
    free(run);
    return NULL;
}

size_t constraint_run_memory_bytes(const ConstraintRun *run) {
    const uint32_t n_vocab = constraint_vocabulary_n_vocab(run->constraint->vocabulary);
    size_t n_bytes = sizeof(*run) + run->prefix.n_bytes + 2 * TOKEN_MASK_WORDS(n_vocab) * sizeof(*run->scratch);

    for (uint32_t i = 0; i < run->constraint->n_sources; i++)
        n_bytes += sizeof(run->matchers[i]) + grammar_matcher_memory_bytes(run->matchers[i].it);
    return n_bytes;
}

const Constraint *constraint_run_constraint(const ConstraintRun *run) {
    return run->constraint;
}

/* --- fuel --------------------------------------------------------------------------------------------------------- */

void constraint_run_refuel(ConstraintRun *run, uint32_t n_rows) {
    run->fuel = n_rows * GRAMMAR_MATCHER_LIMITS_DEFAULT.fuel_max;
}

GrammarMatcher *constraint_run_begin_call(ConstraintRun *run, const ConstraintSegment *segment) {
    GrammarMatcher *matcher = run->matchers[segment->source].it;

    grammar_matcher_set_fuel(matcher, run->fuel);
    return matcher;
}

int constraint_run_end_call(ConstraintRun *run, const ConstraintSegment *segment, int r) {
    run->fuel = grammar_matcher_fuel_left(run->matchers[segment->source].it);
    return r == GRAMMAR_E_REFUSED ? CONSTRAINT_E_REFUSED : r > 0 ? CONSTRAINT_E_TOO_COMPLEX : r;
}

/* --- states ------------------------------------------------------------------------------------------------------- */

static ConstraintState begin_of(const ConstraintRun *run, uint32_t segment) {
    ConstraintState state = { .segment = segment };

    if (segment != CONSTRAINT_END && constraint_run_segment(run, state)->kind == CONSTRAINT_GRAMMAR)
        state.grammar = grammar_matcher_start(run->matchers[constraint_run_segment(run, state)->source].it);
    return state;
}

/* Returns whether nothing more of the segment can come; *nextp: what follows. */
static bool is_over(const ConstraintRun *run, ConstraintState state, uint32_t *nextp) {
    const ConstraintSegment *segment = constraint_run_segment(run, state);

    *nextp = segment->kind == CONSTRAINT_FREE ? segment->free->over : segment->next;
    switch (segment->kind) {
    case CONSTRAINT_CHOICE:
        return false;
    case CONSTRAINT_GRAMMAR:
        if (grammar_matcher_is_complete(run->matchers[segment->source].it, state.grammar))
            return true;
        *nextp = segment->over;
        return segment->is_limited && state.count >= segment->tokens_max;
    case CONSTRAINT_FREE:
        return segment->free->tokens_max != UINT32_MAX && state.count >= segment->free->tokens_max;
    default:
        return state.count == segment->n_tokens;
    }
}

/* A plan may have a circle of segments that are over at once; no token can leave it. */
ConstraintState constraint_run_settle(const ConstraintRun *run, ConstraintState state) {
    uint32_t next;

    for (uint32_t i = 0; i <= run->constraint->n_segments; i++) {
        if (state.segment == CONSTRAINT_END || !is_over(run, state, &next))
            break;
        state = begin_of(run, next);
    }
    return state;
}

ConstraintState constraint_run_enter(const ConstraintRun *run, uint32_t segment) {
    return constraint_run_settle(run, begin_of(run, segment));
}

ConstraintState constraint_run_start(const ConstraintRun *run) {
    return constraint_run_start_at(run, 0);
}

ConstraintState constraint_run_start_at(const ConstraintRun *run, uint32_t entry) {
    return constraint_run_enter(run, constraint_entry(run->constraint, entry));
}

/* --- an answer that has begun ------------------------------------------------------------------------------------- */

/* Moves a state by one byte, or to the segment behind it that may take the byte: *is_takenp. 0, CONSTRAINT_E_*,
 * -errno. */
static int advance_byte(ConstraintRun *run, ConstraintState *statep, char byte, bool *is_takenp) {
    const ConstraintSegment *segment = statep->segment == CONSTRAINT_END ? NULL : constraint_run_segment(run, *statep);
    const GrammarState before = statep->grammar;
    int r;

    *is_takenp = false;
    if (!segment || segment->kind == CONSTRAINT_TOKENS)
        return CONSTRAINT_E_REFUSED;
    *is_takenp = segment->kind == CONSTRAINT_FREE;
    if (segment->kind == CONSTRAINT_CHOICE)
        *statep = constraint_run_enter(run, segment->next);
    if (segment->kind != CONSTRAINT_GRAMMAR)
        return 0;
    r = constraint_run_end_call(
        run, segment,
        grammar_matcher_advance_bytes(constraint_run_begin_call(run, segment), before, &byte, 1, &statep->grammar));
    *is_takenp = !r;
    if (!r)
        *statep = constraint_run_settle(run, *statep);
    if (r != CONSTRAINT_E_REFUSED || !grammar_matcher_is_end_allowed(run->matchers[segment->source].it, before))
        return r;
    *statep = constraint_run_enter(run, segment->next);
    return 0;
}

/* Whether the state is at the begin of its segment, as far as it can be told. */
static bool is_at_begin(const ConstraintRun *run, ConstraintState state) {
    return state.segment == CONSTRAINT_END || state.grammar == begin_of(run, state.segment).grammar;
}

int constraint_run_start_behind(ConstraintRun *run, uint32_t entry, const char *text, size_t n_bytes,
                                ConstraintState *statep, size_t *n_takenp) {
    ConstraintState state = constraint_run_start_at(run, entry);
    uint32_t n_moves = 0; /* since the last byte: a plan may have a circle of segments that are over at once */

    run->prefix.text = malloc(n_bytes + 1);
    if (!run->prefix.text)
        return err_raise(-ENOMEM);
    memcpy(run->prefix.text, text, n_bytes);
    run->prefix.n_bytes = n_bytes;
    run->prefix.segment = state.segment;
    for (*n_takenp = 0; *n_takenp < n_bytes; n_moves++) {
        bool is_taken;
        int r = advance_byte(run, &state, text[*n_takenp], &is_taken);

        if (r || n_moves > run->constraint->n_segments)
            return r ? r : CONSTRAINT_E_REFUSED;
        *n_takenp += is_taken;
        n_moves = is_taken ? 0 : n_moves;
        if (state.segment != run->prefix.segment || is_at_begin(run, state))
            run->prefix.from = *n_takenp;
        run->prefix.segment = state.segment;
    }
    *statep = state;
    return 0;
}

/* --- fewer states ------------------------------------------------------------------------------------------------- */

int constraint_run_renew(ConstraintRun *run, const uint32_t *tokens, size_t n, ConstraintState *statep) {
    const ConstraintSegment *segment = NULL;

    for (uint32_t i = 0; i < run->constraint->n_sources; i++) {
        RunMatcher *matcher = &run->matchers[i];
        GrammarState grammar;
        int r = 0;

        if (grammar_matcher_memory_bytes(matcher->it) <= matcher->first_bytes + RENEW_BYTES)
            continue;
        r = grammar_matcher_forget(matcher->it);
        if (r)
            return r > 0 ? CONSTRAINT_E_TOO_COMPLEX : r;
        segment = statep->segment == CONSTRAINT_END ? NULL : constraint_run_segment(run, *statep);
        if (!segment || segment->kind != CONSTRAINT_GRAMMAR || segment->source != i)
            continue;
        constraint_run_refuel(run, RENEW_ROWS);
        grammar = grammar_matcher_start(matcher->it);
        if (statep->segment == run->prefix.segment && statep->count == n && run->prefix.text)
            r = constraint_run_end_call(run, segment,
                                        grammar_matcher_advance_bytes(constraint_run_begin_call(run, segment), grammar,
                                                                      run->prefix.text + run->prefix.from,
                                                                      run->prefix.n_bytes - run->prefix.from,
                                                                      &grammar));
        for (size_t at = n - MIN(statep->count, n); at < n && !r; at++)
            r = constraint_run_end_call(
                run, segment,
                grammar_matcher_advance(constraint_run_begin_call(run, segment), grammar, tokens[at], &grammar));
        if (r)
            return r;
        statep->grammar = grammar;
    }
    return 0;
}

/* --- tokens ------------------------------------------------------------------------------------------------------- */

static bool is_end(const ConstraintRun *run, uint32_t token) {
    return constraint_vocabulary_is_end(run->constraint->vocabulary, token);
}

static int advance_free(const ConstraintRun *run, ConstraintState state, uint32_t token, ConstraintState *nextp) {
    const ConstraintFree *segment = constraint_run_segment(run, state)->free;

    if (token >= constraint_vocabulary_n_vocab(run->constraint->vocabulary))
        return CONSTRAINT_E_REFUSED;
    if (is_end(run, token)) {
        *nextp = (ConstraintState){ .segment = CONSTRAINT_END };
        return segment->is_end_allowed ? 0 : CONSTRAINT_E_REFUSED;
    }
    for (uint32_t i = 0; i < segment->n_triggers; i++) {
        if (segment->triggers[i].token != token)
            continue;
        if (segment->triggers[i].segment == CONSTRAINT_REFUSED)
            return CONSTRAINT_E_REFUSED;
        *nextp = constraint_run_enter(run, segment->triggers[i].segment);
        return 0;
    }
    state.count++;
    *nextp = constraint_run_settle(run, state);
    return 0;
}

/* Advances within a grammar. CONSTRAINT_E_REFUSED: *nextp is where the answer goes on if the grammar's text ends here,
 * if it may. */
static int advance_grammar(ConstraintRun *run, ConstraintState state, uint32_t token, ConstraintState *nextp,
                           bool *may_leavep) {
    const ConstraintSegment *segment = constraint_run_segment(run, state);
    const GrammarState before = state.grammar;
    int r = constraint_run_end_call(
        run, segment, grammar_matcher_advance(constraint_run_begin_call(run, segment), before, token, &state.grammar));

    *may_leavep =
        r == CONSTRAINT_E_REFUSED && grammar_matcher_is_end_allowed(run->matchers[segment->source].it, before);
    if (*may_leavep)
        *nextp = constraint_run_enter(run, segment->next);
    if (r)
        return r;
    state.count++;
    *nextp = constraint_run_settle(run, state);
    return 0;
}

int constraint_run_advance(ConstraintRun *run, ConstraintState state, uint32_t token, ConstraintState *nextp) {
    ConstraintState next = { 0 };
    bool may_leave = true;
    int r = CONSTRAINT_E_REFUSED;

    for (uint32_t i = 0; may_leave && i <= run->constraint->n_segments; i++, state = next) {
        const ConstraintSegment *segment = state.segment == CONSTRAINT_END ? NULL : constraint_run_segment(run, state);

        may_leave = false;
        next = state;
        if (!segment) {
            r = is_end(run, token) ? 0 : CONSTRAINT_E_REFUSED;
        } else if (segment->kind == CONSTRAINT_FREE) {
            r = advance_free(run, state, token, &next);
        } else if (segment->kind == CONSTRAINT_CHOICE) {
            may_leave = segment->token != token;
            next = constraint_run_enter(run, may_leave ? segment->next : segment->chosen);
            r = may_leave ? CONSTRAINT_E_REFUSED : 0;
        } else if (segment->kind == CONSTRAINT_GRAMMAR) {
            r = advance_grammar(run, state, token, &next, &may_leave);
        } else {
            r = segment->tokens[state.count] == token ? 0 : CONSTRAINT_E_REFUSED;
            next.count++;
            next = constraint_run_settle(run, next);
        }
    }
    if (!r)
        *nextp = next;
    return r;
}

bool constraint_run_is_end_allowed(const ConstraintRun *run, ConstraintState state) {
    for (uint32_t i = 0; i <= run->constraint->n_segments && state.segment != CONSTRAINT_END; i++) {
        const ConstraintSegment *segment = constraint_run_segment(run, state);

        if (segment->kind == CONSTRAINT_FREE || segment->kind == CONSTRAINT_TOKENS)
            return segment->kind == CONSTRAINT_FREE && segment->free->is_end_allowed;
        if (segment->kind == CONSTRAINT_GRAMMAR &&
            !grammar_matcher_is_end_allowed(run->matchers[segment->source].it, state.grammar))
            return false;
        state = constraint_run_enter(run, segment->next);
    }
    return state.segment == CONSTRAINT_END;
}

bool constraint_run_is_complete(const ConstraintRun *run, ConstraintState state) {
    return state.segment == CONSTRAINT_END;
}
