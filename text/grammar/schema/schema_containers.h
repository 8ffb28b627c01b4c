// SPDX-License-Identifier: Apache-2.0
/* Keywords of arrays and objects. Each function writes the values that fit its keywords, or, negated, those that do
 * not, and returns false where the schema has none of them. */
#ifndef COORDGEN_SCHEMA_CONTAINERS_H
#define COORDGEN_SCHEMA_CONTAINERS_H

#include "text/grammar/schema/schema_set.h"

bool schema_expand_arrays(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set);
bool schema_expand_objects(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set);

#endif
