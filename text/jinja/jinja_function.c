// SPDX-License-Identifier: Apache-2.0
/* Functions that every template has: Jinja's own, and those that chat templates get besides. */
#include <stdio.h>
#include <time.h>

#include "base/strings/printable.h"
#include "text/jinja/jinja_builtin.h"

#define RANGE_MAX 100000 /* as Jinja's sandbox has it */
#define TIME_BYTES_MAX 1024

static int function_range(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    int64_t numbers[3] = { 0, 0, 1 }, start = 0, stop, step, distance;
    uint64_t n = 0;
    JinjaRange *range;

    for (int i = 0; i < 3; i++) {
        int r = jinja_take_int(run, values[i], "what is given to range()", &numbers[i]);

        if (r)
            return r;
    }
    start = jinja_given(values[1]) ? numbers[0] : 0;
    stop = jinja_given(values[1]) ? numbers[1] : numbers[0];
    step = numbers[2];
    if (!step || step == INT64_MIN)
        return jinja_fail(run, "range(): the step must not be zero");
    if (step > 0 ? stop > start : stop < start) {
        if (__builtin_sub_overflow(step > 0 ? stop : start, step > 0 ? start : stop, &distance))
            n = UINT64_MAX;
        else
            n = (uint64_t)((distance - 1) / (step > 0 ? step : -step) + 1);
    }
    if (n > RANGE_MAX)
        return jinja_fail(run, "range too big: more than %d numbers", RANGE_MAX);
    range = jinja_take(run, 1, sizeof(*range));
    if (!range)
        return jinja_fail_memory(run);
    *range = (JinjaRange){ .start = start, .stop = stop, .step = step, .n = (uint32_t)n };
    *valuep = (JinjaValue){ .type = JINJA_RANGE, .range = range };
    return 0;
}

/* dict(pairs, name=value), namespace(...) */
static int new_mapping(JinjaRun *run, JinjaType type, const JinjaArguments *arguments, JinjaValue *valuep) {
    JinjaList list, pair;
    int r = jinja_dict_new(run, type, valuep);

    if (!r && arguments->n > 1)
        return jinja_fail(run, "dict() takes one argument without a name at most");
    if (!r && arguments->n && arguments->items[0].type == JINJA_DICT) {
        const JinjaDict *from = arguments->items[0].dict;

        for (uint32_t i = 0; i < from->n && !r; i++)
            r = jinja_dict_set(run, valuep->dict, from->keys[i], from->values[i]);
    } else if (!r && arguments->n) {
        r = jinja_items(run, arguments->items[0], &list);
        for (uint32_t i = 0; !r && i < list.n; i++) {
            r = jinja_items(run, list.items[i], &pair);
            if (!r && pair.n != 2)
                return jinja_fail(run, "dict(): element %u has %u parts, not a key and a value", i, pair.n);
            if (!r)
                r = jinja_dict_set(run, valuep->dict, pair.items[0], pair.items[1]);
        }
    }
    for (uint32_t i = 0; i < arguments->n_named && !r; i++)
        r = jinja_dict_set(run, valuep->dict, (JinjaValue){ .type = JINJA_TEXT, .text = arguments->names[i] },
                           arguments->named[i]);
    return r;
}

static int function_dict(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, JinjaValue *valuep) {
    return new_mapping(run, JINJA_DICT, arguments, valuep);
}

static int function_namespace(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, JinjaValue *valuep) {
    return new_mapping(run, JINJA_NAMESPACE, arguments, valuep);
}

static int function_cycler(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, JinjaValue *valuep) {
    int r;

    if (!arguments->n || arguments->n_named)
        return jinja_fail(run, "cycler() needs values");
    r = jinja_list_new(run, JINJA_CYCLER, arguments->n, valuep);
    for (uint32_t i = 0; i < arguments->n && !r; i++)
        valuep->list->items[i] = arguments->items[i];
    return r;
}

static int function_joiner(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    int r = jinja_list_new(run, JINJA_JOINER, 2, valuep); /* the separator, and what stands before the first */

    if (!r)
        r = jinja_text_new(run, "", 0, &valuep->list->items[1]);
    valuep->list->items[0] = values[0];
    return r || jinja_given(values[0]) ? r : jinja_text_new(run, ", ", 2, &valuep->list->items[0]);
}

static int function_raise_exception(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    char words[sizeof(((ErrText *)0)->text) - 16];
    int r = jinja_to_text(run, values[0], &text);

    if (r)
        return r;
    printable_put(words, sizeof(words), text->data, text->len_bytes);
    return err_set(run->err, JINJA_E_RAISED, "%s", words);
}

/* What strftime(3) does not do as Python: microseconds, and the zone of a time that has none. */
static size_t put_directive(char *out, size_t room, char directive) {
    if (directive == 'f' && room > 6) {
        memcpy(out, "000000", 6);
        return 6;
    }
    return 0;
}

static int function_strftime_now(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    char format[TIME_BYTES_MAX], text[4 * TIME_BYTES_MAX];
    const time_t now = (time_t)run->now_s;
    const JinjaText *asked = NULL;
    size_t n = 0;
    struct tm when;
    int r = jinja_take_text(run, values[0], "the format of strftime_now()", &asked);

    if (r)
        return r;
    for (size_t i = 0; i < asked->len_bytes && n + 8 < sizeof(format); i++) {
        if (asked->data[i] == '%' && i + 1 < asked->len_bytes && asked->data[i + 1] &&
            strchr("fzZ", asked->data[i + 1]))
            n += put_directive(format + n, sizeof(format) - n, asked->data[++i]);
        else if (asked->data[i])
            format[n++] = asked->data[i];
        if (asked->data[i] == '%' && i + 1 < asked->len_bytes && asked->data[i + 1] == '%')
            format[n++] = asked->data[++i];
    }
    format[n] = 0;
    if (asked->len_bytes > TIME_BYTES_MAX / 2 || !localtime_r(&now, &when))
        return jinja_fail(run, "strftime_now(): a format of more than %d bytes", TIME_BYTES_MAX / 2);
    n = n ? strftime(text, sizeof(text), format, &when) : 0;
    {
        JinjaWriter writer;
        const JinjaText made = { .data = text, .len_bytes = (uint32_t)n };
        JinjaText counted = made;

        for (size_t i = 0; i < n; i += jinja_text_char(&made, i))
            counted.n_chars++;
        jinja_writer_init(&writer, run);
        jinja_write(&writer, &counted);
        return jinja_writer_finish(&writer, valuep);
    }
}

const JinjaFunction *jinja_function_find(const JinjaText *name) {
    static const JinjaFunction functions[] = {
        { { .name = "range", .fn = function_range, .n_required = 1, .parameters = { "start", "stop", "step" } } },
        { { .name = "dict", .variadic = function_dict } },
        { { .name = "namespace", .variadic = function_namespace } },
        { { .name = "cycler", .variadic = function_cycler } },
        { { .name = "joiner", .fn = function_joiner, .parameters = { "sep" } } },
        { { .name = "raise_exception", .fn = function_raise_exception, .n_required = 1, .parameters = { "message" } } },
        { { .name = "strftime_now", .fn = function_strftime_now, .n_required = 1, .parameters = { "format" } } },
    };

    for (size_t i = 0; i < ARRAY_LEN(functions); i++)
        if (jinja_text_is(name, functions[i].builtin.name))
            return &functions[i];
    return NULL;
}
