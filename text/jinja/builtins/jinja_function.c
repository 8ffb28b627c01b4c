// SPDX-License-Identifier: Apache-2.0
/* Functions that every template has: Jinja's own, and those that only chat templates get. Filters of any value. */
#include <time.h>

#include "base/strings/printable.h"
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/values/jinja_print.h"

#define RANGE_MAX 100000 /* as Jinja's sandbox has it */
#define TIME_BYTES_MAX 1024

JinjaValue jinja_range(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const int64_t first = jinja_take_int(run, values[0], "what is given to range()", 0),
                  stop = jinja_take_int(run, values[1], "what is given to range()", first),
                  step = jinja_take_int(run, values[2], "what is given to range()", 1),
                  start = jinja_given(values[1]) ? first : 0;
    int64_t distance;
    uint64_t n = 0;
    JinjaValue range;

    if (!step || step == INT64_MIN)
        jinja_fail(run, "range(): the step must not be zero");
    if (step > 0 ? stop > start : stop < start) {
        if (__builtin_sub_overflow(step > 0 ? stop : start, step > 0 ? start : stop, &distance))
            n = UINT64_MAX;
        else
            n = (uint64_t)((distance - 1) / (step > 0 ? step : -step) + 1);
    }
    if (n > RANGE_MAX)
        jinja_fail(run, "range too big: more than %d numbers", RANGE_MAX);
    range = jinja_list_new(run, JINJA_RANGE, (uint32_t)n);
    for (uint32_t i = 0; i < n; i++)
        range.list->items[i] = jinja_int(start + (int64_t)i * step);
    return range;
}

/* dict(mapping, name=value), namespace(...). */
static JinjaValue make_mapping(JinjaRun *run, JinjaType type, const JinjaArguments *arguments) {
    JinjaValue made = jinja_dict_new(run, type);

    if (arguments->n > 1 || (arguments->n && arguments->items[0].type != JINJA_DICT))
        jinja_fail(run, "dict() and namespace() take one dict, and arguments with names, in chat templates");
    for (uint32_t i = 0; arguments->n && i < arguments->items[0].dict->n; i++)
        jinja_dict_set(run, made.dict, arguments->items[0].dict->keys[i], arguments->items[0].dict->values[i]);
    for (uint32_t i = 0; i < arguments->n_named; i++)
        jinja_dict_set(run, made.dict, jinja_str(arguments->names[i]), arguments->named[i]);
    return made;
}

JinjaValue jinja_make_dict(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments) {
    return make_mapping(run, JINJA_DICT, arguments);
}

JinjaValue jinja_make_namespace(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments) {
    return make_mapping(run, JINJA_NAMESPACE, arguments);
}

JinjaValue jinja_raise_exception(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaText *text = jinja_to_text(run, values[0]);
    char words[sizeof(((ErrText *)0)->text) - 16];

    printable_put(words, sizeof(words), text->data, text->len_bytes);
    jinja_throw(run, err_set(run->err, JINJA_E_RAISED, "%s", words));
}

JinjaValue jinja_strftime_now(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaText *asked = jinja_take_text(run, values[0], "the format of strftime_now()", NULL);
    char format[TIME_BYTES_MAX], text[4 * TIME_BYTES_MAX];
    const time_t now = (time_t)run->now_s;
    size_t n = 0;
    struct tm when;

    if (asked->len_bytes > TIME_BYTES_MAX / 2 || !localtime_r(&now, &when))
        jinja_fail(run, "strftime_now(): a format of more than %d bytes", TIME_BYTES_MAX / 2);
    /* strftime(3) knows no microseconds, and would name a zone that Python's time does not have. */
    for (size_t i = 0; i < asked->len_bytes && n + 8 < sizeof(format); i++) {
        const char c = asked->data[i], directive = c == '%' && i + 1 < asked->len_bytes ? asked->data[i + 1] : 0;

        if (directive == 'f') {
            memcpy(format + n, "000000", 6);
            n += 6;
        } else if (directive == '%') {
            memcpy(format + n, "%%", 2);
            n += 2;
        } else if (directive != 'z' && directive != 'Z') {
            if (c)
                format[n++] = c;
            continue;
        }
        i++;
    }
    format[n] = 0;
    n = n ? strftime(text, sizeof(text), format, &when) : 0;
    return jinja_str(jinja_text_new(run, text, n));
}

/* --- filters of any value --------------------------------------------------------------------------------------- */

JinjaValue jinja_value_itself(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return self; /* no value changes, so that a copy is the value */
}

JinjaValue jinja_filter_default(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    static const JinjaText nothing = JINJA_LITERAL("");

    if (self.type != JINJA_UNDEFINED && !(jinja_is_set(values[1]) && !jinja_truth(self)))
        return self;
    return jinja_given(values[0]) ? values[0] : jinja_str(&nothing);
}

JinjaValue jinja_filter_length(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    int64_t length;

    if (!jinja_length(self, &length))
        jinja_fail(run, "object of type '%s' has no length%s", jinja_type_name(self),
                   self.type == JINJA_STREAM ? ": '|list' makes a list of it" : "");
    return jinja_int(length);
}
