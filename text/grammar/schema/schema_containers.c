// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema_containers.h"

#include <string.h>

#include "text/grammar/schema/schema_children.h"

/* A list of alternatives of one type under construction, which becomes a set. */
typedef struct Shapes {
    SchemaArray *arrays;
    SchemaObject *objects;
    size_t n, room;
} Shapes;

static SchemaArray *add_array(SchemaCompiler *c, Shapes *shapes) {
    static SchemaArray spare; /* written to after a failure only, never read */

    if (!shapes->arrays || shapes->n == shapes->room) {
        spare = schema_array_any;
        if (!c->r)
            c->r = err_set(c->err, GRAMMAR_E_TOO_COMPLEX, "the schema has too many combinations of alternatives");
        return &spare;
    }
    shapes->arrays[shapes->n] = schema_array_any;
    return &shapes->arrays[shapes->n++];
}

/* Returns a copy of one thing in the compiler's memory. */
static void *keep(SchemaCompiler *c, const void *thing, size_t n_bytes) {
    return schema_join(c, thing, 1, NULL, 0, n_bytes);
}

/* --- arrays ------------------------------------------------------------------------------------------------------- */

typedef struct ArrayKeywords {
    const json_t *prefix, *rest, *contains;
    uint32_t min, max, contains_min, contains_max;
    bool is_unique;
} ArrayKeywords;

static bool read_array(SchemaCompiler *c, const json_t *schema, ArrayKeywords *keys) {
    const json_t *items = json_object_get(schema, "items"), *unique = json_object_get(schema, "uniqueItems");

    *keys = (ArrayKeywords){ .prefix = json_object_get(schema, "prefixItems"),
                             .contains = json_object_get(schema, "contains"),
                             .max = SCHEMA_NO_MAX,
                             .contains_min = 1,
                             .contains_max = SCHEMA_NO_MAX,
                             .is_unique = json_is_true(unique) };
    if ((keys->prefix && (!json_is_array(keys->prefix) || json_is_array(items))) ||
        (unique && !json_is_boolean(unique))) {
        schema_invalid(c, schema, keys->prefix ? "prefixItems" : "uniqueItems", "has a wrong type");
        return false;
    }
    keys->rest = json_is_array(items) ? json_object_get(schema, "additionalItems") : items;
    if (json_is_array(items))
        keys->prefix = items;
    (void)schema_read_count(c, schema, "minItems", &keys->min);
    (void)schema_read_count(c, schema, "maxItems", &keys->max);
    (void)schema_read_count(c, schema, "minContains", &keys->contains_min);
    (void)schema_read_count(c, schema, "maxContains", &keys->contains_max);
    if (keys->contains && !keys->contains_min && keys->contains_max == SCHEMA_NO_MAX)
        keys->contains = NULL;
    return (keys->prefix || keys->rest || keys->contains || keys->min || keys->max != SCHEMA_NO_MAX ||
            keys->is_unique) &&
           !c->r;
}

static void fit_array(SchemaCompiler *c, const json_t *schema, const ArrayKeywords *keys, SchemaArray *array) {
    if (keys->prefix || keys->rest) {
        array->layers = keep(c, &schema, sizeof(schema));
        array->n_layers = array->layers != NULL;
    }
    if (keys->contains) {
        array->contains =
            keep(c, &(SchemaContains){ { keys->contains, false }, keys->contains_min, keys->contains_max },
                 sizeof(SchemaContains));
        array->n_contains = array->contains != NULL;
    }
    array->min = keys->min;
    array->max = keys->max;
    array->unique = keys->is_unique ? schema : NULL;
}

/* Adds alternatives in which an element breaks the schema of its place. */
static void break_elements(SchemaCompiler *c, const json_t *schema, const ArrayKeywords *keys, Shapes *shapes) {
    size_t n = json_array_size(keys->prefix);

    for (size_t i = 0; i < n; i++) {
        const SchemaElement element = { (uint32_t)i, { json_array_get(keys->prefix, i), true } };
        SchemaArray *array;

        if (json_is_true(element.literal.schema))
            continue;
        array = add_array(c, shapes);
        array->elements = keep(c, &element, sizeof(element));
        array->n_elements = array->elements != NULL;
        array->min = (uint32_t)i + 1;
    }
    if (!keys->rest || json_is_true(keys->rest))
        return;
    if (json_is_false(keys->rest)) {
        add_array(c, shapes)->min = (uint32_t)n + 1;
    } else if (n) {
        schema_unsupported(c, schema, "items", "that elements behind others break it is not supported");
    } else {
        SchemaArray *array = add_array(c, shapes);

        array->contains = keep(c, &(SchemaContains){ { keys->rest, true }, 1, SCHEMA_NO_MAX }, sizeof(SchemaContains));
        array->n_contains = array->contains != NULL;
        array->min = 1;
    }
}

