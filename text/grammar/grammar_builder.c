// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar_builder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "text/grammar/code_points.h"
#include "text/grammar/grammar_private.h"

enum {
    DISJOINT_FUEL = 50000, /* of a question whether a part allows nothing: a few ms */
};

int grammar_builder_new(GrammarBuilder **builderp, const GrammarLimits *limits) {
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = calloc(1, sizeof(*builder));
    _cleanup_(freep) ByteRegex *regex = malloc(sizeof(*regex));
    int r;

    if (!builder || !regex)
        return err_raise(-ENOMEM);
    r = byte_regex_init(regex, limits->fuel_max, limits->memory_bytes_max);
    if (r)
        return r;
    builder->limits = *limits;
    builder->regex = steal(&regex);
    *builderp = steal(&builder);
    return 0;
}

GrammarBuilder *grammar_builder_free(GrammarBuilder *builder) {
    if (!builder)
        return NULL;
    byte_regex_free(builder->regex);
    free(builder->parts);
    free(builder->lists);
    free(builder->names);
    free(builder);
    return NULL;
}

bool grammar_builder_failed(const GrammarBuilder *builder) {
    return builder->failure || !builder->regex || builder->regex->failure;
}

static GrammarPart fail(GrammarBuilder *builder, int r) {
    if (!builder->failure)
        builder->failure = r;
    return 0;
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* Makes room for n more elements of a list, which doubles. NULL: no memory, the list is as it was. */
static void *grow(void *list, uint32_t *roomp, uint64_t n_wanted, size_t element_bytes) {
    uint64_t room = MAX(2 * (uint64_t)*roomp, MAX(n_wanted, 64));
    void *grown = room > UINT32_MAX ? NULL : realloc(list, room * element_bytes);

    if (grown)
        *roomp = (uint32_t)room;
    return grown;
}

static GrammarPart add_part(GrammarBuilder *builder, const Part *part) {
    if (grammar_builder_failed(builder))
        return 0;
    if (builder->n_parts == builder->limits.parts_max)
        return fail(builder, GRAMMAR_E_TOO_COMPLEX);
    if (builder->n_parts == builder->room_parts) {
        Part *parts = grow(builder->parts, &builder->room_parts, builder->n_parts + 1, sizeof(*parts));

        if (!parts)
            return fail(builder, -ENOMEM);
        builder->parts = parts;
    }
    builder->parts[builder->n_parts] = *part;
    return builder->n_parts++;
}

GrammarPart grammar_part_of_regex(GrammarBuilder *builder, RegexId id) {
    return add_part(builder, &(Part){ .kind = PART_REGEX, .a = id });
}

/* Whether the parts exist; a front's mistake fails the builder. */
static bool are_valid(GrammarBuilder *builder, const GrammarPart *parts, size_t n) {
    bool is_valid = !grammar_builder_failed(builder);

    for (size_t i = 0; i < n && is_valid; i++)
        if (parts[i] >= builder->n_parts) {
            fail(builder, err_raise(-EINVAL));
            is_valid = false;
        }
    return is_valid;
}

static bool are_regex(const GrammarBuilder *builder, const GrammarPart *parts, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (builder->parts[parts[i]].kind != PART_REGEX)
            return false;
    return true;
}

GrammarPart grammar_part_empty(GrammarBuilder *builder) {
    return grammar_part_of_regex(builder, REGEX_EMPTY);
}

GrammarPart grammar_part_nothing(GrammarBuilder *builder) {
    return grammar_part_of_regex(builder, REGEX_NOTHING);
}

GrammarPart grammar_part_bytes(GrammarBuilder *builder, const void *bytes, size_t n) {
    return grammar_builder_failed(builder) ? 0
                                           : grammar_part_of_regex(builder, byte_regex_bytes(builder->regex, bytes, n));
}

GrammarPart grammar_part_class(GrammarBuilder *builder, const GrammarRange *ranges, size_t n, unsigned int flags) {
    _cleanup_(code_points_deinit) CodePoints points = { 0 };

    if (grammar_builder_failed(builder))
        return 0;
    for (size_t i = 0; i < n; i++)
        code_points_add(&points, ranges[i].first, ranges[i].last);
    if (flags & GRAMMAR_CLASS_NEGATED)
        code_points_negate(&points);
    else
        code_points_normalize(&points);
    if (points.failed)
        return fail(builder, err_raise(-ENOMEM));
    return grammar_part_of_regex(builder, code_points_regex(builder->regex, &points, flags));
}

/* Adds a part of kind with a list of parts. */
static GrammarPart add_list(GrammarBuilder *builder, PartKind kind, const GrammarPart *parts, size_t n) {
    if (n > builder->limits.parts_max || builder->n_lists > UINT32_MAX / 2)
        return fail(builder, GRAMMAR_E_TOO_COMPLEX);
    if (builder->n_lists + n > builder->room_lists) {
        GrammarPart *lists = grow(builder->lists, &builder->room_lists, builder->n_lists + n, sizeof(*lists));

        if (!lists)
            return fail(builder, -ENOMEM);
        builder->lists = lists;
    }
    memcpy(builder->lists + builder->n_lists, parts, n * sizeof(*parts));
    builder->n_lists += (uint32_t)n;
    return add_part(builder, &(Part){ .kind = kind, .a = builder->n_lists - (uint32_t)n, .b = (uint32_t)n });
}

GrammarPart grammar_part_sequence(GrammarBuilder *builder, const GrammarPart *parts, size_t n) {
    RegexId id = REGEX_EMPTY;

    if (!are_valid(builder, parts, n))
        return 0;
    if (!are_regex(builder, parts, n))
        return add_list(builder, PART_SEQUENCE, parts, n);
    while (n--)
        id = byte_regex_concat(builder->regex, builder->parts[parts[n]].a, id);
    return grammar_part_of_regex(builder, id);
}

GrammarPart grammar_part_choice(GrammarBuilder *builder, const GrammarPart *parts, size_t n) {
    size_t base;

    if (!are_valid(builder, parts, n))
        return 0;
    if (!are_regex(builder, parts, n))
        return add_list(builder, PART_CHOICE, parts, n);
    base = builder->regex->n_scratch;
    for (size_t i = 0; i < n && !builder->regex->failure; i++)
        byte_regex_push(builder->regex, builder->parts[parts[i]].a);
    return grammar_part_of_regex(builder, byte_regex_choice_of_scratch(builder->regex, base));
}

GrammarPart grammar_part_repeat(GrammarBuilder *builder, GrammarPart part, uint32_t min, uint32_t max) {
    if (!are_valid(builder, &part, 1))
        return 0;
    if (min > max)
        return grammar_part_nothing(builder);
    if (!are_regex(builder, &part, 1))
        return add_part(builder, &(Part){ .kind = PART_REPEAT, .a = part, .min = min, .max = max });
    return grammar_part_of_regex(builder, byte_regex_repeat(builder->regex, builder->parts[part].a, min, max));
}

GrammarPart grammar_part_and(GrammarBuilder *builder, GrammarPart a, GrammarPart b) {
    const GrammarPart parts[] = { a, b };

    if (!are_valid(builder, parts, 2))
        return 0;
    if (!are_regex(builder, parts, 2))
        return add_part(builder, &(Part){ .kind = PART_AND, .a = a, .b = b });
    return grammar_part_of_regex(
        builder, byte_regex_and(builder->regex, (const RegexId[]){ builder->parts[a].a, builder->parts[b].a }, 2));
}

GrammarPart grammar_part_not(GrammarBuilder *builder, GrammarPart part) {
    if (!are_valid(builder, &part, 1))
        return 0;
    if (!are_regex(builder, &part, 1))
        return add_part(builder, &(Part){ .kind = PART_NOT, .a = part });
    return grammar_part_of_regex(builder, byte_regex_not(builder->regex, builder->parts[part].a));
}

GrammarPart grammar_part_unordered(GrammarBuilder *builder, const GrammarMember *members, size_t n,
                                   GrammarPart separator) {
    GrammarPart parts[1 + GRAMMAR_UNORDERED_MAX] = { separator }, part;
    uint64_t required = 0, repeated = 0;

    if (n > GRAMMAR_UNORDERED_MAX)
        return fail(builder, GRAMMAR_E_TOO_COMPLEX);
    for (size_t i = 0; i < n; i++) {
        parts[1 + i] = members[i].part;
        required |= (uint64_t)members[i].is_required << i;
        repeated |= (uint64_t)members[i].may_repeat << i;
    }
    if (!are_valid(builder, parts, 1 + n))
        return 0;
    part = add_list(builder, PART_UNORDERED, parts, 1 + n);
    if (!grammar_builder_failed(builder)) {
        builder->parts[part].required = required;
        builder->parts[part].repeated = repeated;
    }
    return part;
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

GrammarPart grammar_part_rule(GrammarBuilder *builder, const char *name) {
    const size_t n = strlen(name ? name : "") + 1, at = builder->n_names;

    if (grammar_builder_failed(builder))
        return 0;
    if (at + n > builder->room_names) {
        size_t room = MAX(2 * builder->room_names, at + n + 64);
        char *names = room > UINT32_MAX ? NULL : realloc(builder->names, room);

        if (!names)
            return fail(builder, err_raise(-ENOMEM));
        builder->names = names;
        builder->room_names = room;
    }
    memcpy(builder->names + at, name ? name : "", n);
    builder->n_names += n;
    return add_part(builder, &(Part){ .kind = PART_RULE, .a = GRAMMAR_PART_NONE, .b = (uint32_t)at });
}

void grammar_rule_set(GrammarBuilder *builder, GrammarPart rule, GrammarPart body) {
    const GrammarPart parts[] = { rule, body };

    if (!are_valid(builder, parts, 2))
        return;
    if (builder->parts[rule].kind == PART_RULE)
        builder->parts[rule].a = body;
    else
        fail(builder, err_raise(-EINVAL));
}

bool grammar_rule_is_set(const GrammarBuilder *builder, GrammarPart rule) {
    return rule < builder->n_parts && builder->parts[rule].kind == PART_RULE &&
           builder->parts[rule].a != GRAMMAR_PART_NONE;
}

/* --- results ------------------------------------------------------------------------------------------------------ */

static int report(const GrammarBuilder *builder, int r, ErrText *err) {
    if (r == GRAMMAR_E_TOO_COMPLEX)
        return err_set(err, r,
                       "the grammar is too large or too complex (%u parts, %u expressions): split or simplify it",
                       builder->n_parts, builder->regex->nodes.n);
    if (r == GRAMMAR_E_NOTHING)
        return err_set(err, r, "no text fits the grammar");
    return r == -ENOMEM ? err_no_memory(err)
           : r < 0      ? err_set(err, r, "the grammar cannot be built: %s", strerror(-r))
                        : r;
}

static int failure_of(const GrammarBuilder *builder) {
    return builder->failure ? builder->failure : builder->regex ? builder->regex->failure : -EINVAL;
}

int grammar_builder_allows_nothing(GrammarBuilder *builder, GrammarPart part, bool *nothingp, ErrText *err) {
    ByteRegex *regex = builder->regex;
    RegexId id = REGEX_NOTHING;
    uint64_t fuel;
    uint32_t n_bytes;
    int r = are_valid(builder, &part, 1) ? 0 : failure_of(builder);

    if (r)
        return report(builder, r, err);
    fuel = regex->fuel;
    regex->fuel = MIN(fuel, DISJOINT_FUEL);
    fuel -= regex->fuel;
    r = grammar_lower_regular(builder, part, &id, err);
    if (!r && regex->infos[id].end_bytes == REGEX_UNKNOWN)
        r = byte_regex_set_classes(regex, &id, 1);
    n_bytes = r ? 0 : byte_regex_end_bytes(regex, id);
    if (!r)
        r = regex->failure;
    regex->failure = r == GRAMMAR_E_TOO_COMPLEX ? 0 : regex->failure;
    regex->fuel += fuel;
    if (!r)
        *nothingp = n_bytes == REGEX_NEVER;
    return r == GRAMMAR_E_UNSUPPORTED || r == GRAMMAR_E_SYNTAX ? r : report(builder, r, err);
}

static void draft_deinit(RuleDraft *draft) {
    free(draft->edges);
    free(draft->rules);
    free(draft->unordered);
    free(draft->members);
    tuple_store_deinit(&draft->lexemes);
}

int grammar_builder_finish(GrammarBuilder *builder, GrammarPart root, Grammar **grammarp, ErrText *err) {
    _cleanup_(draft_deinit) RuleDraft draft = { .edges_max = builder->limits.parts_max };
    _cleanup_(grammar_unrefp) Grammar *grammar = calloc(1, sizeof(*grammar));
    int r = are_valid(builder, &root, 1) ? 0 : failure_of(builder);

    if (!grammar)
        return err_no_memory(err);
    grammar->n_refs = 1;
    if (!r)
        r = tuple_store_init(&draft.lexemes);
    if (!r)
        r = grammar_lower(builder, root, &draft, err);
    if (r == GRAMMAR_E_SYNTAX || r == GRAMMAR_E_UNSUPPORTED)
        return r;
    if (!r)
        r = rule_graph_init(&grammar->graph, &draft, builder->regex);
    if (!r)
        r = builder->regex->failure;
    if (r)
        return report(builder, r, err);
    grammar->regex = steal(&builder->regex);
    *grammarp = steal(&grammar);
    return 0;
}
