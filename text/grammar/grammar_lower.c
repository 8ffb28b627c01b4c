// SPDX-License-Identifier: Apache-2.0
/* From parts to automata: the largest parts without recursion become lexemes, the rest edges between them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "text/grammar/grammar_error.h"
#include "text/grammar/grammar_private.h"

enum {
    NESTING_MAX = 4000, /* of parts and rules: nested calls here */
};

typedef enum PartState {
    STATE_UNKNOWN,
    STATE_OPEN, /* its parts are being looked at: who meets it is recursive */
    STATE_REGULAR,
    STATE_RECURSIVE,
} PartState;

typedef struct Lowering {
    GrammarBuilder *builder;
    ByteRegex *regex;
    uint8_t *states;   /* [n_parts], PartState */
    RegexId *ids;      /* [n_parts], expressions of regular parts; UINT32_MAX: not made yet */
    uint32_t *rules;   /* [n_parts], the rule that a recursive part is; UINT32_MAX: none */
    uint8_t *n_uses;   /* [n_parts], of recursive parts, up to 2 */
    GrammarPart *todo; /* [n_parts], parts that are rules, by number of rule */
    RuleDraft *draft;
    ErrText *err;
} Lowering;

static void lowering_deinit(Lowering *lowering) {
    free(lowering->states);
    free(lowering->ids);
    free(lowering->rules);
    free(lowering->n_uses);
    free(lowering->todo);
}

static int lowering_init(Lowering *lowering, GrammarBuilder *builder, RuleDraft *draft, ErrText *err) {
    const size_t n = builder->n_parts;

    *lowering = (Lowering){ .builder = builder, .regex = builder->regex, .draft = draft, .err = err };
    lowering->states = calloc(n, 1);
    lowering->ids = malloc(n * sizeof(*lowering->ids));
    lowering->rules = malloc(n * sizeof(*lowering->rules));
    lowering->n_uses = calloc(n, 1);
    lowering->todo = malloc((n + 1) * sizeof(*lowering->todo));
    if (!lowering->states || !lowering->ids || !lowering->rules || !lowering->n_uses || !lowering->todo)
        return err_raise(-ENOMEM);
    memset(lowering->ids, 0xff, n * sizeof(*lowering->ids));
    memset(lowering->rules, 0xff, n * sizeof(*lowering->rules));
    return 0;
}

/* Lists the parts inside of a part; the list is valid until the next part is added. */
static const GrammarPart *parts_of(const Lowering *lowering, const Part *part, size_t *np) {
    const bool is_list = part->kind == PART_SEQUENCE || part->kind == PART_CHOICE || part->kind == PART_UNORDERED;

    *np = is_list ? part->b : part->kind == PART_REGEX ? 0 : part->kind == PART_AND ? 2 : 1;
    return is_list ? lowering->builder->lists + part->a : &part->a; /* a and b lie side by side */
}

/* --- which parts are regular -------------------------------------------------------------------------------------- */

static int classify(Lowering *lowering, GrammarPart at, int nesting) {
    const Part *part = &lowering->builder->parts[at];
    uint8_t *state = &lowering->states[at];
    const GrammarPart *parts;
    bool is_regular = true;
    size_t n;

    if (part->kind == PART_REGEX)
        *state = STATE_REGULAR;
    if (*state != STATE_UNKNOWN) {
        lowering->n_uses[at] = MIN(lowering->n_uses[at] + 1, 2);
        return 0;
    }
    if (nesting > NESTING_MAX)
        return GRAMMAR_E_TOO_COMPLEX;
    if (part->kind == PART_RULE && part->a == GRAMMAR_PART_NONE)
        return err_set(lowering->err, GRAMMAR_E_SYNTAX, "the rule \"%s\" is used and not defined",
                       lowering->builder->names + part->b);
    *state = STATE_OPEN;
    lowering->n_uses[at] = 1;
    parts = parts_of(lowering, part, &n);
    for (size_t i = 0; i < n; i++) {
        int r = classify(lowering, parts[i], nesting + 1);

        if (r)
            return r;
        is_regular = is_regular && lowering->states[parts[i]] == STATE_REGULAR;
    }
    if (!is_regular && (part->kind == PART_AND || part->kind == PART_NOT))
        return err_set(lowering->err, GRAMMAR_E_UNSUPPORTED,
                       "the %s of a recursive rule cannot be followed: only parts without recursion have one",
                       part->kind == PART_AND ? "intersection" : "complement");
    *state = is_regular && part->kind != PART_UNORDERED ? STATE_REGULAR : STATE_RECURSIVE;
    return 0;
}

