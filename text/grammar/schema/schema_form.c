// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema_form.h"

#include <string.h>

#include "base/min_max.h"

static void add_variant(SchemaVariants *variants, unsigned int marks, uint32_t node) {
    if (node != SCHEMA_NODE_NOTHING)
        variants->items[variants->n++] = (SchemaVariant){ marks, node };
}

/* --- objects: listed properties ----------------------------------------------------------------------------------- */

/* The values of a property, for every set of the marks that its name may set. */
static void split_by_exists(SchemaCompiler *c, const SchemaObject *object, const SchemaLiterals *list,
                            unsigned int possible, SchemaVariants *variants) {
    for (unsigned int marks = 0; marks < 1u << object->n_exists; marks++) {
        SchemaLiterals more = { 0 };

        if (marks & ~possible)
            continue;
        for (size_t i = 0; i < list->n; i++)
            schema_literals_add(c, &more, list->items[i]);
        for (size_t i = 0; i < object->n_exists; i++)
            if (marks & 1u << i)
                schema_literals_add(c, &more, object->exists[i].literal);
        add_variant(variants, marks, schema_node(c, more.items, more.n));
    }
}

static void add_member(SchemaCompiler *c, const SchemaObject *object, SchemaName name, SchemaObjectForm *form) {
    SchemaMember *member = &form->members[form->n_members++];
    SchemaLiterals list = { 0 };
    unsigned int possible = 0;

    member->name = name;
    if (!schema_object_property(c, object, name, &list, &member->is_required))
        return;
    for (size_t i = 0; i < object->n_exists; i++)
        if (schema_text_has(c, &object->exists[i].names, name))
            possible |= 1u << i;
    split_by_exists(c, object, &list, possible, &member->values);
}

static bool is_listed_before(const SchemaObject *object, size_t n_layers, size_t n_entries, SchemaName name) {
    for (size_t i = 0; i < n_layers; i++)
        if (json_object_getn(json_object_get(object->layers[i], "properties"), name.data, name.len_bytes))
            return true;
    for (size_t i = 0; i < n_entries; i++)
        if (schema_name_equal(object->entries[i].name, name))
            return true;
    return false;
}

static void add_members(SchemaCompiler *c, const SchemaObject *object, SchemaObjectForm *form) {
    size_t n = object->n_entries;

    for (size_t i = 0; i < object->n_layers; i++)
        n += json_object_size(json_object_get(object->layers[i], "properties"));
    form->members = schema_alloc(c, n, sizeof(*form->members));
    for (size_t i = 0; i < object->n_layers && !c->r; i++) {
        const char *key;
        json_t *value;

        json_object_foreach(json_object_get(object->layers[i], "properties"), key, value) {
            const SchemaName name = { key, strlen(key) };

            if (!c->r && !is_listed_before(object, i, 0, name))
                add_member(c, object, name, form);
        }
    }
    for (size_t i = 0; i < object->n_entries && !c->r; i++)
        if (!is_listed_before(object, object->n_layers, i, object->entries[i].name))
            add_member(c, object, object->entries[i].name, form);
}

/* --- objects: other names ----------------------------------------------------------------------------------------- */

/* A set of names that makes a difference: a pattern of a layer, or the names of an exists. */
typedef struct Splitter {
    SchemaText names;
    size_t layer, exists; /* SIZE_MAX: none */
    const json_t *schema; /* of the pattern */
} Splitter;

typedef struct NameWalk {
    const SchemaObject *object;
    SchemaObjectForm *form;
    Splitter splitters[SCHEMA_SPLITTERS_MAX];
    size_t n;
    size_t room;
    size_t n_visits; /* combinations that were looked at, most of them by an automaton */
} NameWalk;

enum {
    VISITS_MAX = 128,
};

static void add_splitter(SchemaCompiler *c, NameWalk *walk, const json_t *schema, Splitter splitter) {
    if (walk->n == SCHEMA_SPLITTERS_MAX)
        schema_unsupported(c, schema, "patternProperties", "more than %d patterns together are not supported",
                           SCHEMA_SPLITTERS_MAX);
    else if (!c->r)
        walk->splitters[walk->n++] = splitter;
}

static void list_splitters(SchemaCompiler *c, NameWalk *walk) {
    const SchemaObject *object = walk->object;

    for (size_t i = 0; i < object->n_layers; i++) {
        const char *pattern;
        json_t *schema;

        json_object_foreach(json_object_get(object->layers[i], "patternProperties"), pattern, schema) {
            SchemaText names = schema_text_pattern(c, object->layers[i], "patternProperties", pattern);

            add_splitter(c, walk, object->layers[i], (Splitter){ names, i, SIZE_MAX, schema });
        }
    }
    for (size_t i = 0; i < object->n_exists; i++)
        if (!schema_text_is_any(&object->exists[i].names))
            add_splitter(c, walk, NULL, (Splitter){ object->exists[i].names, SIZE_MAX, i, NULL });
}

