// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/values/jinja_operator.h"

#include "text/jinja/builtins/jinja_builtin.h"

static const char *operator_name(JinjaOperator op) {
    static const char *const names[] = {
        [JINJA_ADD] = "+",           [JINJA_SUBTRACT] = "-",       [JINJA_MULTIPLY] = "*", [JINJA_DIVIDE] = "/",
        [JINJA_FLOOR_DIVIDE] = "//", [JINJA_MODULO] = "%",         [JINJA_LESS] = "<",     [JINJA_LESS_EQUAL] = "<=",
        [JINJA_GREATER] = ">",       [JINJA_GREATER_EQUAL] = ">=",
    };

    return names[op];
}

static _Noreturn void fail_overflow(JinjaRun *run, JinjaOperator op) {
    jinja_fail(run, "the result of '%s' is an integer past 64 bits", operator_name(op));
}

/* --- numbers ---------------------------------------------------------------------------------------------------- */

static JinjaValue operate_integers(JinjaRun *run, JinjaOperator op, int64_t a, int64_t b) {
    bool overflows = false;
    int64_t result = 0;

    if (!b && (op == JINJA_DIVIDE || op == JINJA_FLOOR_DIVIDE || op == JINJA_MODULO))
        jinja_fail(run, "division by zero");
    switch (op) {
    case JINJA_ADD:
        overflows = __builtin_add_overflow(a, b, &result);
        break;
    case JINJA_SUBTRACT:
        overflows = __builtin_sub_overflow(a, b, &result);
        break;
    case JINJA_MULTIPLY:
        overflows = __builtin_mul_overflow(a, b, &result);
        break;
    case JINJA_DIVIDE:
        return jinja_float((double)a / (double)b);
    case JINJA_FLOOR_DIVIDE:
        overflows = a == INT64_MIN && b == -1;
        if (!overflows)
            result = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
        break;
    default:
        result = b == -1 ? 0 : a % b;
        if (result && (result < 0) != (b < 0))
            result += b;
        break;
    }
    if (overflows)
        fail_overflow(run, op);
    return jinja_int(result);
}

static double operate_floats(JinjaRun *run, JinjaOperator op, double a, double b) {
    if (b == 0 && op == JINJA_DIVIDE)
        jinja_fail(run, "division by zero");
    switch (op) {
    case JINJA_ADD:
        return a + b;
    case JINJA_SUBTRACT:
        return a - b;
    case JINJA_MULTIPLY:
        return a * b;
    case JINJA_DIVIDE:
        return a / b;
    default:
        jinja_fail(run, "'%s' needs integers in chat templates", operator_name(op));
    }
}

/* --- sequences -------------------------------------------------------------------------------------------------- */

static JinjaValue repeat(JinjaRun *run, const JinjaText *text, int64_t n) {
    JinjaWriter writer;

    jinja_writer_init(&writer, run);
    jinja_write_fill(&writer, text, text->len_bytes ? n : 0);
    return jinja_str(jinja_writer_finish(&writer));
}

static JinjaValue append(JinjaRun *run, const JinjaValue *a, const JinjaValue *b) {
    JinjaValue made;

    if (a->list->n > UINT32_MAX / 4 || b->list->n > UINT32_MAX / 4)
        jinja_fail(run, "a list of too many items");
    made = jinja_list_new(run, a->type, a->list->n + b->list->n);
    if (a->list->n)
        memcpy(made.list->items, a->list->items, a->list->n * sizeof(*made.list->items));
    if (b->list->n)
        memcpy(made.list->items + a->list->n, b->list->items, b->list->n * sizeof(*made.list->items));
    return made;
}

/* Adds texts as Python's Markup does: if one of them is safe, the other one is escaped first. */
static JinjaValue concat_texts(JinjaRun *run, JinjaValue a, JinjaValue b) {
    const bool is_safe = a.text->is_safe || b.text->is_safe;
    JinjaValue sum;

    if (is_safe) {
        a = jinja_str_escape(run, a, NULL);
        b = jinja_str_escape(run, b, NULL);
    }
    sum = jinja_str(jinja_text_concat(run, a.text, b.text));
    return is_safe ? jinja_str_safe(run, sum, NULL) : sum;
}

static bool compare(JinjaRun *run, JinjaOperator op, JinjaValue a, JinjaValue b) {
    int order;

    switch (op) {
    case JINJA_EQUAL:
    case JINJA_NOT_EQUAL:
        return jinja_equal(run, a, b) == (op == JINJA_EQUAL);
    case JINJA_IN:
    case JINJA_NOT_IN:
        return jinja_contains(run, b, a) == (op == JINJA_IN);
    default:
        order = jinja_compare(run, a, b, operator_name(op));
        return order != 2 && (op == JINJA_LESS         ? order < 0
                              : op == JINJA_LESS_EQUAL ? order <= 0
                              : op == JINJA_GREATER    ? order > 0
                                                       : order >= 0);
    }
}

JinjaValue jinja_operate(JinjaRun *run, JinjaOperator op, JinjaValue a, JinjaValue b) {
    int64_t x, y;

    if (op >= JINJA_EQUAL)
        return jinja_bool(compare(run, op, a, b));
    jinja_check_defined(run, a);
    jinja_check_defined(run, b);
    if (jinja_as_int(a, &x) && jinja_as_int(b, &y))
        return operate_integers(run, op, x, y);
    if (jinja_is_number(a) && jinja_is_number(b))
        return jinja_float(operate_floats(run, op, jinja_as_float(a), jinja_as_float(b)));
    if (op == JINJA_ADD && a.type == JINJA_TEXT && b.type == JINJA_TEXT)
        return concat_texts(run, a, b);
    if (op == JINJA_ADD && a.type == b.type && (a.type == JINJA_LIST || a.type == JINJA_TUPLE))
        return append(run, &a, &b);
    if (op == JINJA_MULTIPLY && a.type == JINJA_TEXT && jinja_as_int(b, &y))
        return repeat(run, a.text, y);
    if (op == JINJA_MULTIPLY && b.type == JINJA_TEXT && jinja_as_int(a, &x))
        return repeat(run, b.text, x);
    jinja_fail(run, "'%s' is not supported between '%s' and '%s'", operator_name(op), jinja_type_name(a),
               jinja_type_name(b));
}

JinjaValue jinja_negate(JinjaRun *run, JinjaValue value) {
    int64_t integer;

    jinja_check_defined(run, value);
    if (value.type == JINJA_FLOAT)
        return jinja_float(-value.real);
    if (!jinja_as_int(value, &integer))
        jinja_fail(run, "'-' needs a number, not '%s'", jinja_type_name(value));
    if (__builtin_sub_overflow((int64_t)0, integer, &integer))
        fail_overflow(run, JINJA_SUBTRACT);
    return jinja_int(integer);
}
