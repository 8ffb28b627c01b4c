// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/builtins/jinja_builtin.h"

#include "base/strings/printable.h"
#include "text/jinja/values/jinja_print.h"

static const JinjaBuiltin builtins[] = {
/* NOLINTBEGIN: the rows of the table */
#define BUILTIN(kinds, name, fn, n_required, ...) { kinds, name, n_required, fn, NULL, { __VA_ARGS__ } },
#define VARIADIC(kinds, name, fn) { kinds, name, 0, NULL, fn, { NULL } },
#include "text/jinja/builtins/jinja_builtin.inc"
#undef BUILTIN
#undef VARIADIC
    /* NOLINTEND */
};

const JinjaBuiltin *jinja_builtin_find(uint32_t kind, const JinjaText *name) {
    for (size_t i = 0; i < ARRAY_LEN(builtins); i++)
        if (builtins[i].kinds & kind && jinja_text_is(name, builtins[i].name))
            return &builtins[i];
    return NULL;
}

bool jinja_builtin_is_refused(uint32_t kind, const JinjaText *name) {
    static const struct {
        uint32_t kind;
        const char *names;
    } refused[] = {
        { JINJA_FILTERS, "attr batch center filesizeformat forceescape format groupby pprint random slice striptags "
                         "truncate urlencode urlize wordcount wordwrap xmlattr" },
        { JINJA_TESTS, "callable escaped filter test" },
        { JINJA_FUNCTIONS, "caller cycler joiner kwargs lipsum varargs" },
        { JINJA_STR_METHODS, "casefold center encode expandtabs format_map index isascii isdecimal isidentifier "
                             "isnumeric isprintable istitle ljust maketrans rindex rjust rpartition swapcase translate "
                             "zfill" },
    };

    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        if (refused[i].kind & kind && jinja_is_among(name->data, name->len_bytes, refused[i].names))
            return true;
    return false;
}

/* --- calls ------------------------------------------------------------------------------------------------------ */

static uint32_t find_parameter(const JinjaBuiltin *builtin, const JinjaText *name) {
    uint32_t at = 0;

    while (builtin->parameters[at] && !(name && jinja_text_is(name, builtin->parameters[at])))
        at++;
    return at;
}

static void sort_arguments(JinjaRun *run, const char *kind, const JinjaBuiltin *builtin,
                           const JinjaArguments *arguments, JinjaValue *values) {
    const uint32_t n = find_parameter(builtin, NULL);
    Printable shown;

    if (arguments->n > n)
        jinja_fail(run, "%s '%s' takes %u arguments at most, not %u", kind, builtin->name, n, arguments->n);
    for (uint32_t i = 0; i < JINJA_PARAMETERS_MAX; i++)
        values[i] = i < arguments->n ? arguments->items[i] : JINJA_NO_VALUE;
    for (uint32_t i = 0; i < arguments->n_named; i++) {
        uint32_t at = find_parameter(builtin, arguments->names[i]);

        if (at == n || jinja_given(values[at]))
            jinja_fail(run, "%s '%s' %s argument '%s'", kind, builtin->name, at == n ? "takes no" : "got twice its",
                       printable(&shown, arguments->names[i]->data, arguments->names[i]->len_bytes));
        values[at] = arguments->named[i];
    }
    for (uint32_t i = 0; i < builtin->n_required; i++)
        if (!jinja_given(values[i]))
            jinja_fail(run, "%s '%s' needs its argument '%s'", kind, builtin->name, builtin->parameters[i]);
}

JinjaValue jinja_builtin_call(JinjaRun *run, const char *kind, const JinjaBuiltin *builtin, JinjaValue self,
                              const JinjaArguments *arguments) {
    JinjaValue values[JINJA_PARAMETERS_MAX];

    if (builtin->fn)
        sort_arguments(run, kind, builtin, arguments, values);
    if (builtin->kinds & JINJA_TAKES_TEXT && self.type != JINJA_TEXT)
        self = jinja_str(jinja_to_text(run, self));
    return builtin->fn ? builtin->fn(run, self, values) : builtin->variadic(run, self, arguments);
}

static _Noreturn void fail_unknown(JinjaRun *run, const char *kind_name, uint32_t kind, const JinjaText *name) {
    Printable shown;

    jinja_fail(run, "%s '%s' is %s", kind_name, printable(&shown, name->data, name->len_bytes),
               jinja_builtin_is_refused(kind, name) ? "not supported in chat templates" : "not known");
}

JinjaValue jinja_filter_call(JinjaRun *run, const JinjaText *name, const JinjaBuiltin *filter, JinjaValue subject,
                             const JinjaArguments *arguments) {
    if (!filter)
        fail_unknown(run, "filter", JINJA_FILTERS, name);
    return jinja_builtin_call(run, "filter", filter, subject, arguments);
}

bool jinja_test_call(JinjaRun *run, const JinjaText *name, const JinjaBuiltin *test, JinjaValue subject,
                     const JinjaArguments *arguments) {
    if (!test)
        fail_unknown(run, "test", JINJA_TESTS, name);
    return jinja_builtin_call(run, "test", test, subject, arguments).boolean;
}

/* --- arguments -------------------------------------------------------------------------------------------------- */

bool jinja_is_set(JinjaValue value) {
    return jinja_given(value) && jinja_truth(value);
}

bool jinja_is_some(JinjaValue value) {
    return jinja_given(value) && value.type != JINJA_NONE;
}

int64_t jinja_take_int(JinjaRun *run, JinjaValue value, const char *what, int64_t fallback) {
    if (!jinja_given(value))
        return fallback;
    jinja_check_defined(run, value);
    if (!jinja_as_int(value, &fallback))
        jinja_fail(run, "%s must be an integer, not '%s'", what, jinja_type_name(value));
    return fallback;
}

const JinjaText *jinja_take_text(JinjaRun *run, JinjaValue value, const char *what, const JinjaText *fallback) {
    if (!jinja_given(value))
        return fallback;
    jinja_check_defined(run, value);
    if (value.type != JINJA_TEXT)
        jinja_fail(run, "%s must be a string, not '%s'", what, jinja_type_name(value));
    return value.text;
}
