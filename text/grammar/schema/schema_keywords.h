// SPDX-License-Identifier: Apache-2.0
/* Keywords that describe values of one type. Each function writes the values that fit its keywords, or, negated, those
 * that do not, and returns false where the schema has none of them. */
#ifndef COORDGEN_SCHEMA_KEYWORDS_H
#define COORDGEN_SCHEMA_KEYWORDS_H

#include "text/grammar/schema/schema_set.h"

bool schema_expand_type(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set);
bool schema_expand_values(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set); /* const, enum */
bool schema_expand_numbers(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set);
bool schema_expand_strings(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set);

#endif