/* Makes the expression of a regular part. */
static RegexId regex_of(Lowering *lowering, GrammarPart at) {
    const Part *part = &lowering->builder->parts[at];
    ByteRegex *regex = lowering->regex;
    const size_t base = regex->n_scratch;
    const GrammarPart *parts;
    RegexId id = REGEX_NOTHING;
    size_t n;

    if (part->kind == PART_REGEX)
        return part->a;
    if (lowering->ids[at] != UINT32_MAX || regex->failure)
        return lowering->ids[at] != UINT32_MAX ? lowering->ids[at] : REGEX_NOTHING;
    parts = parts_of(lowering, part, &n);
    switch (part->kind) {
    case PART_SEQUENCE:
        for (id = REGEX_EMPTY; n--;)
            id = byte_regex_concat(regex, regex_of(lowering, parts[n]), id);
        break;
    case PART_CHOICE:
    case PART_AND:
        for (size_t i = 0; i < n && !regex->failure; i++)
            byte_regex_push(regex, regex_of(lowering, parts[i]));
        id = part->kind == PART_CHOICE ? byte_regex_choice_of_scratch(regex, base)
                                       : byte_regex_and_of_scratch(regex, base);
        break;
    case PART_REPEAT:
        id = byte_regex_repeat(regex, regex_of(lowering, part->a), part->min, part->max);
        break;
    case PART_NOT:
        id = byte_regex_not(regex, regex_of(lowering, part->a));
        break;
    default:
        id = regex_of(lowering, part->a);
        break;
    }
    lowering->ids[at] = id;
    return id;
}

/* --- automata ----------------------------------------------------------------------------------------------------- */

static int add_edge(Lowering *lowering, uint32_t from, uint32_t symbol, uint32_t to) {
    RuleDraft *draft = lowering->draft;

    if (draft->n_edges >= draft->edges_max)
        return GRAMMAR_E_TOO_COMPLEX;
    if (draft->n_edges == draft->room_edges) {
        uint32_t room = MAX(2 * draft->room_edges, 64);
        DraftEdge *edges = realloc(draft->edges, room * sizeof(*edges));

        if (!edges)
            return err_raise(-ENOMEM);
        draft->edges = edges;
        draft->room_edges = room;
    }
    draft->edges[draft->n_edges++] = (DraftEdge){ from, { symbol, to } };
    return 0;
}

static int add_lexeme(Lowering *lowering, uint32_t from, RegexId id, uint32_t to) {
    uint32_t lexeme;
    int r = 0;

    if (lowering->regex->failure)
        return lowering->regex->failure;
    if (id == REGEX_NOTHING)
        return 0;
    if (id != REGEX_EMPTY) {
        r = tuple_store_intern(&lowering->draft->lexemes, &id, 1, &lexeme);
        if (!r)
            r = add_edge(lowering, from, lexeme, to);
    }
    /* A lexeme in a text has at least one byte, so the empty text needs an edge of its own. */
    return !r && lowering->regex->infos[id].nullable ? add_edge(lowering, from, SYMBOL_EMPTY, to) : r;
}

/* Makes a recursive part a rule, whose automaton follows later, and returns its number; UINT32_MAX: no memory. */
static uint32_t rule_of(Lowering *lowering, GrammarPart at) {
    RuleDraft *draft = lowering->draft;

    if (lowering->rules[at] != UINT32_MAX)
        return lowering->rules[at];
    if (draft->n_rules == draft->room_rules) {
        uint32_t room = MAX(2 * draft->room_rules, 16);
        DraftRule *rules = realloc(draft->rules, room * sizeof(*rules));

        if (!rules)
            return UINT32_MAX;
        draft->rules = rules;
        draft->room_rules = room;
    }
    lowering->todo[draft->n_rules] = at;
    draft->rules[draft->n_rules] = (DraftRule){ draft->n_nodes, draft->n_nodes + 1 };
    draft->n_nodes += 2;
    return lowering->rules[at] = draft->n_rules++;
}

