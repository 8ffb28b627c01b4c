// SPDX-License-Identifier: Apache-2.0
/* Arithmetic, as Python does it, on 64 bits: what does not fit is an error. */
#include <math.h>

#include "text/jinja/jinja_builtin.h"
#include "text/jinja/jinja_tree.h"

static const char *operator_name(int op) {
    static const char *const names[] = {
        [JINJA_ADD] = "+",           [JINJA_SUBTRACT] = "-", [JINJA_MULTIPLY] = "*", [JINJA_DIVIDE] = "/",
        [JINJA_FLOOR_DIVIDE] = "//", [JINJA_MODULO] = "%",   [JINJA_POWER] = "**"
    };

    return names[op];
}

static int fail_overflow(JinjaRun *run, int op) {
    return jinja_fail(run, "the result of '%s' is an integer past 64 bits", operator_name(op));
}

static int fail_zero(JinjaRun *run) {
    return jinja_fail(run, "division by zero");
}

/* --- numbers ---------------------------------------------------------------------------------------------------- */

static int power_of_integers(JinjaRun *run, int64_t base, int64_t exponent, JinjaValue *valuep) {
    int64_t result = 1;

    if (exponent < 0) {
        if (!base)
            return fail_zero(run);
        *valuep = jinja_float(pow((double)base, (double)exponent));
        return 0;
    }
    if (base == 0 || base == 1 || base == -1) {
        *valuep = jinja_int(!exponent ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base);
        return 0;
    }
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(result, base, &result))
            return fail_overflow(run, JINJA_POWER);
    *valuep = jinja_int(result);
    return 0;
}

static int operate_integers(JinjaRun *run, int op, int64_t a, int64_t b, JinjaValue *valuep) {
    int64_t result;

    switch (op) {
    case JINJA_ADD:
        if (__builtin_add_overflow(a, b, &result))
            return fail_overflow(run, op);
        break;
    case JINJA_SUBTRACT:
        if (__builtin_sub_overflow(a, b, &result))
            return fail_overflow(run, op);
        break;
    case JINJA_MULTIPLY:
        if (__builtin_mul_overflow(a, b, &result))
            return fail_overflow(run, op);
        break;
    case JINJA_DIVIDE:
        if (!b)
            return fail_zero(run);
        *valuep = jinja_float((double)a / (double)b);
        return 0;
    case JINJA_FLOOR_DIVIDE:
        if (!b)
            return fail_zero(run);
        if (a == INT64_MIN && b == -1)
            return fail_overflow(run, op);
        result = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
        break;
    case JINJA_MODULO:
        if (!b)
            return fail_zero(run);
        result = b == -1 ? 0 : a % b;
        if (result && (result < 0) != (b < 0))
            result += b;
        break;
    default:
        return power_of_integers(run, a, b, valuep);
    }
    *valuep = jinja_int(result);
    return 0;
}

static int operate_floats(JinjaRun *run, int op, double a, double b, JinjaValue *valuep) {
    double result;

    if (b == 0 && (op == JINJA_DIVIDE || op == JINJA_FLOOR_DIVIDE || op == JINJA_MODULO))
        return fail_zero(run);
    switch (op) {
    case JINJA_ADD:
        result = a + b;
        break;
    case JINJA_SUBTRACT:
        result = a - b;
        break;
    case JINJA_MULTIPLY:
        result = a * b;
        break;
    case JINJA_DIVIDE:
        result = a / b;
        break;
    case JINJA_FLOOR_DIVIDE:
    case JINJA_MODULO: {
        double modulo = fmod(a, b), quotient;

        if (modulo != 0 && (b < 0) != (modulo < 0))
            modulo += b;
        else if (modulo == 0)
            modulo = copysign(0, b);
        quotient = (a - modulo) / b;
        result = op == JINJA_MODULO ? modulo : quotient != 0 ? floor(quotient + 0.5) : copysign(0, a / b);
        break;
    }
    default:
        if (a < 0 && b != floor(b))
            return jinja_fail(run, "a power that is a complex number");
        if (a == 0 && b < 0)
            return fail_zero(run);
        result = pow(a, b);
        if (isinf(result) && !isinf(a) && !isinf(b))
            return jinja_fail(run, "the result of '**' is too large");
        break;
    }
    *valuep = jinja_float(result);
    return 0;
}

/* --- sequences -------------------------------------------------------------------------------------------------- */

