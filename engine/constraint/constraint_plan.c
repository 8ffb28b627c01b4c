// SPDX-License-Identifier: Apache-2.0
#include "engine/constraint/constraint_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "engine/constraint/constraint_segment.h"

static void free_segment(ConstraintSegment *segment) {
    grammar_unref(segment->grammar);
    free(segment->tokens);
    free(segment->free);
}

void constraint_plan_deinit(ConstraintPlan *plan) {
    for (uint32_t i = 0; i < plan->n; i++)
        free_segment(&plan->segments[i]);
    free(plan->segments);
    *plan = (ConstraintPlan){ 0 };
}

static ConstraintSegment *add_segment(ConstraintPlan *plan, ConstraintKind kind, uint32_t next) {
    if (plan->n == CONSTRAINT_SEGMENTS_MAX && !plan->failure)
        plan->failure = CONSTRAINT_E_TOO_COMPLEX;
    if (plan->n == plan->room && !plan->failure) {
        const uint32_t room = MAX(2 * plan->room, 4u);
        ConstraintSegment *segments = reallocarray(plan->segments, room, sizeof(*segments));

        if (segments) {
            plan->segments = segments;
            plan->room = room;
        } else {
            plan->failure = err_raise(-ENOMEM);
        }
    }
    if (plan->failure)
        return NULL;
    plan->segments[plan->n] = (ConstraintSegment){ .kind = kind, .next = next };
    return &plan->segments[plan->n++];
}

uint32_t constraint_plan_add_grammar(ConstraintPlan *plan, Grammar *grammar, uint32_t next) {
    ConstraintSegment *segment = add_segment(plan, CONSTRAINT_GRAMMAR, next);

    if (!segment)
        return CONSTRAINT_END;
    segment->grammar = grammar_ref(grammar);
    return plan->n - 1;
}

uint32_t constraint_plan_add_tokens(ConstraintPlan *plan, const uint32_t *tokens, size_t n, uint32_t next) {
    ConstraintSegment *segment = add_segment(plan, CONSTRAINT_TOKENS, next);

    if (!segment)
        return CONSTRAINT_END;
    if (n > CONSTRAINT_TOKENS_MAX)
        plan->failure = CONSTRAINT_E_TOO_COMPLEX;
    if (!n || n > CONSTRAINT_TOKENS_MAX)
        return plan->n - 1; /* a segment without tokens is refused by constraint_new() */
    segment->tokens = calloc(n, sizeof(*tokens));
    if (!segment->tokens) {
        plan->failure = err_raise(-ENOMEM);
        return plan->n - 1;
    }
    memcpy(segment->tokens, tokens, n * sizeof(*tokens));
    segment->n_tokens = (uint32_t)n;
    return plan->n - 1;
}

uint32_t constraint_plan_add_free(ConstraintPlan *plan, const ConstraintFree *from) {
    ConstraintSegment *segment = add_segment(plan, CONSTRAINT_FREE, CONSTRAINT_END);

    if (!segment)
        return CONSTRAINT_END;
    segment->free = malloc(sizeof(*from));
    if (!segment->free)
        plan->failure = err_raise(-ENOMEM);
    else
        *segment->free = *from;
    return plan->n - 1;
}

uint32_t constraint_plan_add_choice(ConstraintPlan *plan, uint32_t token, uint32_t chosen, uint32_t next) {
    ConstraintSegment *segment = add_segment(plan, CONSTRAINT_CHOICE, next);

    if (!segment)
        return CONSTRAINT_END;
    segment->token = token;
    segment->chosen = chosen;
    return plan->n - 1;
}

void constraint_plan_set_limit(ConstraintPlan *plan, uint32_t segment, uint32_t tokens_max, uint32_t over) {
    if (segment >= plan->n)
        return;
    plan->segments[segment].is_limited = true;
    plan->segments[segment].tokens_max = tokens_max;
    plan->segments[segment].over = over;
}

void constraint_plan_set_next(ConstraintPlan *plan, uint32_t segment, uint32_t next) {
    if (segment < plan->n)
        plan->segments[segment].next = next;
}

/* --- checks ------------------------------------------------------------------------------------------------------- */

static bool is_segment(const ConstraintPlan *plan, uint32_t segment) {
    return segment < plan->n;
}