static int lower(Lowering *lowering, GrammarPart at, uint32_t from, uint32_t to, bool is_body);

/* Joins neighbours that are regular into one lexeme each. */
static int lower_sequence(Lowering *lowering, const Part *part, uint32_t from, uint32_t to) {
    const GrammarPart *parts = lowering->builder->lists + part->a;
    int r = 0;

    for (size_t i = 0, end; i < part->b && !r; i = end) {
        const bool is_regular = lowering->states[parts[i]] == STATE_REGULAR;
        RegexId id = REGEX_EMPTY;
        uint32_t next;

        for (end = i + 1; is_regular && end < part->b && lowering->states[parts[end]] == STATE_REGULAR;)
            end++;
        next = end == part->b ? to : lowering->draft->n_nodes++;
        for (size_t k = end; is_regular && k-- > i;)
            id = byte_regex_concat(lowering->regex, regex_of(lowering, parts[k]), id);
        r = is_regular ? add_lexeme(lowering, from, id, next) : lower(lowering, parts[i], from, next, false);
        from = next;
    }
    return r;
}

/* Joins the regular alternatives into one lexeme. */
static int lower_choice(Lowering *lowering, const Part *part, uint32_t from, uint32_t to) {
    const GrammarPart *parts = lowering->builder->lists + part->a;
    const size_t base = lowering->regex->n_scratch;
    int r = 0;

    for (size_t i = 0; i < part->b && !lowering->regex->failure; i++)
        if (lowering->states[parts[i]] == STATE_REGULAR)
            byte_regex_push(lowering->regex, regex_of(lowering, parts[i]));
    r = add_lexeme(lowering, from, byte_regex_choice_of_scratch(lowering->regex, base), to);
    for (size_t i = 0; i < part->b && !r; i++)
        if (lowering->states[parts[i]] != STATE_REGULAR)
            r = lower(lowering, parts[i], from, to, false);
    return r;
}

/* Strings copies together; the nodes between them are new, so no way leads back into a copy. */
static int lower_repeat(Lowering *lowering, const Part *part, uint32_t from, uint32_t to) {
    const bool has_max = part->max != GRAMMAR_NO_MAX;
    const uint32_t n_copies = has_max ? part->max : part->min;
    int r = 0;

    /* Copies are edges of a rule, unless the part stands there once. */
    if (n_copies > 1 && rule_of(lowering, part->a) == UINT32_MAX)
        return err_raise(-ENOMEM);
    for (uint32_t i = 0; i < n_copies && !r; i++) {
        const uint32_t next = lowering->draft->n_nodes++;

        if (i >= part->min)
            r = add_edge(lowering, from, SYMBOL_EMPTY, to);
        if (!r)
            r = lower(lowering, part->a, from, next, false);
        from = next;
    }
    if (!r && !has_max) {
        const uint32_t loop = lowering->draft->n_nodes++;

        r = add_edge(lowering, from, SYMBOL_EMPTY, loop);
        if (!r)
            r = lower(lowering, part->a, loop, loop, false);
        from = loop;
    }
    return r ? r : add_edge(lowering, from, SYMBOL_EMPTY, to);
}

/* Makes room for one more rule in any order, with n members. */
static int make_room(RuleDraft *draft, uint32_t n) {
    if (draft->n_unordered == draft->room_unordered) {
        const uint32_t room = MAX(2 * draft->room_unordered, 16);
        UnorderedRule *unordered = realloc(draft->unordered, room * sizeof(*unordered));

        if (!unordered)
            return err_raise(-ENOMEM);
        draft->unordered = unordered;
        draft->room_unordered = room;
    }
    if (draft->n_members + n > draft->room_members) {
        const uint32_t room = MAX(2 * draft->room_members, draft->n_members + n);
        uint32_t *members = realloc(draft->members, room * sizeof(*members));

        if (!members)
            return err_raise(-ENOMEM);
        draft->members = members;
        draft->room_members = room;
    }
    return 0;
}

