// SPDX-License-Identifier: Apache-2.0
/* Which tokens may come, also where few tokens are left. */
#include <string.h>

#include "base/min_max.h"
#include "engine/constraint/constraint_run.h"
#include "engine/constraint/constraint_private.h"
#include "engine/constraint/constraint_run_private.h"

#define NO_LIMIT UINT32_MAX

typedef struct MaskWork {
    ConstraintRun *run;
    uint64_t *mask;
    uint32_t n_left; /* tokens that may still come, or NO_LIMIT */
} MaskWork;

static void set_bit(uint64_t *mask, uint32_t token) {
    mask[token / 64] |= UINT64_C(1) << (token % 64);
}

static bool has_bit(const uint64_t *mask, uint32_t token) {
    return mask[token / 64] >> (token % 64) & 1;
}

static void clear_bit(uint64_t *mask, uint32_t token) {
    mask[token / 64] &= ~(UINT64_C(1) << (token % 64));
}

/* Whether a way of n tokens ends in time. */
static bool is_in_time(const MaskWork *work, uint32_t n) {
    return work->n_left == NO_LIMIT || n <= work->n_left;
}

static size_t n_words(const MaskWork *work) {
    return TOKEN_MASK_WORDS(constraint_vocabulary_n_vocab(work->run->constraint->vocabulary));
}

static void set_ends(const MaskWork *work) {
    uint32_t n;
    const uint32_t *ends = constraint_vocabulary_ends(work->run->constraint->vocabulary, &n);

    for (uint32_t i = 0; i < n; i++)
        set_bit(work->mask, ends[i]);
}

/* --- segments ----------------------------------------------------------------------------------------------------- */

static int add_grammar(const MaskWork *work, ConstraintState state) {
    ConstraintRun *run = work->run;
    const ConstraintSegment *segment = constraint_run_segment(run, state);
    const uint32_t behind = constraint_least_of(run->constraint, segment->next);
    const TokenTrie *trie = constraint_vocabulary_trie(run->constraint->vocabulary);
    const size_t n_text_words = TOKEN_MASK_WORDS(token_trie_n_tokens(trie));
    GrammarMatcher *matcher = constraint_run_begin_call(run, segment);
    int r;

    /* Behind each token of a limited text its end tokens may begin. */
    if (segment->is_limited && !is_in_time(work, constraint_add_tokens(1, segment->least)))
        return 0;
    if (work->n_left == NO_LIMIT || segment->is_limited)
        r = grammar_matcher_mask(matcher, state.grammar, run->scratch);
    else if (behind < work->n_left)
        r = grammar_matcher_mask_to_end(matcher, state.grammar, work->n_left - behind, run->scratch);
    else
        return 0;
    r = constraint_run_end_call(run, segment, r);
    for (size_t w = 0; w < n_text_words && !r; w++)
        work->mask[w] |= run->scratch[w] & ~run->taken[w];
    return r;
}

/* Notes the tokens with which a grammar goes on, in time or not: what comes behind it does not get them. */
static int take_grammar(const MaskWork *work, ConstraintState state) {
    ConstraintRun *run = work->run;
    const ConstraintSegment *segment = constraint_run_segment(run, state);
    const TokenTrie *trie = constraint_vocabulary_trie(run->constraint->vocabulary);
    int r = constraint_run_end_call(
        run, segment, grammar_matcher_mask(constraint_run_begin_call(run, segment), state.grammar, run->scratch));

    for (size_t w = 0; w < TOKEN_MASK_WORDS(token_trie_n_tokens(trie)) && !r; w++)
        run->taken[w] |= run->scratch[w];
    return r;
}

/* Returns the tokens from behind one more token of the segment to an end. */
static uint32_t least_behind_free(const Constraint *constraint, const ConstraintSegment *segment, uint32_t count) {
    return segment->free->tokens_max != UINT32_MAX && count + 1 >= segment->free->tokens_max
               ? constraint_least_of(constraint, segment->free->over)
               : segment->least;
}

/* Adds all tokens but the end tokens and the triggers, then those of the triggers that lead somewhere in time. */
static void add_free(const MaskWork *work, ConstraintState state) {
    const Constraint *constraint = work->run->constraint;
    const ConstraintSegment *segment = constraint_run_segment(work->run, state);
    const uint32_t n_vocab = constraint_vocabulary_n_vocab(constraint->vocabulary);
    uint64_t *own = work->run->scratch; /* a grammar before may allow what is refused here */
    uint32_t n_ends;
    const uint32_t *ends = constraint_vocabulary_ends(constraint->vocabulary, &n_ends);

    memset(own, 0, n_words(work) * sizeof(*own));
    if (is_in_time(work, constraint_add_tokens(1, least_behind_free(constraint, segment, state.count)))) {
        memset(own, 0xff, n_vocab / 64 * sizeof(*own));
        for (uint32_t token = n_vocab / 64 * 64; token < n_vocab; token++)
            set_bit(own, token);
        for (uint32_t i = 0; i < n_ends; i++)
            clear_bit(own, ends[i]);
    }
    for (uint32_t i = 0; i < segment->free->n_triggers; i++) {
        const ConstraintTrigger *trigger = &segment->free->triggers[i];

        if (trigger->segment != CONSTRAINT_REFUSED &&
            is_in_time(work, constraint_add_tokens(1, constraint_least_of(constraint, trigger->segment))))
            set_bit(own, trigger->token);
        else
            clear_bit(own, trigger->token);
    }
    for (size_t w = 0; w < n_words(work); w++)
        work->mask[w] |= own[w] & ~work->run->taken[w];
    if (segment->free->is_end_allowed)
        set_ends(work);
}

