// SPDX-License-Identifier: Apache-2.0
#include "base/strings/decimal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Whether the text has only characters of a decimal number, so that strtod() takes it as one or refuses it. */
static bool is_plain(const char *text) {
    return *text && !text[strspn(text, "+-.0123456789eE")];
}

bool decimal_parse(const char *text, double *valuep) {
    double value;
    char *end;

    if (!is_plain(text))
        return false;
    value = strtod(text, &end);
    if (*end || !isfinite(value))
        return false;
    *valuep = value;
    return true;
}

bool decimal_parse_float(const char *text, float *valuep) {
    float value;
    char *end;

    if (!is_plain(text))
        return false;
    value = strtof(text, &end);
    if (*end || !isfinite(value))
        return false;
    *valuep = value;
    return true;
}

const char *decimal_read_u64(const char *text, uint64_t *valuep) {
    uint64_t value = 0;
    size_t n = 0;

    for (; text[n] >= '0' && text[n] <= '9'; n++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[n] - '0'), &value))
            return NULL;
    if (!n)
        return NULL;
    *valuep = value;
    return text + n;
}

bool decimal_parse_u64(const char *text, uint64_t *valuep) {
    uint64_t value;
    const char *end = decimal_read_u64(text, &value);

    if (!end || *end)
        return false;
    *valuep = value;
    return true;
}
