// SPDX-License-Identifier: Apache-2.0
/* Parses decimal numbers strictly: strtod() also takes hexadecimal, infinity and NaN, strtoull() takes signs, and both
 * take blanks. */
#ifndef COORDGEN_BASE_DECIMAL_H
#define COORDGEN_BASE_DECIMAL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Parse a text that is one decimal number, perhaps with sign, fraction and exponent. The value is that of strtod() or
 * strtof() in the C locale, rounded once. A number too small becomes 0. False, with *@valuep unchanged, for any other
 * text and for a number too large to be finite.
 */
bool decimal_parse(const char *text, double *valuep);
bool decimal_parse_float(const char *text, float *valuep);

/* Parses a text of digits alone. False, with *@valuep unchanged, for any other text and past UINT64_MAX. */
bool decimal_parse_u64(const char *text, uint64_t *valuep);
/* Parses the digits at the beginning of a text. Returns their end; NULL if there are none or the number is too large.
 * */
const char *decimal_read_u64(const char *text, uint64_t *valuep);

#endif
