// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/number_list.h"

#include "base/strings/decimal.h"

/* Where the number ends; NULL: it is none in the range. */
static const char *take(const char *text, size_t least, size_t most, size_t *valuep) {
    uint64_t value;
    const char *end = decimal_read_u64(text, &value);

    if (!end || value < least || value > most)
        return NULL;
    *valuep = (size_t)value;
    return end;
}

bool number_parse(const char *text, size_t least, size_t most, size_t *valuep) {
    size_t value;
    const char *end = take(text, least, most, &value);

    if (!end || *end)
        return false;
    *valuep = value;
    return true;
}

bool number_list_parse(const char *text, size_t least, size_t most, size_t *values, size_t *np) {
    const char *at = text;

    for (*np = 0; *np < NUMBER_LIST_MAX; at++) {
        at = take(at, least, most, &values[(*np)++]);
        if (!at || (*at && *at != ','))
            return false;
        if (!*at)
            return true;
    }
    return false;
}
