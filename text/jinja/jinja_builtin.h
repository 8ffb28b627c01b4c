// SPDX-License-Identifier: Apache-2.0
/* Filters, tests, methods and functions, and how they get their arguments. */
#ifndef COORDGEN_TEXT_JINJA_BUILTIN_H
#define COORDGEN_TEXT_JINJA_BUILTIN_H

#include "text/jinja/jinja_unicode.h"
#include "text/jinja/jinja_value.h"

#define JINJA_PARAMETERS_MAX 5

typedef struct JinjaArguments {
    const JinjaValue *items;
    uint32_t n;
    const JinjaText *const *names; /* of named */
    const JinjaValue *named;
    uint32_t n_named;
} JinjaArguments;

/* self: what is filtered, what the method is of; nothing for functions. values: by parameters, JINJA_MISSING where none
 * was given. */
typedef int JinjaBuiltinFn(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep);
/* For those that take any arguments. */
typedef int JinjaVariadicFn(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, JinjaValue *valuep);

typedef struct JinjaBuiltin {
    const char *name;
    JinjaBuiltinFn *fn;
    JinjaVariadicFn *variadic; /* instead of fn */
    uint32_t n_required;
    const char *parameters[JINJA_PARAMETERS_MAX + 1];
} JinjaBuiltin;

typedef struct JinjaBuiltin JinjaFilter;
typedef struct JinjaBuiltin JinjaTest; /* gives a bool */

struct JinjaFunction {
    JinjaBuiltin builtin;
};

struct JinjaBound {
    const JinjaBuiltin *method;
    JinjaValue self;
};

/* NULL: not known. */
const JinjaFilter *jinja_filter_find(const JinjaText *name);
const JinjaTest *jinja_test_find(const JinjaText *name);
const JinjaFunction *jinja_function_find(const JinjaText *name);
const JinjaBuiltin *jinja_builtin_find(const JinjaBuiltin *table, size_t n, const JinjaText *name);

/* Checks and sorts arguments, and calls. kind: "filter", "test", for errors. */
int jinja_builtin_call(JinjaRun *run, const char *kind, const JinjaBuiltin *builtin, JinjaValue self,
                       const JinjaArguments *arguments, JinjaValue *valuep);
int jinja_filter_call(JinjaRun *run, const JinjaText *name, const JinjaFilter *filter, JinjaValue subject,
                      const JinjaArguments *arguments, JinjaValue *valuep);
int jinja_test_call(JinjaRun *run, const JinjaText *name, const JinjaTest *test, JinjaValue subject,
                    const JinjaArguments *arguments, bool *passedp);

/* An argument as an integer; not given: as it was. */
int jinja_take_int(JinjaRun *run, JinjaValue value, const char *what, int64_t *integerp);
int jinja_take_text(JinjaRun *run, JinjaValue value, const char *what, const JinjaText **textp);
/* What an operation needs that was given something undefined: the error. */
int jinja_fail_undefined(JinjaRun *run, JinjaValue value);

/* Members (jinja_member.c). What there is not is undefined. */
int jinja_attribute(JinjaRun *run, JinjaValue object, const JinjaText *name, JinjaValue *valuep);
int jinja_item(JinjaRun *run, JinjaValue object, JinjaValue key, JinjaValue *valuep);
/* bounds: start, stop, step; JINJA_NONE or JINJA_MISSING: not given */
int jinja_slice(JinjaRun *run, JinjaValue object, const JinjaValue bounds[3], JinjaValue *valuep);

/* Methods of text (jinja_text_method.c); NULL: none of this name. */
const JinjaBuiltin *jinja_text_method_find(const JinjaText *name);
extern const JinjaBuiltin jinja_text_case_methods[], jinja_text_split_methods[];
extern const size_t jinja_n_text_case_methods, jinja_n_text_split_methods;
/* What a search can cost. */
int jinja_spend_search(JinjaRun *run, const JinjaText *text, const JinjaText *needle, bool backwards);
/* Shared with filters. */
int jinja_text_convert(JinjaRun *run, const JinjaText *text, JinjaCase to, JinjaValue *valuep);
int jinja_text_capitalize(JinjaRun *run, const JinjaText *text, JinjaValue *valuep);
int jinja_text_strip(JinjaRun *run, const JinjaText *text, JinjaValue chars, bool left, bool right, JinjaValue *valuep);
int jinja_text_replace(JinjaRun *run, const JinjaText *text, const JinjaText *old, const JinjaText *new_text,
                       int64_t count, JinjaValue *valuep);
int jinja_text_lines(JinjaRun *run, const JinjaText *text, bool keep_ends, JinjaValue *valuep);
int jinja_text_escape(JinjaRun *run, const JinjaText *text, JinjaValue *valuep);
int jinja_text_mark_safe(JinjaRun *run, const JinjaText *text, JinjaValue *valuep);
int jinja_text_center(JinjaRun *run, const JinjaText *text, int64_t width, JinjaValue *valuep);
int jinja_text_join(JinjaRun *run, const JinjaText *separator, JinjaValue items, bool only_texts, JinjaValue *valuep);
bool jinja_text_is_case(const JinjaText *text, bool upper);
/* A number in a text, as int() and float() read it; false: none. Too large is an error. */
int jinja_text_to_int(JinjaRun *run, const JinjaText *text, int base, bool *foundp, int64_t *integerp);
bool jinja_text_to_float(const JinjaText *text, double *realp);

/* Formats (jinja_format.c). */
/* is_one: the argument is one value behind "%", not one of several. */
int jinja_format_percent(JinjaRun *run, const JinjaText *format, const JinjaArguments *arguments, bool is_one,
                         JinjaValue *valuep);
int jinja_format_braces(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, JinjaValue *valuep);

/* JSON (jinja_json.c). */
typedef struct JinjaJsonStyle {
    bool ascii_only, sorts_keys, is_indented;
    const JinjaText *indent, *item_separator, *key_separator;
} JinjaJsonStyle;

void jinja_json_write(JinjaWriter *writer, JinjaValue value, const JinjaJsonStyle *style);
/* JSON text to a value of outside. The error names the byte. */
int jinja_json_read(JinjaRun *run, const char *data, size_t len_bytes, JinjaValue *valuep);

/* Operators (jinja_operator.c). */
int jinja_operate(JinjaRun *run, int op, JinjaValue a, JinjaValue b, JinjaValue *valuep);
int jinja_negate(JinjaRun *run, JinjaValue value, bool minus, JinjaValue *valuep);

/* Filters of numbers (jinja_number.c). */
extern const JinjaFilter jinja_number_filters[];
extern const size_t jinja_n_number_filters;

/* Sequences (jinja_sequence.c): filters of lists. */
extern const JinjaFilter jinja_sequence_filters[];
extern const size_t jinja_n_sequence_filters;

/* Evaluation (jinja_eval.c). */
int jinja_call(JinjaRun *run, JinjaValue callee, const JinjaArguments *arguments, JinjaValue *valuep);

#endif
