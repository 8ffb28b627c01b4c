// SPDX-License-Identifier: Apache-2.0
/* An object or array is written from its end: the part of a place in it begins with a child or goes on to the next
 * place. Each place is a rule, because several others lead to it. */
#include "text/grammar/schema/schema_emit.h"

#include "base/min_max.h"

enum {
    PLACES_MAX = 50000, /* of one object or array */
};

typedef struct Emitter {
    SchemaCompiler *c;
    GrammarBuilder *b;
    const SchemaPlan *plan;
    GrammarPart *values; /* by the place in the plan */
    GrammarPart space;   /* behind a bracket or comma, and before a closing bracket */
    GrammarPart colon;
    GrammarPart comma;
    GrammarPart nothing;
    GrammarPart empty;
} Emitter;

static GrammarPart value_of(Emitter *e, uint32_t node) {
    return e->values[e->plan->places[node] - 1];
}

static GrammarPart pair(Emitter *e, GrammarPart a, GrammarPart b) {
    if (a == e->nothing || b == e->nothing)
        return e->nothing;
    if (a == e->empty || b == e->empty)
        return a == e->empty ? b : a;
    return grammar_part_sequence(e->b, (GrammarPart[]){ a, b }, 2);
}

static GrammarPart either(Emitter *e, GrammarPart a, GrammarPart b) {
    if (a == e->nothing || b == e->nothing)
        return a == e->nothing ? b : a;
    return a == b ? a : grammar_part_choice(e->b, (GrammarPart[]){ a, b }, 2);
}

/* A part that several others use. */
static GrammarPart shared(Emitter *e, GrammarPart body) {
    GrammarPart rule;

    if (body == e->nothing || body == e->empty)
        return body;
    rule = grammar_part_rule(e->b, NULL);
    grammar_rule_set(e->b, rule, body);
    return rule;
}

static GrammarPart bracketed(Emitter *e, const char *open, GrammarPart inside, const char *close) {
    GrammarPart parts[] = { grammar_part_bytes(e->b, open, 1), e->space, inside, e->space,
                            grammar_part_bytes(e->b, close, 1) };

    return inside == e->nothing ? e->nothing : grammar_part_sequence(e->b, parts, 5);
}

/* min to max times the part with commas between, behind n others. */
static GrammarPart list_of(Emitter *e, GrammarPart part, uint32_t n, uint32_t min, uint32_t max) {
    uint32_t least = min > n ? min - n : 0, most = max == SCHEMA_NO_MAX ? GRAMMAR_NO_MAX : max - MIN(n, max);
    GrammarPart next, rest;

    if (part == e->nothing || !most)
        return least ? e->nothing : e->empty;
    next = pair(e, e->comma, part);
    if (n)
        return grammar_part_repeat(e->b, next, least, most);
    rest = grammar_part_repeat(e->b, next, least ? least - 1 : 0, most == GRAMMAR_NO_MAX ? most : most - 1);
    rest = pair(e, part, rest);
    return least ? rest : either(e, e->empty, rest);
}

static bool places_suffice(Emitter *e, size_t n_children, size_t n_states) {
    if (n_children * n_states > PLACES_MAX && !e->c->r)
        e->c->r = err_set(e->c->err, GRAMMAR_E_TOO_COMPLEX, "an object or array of the schema has too many places");
    return !e->c->r && schema_step(e->c, n_children * n_states);
}

/* --- objects ------------------------------------------------------------------------------------------------------ */

/* A place: how many properties came before (as far as that matters), and which marks are set. */
typedef struct ObjectPlaces {
    const SchemaObjectForm *form;
    uint32_t n_counts;
    uint32_t count_max; /* from here on the count does not matter, if there is no limit */
    unsigned int all_marks;
    GrammarPart *now, *next; /* [n_counts][marks] */
} ObjectPlaces;

static size_t place_at(const ObjectPlaces *places, uint32_t count, unsigned int marks) {
    return (size_t)count * (places->all_marks + 1) + marks;
}

static bool may_add(const ObjectPlaces *places, uint32_t count) {
    return places->form->max == SCHEMA_NO_MAX || count < places->form->max;
}

static uint32_t count_after(const ObjectPlaces *places, uint32_t count) {
    return MIN(count + 1, MIN(places->count_max, places->n_counts - 1));
}

static GrammarPart property(Emitter *e, GrammarPart name, uint32_t node) {
    return grammar_part_sequence(e->b, (GrammarPart[]){ name, e->colon, value_of(e, node) }, 3);
}

