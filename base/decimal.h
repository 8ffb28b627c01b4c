/* Numbers as people write them: strtod() takes hexadecimal, infinity, NaN and blanks before them too. */
#ifndef COORDGEN_BASE_DECIMAL_H
#define COORDGEN_BASE_DECIMAL_H

#include <stdbool.h>

/*
 * A text that is a decimal number and nothing else, with a sign, a fraction or an exponent if it likes; as strtod() and
 * strtof() take it in the C locale, rounded once to what is asked for. False, and *@valuep as it was, for any other
 * text and for a number too large to be finite; one too small becomes 0.
 */
bool decimal_parse(const char *text, double *valuep);
bool decimal_parse_float(const char *text, float *valuep);

#endif