/* Makes the separator and each member of a rule rules of their own. */
static int lower_unordered(Lowering *lowering, GrammarPart at) {
    const Part *part = &lowering->builder->parts[at];
    const GrammarPart *parts = lowering->builder->lists + part->a;
    RuleDraft *draft = lowering->draft;
    const uint32_t n_members = part->b - 1, separator = rule_of(lowering, parts[0]);
    int r = separator == UINT32_MAX ? err_raise(-ENOMEM) : make_room(draft, n_members);

    if (r)
        return r;
    draft->unordered[draft->n_unordered++] = (UnorderedRule){ .rule = rule_of(lowering, at),
                                                              .separator = separator,
                                                              .first_member = draft->n_members,
                                                              .n_members = n_members,
                                                              .required = part->required,
                                                              .repeated = part->repeated };
    for (uint32_t i = 0; i < n_members; i++) {
        const uint32_t rule = rule_of(lowering, parts[1 + i]);

        if (rule == UINT32_MAX)
            return err_raise(-ENOMEM);
        draft->members[draft->n_members++] = rule;
    }
    return 0;
}

/* Adds the ways of a part from a node to another. The body of a rule stands there itself; any other part that is used
 * in several places is a rule of its own. */
static int lower(Lowering *lowering, GrammarPart at, uint32_t from, uint32_t to, bool is_body) {
    const Part *part = &lowering->builder->parts[at];

    if (lowering->states[at] == STATE_REGULAR)
        return add_lexeme(lowering, from, regex_of(lowering, at), to);
    if (!is_body && (part->kind == PART_RULE || part->kind == PART_UNORDERED || lowering->n_uses[at] > 1 ||
                     lowering->rules[at] != UINT32_MAX)) {
        const uint32_t rule = rule_of(lowering, at);

        return rule == UINT32_MAX ? err_raise(-ENOMEM) : add_edge(lowering, from, rule | SYMBOL_RULE, to);
    }
    switch (part->kind) {
    case PART_SEQUENCE:
        return lower_sequence(lowering, part, from, to);
    case PART_CHOICE:
        return lower_choice(lowering, part, from, to);
    case PART_REPEAT:
        return lower_repeat(lowering, part, from, to);
    case PART_UNORDERED:
        return lower_unordered(lowering, at);
    default: /* the body of a rule, which only this rule needs to copy */
        return lower(lowering, part->a, from, to, false);
    }
}

int grammar_lower_regular(GrammarBuilder *builder, GrammarPart part, RegexId *idp, ErrText *err) {
    _cleanup_(lowering_deinit) Lowering lowering = { 0 };
    int r;

    if (builder->parts[part].kind == PART_REGEX) {
        *idp = builder->parts[part].a;
        return 0;
    }
    r = lowering_init(&lowering, builder, NULL, err);
    if (!r)
        r = classify(&lowering, part, 0);
    if (r)
        return r;
    if (lowering.states[part] != STATE_REGULAR)
        return err_set(err, GRAMMAR_E_UNSUPPORTED, "the part is recursive");
    *idp = regex_of(&lowering, part);
    return builder->regex->failure;
}

int grammar_lower(GrammarBuilder *builder, GrammarPart root, RuleDraft *draft, ErrText *err) {
    _cleanup_(lowering_deinit) Lowering lowering = { 0 };
    int r = lowering_init(&lowering, builder, draft, err);

    if (!r)
        r = classify(&lowering, root, 0);
    if (!r && rule_of(&lowering, root) == UINT32_MAX)
        r = err_raise(-ENOMEM);
    for (uint32_t rule = 0; !r && rule < draft->n_rules; rule++)
        r = lower(&lowering, lowering.todo[rule], draft->rules[rule].start, draft->rules[rule].end, true);
    return r;
}
