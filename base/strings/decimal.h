// SPDX-License-Identifier: Apache-2.0
/* Numbers as people write them: strtod() takes hexadecimal, infinity and NaN too, strtoull() signs, and both blanks. */
#ifndef COORDGEN_BASE_DECIMAL_H
#define COORDGEN_BASE_DECIMAL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A text that is a decimal number and nothing else, with a sign, a fraction or an exponent if it likes; as strtod() and
 * strtof() take it in the C locale, rounded once to what is asked for. False, and *@valuep as it was, for any other
 * text and for a number too large to be finite; one too small becomes 0.
 */
bool decimal_parse(const char *text, double *valuep);
bool decimal_parse_float(const char *text, float *valuep);

/* A text of digits alone. False, and *@valuep as it was, for any other and for a number beyond UINT64_MAX. */
bool decimal_parse_u64(const char *text, uint64_t *valuep);
/* The same for the digits that a text begins with. Return: where they end; NULL where there are none or too many. */
const char *decimal_read_u64(const char *text, uint64_t *valuep);

#endif