/* All other properties, where no marks are asked for. */
static GrammarPart other_properties(Emitter *e, const SchemaObjectForm *form) {
    GrammarPart part = e->nothing;

    for (size_t i = 0; i < form->n_classes; i++) {
        SchemaVariants kept = schema_plan_keep(e->plan, &form->classes[i].values);

        if (kept.n)
            part = either(e, part, property(e, schema_text_quoted(e->c, &form->classes[i].names), kept.items[0].node));
    }
    return part == e->nothing ? part : shared(e, part);
}

/* Other properties that set marks: each place is a rule that leads to itself or to a place with more marks. */
static void end_with_marks(Emitter *e, ObjectPlaces *places) {
    const SchemaObjectForm *form = places->form;
    size_t n = (size_t)places->n_counts * (places->all_marks + 1);

    for (size_t i = 0; i < n; i++)
        places->now[i] = grammar_part_rule(e->b, NULL);
    for (size_t i = 0; i < n && !e->c->r; i++) {
        uint32_t count = (uint32_t)(i / (places->all_marks + 1));
        unsigned int marks = (unsigned int)(i % (places->all_marks + 1));
        GrammarPart body = marks == places->all_marks && count >= form->min ? e->empty : e->nothing;

        for (size_t k = 0; k < form->n_classes && may_add(places, count); k++) {
            SchemaVariants kept = schema_plan_keep(e->plan, &form->classes[k].values);
            GrammarPart name = schema_text_quoted(e->c, &form->classes[k].names);

            for (size_t v = 0; v < kept.n; v++) {
                GrammarPart one = pair(e, count ? e->comma : e->empty, property(e, name, kept.items[v].node));
                size_t to = place_at(places, count_after(places, count), marks | kept.items[v].marks);

                body = either(e, body, pair(e, one, places->now[to]));
            }
        }
        grammar_rule_set(e->b, places->now[i], body);
    }
}

static void end_object(Emitter *e, ObjectPlaces *places) {
    const SchemaObjectForm *form = places->form;
    GrammarPart others;

    if (form->n_marks) {
        end_with_marks(e, places);
        return;
    }
    others = other_properties(e, form);
    for (uint32_t count = 0; count < places->n_counts; count++)
        places->now[count] = shared(e, list_of(e, others, count, form->min, form->max));
}

/* Puts a listed property before the places behind it. */
static void put_member(Emitter *e, ObjectPlaces *places, const SchemaMember *member) {
    SchemaVariants kept = schema_plan_keep(e->plan, &member->values);
    GrammarPart name = kept.n ? schema_name_quoted(e->c, member->name) : e->nothing;
    GrammarPart *before = places->next;

    places->next = places->now;
    places->now = before;
    for (uint32_t count = 0; count < places->n_counts; count++)
        for (unsigned int marks = 0; marks <= places->all_marks; marks++) {
            GrammarPart body = member->is_required ? e->nothing : places->next[place_at(places, count, marks)];

            for (size_t v = 0; v < kept.n && may_add(places, count); v++) {
                size_t to = place_at(places, count_after(places, count), marks | kept.items[v].marks);
                GrammarPart one = pair(e, count ? e->comma : e->empty, property(e, name, kept.items[v].node));

                body = either(e, body, pair(e, one, places->next[to]));
            }
            places->now[place_at(places, count, marks)] =
                body == places->next[place_at(places, count, marks)] ? body : shared(e, body);
        }
}

/* Writes an object whose properties come in any order, *partp: out. Returns false where they count, set marks or are
 * too many: the schema's order is then the only one that is known. */
static bool emit_unordered(Emitter *e, const SchemaObjectForm *form, GrammarPart *partp) {
    GrammarMember members[GRAMMAR_UNORDERED_MAX];
    uint32_t n = 0, n_required = 0;
    GrammarPart others;

    if (!e->c->is_any_order || form->n_marks || form->max != SCHEMA_NO_MAX ||
        form->n_members >= GRAMMAR_UNORDERED_MAX || !form->n_members || !places_suffice(e, form->n_members, 1))
        return false;
    for (size_t i = 0; i < form->n_members; i++)
        n_required += form->members[i].is_required;
    if (form->min > n_required)
        return false;
    for (size_t i = 0; i < form->n_members; i++) {
        SchemaVariants kept = schema_plan_keep(e->plan, &form->members[i].values);

        if (kept.n)
            members[n++] = (GrammarMember){
                .part = property(e, schema_name_quoted(e->c, form->members[i].name), kept.items[0].node),
                .is_required = form->members[i].is_required,
            };
    }
    others = other_properties(e, form);
    if (others != e->nothing)
        members[n++] = (GrammarMember){ .part = others, .may_repeat = true };
    *partp = grammar_part_unordered(e->b, members, n, e->comma);
    return true;
}

