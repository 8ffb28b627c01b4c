// SPDX-License-Identifier: Apache-2.0
#include "engine/constraint/constraint.h"

#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "engine/constraint/constraint_private.h"

enum {
    SPARE_BYTES = 512 << 10, /* a matcher with more states than that is not kept */
    RUN_BYTES = 24 << 20,    /* states of a matcher at most */
    LEAST_CALLS = 8,         /* each with the fuel of a row, to find the end of a long text */
};

/* --- matchers ----------------------------------------------------------------------------------------------------- */

/* Returns the memory of a matcher without states, roughly: its copy of the grammar's expressions. */
static size_t base_bytes(const ConstraintSource *source) {
    return 2 * grammar_memory_bytes(source->grammar);
}

int constraint_take_matcher(Constraint *constraint, uint32_t number, GrammarMatcher **matcherp) {
    ConstraintSource *source = &constraint->sources[number];
    GrammarMatcherLimits limits = GRAMMAR_MATCHER_LIMITS_DEFAULT;
    int r;

    pthread_mutex_lock(&constraint->lock);
    *matcherp = steal(&source->spare);
    pthread_mutex_unlock(&constraint->lock);
    if (*matcherp)
        return 0;
    limits.memory_bytes_max = base_bytes(source) + RUN_BYTES;
    r = grammar_matcher_new(matcherp, source->grammar, constraint_vocabulary_trie(constraint->vocabulary), &limits);
    return r == GRAMMAR_E_TOO_COMPLEX ? CONSTRAINT_E_TOO_COMPLEX : r;
}

void constraint_give_matcher(Constraint *constraint, uint32_t number, GrammarMatcher *matcher) {
    ConstraintSource *source = &constraint->sources[number];

    if (!matcher || grammar_matcher_memory_bytes(matcher) > base_bytes(source) + SPARE_BYTES) {
        grammar_matcher_free(matcher);
        return;
    }
    pthread_mutex_lock(&constraint->lock);
    if (!source->spare)
        source->spare = steal(&matcher);
    pthread_mutex_unlock(&constraint->lock);
    grammar_matcher_free(matcher);
}

/* --- the shortest ends -------------------------------------------------------------------------------------------- */

/* Counts the tokens of a short text of the grammar. A long one takes the fuel of several rows. */
static int least_of_grammar(Constraint *constraint, uint32_t source, uint32_t *leastp) {
    GrammarMatcher *matcher = NULL;
    int r = constraint_take_matcher(constraint, source, &matcher);

    for (int call = 0; !r && call < LEAST_CALLS; call++) {
        r = grammar_matcher_end_tokens(matcher, grammar_matcher_start(matcher), leastp);
        if (r != GRAMMAR_E_TOO_COMPLEX)
            break;
        r = call + 1 < LEAST_CALLS ? 0 : CONSTRAINT_E_TOO_COMPLEX;
    }
    constraint_give_matcher(constraint, source, matcher);
    return r;
}

static uint32_t least_of_free(const Constraint *constraint, const ConstraintFree *segment) {
    uint32_t least = segment->is_end_allowed ? 0 : CONSTRAINT_NO_END;

    for (uint32_t i = 0; i < segment->n_triggers; i++)
        if (segment->triggers[i].segment != CONSTRAINT_REFUSED)
            least = MIN(least, constraint_add_tokens(1, constraint_least_of(constraint, segment->triggers[i].segment)));
    return MIN(least,
               segment->over == CONSTRAINT_END ? CONSTRAINT_NO_END : constraint_least_of(constraint, segment->over));
}

/* Returns the tokens of the shortest way from a segment's start, by what is known of the others. own: of a GRAMMAR's
 * own text. */
static uint32_t least_of_segment(const Constraint *constraint, const ConstraintSegment *segment, const uint32_t *own) {
    const uint32_t next = segment->kind == CONSTRAINT_FREE ? 0 : constraint_least_of(constraint, segment->next);

    switch (segment->kind) {
    case CONSTRAINT_FREE:
        return least_of_free(constraint, segment->free);
    case CONSTRAINT_CHOICE:
        return MIN(next, constraint_add_tokens(1, constraint_least_of(constraint, segment->chosen)));
    case CONSTRAINT_TOKENS:
        return constraint_add_tokens(segment->n_tokens, next);
    case CONSTRAINT_GRAMMAR:
        break;
    }
    return segment->is_limited ? constraint_least_of(constraint, segment->over)
                               : constraint_add_tokens(own[segment->source], next);
}

/* Finds the shortest ways of all segments: those to nearer ends first, until nothing gets shorter. */
static int find_least(Constraint *constraint) {
    _cleanup_(freep) uint32_t *own = calloc(constraint->n_sources + 1, sizeof(*own));
    bool has_changed = true;

    if (!own)
        return err_raise(-ENOMEM);
    for (uint32_t i = 0; i < constraint->n_sources; i++) {
        int r = least_of_grammar(constraint, i, &own[i]);

        if (r)
            return r;
    }
    for (uint32_t i = 0; i < constraint->n_segments; i++)
        constraint->segments[i].least = CONSTRAINT_NO_END;
    while (has_changed) {
        has_changed = false;
        for (uint32_t i = 0; i < constraint->n_segments; i++) {
            ConstraintSegment *segment = &constraint->segments[i];
            const uint32_t least = least_of_segment(constraint, segment, own);

            if (least >= segment->least)
                continue;
            segment->least = least;
            has_changed = true;
        }
    }
    return 0;
}

