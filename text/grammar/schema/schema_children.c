// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema_children.h"

#include <string.h>

#include "base/min_max.h"

void schema_literals_add(SchemaCompiler *c, SchemaLiterals *list, SchemaLiteral literal) {
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 8;
        SchemaLiteral *more = schema_alloc(c, room, sizeof(*more));

        if (!more)
            return;
        if (list->n)
            memcpy(more, list->items, list->n * sizeof(*more));
        list->items = more;
        list->room = room;
    }
    list->items[list->n++] = literal;
}

/* --- arrays ------------------------------------------------------------------------------------------------------- */

/* The schemas of the first elements: prefixItems, or items as drafts up to 7 write them. */
static const json_t *layer_prefix(const json_t *layer) {
    const json_t *prefix = json_object_get(layer, "prefixItems"), *items = json_object_get(layer, "items");

    return prefix ? prefix : json_is_array(items) ? items : NULL;
}

static const json_t *layer_rest(const json_t *layer) {
    const json_t *items = json_object_get(layer, "items");

    return json_is_array(items) ? json_object_get(layer, "additionalItems") : items;
}

uint32_t schema_array_prefix(const SchemaArray *array) {
    uint32_t n = 0;

    for (size_t i = 0; i < array->n_layers; i++) {
        const json_t *prefix = layer_prefix(array->layers[i]);

        n = MAX(n, (uint32_t)json_array_size(prefix));
    }
    for (size_t i = 0; i < array->n_elements; i++)
        n = MAX(n, array->elements[i].index + 1);
    return n;
}

uint32_t schema_array_element(SchemaCompiler *c, const SchemaArray *array, uint32_t index) {
    SchemaLiterals list = { 0 };

    for (size_t i = 0; i < array->n_layers; i++) {
        const json_t *prefix = layer_prefix(array->layers[i]);
        const json_t *schema =
            index < json_array_size(prefix) ? json_array_get(prefix, index) : layer_rest(array->layers[i]);

        if (schema)
            schema_literals_add(c, &list, (SchemaLiteral){ schema, false });
    }
    for (size_t i = 0; i < array->n_elements; i++)
        if (array->elements[i].index == index)
            schema_literals_add(c, &list, array->elements[i].literal);
    return schema_node(c, list.items, list.n);
}

/* --- objects ------------------------------------------------------------------------------------------------------ */

const json_t *schema_layer_additional(const json_t *layer) {
    return json_object_get(layer, "additionalProperties");
}

static void layer_property(SchemaCompiler *c, const json_t *layer, SchemaName name, SchemaLiterals *list) {
    const json_t *properties = json_object_get(layer, "properties"), *additional = schema_layer_additional(layer);
    const json_t *own = json_object_getn(properties, name.data, name.len_bytes);
    json_t *patterns = json_object_get(layer, "patternProperties"), *schema;
    bool is_listed = own;
    const char *pattern;

    if (own)
        schema_literals_add(c, list, (SchemaLiteral){ own, false });
    json_object_foreach(patterns, pattern, schema) {
        SchemaText names = schema_text_pattern(c, layer, "patternProperties", pattern);

        if (!c->r && schema_text_has(c, &names, name)) {
            is_listed = true;
            schema_literals_add(c, list, (SchemaLiteral){ schema, false });
        }
    }
    if (!is_listed && additional)
        schema_literals_add(c, list, (SchemaLiteral){ additional, false });
}

bool schema_object_property(SchemaCompiler *c, const SchemaObject *object, SchemaName name, SchemaLiterals *list,
                            bool *is_requiredp) {
    bool is_absent = !schema_text_has(c, &object->names, name);

    *is_requiredp = false;
    for (size_t i = 0; i < object->n_layers; i++)
        layer_property(c, object->layers[i], name, list);
    for (size_t i = 0; i < object->n_entries; i++) {
        const SchemaEntry *entry = &object->entries[i];

        if (!schema_name_equal(entry->name, name))
            continue;
        is_absent |= entry->is_absent;
        *is_requiredp |= entry->is_required;
        if (entry->has_literal)
            schema_literals_add(c, list, entry->literal);
    }
    return !is_absent;
}

/* --- emptiness ---------------------------------------------------------------------------------------------------- */

enum {
    PROBED_ELEMENTS_MAX = 64,
};

static bool array_is_empty(SchemaCompiler *c, const SchemaArray *array) {
    uint32_t n = MIN(array->min, MIN(schema_array_prefix(array) + 1, (uint32_t)PROBED_ELEMENTS_MAX));

    for (uint32_t i = 0; i < n && !c->r; i++)
        if (schema_node_is_empty(c, schema_array_element(c, array, i)))
            return true;
    for (size_t i = 0; i < array->n_contains; i++)
        if (array->contains[i].min > array->max || array->contains[i].min > array->contains[i].max)
            return true;
    return array->min > array->max;
}

static bool object_is_empty(SchemaCompiler *c, const SchemaObject *object) {
    for (size_t i = 0; i < object->n_entries && !c->r; i++) {
        SchemaLiterals list = { 0 };
        bool is_required;

        if (!object->entries[i].is_required)
            continue;
        if (!schema_object_property(c, object, object->entries[i].name, &list, &is_required) ||
            schema_node_is_empty(c, schema_node(c, list.items, list.n)))
            return true;
    }
    return object->min > object->max;
}

bool schema_set_is_empty(SchemaCompiler *c, const SchemaSet *set) {
    if (set->plain || !schema_step(c, 1))
        return false;
    for (size_t i = 0; i < set->n_numbers; i++)
        if (!schema_number_is_empty(c, &set->numbers[i]))
            return false;
    for (size_t i = 0; i < set->n_arrays; i++)
        if (!array_is_empty(c, &set->arrays[i]))
            return false;
    for (size_t i = 0; i < set->n_objects; i++)
        if (!object_is_empty(c, &set->objects[i]))
            return false;
    return schema_text_is_empty(c, &set->text);
}

bool schema_node_is_empty(SchemaCompiler *c, uint32_t node) {
    const SchemaNode *known = schema_node_at(c, node);
    bool is_empty, was_cut;

    if (node <= SCHEMA_NODE_ANY)
        return node == SCHEMA_NODE_NOTHING;
    if (known->is_probed)
        return known->is_empty;
    if (known->state == SCHEMA_NODE_BUSY)
        return false;
    schema_node_at(c, node)->is_probed = true; /* a question within the answer: not known to be empty */
    schema_probe_begin(c);
    is_empty = schema_set_is_empty(c, schema_node_set(c, node)) && !c->r;
    was_cut = schema_probe_end(c);
    /* A set that was cut short is larger than the true one: "empty" holds all the same. */
    schema_node_at(c, node)->is_empty = is_empty;
    schema_node_at(c, node)->is_probed = is_empty || !was_cut;
    return is_empty;
}