static GrammarPart emit_object(Emitter *e, const SchemaObjectForm *form) {
    ObjectPlaces places = { .form = form, .all_marks = (1u << form->n_marks) - 1 };
    uint32_t count_max = form->max == SCHEMA_NO_MAX ? MAX(form->min, 1u) : form->max;
    GrammarPart unordered;
    size_t n;

    if (emit_unordered(e, form, &unordered))
        return bracketed(e, "{", unordered, "}");
    places.count_max = count_max;
    /* Listed properties count to their number at most; behind them a repeat counts, unless it has marks to set. */
    places.n_counts = MIN(form->n_marks ? PLACES_MAX : (uint32_t)form->n_members, count_max) + 1;
    n = (size_t)places.n_counts << form->n_marks;
    if (!places_suffice(e, form->n_members + 1, n))
        return e->nothing;
    places.now = schema_alloc(e->c, n, sizeof(*places.now));
    places.next = schema_alloc(e->c, n, sizeof(*places.next));
    if (!places.now || !places.next)
        return e->nothing;
    end_object(e, &places);
    for (size_t i = form->n_members; i-- && !e->c->r;)
        put_member(e, &places, &form->members[i]);
    return bracketed(e, "{", places.now[0], "}");
}

/* --- arrays ------------------------------------------------------------------------------------------------------- */

static GrammarPart element_of(Emitter *e, const SchemaVariants *variants) {
    SchemaVariants kept = schema_plan_keep(e->plan, variants);

    return kept.n ? value_of(e, kept.items[0].node) : e->nothing;
}

static GrammarPart plain_array(Emitter *e, const SchemaArrayForm *form) {
    GrammarPart part = list_of(e, element_of(e, &form->elements[form->n_prefix]), form->n_prefix, form->min, form->max);

    for (uint32_t i = form->n_prefix; i-- && places_suffice(e, 1, 1);) {
        GrammarPart element = pair(e, i ? e->comma : e->empty, element_of(e, &form->elements[i]));

        part = shared(e, either(e, i >= form->min ? e->empty : e->nothing, pair(e, element, part)));
    }
    return part;
}

/* A place of an array whose elements count: its index (the last one stands for all others), and counts of marks. */
typedef struct ArrayPlaces {
    const SchemaArrayForm *form;
    uint32_t n_indexes;
    uint32_t n_counts[SCHEMA_MARKS_MAX]; /* the last count means "or more" */
    uint32_t n_all;                      /* counts of all marks together */
} ArrayPlaces;

/* Writes the counts after an element with the marks; false: one is above its limit. */
static bool count_marks(const ArrayPlaces *places, uint32_t counts, unsigned int marks, uint32_t *afterp) {
    uint32_t factor = 1, after = 0;

    for (size_t i = 0; i < places->form->n_marks; i++) {
        uint32_t count = counts % places->n_counts[i] + (marks >> i & 1);

        counts /= places->n_counts[i];
        if (count > places->form->counts[i].max)
            return false;
        after += MIN(count, places->n_counts[i] - 1) * factor;
        factor *= places->n_counts[i];
    }
    *afterp = after;
    return true;
}

static bool counts_suffice(const ArrayPlaces *places, uint32_t counts) {
    for (size_t i = 0; i < places->form->n_marks; i++) {
        if (counts % places->n_counts[i] < places->form->counts[i].min)
            return false;
        counts /= places->n_counts[i];
    }
    return true;
}

static GrammarPart array_place(Emitter *e, const ArrayPlaces *places, const GrammarPart *rules, uint32_t index,
                               uint32_t counts) {
    const SchemaArrayForm *form = places->form;
    SchemaVariants kept = schema_plan_keep(e->plan, &form->elements[MIN(index, form->n_prefix)]);
    GrammarPart body = index >= form->min && counts_suffice(places, counts) ? e->empty : e->nothing;
    uint32_t next = MIN(index + 1, places->n_indexes - 1), after;

    if (index >= form->max)
        return body;
    for (size_t v = 0; v < kept.n; v++) {
        GrammarPart element = pair(e, index ? e->comma : e->empty, value_of(e, kept.items[v].node));

        if (count_marks(places, counts, kept.items[v].marks, &after))
            body = either(e, body, pair(e, element, rules[next * places->n_all + after]));
    }
    return body;
}

