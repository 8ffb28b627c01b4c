// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/values/jinja_operator.h"

#include <math.h>

#include "base/min_max.h"
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/builtins/jinja_format.h"

static const char *operator_name(JinjaOperator op) {
    static const char *const names[] = {
        [JINJA_ADD] = "+",           [JINJA_SUBTRACT] = "-", [JINJA_MULTIPLY] = "*", [JINJA_DIVIDE] = "/",
        [JINJA_FLOOR_DIVIDE] = "//", [JINJA_MODULO] = "%",   [JINJA_POWER] = "**"
    };

    return names[op];
}

static _Noreturn void fail_overflow(JinjaRun *run, JinjaOperator op) {
    jinja_fail(run, "the result of '%s' is an integer past 64 bits", operator_name(op));
}

/* --- numbers ---------------------------------------------------------------------------------------------------- */

static JinjaValue power_of_integers(JinjaRun *run, int64_t base, int64_t exponent) {
    int64_t result = 1;

    if (exponent < 0) {
        if (!base)
            jinja_fail(run, "division by zero");
        return jinja_float(pow((double)base, (double)exponent));
    }
    if (base == 0 || base == 1 || base == -1)
        return jinja_int(!exponent ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base);
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(result, base, &result))
            fail_overflow(run, JINJA_POWER);
    return jinja_int(result);
}

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
    case JINJA_MODULO:
        result = b == -1 ? 0 : a % b;
        if (result && (result < 0) != (b < 0))
            result += b;
        break;
    default:
        return power_of_integers(run, a, b);
    }
    if (overflows)
        fail_overflow(run, op);
    return jinja_int(result);
}

static double floor_divide(double a, double b, double *modulop) {
    double modulo = fmod(a, b), quotient;

    if (modulo != 0 && (b < 0) != (modulo < 0))
        modulo += b;
    else if (modulo == 0)
        modulo = copysign(0, b);
    quotient = (a - modulo) / b;
    *modulop = modulo;
    return quotient != 0 ? floor(quotient + 0.5) : copysign(0, a / b);
}

static double power_of_floats(JinjaRun *run, double base, double exponent) {
    double result;

    if (base < 0 && exponent != floor(exponent))
        jinja_fail(run, "a power that is a complex number");
    if (base == 0 && exponent < 0)
        jinja_fail(run, "division by zero");
    result = pow(base, exponent);
    if (isinf(result) && !isinf(base) && !isinf(exponent))
        jinja_fail(run, "the result of '**' is too large");
    return result;
}

static double operate_floats(JinjaRun *run, JinjaOperator op, double a, double b) {
    double modulo, quotient;

    if (b == 0 && (op == JINJA_DIVIDE || op == JINJA_FLOOR_DIVIDE || op == JINJA_MODULO))
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
    case JINJA_FLOOR_DIVIDE:
    case JINJA_MODULO:
        quotient = floor_divide(a, b, &modulo);
        return op == JINJA_MODULO ? modulo : quotient;
    default:
        return power_of_floats(run, a, b);
    }
}

/* --- sequences -------------------------------------------------------------------------------------------------- */

static JinjaValue repeat(JinjaRun *run, JinjaValue value, int64_t n) {
    JinjaWriter writer;
    uint64_t n_items;
    JinjaValue list;

    n = MAX(0, n);
    if (value.type == JINJA_TEXT) {
        jinja_writer_init(&writer, run);
        jinja_write_fill(&writer, value.text, value.text->len_bytes ? n : 0);
        return jinja_str(jinja_writer_finish(&writer));
    }
    if (__builtin_mul_overflow((uint64_t)value.list->n, (uint64_t)n, &n_items) || n_items > UINT32_MAX / 2)
        jinja_fail(run, "a list of too many items");
    list = jinja_list_new(run, value.type, (uint32_t)n_items);
    for (uint64_t i = 0; i < n_items; i++)
        list.list->items[i] = value.list->items[i % value.list->n];
    return list;
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

static JinjaValue format_with(JinjaRun *run, const JinjaText *format, JinjaValue value) {
    JinjaArguments arguments = { .items = &value, .n = 1 };

    if (value.type == JINJA_TUPLE)
        arguments = (JinjaArguments){ .items = value.list->items, .n = value.list->n };
    return jinja_format_percent(run, format, &arguments, value.type != JINJA_TUPLE);
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

static bool is_sequence(JinjaValue value) {
    return value.type == JINJA_TEXT || value.type == JINJA_LIST || value.type == JINJA_TUPLE;
}

JinjaValue jinja_operate(JinjaRun *run, JinjaOperator op, JinjaValue a, JinjaValue b) {
    int64_t x, y;

    if ((a.type == JINJA_UNDEFINED || b.type == JINJA_UNDEFINED) && (op != JINJA_MODULO || a.type != JINJA_TEXT))
        jinja_fail_undefined(run, a.type == JINJA_UNDEFINED ? a : b);
    if (jinja_as_int(a, &x) && jinja_as_int(b, &y))
        return operate_integers(run, op, x, y);
    if (jinja_is_number(a) && jinja_is_number(b))
        return jinja_float(operate_floats(run, op, jinja_as_float(a), jinja_as_float(b)));
    if (op == JINJA_ADD && a.type == JINJA_TEXT && b.type == JINJA_TEXT)
        return concat_texts(run, a, b);
    if (op == JINJA_ADD && a.type == b.type && is_sequence(a))
        return append(run, &a, &b);
    if (op == JINJA_MULTIPLY && is_sequence(a) && jinja_as_int(b, &y))
        return repeat(run, a, y);
    if (op == JINJA_MULTIPLY && is_sequence(b) && jinja_as_int(a, &x))
        return repeat(run, b, x);
    if (op == JINJA_MODULO && a.type == JINJA_TEXT)
        return format_with(run, a.text, b);
    jinja_fail(run, "'%s' is not supported between '%s' and '%s'", operator_name(op), jinja_type_name(a),
               jinja_type_name(b));
}

JinjaValue jinja_negate(JinjaRun *run, JinjaValue value, bool minus) {
    int64_t integer;

    if (value.type == JINJA_UNDEFINED)
        jinja_fail_undefined(run, value);
    if (value.type == JINJA_FLOAT)
        return jinja_float(minus ? -value.real : value.real);
    if (!jinja_as_int(value, &integer))
        jinja_fail(run, "'%c' needs a number, not '%s'", minus ? '-' : '+', jinja_type_name(value));
    if (minus && __builtin_sub_overflow((int64_t)0, integer, &integer))
        fail_overflow(run, JINJA_SUBTRACT);
    return jinja_int(integer);
}
