// SPDX-License-Identifier: Apache-2.0
/* Keywords that combine schemas; those that describe values are in schema_keywords.c and schema_containers.c. */
#include "text/grammar/schema/schema_expand.h"

#include <string.h>

#include "base/cleanup.h"
#include "text/grammar/schema/schema_children.h"
#include "text/grammar/schema/schema_containers.h"
#include "text/grammar/schema/schema_keywords.h"

static const SchemaSet *set_of(SchemaCompiler *c, const json_t *schema, bool is_negated) {
    const SchemaLiteral literal = { schema, is_negated };

    return schema_node_set(c, schema_node(c, &literal, 1));
}

static bool is_schema_list(SchemaCompiler *c, const json_t *schema, const char *keyword) {
    const json_t *list = json_object_get(schema, keyword);

    if (list && (!json_is_array(list) || !json_array_size(list)))
        schema_invalid(c, schema, keyword, "is no list of schemas");
    return list && !c->r;
}

/* All (or, negated, not all) of the schemas in a list fit; any of them, if is_any. */
static SchemaSet expand_list(SchemaCompiler *c, const json_t *list, bool is_negated, bool is_sum) {
    SchemaSet set = is_sum ? (SchemaSet){ 0 } : schema_set_any();
    json_t *item;
    size_t i;

    json_array_foreach((json_t *)list, i, item) {
        const SchemaSet *other = set_of(c, item, is_negated);

        if (c->r)
            break;
        set = is_sum ? schema_set_or(c, &set, other) : schema_set_and(c, &set, other);
    }
    return set;
}

static bool expand_all_of(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    if (!is_schema_list(c, schema, "allOf"))
        return false;
    *set = expand_list(c, json_object_get(schema, "allOf"), is_negated, is_negated);
    return true;
}

static bool expand_any_of(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    if (!is_schema_list(c, schema, "anyOf"))
        return false;
    *set = expand_list(c, json_object_get(schema, "anyOf"), is_negated, !is_negated);
    return true;
}

/* --- oneOf -------------------------------------------------------------------------------------------------------- */

/* What type and properties beside a oneOf say: often that the property is required by which its branches differ. */
static SchemaSet context_of(SchemaCompiler *c, const json_t *schema) {
    SchemaSet context = schema_set_any(), one;

    if (schema_expand_type(c, schema, false, &one))
        context = schema_set_and(c, &context, &one);
    if (schema_expand_objects(c, schema, false, &one))
        context = schema_set_and(c, &context, &one);
    return context;
}

/* Whether no value of the context fits both sets. */
static bool are_disjoint(SchemaCompiler *c, const SchemaSet *context, const SchemaSet *a, const SchemaSet *b) {
    SchemaSet both;
    bool are;

    schema_probe_begin(c);
    both = schema_set_and(c, a, b);
    both = schema_set_and(c, context, &both);
    are = !c->r && schema_set_is_empty(c, &both);
    schema_probe_end(c);
    return are && !c->r;
}

/* Takes alternatives without a value in the context out of a set, before products of them grow. */
static void drop_empty(SchemaCompiler *c, const SchemaSet *context, SchemaSet *set) {
    SchemaObject *objects = schema_alloc(c, set->n_objects, sizeof(*objects));
    size_t n = 0;

    schema_probe_begin(c);
    for (size_t i = 0; i < set->n_objects && objects && !c->r; i++) {
        SchemaSet one = { .objects = &set->objects[i], .n_objects = 1 };

        one = schema_set_and(c, context, &one);
        if (!schema_set_is_empty(c, &one))
            objects[n++] = set->objects[i];
    }
    schema_probe_end(c);
    set->objects = objects;
    set->n_objects = n;
}

/* Branch number `at` fits and no other one does. Branches that have no value in common with it need no words. */
static SchemaSet only_branch(SchemaCompiler *c, const SchemaSet *context, const json_t *list, size_t at) {
    SchemaSet set = *set_of(c, json_array_get(list, at), false);

    for (size_t i = 0; i < json_array_size(list) && !c->r; i++) {
        const json_t *other = json_array_get(list, i);

        if (i == at || are_disjoint(c, context, &set, set_of(c, other, false)) || c->r)
            continue;
        set = schema_set_and(c, &set, set_of(c, other, true));
        if (set.n_objects > 1)
            drop_empty(c, context, &set);
    }
    return set;
}