static GrammarPart marked_array(Emitter *e, const SchemaArrayForm *form) {
    ArrayPlaces places = { .form = form, .n_all = 1 };
    GrammarPart *rules;
    uint64_t n = 1;

    for (size_t i = 0; i < form->n_marks; i++) {
        uint32_t last = form->counts[i].max == SCHEMA_NO_MAX ? form->counts[i].min : form->counts[i].max;

        places.n_counts[i] = MIN(last, (uint32_t)PLACES_MAX) + 1;
        n *= places.n_counts[i];
    }
    places.n_indexes = form->max == SCHEMA_NO_MAX ? MAX(MAX(form->n_prefix, form->min), 1u) + 1 : form->max + 1;
    if (n > PLACES_MAX || !places_suffice(e, places.n_indexes, n))
        return e->nothing;
    places.n_all = (uint32_t)n;
    rules = schema_alloc(e->c, (size_t)places.n_indexes * n, sizeof(*rules));
    if (!rules)
        return e->nothing;
    for (size_t i = 0; i < (size_t)places.n_indexes * n; i++)
        rules[i] = grammar_part_rule(e->b, NULL);
    for (uint32_t index = 0; index < places.n_indexes; index++)
        for (uint32_t counts = 0; counts < n; counts++)
            grammar_rule_set(e->b, rules[index * n + counts], array_place(e, &places, rules, index, counts));
    return rules[0];
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static GrammarPart any_value(Emitter *e) {
    GrammarPart value = value_of(e, SCHEMA_NODE_ANY);
    SchemaText text = SCHEMA_TEXT_ANY;
    GrammarPart string = schema_text_quoted(e->c, &text);
    GrammarPart member = grammar_part_sequence(e->b, (GrammarPart[]){ string, e->colon, value }, 3);
    GrammarPart parts[] = {
        schema_plain_regex(e->c, "null|true|false"),
        schema_number_part(e->c, &schema_number_any),
        string,
        bracketed(e, "[", list_of(e, value, 0, 0, SCHEMA_NO_MAX), "]"),
        bracketed(e, "{", list_of(e, shared(e, member), 0, 0, SCHEMA_NO_MAX), "}"),
    };

    return grammar_part_choice(e->b, parts, 5);
}

static GrammarPart node_value(Emitter *e, const SchemaPlanNode *one) {
    static const char *const plain[] = { "null", "true", "false" };
    static const size_t lengths[] = { 4, 4, 5 };
    const SchemaSet *set = one->set;
    GrammarPart part = e->nothing;

    if (one->is_any)
        return any_value(e);
    for (size_t i = 0; i < set->n_objects && !e->c->r; i++)
        if (schema_plan_object_fits(e->plan, one->objects[i]))
            part = either(e, part, emit_object(e, one->objects[i]));
    for (size_t i = 0; i < set->n_arrays && !e->c->r; i++)
        if (schema_plan_array_fits(e->plan, one->arrays[i]))
            part = either(
                e, part,
                bracketed(e, "[",
                          one->arrays[i]->n_marks ? marked_array(e, one->arrays[i]) : plain_array(e, one->arrays[i]),
                          "]"));
    if (!schema_text_is_empty(e->c, &set->text))
        part = either(e, part, schema_text_quoted(e->c, &set->text));
    for (size_t i = 0; i < set->n_numbers && !e->c->r; i++)
        part = either(e, part, schema_number_part(e->c, &set->numbers[i]));
    for (size_t i = 0; i < 3; i++)
        if (set->plain & 1u << i)
            part = either(e, part, grammar_part_bytes(e->b, plain[i], lengths[i]));
    return part;
}

GrammarPart schema_emit(SchemaCompiler *c, const SchemaPlan *plan, uint32_t root) {
    Emitter e = { .c = c, .b = c->builder, .plan = plan };

    e.values = schema_alloc(c, plan->n, sizeof(*e.values));
    e.nothing = grammar_part_nothing(c->builder);
    e.empty = grammar_part_empty(c->builder);
    if (c->r || !schema_plan_find(plan, root))
        return e.nothing;
    e.space = c->is_compact ? e.empty : schema_plain_regex(c, "(?: |\\n(?: {0,32}|\\t{0,16}))?");
    e.colon = schema_plain_regex(c, c->is_compact ? ":" : ": ?");
    e.comma = pair(&e, grammar_part_bytes(c->builder, ",", 1), e.space);
    for (size_t i = 0; i < plan->n; i++)
        e.values[i] = grammar_part_rule(c->builder, NULL);
    for (size_t i = 0; i < plan->n && !c->r; i++)
        grammar_rule_set(c->builder, e.values[i],
                         plan->nodes[i].is_productive ? node_value(&e, &plan->nodes[i]) : e.nothing);
    return value_of(&e, root);
}
