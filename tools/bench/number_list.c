// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/number_list.h"

#include "base/strings/decimal.h"

/* Reads a number and returns its end; NULL: no number in the range. */
static const char *take(const char *text, size_t least, size_t most, size_t *valuep) {
    uint64_t value;
    const char *end = decimal_read_u64(text, &value);

    if (!end || value < least || value > most)
        return NULL;
    *valuep = (size_t)value;
    return end;
}

bool number_list_parse(const char *text, size_t least, size_t most, NumberList *list) {
    const char *at = text;

    for (list->n = 0; list->n < NUMBER_LIST_MAX; at++) {
        at = take(at, least, most, &list->at[list->n++]);
        if (!at || (*at && *at != ','))
            return false;
        if (!*at)
            return true;
    }
    return false;
}

int number_list_set(const CommandOption *option, const char *value, void *field, ErrText *err) {
    return number_list_parse(value, option->least, option->most, field) ? 0 : COMMAND_E_VALUE;
}