static int repeat(JinjaRun *run, JinjaValue value, int64_t n, JinjaValue *valuep) {
    JinjaWriter writer;
    uint64_t n_items;
    int r;

    n = n < 0 ? 0 : n;
    if (value.type == JINJA_TEXT) {
        jinja_writer_init(&writer, run);
        for (int64_t i = 0; i < n && value.text->len_bytes && !writer.failure; i++) {
            writer.failure = jinja_spend(run, 1);
            jinja_write(&writer, value.text);
        }
        return jinja_writer_finish(&writer, valuep);
    }
    if (__builtin_mul_overflow((uint64_t)value.list->n, (uint64_t)n, &n_items) || n_items > UINT32_MAX / 2)
        return jinja_fail(run, "a list of too many items");
    r = jinja_list_new(run, value.type, (uint32_t)n_items, valuep);
    for (uint64_t i = 0; i < n_items && !r; i++)
        valuep->list->items[i] = value.list->items[i % value.list->n];
    return r;
}

static int append(JinjaRun *run, const JinjaValue *a, const JinjaValue *b, JinjaValue *valuep) {
    JinjaValue made;
    int r;

    if (a->list->n > UINT32_MAX / 4 || b->list->n > UINT32_MAX / 4)
        return jinja_fail(run, "a list of too many items");
    r = jinja_list_new(run, a->type, a->list->n + b->list->n, &made);
    if (r)
        return r;
    if (a->list->n)
        memcpy(made.list->items, a->list->items, a->list->n * sizeof(*made.list->items));
    if (b->list->n)
        memcpy(made.list->items + a->list->n, b->list->items, b->list->n * sizeof(*made.list->items));
    *valuep = made;
    return 0;
}

static int format_with(JinjaRun *run, const JinjaText *format, JinjaValue value, JinjaValue *valuep) {
    JinjaArguments arguments = { .items = &value, .n = 1 };

    if (value.type == JINJA_TUPLE)
        arguments = (JinjaArguments){ .items = value.list->items, .n = value.list->n };
    return jinja_format_percent(run, format, &arguments, value.type != JINJA_TUPLE, valuep);
}

/* As Markup does it in Python: of a text that is safe and one that is not, the other is escaped first. */
static int concat_texts(JinjaRun *run, JinjaValue a, JinjaValue b, JinjaValue *valuep) {
    bool is_safe = a.text->is_safe || b.text->is_safe;
    int r = 0;

    if (is_safe && !a.text->is_safe)
        r = jinja_text_escape(run, a.text, &a);
    if (!r && is_safe && !b.text->is_safe)
        r = jinja_text_escape(run, b.text, &b);
    if (!r)
        r = jinja_text_concat(run, a.text, b.text, valuep);
    return r || !is_safe ? r : jinja_text_mark_safe(run, valuep->text, valuep);
}

static bool is_sequence(JinjaValue value) {
    return value.type == JINJA_TEXT || value.type == JINJA_LIST || value.type == JINJA_TUPLE;
}

int jinja_operate(JinjaRun *run, int op, JinjaValue a, JinjaValue b, JinjaValue *valuep) {
    int64_t x, y;

    if (a.type == JINJA_UNDEFINED || b.type == JINJA_UNDEFINED) {
        if (op != JINJA_MODULO || a.type != JINJA_TEXT)
            return jinja_fail_undefined(run, a.type == JINJA_UNDEFINED ? a : b);
    }
    if (jinja_as_int(a, &x) && jinja_as_int(b, &y))
        return operate_integers(run, op, x, y, valuep);
    if (jinja_is_number(a) && jinja_is_number(b))
        return operate_floats(run, op, jinja_as_float(a), jinja_as_float(b), valuep);
    if (op == JINJA_ADD && a.type == JINJA_TEXT && b.type == JINJA_TEXT)
        return concat_texts(run, a, b, valuep);
    if (op == JINJA_ADD && a.type == b.type && is_sequence(a))
        return append(run, &a, &b, valuep);
    if (op == JINJA_MULTIPLY && is_sequence(a) && jinja_as_int(b, &y))
        return repeat(run, a, y, valuep);
    if (op == JINJA_MULTIPLY && is_sequence(b) && jinja_as_int(a, &x))
        return repeat(run, b, x, valuep);
    if (op == JINJA_MODULO && a.type == JINJA_TEXT)
        return format_with(run, a.text, b, valuep);
    return jinja_fail(run, "'%s' is not supported between '%s' and '%s'", operator_name(op), jinja_type_name(a),
                      jinja_type_name(b));
}

int jinja_negate(JinjaRun *run, JinjaValue value, bool minus, JinjaValue *valuep) {
    int64_t integer;

    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (value.type == JINJA_FLOAT) {
        *valuep = jinja_float(minus ? -value.real : value.real);
        return 0;
    }
    if (!jinja_as_int(value, &integer))
        return jinja_fail(run, "'%c' needs a number, not '%s'", minus ? '-' : '+', jinja_type_name(value));
    if (minus && __builtin_sub_overflow((int64_t)0, integer, &integer))
        return fail_overflow(run, JINJA_SUBTRACT);
    *valuep = jinja_int(integer);
    return 0;
}