static void add_tokens(const MaskWork *work, ConstraintState state) {
    const Constraint *constraint = work->run->constraint;
    const ConstraintSegment *segment = constraint_run_segment(work->run, state);
    const uint32_t behind = constraint_least_of(constraint, segment->next);

    if (is_in_time(work, constraint_add_tokens(segment->n_tokens - state.count, behind)) &&
        !has_bit(work->run->taken, segment->tokens[state.count]))
        set_bit(work->mask, segment->tokens[state.count]);
}

static void add_choice(const MaskWork *work, const ConstraintSegment *segment) {
    if (is_in_time(work, constraint_add_tokens(1, constraint_least_of(work->run->constraint, segment->chosen))) &&
        !has_bit(work->run->taken, segment->token))
        set_bit(work->mask, segment->token);
}

/* Adds what may come in the state's segment, and, where a grammar may end, in those behind. */
static int add_all(const MaskWork *work, ConstraintState state) {
    ConstraintRun *run = work->run;

    memset(work->mask, 0, n_words(work) * sizeof(*work->mask));
    memset(run->taken, 0, n_words(work) * sizeof(*run->taken));
    for (uint32_t i = 0; i <= run->constraint->n_segments; i++) {
        const ConstraintSegment *segment;
        int r;

        if (state.segment == CONSTRAINT_END) {
            set_ends(work);
            return 0;
        }
        segment = constraint_run_segment(run, state);
        if (segment->kind == CONSTRAINT_FREE)
            add_free(work, state);
        if (segment->kind == CONSTRAINT_TOKENS)
            add_tokens(work, state);
        if (segment->kind == CONSTRAINT_CHOICE)
            add_choice(work, segment);
        if (segment->kind == CONSTRAINT_FREE || segment->kind == CONSTRAINT_TOKENS)
            return 0;
        r = segment->kind == CONSTRAINT_GRAMMAR ? add_grammar(work, state) : 0;
        if (r)
            return r;
        if (segment->kind == CONSTRAINT_GRAMMAR &&
            !grammar_matcher_is_end_allowed(run->matchers[segment->source].it, state.grammar))
            return r;
        if (segment->kind == CONSTRAINT_GRAMMAR && segment->next != CONSTRAINT_END && (r = take_grammar(work, state)))
            return r;
        state = constraint_run_enter(run, segment->next);
    }
    return 0;
}

int constraint_run_mask(ConstraintRun *run, ConstraintState state, uint64_t *mask) {
    return add_all(&(MaskWork){ run, mask, NO_LIMIT }, state);
}

/* --- an end in time ----------------------------------------------------------------------------------------------- */

int constraint_run_mask_to_end(ConstraintRun *run, ConstraintState state, uint32_t n_left, uint64_t *mask) {
    return add_all(&(MaskWork){ run, mask, MIN(n_left, NO_LIMIT - 1) }, state);
}

int constraint_run_end_tokens(ConstraintRun *run, ConstraintState state, uint32_t *n_tokensp) {
    const ConstraintSegment *segment;
    uint32_t own = 0;
    int r = 0;

    *n_tokensp = 0;
    if (state.segment == CONSTRAINT_END)
        return 0;
    segment = constraint_run_segment(run, state);
    if (segment->kind == CONSTRAINT_FREE || segment->kind == CONSTRAINT_CHOICE || segment->is_limited) {
        *n_tokensp = segment->least;
        return 0;
    }
    if (segment->kind == CONSTRAINT_GRAMMAR)
        r = constraint_run_end_call(
            run, segment, grammar_matcher_end_tokens(constraint_run_begin_call(run, segment), state.grammar, &own));
    else
        own = segment->n_tokens - state.count;
    if (!r)
        *n_tokensp = constraint_add_tokens(own, constraint_least_of(run->constraint, segment->next));
    return r;
}

/* With more tokens left the segment may go on; with fewer only a trigger leads to an end. */
ConstraintState constraint_run_in_time(const ConstraintRun *run, ConstraintState state, uint32_t n_left) {
    const ConstraintSegment *segment;

    if (state.segment == CONSTRAINT_END)
        return state;
    segment = constraint_run_segment(run, state);
    if (segment->is_limited)
        return n_left != segment->least ? state : constraint_run_enter(run, segment->over);
    if (segment->kind != CONSTRAINT_FREE || segment->free->is_end_allowed || segment->free->over == CONSTRAINT_END ||
        n_left != constraint_least_of(run->constraint, segment->free->over))
        return state; /* with fewer tokens left than that, a trigger alone can end the segment in time */
    return constraint_run_enter(run, segment->free->over);
}

int constraint_run_check_time(ConstraintRun *run, ConstraintState next, uint32_t n_left) {
    uint32_t n_tokens;
    int r = constraint_run_end_tokens(run, next, &n_tokens);

    return r ? r : n_left && n_tokens <= n_left - 1 ? 0 : CONSTRAINT_E_REFUSED;
}
