// SPDX-License-Identifier: Apache-2.0
/* Sets of numbers: a range, whole numbers or others, multiples. */
#ifndef COORDGEN_SCHEMA_NUMBER_H
#define COORDGEN_SCHEMA_NUMBER_H

#include "text/grammar/schema/schema_compiler.h"
#include "text/grammar/schema/schema_decimal.h"

typedef enum SchemaNumberKind {
    SCHEMA_NUMBER_ANY,
    SCHEMA_NUMBER_WHOLE,
    SCHEMA_NUMBER_FRACTION, /* not whole */
} SchemaNumberKind;

enum {
    SCHEMA_MULTIPLES_MAX = 4,
    SCHEMA_NUMBER_OTHERS_MAX = 3 + SCHEMA_MULTIPLES_MAX,
};

typedef struct SchemaLimit {
    bool is_set;
    bool is_exclusive;
    SchemaDecimal at;
} SchemaLimit;

typedef struct SchemaMultiple {
    SchemaDecimal divisor;
    bool is_negated; /* the numbers are no multiple of it */
} SchemaMultiple;

typedef struct SchemaNumber {
    SchemaNumberKind kind;
    SchemaLimit low, high;
    SchemaMultiple multiples[SCHEMA_MULTIPLES_MAX];
    size_t n_multiples;
} SchemaNumber;

bool schema_number_is_any(const SchemaNumber *number);
/* Writes the numbers of both sets; false: there is none. */
bool schema_number_and(SchemaCompiler *c, const SchemaNumber *a, const SchemaNumber *b, SchemaNumber *both);
/* Writes the numbers that are not in the set, as up to SCHEMA_NUMBER_OTHERS_MAX sets. Returns how many. */
size_t schema_number_not(const SchemaNumber *number, SchemaNumber *others);
/* Whether the set has no number that can be written. */
bool schema_number_is_empty(SchemaCompiler *c, const SchemaNumber *number);
/* The numbers as JSON writes them. Numbers with a limit other than 0 are written without an exponent. */
GrammarPart schema_number_part(SchemaCompiler *c, const SchemaNumber *number);
/* Whether the texts of multiples of this number can be described. */
bool schema_number_can_divide(const SchemaDecimal *divisor);

#endif
