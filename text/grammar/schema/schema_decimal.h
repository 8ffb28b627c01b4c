// SPDX-License-Identifier: Apache-2.0
/* Exact decimal numbers, as a schema writes them. */
#ifndef COORDGEN_SCHEMA_DECIMAL_H
#define COORDGEN_SCHEMA_DECIMAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCHEMA_DIGITS_MAX 40

/* Digits before and behind the point, without zeros that mean nothing: "0" and "" for zero. */
typedef struct SchemaDecimal {
    bool is_negative;
    char whole[SCHEMA_DIGITS_MAX + 1];
    char fraction[SCHEMA_DIGITS_MAX + 1];
} SchemaDecimal;

/* Reads a JSON number (a double as the shortest decimal that means it); false: it has too many digits. */
bool schema_decimal_read(SchemaDecimal *decimal, const json_t *number);
int schema_decimal_compare(const SchemaDecimal *a, const SchemaDecimal *b); /* <0, 0, >0 */
bool schema_decimal_is_zero(const SchemaDecimal *decimal);
static inline bool schema_decimal_is_whole(const SchemaDecimal *decimal) {
    return !decimal->fraction[0];
}

#endif
