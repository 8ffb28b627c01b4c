/* Numbers as people write them: strtod() takes hexadecimal, infinity and NaN too, and blanks before them. */
#ifndef COORDGEN_BASE_DECIMAL_H
#define COORDGEN_BASE_DECIMAL_H

#include <stdbool.h>
#include <string.h>

/* Whether no character stands in the text that decimal numbers do not have; what it is worth is strtod()'s business. */
static inline bool is_decimal(const char *text) {
    return !text[strspn(text, "+-.0123456789eE")];
}

#endif
