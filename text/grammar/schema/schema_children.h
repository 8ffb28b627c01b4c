// SPDX-License-Identifier: Apache-2.0
/* What shapes of arrays and objects say of their children, and whether a set has any value. */
#ifndef COORDGEN_SCHEMA_CHILDREN_H
#define COORDGEN_SCHEMA_CHILDREN_H

#include "text/grammar/schema/schema_node.h"

/* A growing conjunction. */
typedef struct SchemaLiterals {
    SchemaLiteral *items;
    size_t n, room;
} SchemaLiterals;

void schema_literals_add(SchemaCompiler *c, SchemaLiterals *list, SchemaLiteral literal);

/* Returns the node of element number index. */
uint32_t schema_array_element(SchemaCompiler *c, const SchemaArray *array, uint32_t index);
/* Returns the number from which on all elements have the same node. */
uint32_t schema_array_prefix(const SchemaArray *array);
/* Adds what layers and entries say of a property; false: the property must be absent. */
bool schema_object_property(SchemaCompiler *c, const SchemaObject *object, SchemaName name, SchemaLiterals *list,
                            bool *is_requiredp);
/* Returns the schema that a layer has for names that are neither listed nor match a pattern; NULL: any value. */
const json_t *schema_layer_additional(const json_t *layer);

/* Whether no value fits. False also where an answer would need the answer itself. */
bool schema_node_is_empty(SchemaCompiler *c, uint32_t node);
bool schema_set_is_empty(SchemaCompiler *c, const SchemaSet *set);

#endif