static int check_free(const ConstraintPlan *plan, uint32_t number, const ConstraintVocabulary *vocabulary,
                      ErrText *err) {
    const ConstraintFree *segment = plan->segments[number].free;

    if (segment->n_triggers > CONSTRAINT_TRIGGERS_MAX)
        return err_set(err, CONSTRAINT_E_PLAN, "segment %u has %u triggers: at most %d are allowed", number,
                       segment->n_triggers, CONSTRAINT_TRIGGERS_MAX);
    for (uint32_t i = 0; i < segment->n_triggers; i++) {
        const ConstraintTrigger *trigger = &segment->triggers[i];

        if (trigger->token >= constraint_vocabulary_n_vocab(vocabulary) ||
            constraint_vocabulary_is_end(vocabulary, trigger->token))
            return err_set(err, CONSTRAINT_E_PLAN,
                           "segment %u has a trigger at token %u, which ends answers or is none", number,
                           trigger->token);
        if (trigger->segment < CONSTRAINT_REFUSED && !is_segment(plan, trigger->segment))
            return err_set(err, CONSTRAINT_E_PLAN, "segment %u has a trigger to segment %u of %u", number,
                           trigger->segment, plan->n);
    }
    if ((segment->tokens_max != UINT32_MAX || segment->over != CONSTRAINT_END) &&
        (!is_segment(plan, segment->over) || plan->segments[segment->over].kind != CONSTRAINT_TOKENS))
        return err_set(err, CONSTRAINT_E_PLAN, "segment %u has a limit, but no segment of tokens behind it", number);
    return 0;
}

static int check_choice(const ConstraintPlan *plan, uint32_t number, const ConstraintVocabulary *vocabulary,
                        ErrText *err) {
    const ConstraintSegment *segment = &plan->segments[number];

    if (segment->token >= constraint_vocabulary_n_vocab(vocabulary) ||
        constraint_vocabulary_is_end(vocabulary, segment->token) || !is_segment(plan, segment->chosen))
        return err_set(err, CONSTRAINT_E_PLAN, "segment %u chooses segment %u of %u at token %u", number,
                       segment->chosen, plan->n, segment->token);
    return 0;
}

static int check_limit(const ConstraintPlan *plan, uint32_t number, ErrText *err) {
    const ConstraintSegment *segment = &plan->segments[number];

    if (segment->is_limited &&
        (!is_segment(plan, segment->over) || plan->segments[segment->over].kind != CONSTRAINT_TOKENS))
        return err_set(err, CONSTRAINT_E_PLAN, "segment %u has a limit, but no segment of tokens behind it", number);
    return 0;
}

static int check_tokens(const ConstraintPlan *plan, uint32_t number, const ConstraintVocabulary *vocabulary,
                        ErrText *err) {
    const ConstraintSegment *segment = &plan->segments[number];

    if (!segment->n_tokens)
        return err_set(err, CONSTRAINT_E_PLAN, "segment %u has no tokens", number);
    for (uint32_t i = 0; i < segment->n_tokens; i++)
        if (segment->tokens[i] >= constraint_vocabulary_n_vocab(vocabulary) ||
            constraint_vocabulary_is_end(vocabulary, segment->tokens[i]))
            return err_set(err, CONSTRAINT_E_PLAN, "segment %u has token %u, which ends answers or is none", number,
                           segment->tokens[i]);
    return 0;
}

int constraint_plan_check(const ConstraintPlan *plan, const ConstraintVocabulary *vocabulary, ErrText *err) {
    int r = 0;

    if (plan->failure)
        return plan->failure < 0 ? err_set(err, plan->failure, "out of memory")
                                 : err_set(err, plan->failure,
                                           "the plan has more than %d segments, or one of them more "
                                           "than %d tokens",
                                           CONSTRAINT_SEGMENTS_MAX, CONSTRAINT_TOKENS_MAX);
    if (!is_segment(plan, plan->start))
        return err_set(err, CONSTRAINT_E_PLAN, "the plan begins with segment %u of %u", plan->start, plan->n);
    for (uint32_t i = 0; i < plan->n_entries; i++)
        if (!is_segment(plan, plan->entries[i]))
            return err_set(err, CONSTRAINT_E_PLAN, "the plan may begin with segment %u of %u", plan->entries[i],
                           plan->n);
    for (uint32_t i = 0; i < plan->n && !r; i++) {
        const ConstraintSegment *segment = &plan->segments[i];

        if (segment->kind != CONSTRAINT_FREE && segment->next != CONSTRAINT_END && !is_segment(plan, segment->next))
            return err_set(err, CONSTRAINT_E_PLAN, "segment %u is followed by segment %u of %u", i, segment->next,
                           plan->n);
        if (segment->kind == CONSTRAINT_FREE)
            r = check_free(plan, i, vocabulary, err);
        if (segment->kind == CONSTRAINT_TOKENS)
            r = check_tokens(plan, i, vocabulary, err);
        if (segment->kind == CONSTRAINT_CHOICE)
            r = check_choice(plan, i, vocabulary, err);
        if (segment->kind == CONSTRAINT_GRAMMAR)
            r = check_limit(plan, i, err);
    }
    return r;
}
