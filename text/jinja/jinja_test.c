// SPDX-License-Identifier: Apache-2.0
/* Tests: what may stand behind "is". */
#include <math.h>

#include "base/strings/printable.h"
#include "text/jinja/jinja_builtin.h"
#include "text/jinja/jinja_tree.h"

int jinja_test_call(JinjaRun *run, const JinjaText *name, const JinjaTest *test, JinjaValue subject,
                    const JinjaArguments *arguments, bool *passedp) {
    JinjaValue passed = jinja_bool(false);
    Printable shown;
    int r;

    if (!test)
        return jinja_fail(run, "test '%s' is not known", printable(&shown, name->data, name->len_bytes));
    r = jinja_builtin_call(run, "test", test, subject, arguments, &passed);
    *passedp = !r && passed.boolean;
    return r;
}

#define TYPE_TEST(name, condition)                                                                                     \
    static int test_##name(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {             \
        *valuep = jinja_bool(condition);                                                                               \
        return 0;                                                                                                      \
    }

TYPE_TEST(defined, self.type != JINJA_UNDEFINED)
TYPE_TEST(undefined, self.type == JINJA_UNDEFINED)
TYPE_TEST(none, self.type == JINJA_NONE)
TYPE_TEST(boolean, self.type == JINJA_BOOL)
TYPE_TEST(true, self.type == JINJA_BOOL && self.boolean)
TYPE_TEST(false, self.type == JINJA_BOOL && !self.boolean)
TYPE_TEST(integer, self.type == JINJA_INT)
TYPE_TEST(float, self.type == JINJA_FLOAT)
TYPE_TEST(number, jinja_is_number(self))
TYPE_TEST(string, self.type == JINJA_TEXT)
TYPE_TEST(mapping, self.type == JINJA_DICT)
TYPE_TEST(iterable, jinja_is_iterable(self) || self.type == JINJA_LOOP)
TYPE_TEST(escaped, false)
TYPE_TEST(sequence, self.type == JINJA_TEXT || self.type == JINJA_LIST || self.type == JINJA_TUPLE ||
                        self.type == JINJA_DICT || self.type == JINJA_RANGE || self.type == JINJA_UNDEFINED)
TYPE_TEST(callable, self.type == JINJA_MACRO || self.type == JINJA_FUNCTION || self.type == JINJA_METHOD ||
                        self.type == JINJA_LOOP || self.type == JINJA_JOINER || self.type == JINJA_UNDEFINED)

static int test_case(JinjaRun *run, JinjaValue self, bool upper, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    int r = jinja_to_text(run, self, &text);

    if (!r)
        *valuep = jinja_bool(jinja_text_is_case(text, upper));
    return r;
}

static int test_lower(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return test_case(run, self, false, valuep);
}

static int test_upper(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return test_case(run, self, true, valuep);
}

/* value % divisor == rest, as a test. */
static int test_modulo(JinjaRun *run, JinjaValue self, JinjaValue divisor, int64_t rest, JinjaValue *valuep) {
    bool equal = false;
    int r = jinja_operate(run, JINJA_MODULO, self, divisor, valuep);

    if (!r)
        r = jinja_equal(run, *valuep, jinja_int(rest), &equal);
    *valuep = jinja_bool(equal);
    return r;
}

static int test_odd(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return test_modulo(run, self, jinja_int(2), 1, valuep);
}

static int test_even(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return test_modulo(run, self, jinja_int(2), 0, valuep);
}

static int test_divisibleby(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return test_modulo(run, self, values[0], 0, valuep);
}

static int test_eq(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    bool equal;
    int r = jinja_equal(run, self, values[0], &equal);

    *valuep = jinja_bool(equal);
    return r;
}

static int test_ne(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    bool equal;
    int r = jinja_equal(run, self, values[0], &equal);

    *valuep = jinja_bool(!equal);
    return r;
}

#define ORDER_TEST(name, sign, condition)                                                                              \
    static int test_##name(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {             \
        int order = 2, r = jinja_compare(run, self, values[0], sign, &order);                                          \
                                                                                                                       \
        *valuep = jinja_bool(order != 2 && (condition));                                                               \
        return r;                                                                                                      \
    }

ORDER_TEST(gt, ">", order > 0)
ORDER_TEST(ge, ">=", order >= 0)
ORDER_TEST(lt, "<", order < 0)
ORDER_TEST(le, "<=", order <= 0)

static int test_in(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    bool contains;
    int r = jinja_contains(run, values[0], self, &contains);

    *valuep = jinja_bool(contains);
    return r;
}

/* The same object. Texts and numbers that are equal may or may not be one in Python: here they are. */
static int test_sameas(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    bool same = false;
    int r = 0;

    if (self.type == values[0].type) {
        if (self.type == JINJA_LIST || self.type == JINJA_TUPLE || self.type == JINJA_DICT)
            same = self.list == values[0].list;
        else
            r = jinja_equal(run, self, values[0], &same);
    }
    *valuep = jinja_bool(same);
    return r;
}

static int test_filter(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    *valuep = jinja_bool(self.type == JINJA_TEXT && jinja_filter_find(self.text));
    return 0;
}

static int test_test(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    *valuep = jinja_bool(self.type == JINJA_TEXT && jinja_test_find(self.text));
    return 0;
}

#define OTHER_TEST(test_name, test_fn)                                                                                 \
    {                                                                                                                  \
        .name = test_name, .fn = test_fn, .n_required = 1, .parameters = { "other" }                                   \
    }

const JinjaTest *jinja_test_find(const JinjaText *name) {
    static const JinjaTest tests[] = {
        { .name = "defined", .fn = test_defined },
        { .name = "undefined", .fn = test_undefined },
        { .name = "none", .fn = test_none },
        { .name = "boolean", .fn = test_boolean },
        { .name = "true", .fn = test_true },
        { .name = "false", .fn = test_false },
        { .name = "integer", .fn = test_integer },
        { .name = "float", .fn = test_float },
        { .name = "number", .fn = test_number },
        { .name = "string", .fn = test_string },
        { .name = "mapping", .fn = test_mapping },
        { .name = "iterable", .fn = test_iterable },
        { .name = "sequence", .fn = test_sequence },
        { .name = "callable", .fn = test_callable },
        { .name = "escaped", .fn = test_escaped },
        { .name = "lower", .fn = test_lower },
        { .name = "upper", .fn = test_upper },
        { .name = "odd", .fn = test_odd },
        { .name = "even", .fn = test_even },
        { .name = "filter", .fn = test_filter },
        { .name = "test", .fn = test_test },
        { .name = "divisibleby", .fn = test_divisibleby, .n_required = 1, .parameters = { "num" } },
        { .name = "in", .fn = test_in, .n_required = 1, .parameters = { "seq" } },
        OTHER_TEST("sameas", test_sameas),
        OTHER_TEST("eq", test_eq),
        OTHER_TEST("==", test_eq),
        OTHER_TEST("equalto", test_eq),
        OTHER_TEST("ne", test_ne),
        OTHER_TEST("!=", test_ne),
        OTHER_TEST("gt", test_gt),
        OTHER_TEST(">", test_gt),
        OTHER_TEST("greaterthan", test_gt),
        OTHER_TEST("ge", test_ge),
        OTHER_TEST(">=", test_ge),
        OTHER_TEST("lt", test_lt),
        OTHER_TEST("<", test_lt),
        OTHER_TEST("lessthan", test_lt),
        OTHER_TEST("le", test_le),
        OTHER_TEST("<=", test_le),
    };

    return jinja_builtin_find(tests, ARRAY_LEN(tests), name);
}
