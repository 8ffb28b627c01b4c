// SPDX-License-Identifier: Apache-2.0
#include "engine/constraint/call_plan.h"

#include <errno.h>

#include "text/tokenizer/vocab.h"

typedef struct CallPlanner {
    ConstraintPlan *plan;
    const CallShape *shape;
    const CallTools *tools;
    const Tokenizer *tokenizer;
    const GrammarLimits *limits;
    ErrText *err;
} CallPlanner;

static uint32_t mark_token(const CallPlanner *planner, const char *mark) {
    return mark ? tokenizer_find_added(planner->tokenizer, mark) : TOKEN_NONE;
}

static int add_grammar(CallPlanner *planner, CallScope scope, uint32_t next, uint32_t *segmentp) {
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    int r = call_grammar_new(&grammar, planner->shape, planner->tools, scope, planner->limits, planner->err);

    if (!r)
        *segmentp = constraint_plan_add_grammar(planner->plan, grammar, next);
    return r;
}

/* Adds free text in which the start mark leads to a segment. */
static uint32_t add_free(CallPlanner *planner, uint32_t start, uint32_t section) {
    ConstraintFree segment = {
        .n_triggers = 1, .is_end_allowed = true, .tokens_max = UINT32_MAX, .over = CONSTRAINT_END
    };

    segment.triggers[0] = (ConstraintTrigger){ .token = start, .segment = section };
    return constraint_plan_add_free(planner->plan, &segment);
}

static size_t n_allowed(const CallTools *tools) {
    size_t n = 0;

    for (size_t i = 0; i < tools->n; i++)
        n += call_tools_allows(tools, &tools->tools[i]);
    return n;
}

/* Adds what stands behind the start mark; *lastp: the segment that ends it. */
static int add_section(CallPlanner *planner, uint32_t *firstp, uint32_t *lastp) {
    const CallShape *shape = planner->shape;
    const uint32_t end = mark_token(planner, shape->end), infix = mark_token(planner, shape->infix);
    uint32_t middle;
    int r;

    /* An infix that is a token divides the grammar. With several tools their names would have to lead to different
     * segments, so the infix is then written as text, which the parser reads as well. */
    if (!shape->name_key && infix != TOKEN_NONE && n_allowed(planner->tools) == 1) {
        r = add_grammar(planner, CALL_SCOPE_NAME, CONSTRAINT_END, firstp);
        if (r)
            return r;
        middle = constraint_plan_add_tokens(planner->plan, &infix, 1, CONSTRAINT_END);
        r = add_grammar(planner, CALL_SCOPE_ARGUMENTS, CONSTRAINT_END, lastp);
        if (r)
            return r;
        constraint_plan_set_next(planner->plan, *firstp, middle);
        constraint_plan_set_next(planner->plan, middle, *lastp);
        return 0;
    }
    r = add_grammar(planner, end == TOKEN_NONE ? CALL_SCOPE_SECTION : CALL_SCOPE_BODY, CONSTRAINT_END, firstp);
    *lastp = *firstp;
    if (!r && end != TOKEN_NONE) {
        *lastp = constraint_plan_add_tokens(planner->plan, &end, 1, CONSTRAINT_END);
        constraint_plan_set_next(planner->plan, *firstp, *lastp);
    }
    return r;
}

/* Returns the token of a mark before calls of a format that has them at the front of an answer, too. */
static uint32_t other_mark(const CallPlanner *planner) {
    const CallFormat *format = &planner->shape->format;

    for (size_t i = 0; !planner->shape->start && i < format->n_starts; i++)
        if (!format->starts[i].is_at_front)
            return mark_token(planner, format->starts[i].text);
    return TOKEN_NONE;
}

/* Adds an answer whose start mark is text, or whose calls have none. A mark that is a token, where the model may write
 * it before its calls, leads to them. */
static int add_answer(CallPlanner *planner, uint32_t *firstp) {
    const uint32_t mark = other_mark(planner);
    uint32_t calls, answer;
    int r = add_grammar(planner, CALL_SCOPE_ANSWER, CONSTRAINT_END, firstp);

    if (r || mark == TOKEN_NONE || planner->tools->choice.mode != CALL_MODE_AUTO)
        return r;
    answer = *firstp;
    r = add_grammar(planner, CALL_SCOPE_CALLS, CONSTRAINT_END, &calls);
    if (!r)
        *firstp = constraint_plan_add_choice(planner->plan, mark, calls, answer);
    return r;
}

/* Adds what may follow a call where nothing but calls may come: the end, or a further start mark. A model that would
 * write its next call without the mark is led to it. */
static int add_further(CallPlanner *planner, uint32_t start, uint32_t section, uint32_t *firstp) {
    const uint32_t mark = constraint_plan_add_choice(planner->plan, start, section, CONSTRAINT_END);

    *firstp = mark;
    return *planner->shape->joint ? add_grammar(planner, CALL_SCOPE_JOINT, mark, firstp) : 0;
}

int call_plan_add(ConstraintPlan *plan, const CallShape *shape, const CallTools *tools, const Tokenizer *tokenizer,
                  const GrammarLimits *limits, uint32_t *firstp, ErrText *err) {
    CallPlanner planner = { plan, shape, tools, tokenizer, limits, err };
    const CallChoice *choice = &tools->choice;
    const bool is_last = choice->is_single || choice->mode == CALL_MODE_NAMED || shape->is_list;
    const uint32_t start = mark_token(&planner, shape->start);
    uint32_t section = 0, last = 0, next = CONSTRAINT_END;
    int r;

    if (start == TOKEN_NONE)
        return add_answer(&planner, firstp);
    r = add_section(&planner, &section, &last);
    if (r)
        return r;
    if (choice->mode == CALL_MODE_AUTO)
        next = add_free(&planner, start, section);
    else if (!is_last)
        r = add_further(&planner, start, section, &next);
    if (!is_last)
        constraint_plan_set_next(plan, last, next);
    *firstp = choice->mode == CALL_MODE_AUTO ? next : constraint_plan_add_tokens(plan, &start, 1, section);
    return r;
}
