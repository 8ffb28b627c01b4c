// SPDX-License-Identifier: Apache-2.0
/* Filters, tests, functions and methods: rows of the table in jinja_builtin.inc, and how they get their arguments. */
#ifndef COORDGEN_TEXT_JINJA_BUILTIN_H
#define COORDGEN_TEXT_JINJA_BUILTIN_H

#include "text/jinja/values/jinja_run.h"
#include "text/jinja/values/jinja_value.h"

#define JINJA_PARAMETERS_MAX 5

/* Where a row is found; a row may be found in several places. */
enum {
    JINJA_FILTERS = 1 << 0,
    JINJA_TESTS = 1 << 1,
    JINJA_FUNCTIONS = 1 << 2,
    JINJA_STR_METHODS = 1 << 3,
    JINJA_LIST_METHODS = 1 << 4,
    JINJA_DICT_METHODS = 1 << 5,
    JINJA_TAKES_TEXT = 1 << 6, /* self becomes text first, as str() makes it */
};

typedef struct JinjaArguments {
    const JinjaValue *items; /* [n] */
    uint32_t n;
    const JinjaText *const *names; /* [n_named] */
    const JinjaValue *named;       /* [n_named] */
    uint32_t n_named;
} JinjaArguments;

/* @self: the value that is filtered or tested, or the owner of the method; nothing for functions
 * @values: [JINJA_PARAMETERS_MAX] in the order of the parameters, JINJA_MISSING for each that was not given */
typedef JinjaValue JinjaBuiltinFn(JinjaRun *run, JinjaValue self, const JinjaValue *values);
/* Takes any arguments. */
typedef JinjaValue JinjaVariadicFn(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments);

struct JinjaBuiltin {
    uint32_t kinds; /* JINJA_FILTERS and so on */
    const char *name;
    uint32_t n_required;
    JinjaBuiltinFn *fn;        /* NULL: variadic */
    JinjaVariadicFn *variadic; /* NULL: fn */
    const char *parameters[JINJA_PARAMETERS_MAX + 1];
};

struct JinjaBound {
    const JinjaBuiltin *method;
    JinjaValue self;
};

#define BUILTIN(kinds, name, fn, n_required, ...) JinjaBuiltinFn fn;
#define VARIADIC(kinds, name, fn) JinjaVariadicFn fn;
#include "text/jinja/builtins/jinja_builtin.inc"
#undef BUILTIN
#undef VARIADIC

/* NULL: there is none of this name. */
const JinjaBuiltin *jinja_builtin_find(uint32_t kind, const JinjaText *name);
/* Whether Jinja or Python has it, but chat templates do not get it. */
bool jinja_builtin_is_refused(uint32_t kind, const JinjaText *name);

/* Sorts the arguments by parameters, checks them, and calls. kind names the builtin in errors: "filter", "test". */
JinjaValue jinja_builtin_call(JinjaRun *run, const char *kind, const JinjaBuiltin *builtin, JinjaValue self,
                              const JinjaArguments *arguments);
/* builtin NULL: the error that names it. */
JinjaValue jinja_filter_call(JinjaRun *run, const JinjaText *name, const JinjaBuiltin *filter, JinjaValue subject,
                             const JinjaArguments *arguments);
bool jinja_test_call(JinjaRun *run, const JinjaText *name, const JinjaBuiltin *test, JinjaValue subject,
                     const JinjaArguments *arguments);

/* Reads JSON text from outside, whose bytes are copied. The error names the byte. */
JinjaValue jinja_json_read(JinjaRun *run, const char *data, size_t len_bytes);

/* Whether an argument was given and is true. */
bool jinja_is_set(JinjaValue value);
/* Whether an argument was given and is not none. */
bool jinja_is_some(JinjaValue value);
/* An argument as an integer or a text; fallback if it was not given. */
int64_t jinja_take_int(JinjaRun *run, JinjaValue value, const char *what, int64_t fallback);
const JinjaText *jinja_take_text(JinjaRun *run, JinjaValue value, const char *what, const JinjaText *fallback);

#endif