/* Adds the class of the names that are in the taken splitters and in no other one. */
static void add_class(SchemaCompiler *c, NameWalk *walk, SchemaText names, unsigned int taken) {
    const SchemaObject *object = walk->object;
    SchemaNameClass *one = &walk->form->classes[walk->form->n_classes];
    SchemaLiterals list = { 0 };
    unsigned int possible = 0;

    for (size_t layer = 0; layer < object->n_layers; layer++) {
        const json_t *additional = schema_layer_additional(object->layers[layer]);
        bool has_pattern = false;

        for (size_t i = 0; i < walk->n; i++) {
            if (!(taken & 1u << i) || walk->splitters[i].layer != layer)
                continue;
            has_pattern = true;
            schema_literals_add(c, &list, (SchemaLiteral){ walk->splitters[i].schema, false });
        }
        if (!has_pattern && additional)
            schema_literals_add(c, &list, (SchemaLiteral){ additional, false });
    }
    for (size_t i = 0; i < object->n_exists; i++)
        if (schema_text_is_any(&object->exists[i].names))
            possible |= 1u << i;
    for (size_t i = 0; i < walk->n; i++)
        if (taken & 1u << i && walk->splitters[i].exists != SIZE_MAX)
            possible |= 1u << walk->splitters[i].exists;
    *one = (SchemaNameClass){ .names = names };
    split_by_exists(c, object, &list, possible, &one->values);
    if (one->values.n && !schema_text_is_empty(c, &names) && !c->r)
        walk->form->n_classes++;
}

static void walk_names(SchemaCompiler *c, NameWalk *walk, size_t at, SchemaText names, unsigned int taken) {
    if (c->r || !schema_step(c, 1))
        return;
    if (++walk->n_visits > VISITS_MAX || walk->form->n_classes == walk->room) {
        c->r = err_set(c->err, GRAMMAR_E_TOO_COMPLEX, "the schema has too many combinations of patterns");
        return;
    }
    if (at == walk->n) {
        add_class(c, walk, names, taken);
        return;
    }
    if (at && schema_text_is_empty(c, &names))
        return;
    walk_names(c, walk, at + 1, schema_text_and(c, names, walk->splitters[at].names), taken | 1u << at);
    walk_names(c, walk, at + 1, schema_text_and(c, names, schema_text_not(c, walk->splitters[at].names)), taken);
}

static void add_classes(SchemaCompiler *c, const SchemaObject *object, SchemaObjectForm *form) {
    SchemaName *listed = schema_alloc(c, form->n_members, sizeof(*listed));
    NameWalk walk = { .object = object, .form = form };
    SchemaText others = { .kind = SCHEMA_TEXT_EXCEPT, .names = listed, .n = form->n_members };

    if (!listed)
        return;
    for (size_t i = 0; i < form->n_members; i++)
        listed[i] = form->members[i].name;
    list_splitters(c, &walk);
    walk.room = MIN((size_t)1 << walk.n, (size_t)SCHEMA_CLASSES_MAX) + 1; /* the last one is tried in place */
    form->classes = schema_alloc(c, walk.room, sizeof(*form->classes));
    if (form->classes)
        walk_names(c, &walk, 0, schema_text_and(c, object->names, others), 0);
}

const SchemaObjectForm *schema_object_form(SchemaCompiler *c, const SchemaObject *object) {
    SchemaObjectForm *form = schema_alloc(c, 1, sizeof(*form));

    if (!form)
        return NULL;
    if (object->n_exists > SCHEMA_MARKS_MAX) {
        schema_unsupported(c, NULL, "not", "more than %d negated restrictions of other properties together",
                           SCHEMA_MARKS_MAX);
        return form;
    }
    form->min = object->min;
    form->max = object->max;
    form->n_marks = object->n_exists;
    add_members(c, object, form);
    if (!c->r)
        add_classes(c, object, form);
    return form;
}

/* --- arrays ------------------------------------------------------------------------------------------------------- */

/* Lists the values of an element for every set of marks. If a mark has an upper count, an element without the mark must
 * not fit. */
static void split_by_contains(SchemaCompiler *c, const SchemaArray *array, uint32_t element, SchemaVariants *variants) {
    const SchemaNode *node = schema_node_at(c, element);
    const SchemaLiteral *literals = node->literals;
    size_t n = node->n_literals;

    for (unsigned int marks = 0; marks < 1u << array->n_contains && element != SCHEMA_NODE_NOTHING; marks++) {
        SchemaLiterals list = { 0 };

        for (size_t i = 0; i < n; i++)
            schema_literals_add(c, &list, literals[i]);
        for (size_t i = 0; i < array->n_contains; i++) {
            const SchemaContains *contains = &array->contains[i];
            SchemaLiteral literal = contains->literal;

            if (marks & 1u << i) {
                schema_literals_add(c, &list, literal);
            } else if (contains->max != SCHEMA_NO_MAX) {
                literal.is_negated = !literal.is_negated;
                schema_literals_add(c, &list, literal);
            }
        }
        add_variant(variants, marks, schema_node(c, list.items, list.n));
    }
}

const SchemaArrayForm *schema_array_form(SchemaCompiler *c, const SchemaArray *array) {
    SchemaArrayForm *form = schema_alloc(c, 1, sizeof(*form));
    uint32_t n = schema_array_prefix(array);

    if (!form)
        return NULL;
    if (array->unique && array->max > 1)
        schema_unsupported(c, array->unique, "uniqueItems", "the keyword is not supported");
    if (array->n_contains > SCHEMA_MARKS_MAX)
        schema_unsupported(c, NULL, "contains", "more than %d together are not supported", SCHEMA_MARKS_MAX);
    if (array->max != SCHEMA_NO_MAX)
        n = MIN(n, array->max);
    form->elements = schema_alloc(c, (size_t)n + 1, sizeof(*form->elements));
    if (!form->elements)
        return form;
    form->n_prefix = n;
    form->min = array->min;
    form->max = array->max;
    form->n_marks = array->n_contains;
    for (size_t i = 0; i < array->n_contains; i++) {
        form->counts[i].min = array->contains[i].min;
        form->counts[i].max = array->contains[i].max;
    }
    for (uint32_t i = 0; i <= n && !c->r; i++)
        split_by_contains(c, array, schema_array_element(c, array, i), &form->elements[i]);
    return form;
}
