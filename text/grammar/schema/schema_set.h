// SPDX-License-Identifier: Apache-2.0
/* Sets of JSON values, type by type: what a schema allows. Arrays and objects are lists of shapes (alternatives), each
 * a conjunction of what several schemas say of the children, which stay names of schemas until they are needed. All
 * are immutable once made, and live as long as the compiler. */
#ifndef COORDGEN_SCHEMA_SET_H
#define COORDGEN_SCHEMA_SET_H

#include "text/grammar/schema/schema_number.h"
#include "text/grammar/schema/schema_text.h"

#define SCHEMA_NO_MAX UINT32_MAX

/* A value fits the schema (true, false or an object), or does not. */
typedef struct SchemaLiteral {
    const json_t *schema;
    bool is_negated;
} SchemaLiteral;

/* At least min and at most max elements fit the literal. */
typedef struct SchemaContains {
    SchemaLiteral literal;
    uint32_t min, max;
} SchemaContains;

/* Element number `index` fits the literal. */
typedef struct SchemaElement {
    uint32_t index;
    SchemaLiteral literal;
} SchemaElement;

typedef struct SchemaArray {
    const json_t **layers; /* schemas with prefixItems, items, additionalItems, all of which hold */
    size_t n_layers;
    SchemaElement *elements;
    size_t n_elements;
    SchemaContains *contains;
    size_t n_contains;
    uint32_t min, max;
    const json_t *unique; /* a schema that asks for unique elements; NULL: none does */
} SchemaArray;

/* What is said of one property beside the layers. */
typedef struct SchemaEntry {
    SchemaName name;
    bool is_required, is_absent, has_literal;
    SchemaLiteral literal;
} SchemaEntry;

/* Some property with a name of the set has a value that fits the literal. */
typedef struct SchemaExists {
    SchemaText names;
    SchemaLiteral literal;
} SchemaExists;

typedef struct SchemaObject {
    const json_t **layers; /* schemas with properties, patternProperties, additionalProperties, all of which hold */
    size_t n_layers;
    SchemaEntry *entries;
    size_t n_entries;
    SchemaExists *exists;
    size_t n_exists;
    SchemaText names;
    uint32_t min, max;
} SchemaObject;

typedef enum SchemaPlainValue {
    SCHEMA_VALUE_NULL = 1u << 0,
    SCHEMA_VALUE_TRUE = 1u << 1,
    SCHEMA_VALUE_FALSE = 1u << 2,
    SCHEMA_VALUES_PLAIN = 7,
} SchemaPlainValue;

typedef struct SchemaSet {
    unsigned int plain; /* SchemaPlainValue */
    const SchemaNumber *numbers;
    size_t n_numbers;
    SchemaText text;
    const SchemaArray *arrays;
    size_t n_arrays;
    const SchemaObject *objects;
    size_t n_objects;
} SchemaSet;

/* Computes the values that fit a single literal. */
typedef SchemaSet SchemaExpand(SchemaCompiler *c, SchemaLiteral literal);

extern const SchemaArray schema_array_any;
extern const SchemaObject schema_object_any;
extern const SchemaNumber schema_number_any;

SchemaSet schema_set_any(void);
bool schema_set_is_any(const SchemaSet *set);
SchemaSet schema_set_and(SchemaCompiler *c, const SchemaSet *a, const SchemaSet *b);
SchemaSet schema_set_or(SchemaCompiler *c, const SchemaSet *a, const SchemaSet *b);
/* Whether the shape says nothing. */
bool schema_array_is_any(const SchemaArray *array);
bool schema_object_is_any(const SchemaObject *object);

#endif