/* None of the schemas fits, or two of them do. */
static SchemaSet none_or_two(SchemaCompiler *c, const json_t *list) {
    SchemaSet set = expand_list(c, list, true, false);

    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t k = i + 1; k < json_array_size(list) && !c->r; k++) {
            SchemaSet both =
                schema_set_and(c, set_of(c, json_array_get(list, i), false), set_of(c, json_array_get(list, k), false));

            set = schema_set_or(c, &set, &both);
        }
    return set;
}

static bool expand_one_of(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    const json_t *list = json_object_get(schema, "oneOf");
    SchemaSet context;

    if (!is_schema_list(c, schema, "oneOf"))
        return false;
    if (is_negated) {
        *set = none_or_two(c, list);
        return true;
    }
    *set = (SchemaSet){ 0 };
    context = context_of(c, schema);
    for (size_t i = 0; i < json_array_size(list) && !c->r; i++) {
        SchemaSet one = only_branch(c, &context, list, i);

        *set = schema_set_or(c, set, &one);
    }
    return true;
}

/* --- not, if, references ------------------------------------------------------------------------------------------ */

static bool expand_not(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    const json_t *other = json_object_get(schema, "not");

    if (!other)
        return false;
    *set = *set_of(c, other, !is_negated);
    return true;
}

/* "if" without "then" and "else" says nothing, and neither do these two without "if". */
static bool expand_if(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    const json_t *condition = json_object_get(schema, "if"), *then = json_object_get(schema, "then"),
                 *otherwise = json_object_get(schema, "else");
    SchemaSet yes, no;

    if (!condition || (!then && !otherwise))
        return false;
    yes = schema_set_and(c, set_of(c, condition, false), set_of(c, then ? then : json_true(), is_negated));
    no = schema_set_and(c, set_of(c, condition, true), set_of(c, otherwise ? otherwise : json_true(), is_negated));
    *set = schema_set_or(c, &yes, &no);
    return true;
}

static bool expand_ref(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    const json_t *ref = json_object_get(schema, "$ref"), *target;

    if (!ref)
        return false;
    if (!json_is_string(ref)) {
        schema_invalid(c, schema, "$ref", "is no string");
        return false;
    }
    target = schema_source_find(c->source, schema, json_string_value(ref));
    if (!target)
        schema_unsupported(c, schema, "$ref", "'%.100s' is no schema of this document", json_string_value(ref));
    else
        *set = *set_of(c, target, is_negated);
    return target;
}

/* --- dependencies ------------------------------------------------------------------------------------------------- */

/* The objects in which a property is required or absent. */
static SchemaSet objects_with(SchemaCompiler *c, const char *name, bool is_required, bool with_others) {
    SchemaSet set = with_others ? schema_set_any() : (SchemaSet){ 0 };
    SchemaObject *object = schema_alloc(c, 1, sizeof(*object));
    SchemaEntry *entry = schema_alloc(c, 1, sizeof(*entry));

    if (!object || !entry)
        return set;
    *entry = (SchemaEntry){ .name = { name, strlen(name) }, .is_required = is_required, .is_absent = !is_required };
    *object = schema_object_any;
    object->entries = entry;
    object->n_entries = 1;
    set.objects = object;
    set.n_objects = 1;
    return set;
}

/* What a property's presence asks for: names of a list, or a schema. */
static SchemaSet consequence(SchemaCompiler *c, const json_t *schema, const char *keyword, const json_t *what,
                             bool is_negated) {
    SchemaSet set = is_negated ? (SchemaSet){ 0 } : schema_set_any();
    json_t *name;
    size_t i;

    if (!json_is_array(what))
        return *set_of(c, what, is_negated);
    json_array_foreach((json_t *)what, i, name) {
        SchemaSet one;

        if (!json_is_string(name)) {
            schema_invalid(c, schema, keyword, "has a list of other things than names");
            break;
        }
        one = objects_with(c, json_string_value(name), !is_negated, !is_negated);
        set = is_negated ? schema_set_or(c, &set, &one) : schema_set_and(c, &set, &one);
    }
    return set;
}

static bool expand_dependency(SchemaCompiler *c, const json_t *schema, const char *keyword, bool is_negated,
                              SchemaSet *set) {
    const json_t *all = json_object_get(schema, keyword);
    const char *name;
    json_t *what;

    if (!all)
        return false;
    if (!json_is_object(all)) {
        schema_invalid(c, schema, keyword, "is no object");
        return false;
    }
    *set = is_negated ? (SchemaSet){ 0 } : schema_set_any();
    json_object_foreach((json_t *)all, name, what) {
        SchemaSet present = objects_with(c, name, true, false),
                  then = consequence(c, schema, keyword, what, is_negated);

        if (c->r)
            break;
        present = schema_set_and(c, &present, &then);
        if (is_negated) {
            *set = schema_set_or(c, set, &present);
        } else {
            SchemaSet absent = objects_with(c, name, false, true);

            present = schema_set_or(c, &absent, &present);
            *set = schema_set_and(c, set, &present);
        }
    }
    return true;
}