static void break_array(SchemaCompiler *c, const json_t *schema, const ArrayKeywords *keys, Shapes *shapes) {
    if (keys->min)
        add_array(c, shapes)->max = keys->min - 1;
    if (keys->max != SCHEMA_NO_MAX)
        add_array(c, shapes)->min = keys->max + 1;
    break_elements(c, schema, keys, shapes);
    for (int is_above = 0; keys->contains && is_above < 2; is_above++) {
        SchemaContains contains = { { keys->contains, false }, 0, SCHEMA_NO_MAX };
        SchemaArray *array;

        if (is_above ? keys->contains_max == SCHEMA_NO_MAX : !keys->contains_min)
            continue;
        if (is_above)
            contains.min = keys->contains_max + 1;
        else
            contains.max = keys->contains_min - 1;
        array = add_array(c, shapes);
        array->contains = keep(c, &contains, sizeof(contains));
        array->n_contains = array->contains != NULL;
    }
    if (keys->is_unique)
        schema_unsupported(c, schema, "uniqueItems", "equal elements are not supported");
}

bool schema_expand_arrays(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    ArrayKeywords keys;
    Shapes shapes = { 0 };

    if (!read_array(c, schema, &keys))
        return false;
    shapes.room = is_negated ? json_array_size(keys.prefix) + 5 : 1;
    shapes.arrays = schema_alloc(c, shapes.room, sizeof(*shapes.arrays));
    if (is_negated)
        break_array(c, schema, &keys, &shapes);
    else
        fit_array(c, schema, &keys, add_array(c, &shapes));
    *set = is_negated ? (SchemaSet){ 0 } : schema_set_any();
    set->arrays = shapes.arrays;
    set->n_arrays = shapes.n;
    return true;
}

/* --- objects ------------------------------------------------------------------------------------------------------ */

typedef struct ObjectKeywords {
    json_t *properties, *patterns, *required;
    const json_t *additional, *names;
    uint32_t min, max;
} ObjectKeywords;

static bool has_only_strings(const json_t *list) {
    json_t *item;
    size_t i;

    json_array_foreach((json_t *)list, i, item) if (!json_is_string(item)) return false;
    return true;
}

static bool read_object(SchemaCompiler *c, const json_t *schema, ObjectKeywords *keys) {
    *keys = (ObjectKeywords){ .properties = json_object_get(schema, "properties"),
                              .patterns = json_object_get(schema, "patternProperties"),
                              .required = json_object_get(schema, "required"),
                              .additional = schema_layer_additional(schema),
                              .names = json_object_get(schema, "propertyNames"),
                              .max = SCHEMA_NO_MAX };
    if ((keys->properties && !json_is_object(keys->properties)) || (keys->patterns && !json_is_object(keys->patterns)))
        schema_invalid(c, schema, json_is_object(keys->properties) ? "patternProperties" : "properties",
                       "is no object of schemas");
    else if (keys->required && (!json_is_array(keys->required) || !has_only_strings(keys->required)))
        schema_invalid(c, schema, "required", "is no list of names");
    (void)schema_read_count(c, schema, "minProperties", &keys->min);
    (void)schema_read_count(c, schema, "maxProperties", &keys->max);
    return (keys->properties || keys->patterns || json_array_size(keys->required) || keys->additional || keys->names ||
            keys->min || keys->max != SCHEMA_NO_MAX) &&
           !c->r;
}

/* The strings that fit a schema for names. The schema is looked at at once, so it must not lead back to here. */
static SchemaText names_of(SchemaCompiler *c, const json_t *schema, bool is_negated) {
    const SchemaLiteral literal = { schema, is_negated };

    return schema_node_set(c, schema_node(c, &literal, 1))->text;
}