/* --- constraints -------------------------------------------------------------------------------------------------- */

/* Segments of one grammar share a source, so that they share matchers. */
static int find_sources(Constraint *constraint) {
    constraint->sources = calloc(MAX(constraint->n_segments, 1u), sizeof(*constraint->sources));
    if (!constraint->sources)
        return err_raise(-ENOMEM);
    for (uint32_t i = 0; i < constraint->n_segments; i++) {
        ConstraintSegment *segment = &constraint->segments[i];

        if (segment->kind != CONSTRAINT_GRAMMAR)
            continue;
        while (segment->source < constraint->n_sources &&
               constraint->sources[segment->source].grammar != segment->grammar)
            segment->source++;
        if (segment->source == constraint->n_sources)
            constraint->sources[constraint->n_sources++].grammar = segment->grammar;
    }
    return 0;
}

int constraint_new(Constraint **constraintp, ConstraintPlan *plan, ConstraintVocabulary *vocabulary, ErrText *err) {
    _cleanup_(constraint_unrefp) Constraint *constraint = NULL;
    int r = constraint_plan_check(plan, vocabulary, err);

    if (r)
        return r;
    constraint = calloc(1, sizeof(*constraint));
    if (!constraint)
        return err_no_memory(err);
    constraint->n_refs = 1;
    pthread_mutex_init(&constraint->lock, NULL);
    constraint->vocabulary = constraint_vocabulary_ref(vocabulary);
    constraint->n_segments = plan->n;
    constraint->start = plan->start;
    constraint->n_entries = plan->n_entries;
    memcpy(constraint->entries, plan->entries, sizeof(constraint->entries));
    constraint->segments = steal(&plan->segments);
    *plan = (ConstraintPlan){ 0 };
    r = find_sources(constraint);
    if (!r)
        r = find_least(constraint);
    if (r)
        return r < 0 ? err_set(err, r, "out of memory")
                     : err_set(err, r, "the shortest text of the constraint is too long or too complex to be found");
    if (constraint_least_tokens(constraint, 0) == CONSTRAINT_NO_END)
        return err_set(err, CONSTRAINT_E_PLAN, "the model's tokens cannot write any text of the constraint");
    *constraintp = steal(&constraint);
    return 0;
}

Constraint *constraint_ref(Constraint *constraint) {
    constraint->n_refs++;
    return constraint;
}

bool constraint_is_shared(const Constraint *constraint) {
    return atomic_load(&constraint->n_refs) > 1;
}

Constraint *constraint_unref(Constraint *constraint) {
    ConstraintPlan plan;

    if (!constraint || --constraint->n_refs)
        return NULL;
    for (uint32_t i = 0; i < constraint->n_sources; i++)
        grammar_matcher_free(constraint->sources[i].spare);
    free(constraint->sources);
    plan = (ConstraintPlan){ .segments = constraint->segments, .n = constraint->n_segments };
    constraint_plan_deinit(&plan);
    constraint_vocabulary_unref(constraint->vocabulary);
    pthread_mutex_destroy(&constraint->lock);
    bill_settle(&constraint->bill);
    free(constraint);
    return NULL;
}

uint32_t constraint_least_tokens(const Constraint *constraint, uint32_t entry) {
    return constraint->segments[constraint_entry(constraint, entry)].least;
}

bool constraint_begins_with_text(const Constraint *constraint, uint32_t entry) {
    const ConstraintSegment *segment = &constraint->segments[constraint_entry(constraint, entry)];

    if (segment->kind == CONSTRAINT_CHOICE && segment->next != CONSTRAINT_END)
        segment = &constraint->segments[segment->next];
    return segment->kind == CONSTRAINT_GRAMMAR && !segment->is_limited;
}

ConstraintVocabulary *constraint_vocabulary(const Constraint *constraint) {
    return constraint->vocabulary;
}

int constraint_charge(Constraint *constraint, AccountTable *accounts, AccountId id) {
    return account_charge(accounts, id, &constraint->bill, constraint_memory_bytes(constraint));
}

size_t constraint_memory_bytes(const Constraint *constraint) {
    size_t n_bytes = sizeof(*constraint) + constraint->n_segments * sizeof(*constraint->segments);

    for (uint32_t i = 0; i < constraint->n_segments; i++)
        n_bytes += constraint->segments[i].n_tokens * sizeof(uint32_t) +
                   (constraint->segments[i].free ? sizeof(ConstraintFree) : 0);
    for (uint32_t i = 0; i < constraint->n_sources; i++)
        n_bytes += sizeof(ConstraintSource) + grammar_memory_bytes(constraint->sources[i].grammar) +
                   base_bytes(&constraint->sources[i]) + SPARE_BYTES;
    return n_bytes;
}