static bool expand_dependencies(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    return expand_dependency(c, schema, "dependencies", is_negated, set);
}

static bool expand_dependent_required(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    return expand_dependency(c, schema, "dependentRequired", is_negated, set);
}

static bool expand_dependent_schemas(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    return expand_dependency(c, schema, "dependentSchemas", is_negated, set);
}

/* --- the whole schema --------------------------------------------------------------------------------------------- */

/* Writes the values that fit a group of keywords; false: the schema has none of the group. */
typedef bool ExpandGroup(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set);

/* Keywords and the function of their group. Groups are followed in the order of the document: that of properties. */
static const struct {
    const char *keyword;
    ExpandGroup *expand;
} keywords[] = {
    { "type", schema_expand_type },
    { "const", schema_expand_values },
    { "enum", schema_expand_values },
    { "minimum", schema_expand_numbers },
    { "maximum", schema_expand_numbers },
    { "exclusiveMinimum", schema_expand_numbers },
    { "exclusiveMaximum", schema_expand_numbers },
    { "multipleOf", schema_expand_numbers },
    { "format", schema_expand_numbers },
    { "format", schema_expand_strings },
    { "minLength", schema_expand_strings },
    { "maxLength", schema_expand_strings },
    { "pattern", schema_expand_strings },
    { "items", schema_expand_arrays },
    { "prefixItems", schema_expand_arrays },
    { "contains", schema_expand_arrays },
    { "minItems", schema_expand_arrays },
    { "maxItems", schema_expand_arrays },
    { "uniqueItems", schema_expand_arrays },
    { "properties", schema_expand_objects },
    { "patternProperties", schema_expand_objects },
    { "additionalProperties", schema_expand_objects },
    { "propertyNames", schema_expand_objects },
    { "required", schema_expand_objects },
    { "minProperties", schema_expand_objects },
    { "maxProperties", schema_expand_objects },
    { "$ref", expand_ref },
    { "allOf", expand_all_of },
    { "anyOf", expand_any_of },
    { "oneOf", expand_one_of },
    { "not", expand_not },
    { "if", expand_if },
    { "dependentRequired", expand_dependent_required },
    { "dependentSchemas", expand_dependent_schemas },
    { "dependencies", expand_dependencies },
};

/* Follows the groups of a keyword that were not followed yet; done[i] says that of keywords[i]. */
static void expand_keyword(SchemaCompiler *c, SchemaLiteral literal, const char *keyword, bool *done, SchemaSet *set) {
    for (size_t i = 0; i < ARRAY_LEN(keywords) && !c->r; i++) {
        SchemaSet one;

        if (done[i] || strcmp(keywords[i].keyword, keyword) != 0)
            continue;
        for (size_t k = 0; k < ARRAY_LEN(keywords); k++)
            done[k] |= keywords[k].expand == keywords[i].expand;
        if (keywords[i].expand(c, literal.schema, literal.is_negated, &one))
            *set = literal.is_negated ? schema_set_or(c, set, &one) : schema_set_and(c, set, &one);
    }
}

/* Keywords that are enforced nowhere, and that a value could break. */
static void refuse_keywords(SchemaCompiler *c, const json_t *schema) {
    static const char *const refused[] = { "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef",
                                           "contentSchema",         "extends",          "disallow",    "divisibleBy" };

    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        const json_t *value = json_object_get(schema, refused[i]);

        if (value && !json_is_true(value))
            schema_unsupported(c, schema, refused[i], "the keyword is not supported");
    }
}

SchemaSet schema_expand(SchemaCompiler *c, SchemaLiteral literal) {
    SchemaSet set = literal.is_negated ? (SchemaSet){ 0 } : schema_set_any();
    bool done[ARRAY_LEN(keywords)] = { false };
    const json_t *schema = literal.schema;
    const char *keyword;
    json_t *value;

    if (!json_is_object(schema)) {
        schema_invalid(c, schema, "schema", "is neither an object nor true or false");
        return set;
    }
    if (c->source->ref_stands_alone && json_object_get(schema, "$ref")) {
        (void)expand_ref(c, schema, literal.is_negated, &set);
        return set;
    }
    refuse_keywords(c, schema);
    json_object_foreach((json_t *)schema, keyword, value) expand_keyword(c, literal, keyword, done, &set);
    return set;
}
