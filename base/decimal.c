#include "base/decimal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What consists of these characters is either a decimal number to strtod() or none. */
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