static void fit_object(SchemaCompiler *c, const json_t *schema, const ObjectKeywords *keys, SchemaObject *object) {
    SchemaEntry *entries = schema_alloc(c, json_array_size(keys->required), sizeof(*entries));
    json_t *name;
    size_t i;

    *object = schema_object_any;
    if (keys->properties || keys->patterns || keys->additional) {
        object->layers = keep(c, &schema, sizeof(schema));
        object->n_layers = object->layers != NULL;
    }
    object->entries = entries;
    json_array_foreach(keys->required, i, name) if (entries) entries[object->n_entries++] =
        (SchemaEntry){ .name = { json_string_value(name), json_string_length(name) }, .is_required = true };
    object->min = keys->min;
    object->max = keys->max;
    if (keys->names)
        object->names = names_of(c, keys->names, false);
}

static SchemaObject *add_object(SchemaCompiler *c, Shapes *shapes) {
    SchemaObject *object = shapes->objects && shapes->n < shapes->room ? &shapes->objects[shapes->n++] : NULL;

    if (object)
        *object = schema_object_any;
    else if (!c->r)
        c->r = err_set(c->err, GRAMMAR_E_TOO_COMPLEX, "the schema has too many combinations of alternatives");
    return object;
}

static void add_entry(SchemaCompiler *c, Shapes *shapes, SchemaEntry entry) {
    SchemaObject *object = add_object(c, shapes);

    if (object) {
        object->entries = keep(c, &entry, sizeof(entry));
        object->n_entries = object->entries != NULL;
    }
}

static void add_exists(SchemaCompiler *c, Shapes *shapes, SchemaText names, const json_t *broken) {
    SchemaObject *object = add_object(c, shapes);

    if (object) {
        object->exists = keep(c, &(SchemaExists){ names, { broken, true } }, sizeof(SchemaExists));
        object->n_exists = object->exists != NULL;
        object->min = 1;
    }
}

/* The names that neither properties nor patternProperties speak of. */
static SchemaText other_names(SchemaCompiler *c, const json_t *schema, const ObjectKeywords *keys) {
    SchemaName *listed = schema_alloc(c, json_object_size(keys->properties), sizeof(*listed));
    SchemaText names = { .kind = SCHEMA_TEXT_EXCEPT, .names = listed };
    const char *key;
    json_t *value;

    json_object_foreach(keys->properties, key, value) if (listed) listed[names.n++] = (SchemaName){ key, strlen(key) };
    json_object_foreach(keys->patterns, key, value) names =
        schema_text_and(c, names, schema_text_not(c, schema_text_pattern(c, schema, "patternProperties", key)));
    return names;
}

static void break_object(SchemaCompiler *c, const json_t *schema, const ObjectKeywords *keys, Shapes *shapes) {
    const char *key;
    json_t *value;
    size_t i;

    json_array_foreach(keys->required, i, value) add_entry(
        c, shapes, (SchemaEntry){ .name = { json_string_value(value), json_string_length(value) }, .is_absent = true });
    json_object_foreach(keys->properties, key, value) if (!json_is_true(value)) add_entry(
        c, shapes,
        (SchemaEntry){
            .name = { key, strlen(key) }, .is_required = true, .has_literal = true, .literal = { value, true } });
    json_object_foreach(keys->patterns, key, value) if (!json_is_true(value))
        add_exists(c, shapes, schema_text_pattern(c, schema, "patternProperties", key), value);
    if (keys->additional && !json_is_true(keys->additional))
        add_exists(c, shapes, other_names(c, schema, keys), keys->additional);
    if (keys->names)
        add_exists(c, shapes, names_of(c, keys->names, true), json_false());
    if (keys->min && add_object(c, shapes))
        shapes->objects[shapes->n - 1].max = keys->min - 1;
    if (keys->max != SCHEMA_NO_MAX && add_object(c, shapes))
        shapes->objects[shapes->n - 1].min = keys->max + 1;
}

bool schema_expand_objects(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    ObjectKeywords keys;
    Shapes shapes = { 0 };

    if (!read_object(c, schema, &keys))
        return false;
    shapes.room = 1;
    if (is_negated)
        shapes.room =
            json_array_size(keys.required) + json_object_size(keys.properties) + json_object_size(keys.patterns) + 4;
    shapes.objects = schema_alloc(c, shapes.room, sizeof(*shapes.objects));
    if (!shapes.objects)
        return false;
    if (is_negated) {
        break_object(c, schema, &keys, &shapes);
    } else {
        fit_object(c, schema, &keys, &shapes.objects[0]);
        shapes.n = 1;
    }
    *set = is_negated ? (SchemaSet){ 0 } : schema_set_any();
    set->objects = shapes.objects;
    set->n_objects = shapes.n;
    return true;
}
