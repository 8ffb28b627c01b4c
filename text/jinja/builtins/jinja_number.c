// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/builtins/jinja_number.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/strings/decimal.h"
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/values/jinja_operator.h"
#include "text/jinja/values/jinja_unicode.h"

#define ROUND_DIGITS_MAX 320 /* a double has no digits behind these */

/* --- numbers in texts ------------------------------------------------------------------------------------------- */

/* Copies a number without white space around it and without "_" between digits; false: it is none. */
static bool copy_number(const JinjaText *text, char *out, size_t room_bytes) {
    size_t from = 0, to = text->len_bytes, n = 0;

    for (size_t len_bytes; from < to && jinja_unicode_is_space(jinja_text_code_point(text, from, &len_bytes));)
        from += len_bytes;
    while (to > from && text->data[to - 1] && strchr(" \t\n\r\f\v", text->data[to - 1]))
        to--;
    if (from == to || to - from >= room_bytes)
        return false;
    for (size_t i = from; i < to; i++) {
        if (text->data[i] != '_')
            out[n++] = text->data[i];
        else if (i == from || text->data[i - 1] == '_' || i + 1 == to || text->data[i + 1] == '_')
            return false;
    }
    out[n] = 0;
    return true;
}

bool jinja_text_to_int(JinjaRun *run, const JinjaText *text, int base, int64_t *integerp) {
    char digits[100], *at = digits;
    bool negative;
    int64_t value = 0;

    if (!copy_number(text, digits, sizeof(digits)))
        return false;
    negative = *at == '-';
    at += *at == '-' || *at == '+';
    if (at[0] == '0' && at[1] && strchr("bBoOxX", at[1])) {
        int marked = at[1] == 'b' || at[1] == 'B' ? 2 : at[1] == 'o' || at[1] == 'O' ? 8 : 16;

        if (base == 0 || base == marked) {
            base = marked;
            at += 2;
        }
    }
    base = base ? base : 10;
    if (!*at)
        return false;
    for (; *at; at++) {
        int digit = isdigit((unsigned char)*at)   ? *at - '0'
                    : isalpha((unsigned char)*at) ? (*at | 0x20) - 'a' + 10
                                                  : base;

        if (digit >= base)
            return false;
        if (__builtin_mul_overflow(value, (int64_t)base, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            jinja_fail(run, "an integer past 64 bits in a text");
    }
    *integerp = value;
    return true;
}

/* Reads a number as Python's float() does; false: there is none. */
static bool text_to_float(const JinjaText *text, double *realp) {
    static const struct {
        const char *name;
        double value;
    } names[] = { { "inf", INFINITY },      { "+inf", INFINITY },       { "-inf", -INFINITY },
                  { "infinity", INFINITY }, { "-infinity", -INFINITY }, { "nan", NAN } };
    char digits[400];

    if (!copy_number(text, digits, sizeof(digits)))
        return false;
    if (decimal_parse(digits, realp))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!strcasecmp(digits, names[i].name)) {
            *realp = names[i].value;
            return true;
        }
    return false;
}

/* --- filters ---------------------------------------------------------------------------------------------------- */

JinjaValue jinja_filter_int(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaValue fallback = jinja_given(values[0]) ? values[0] : jinja_int(0);
    int64_t integer, base = jinja_take_int(run, values[1], "base", 10);
    double real = self.type == JINJA_FLOAT ? self.real : 0;

    if (self.type == JINJA_UNDEFINED)
        jinja_fail_undefined(run, self);
    if (jinja_as_int(self, &integer))
        return jinja_int(integer);
    if (self.type == JINJA_TEXT) {
        if (base < 0 || base == 1 || base > 36)
            return fallback;
        if (jinja_text_to_int(run, self.text, (int)base, &integer))
            return jinja_int(integer);
        if (!text_to_float(self.text, &real))
            return fallback;
    } else if (self.type != JINJA_FLOAT) {
        return fallback;
    }
    if (self.type == JINJA_FLOAT && isinf(real))
        jinja_fail(run, "cannot convert float infinity to integer");
    if (!isfinite(real))
        return fallback;
    if (fabs(real) >= 9223372036854775807.0)
        jinja_fail(run, "filter 'int': an integer past 64 bits");
    return jinja_int((int64_t)real);
}

JinjaValue jinja_filter_float(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    double real;

    if (self.type == JINJA_UNDEFINED)
        jinja_fail_undefined(run, self);
    if (jinja_is_number(self))
        return jinja_float(jinja_as_float(self));
    if (self.type == JINJA_TEXT && text_to_float(self.text, &real))
        return jinja_float(real);
    return jinja_given(values[0]) ? values[0] : jinja_float(0);
}

JinjaValue jinja_filter_abs(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    int64_t integer;

    if (self.type == JINJA_FLOAT)
        return jinja_float(fabs(self.real));
    if (self.type == JINJA_UNDEFINED)
        jinja_fail_undefined(run, self);
    if (!jinja_as_int(self, &integer))
        jinja_fail(run, "bad operand type for abs(): '%s'", jinja_type_name(self));
    return jinja_negate(run, jinja_int(integer), integer < 0);
}

/* Rounds as Python's round() does, to the nearest decimal, half to even; printf's digits are exact. */
static double round_decimal(double real, int64_t digits) {
    char text[700];

    if (!isfinite(real) || digits > ROUND_DIGITS_MAX)
        return real;
    if (digits < 0) {
        double scale = pow(10, (double)-digits);

        return digits < -308 ? 0 * real : nearbyint(real / scale) * scale;
    }
    snprintf(text, sizeof(text), "%.*f", (int)digits, real);
    return strtod(text, NULL);
}

static int64_t round_integer(JinjaRun *run, int64_t integer, int64_t digits) {
    int64_t scale = 1, rest;
    bool is_odd;

    for (; digits < 0; digits++)
        if (__builtin_mul_overflow(scale, 10, &scale))
            return 0;
    rest = integer % scale;
    integer -= rest;
    is_odd = integer / scale % 2;
    if (scale > 1 && (rest > scale / 2 || (rest == scale / 2 && is_odd)) &&
        __builtin_add_overflow(integer, scale, &integer))
        jinja_fail(run, "round: past 64 bits");
    if (scale > 1 && (rest < -(scale / 2) || (rest == -(scale / 2) && is_odd)) &&
        __builtin_sub_overflow(integer, scale, &integer))
        jinja_fail(run, "round: past 64 bits");
    return integer;
}

JinjaValue jinja_filter_round(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    static const JinjaText common = JINJA_LITERAL("common");
    const int64_t digits = jinja_take_int(run, values[0], "precision", 0);
    const JinjaText *method = jinja_take_text(run, values[1], "method", &common);
    const bool ceils = jinja_text_is(method, "ceil");
    double real, scale;
    int64_t integer;

    if (!ceils && !jinja_text_is(method, "common") && !jinja_text_is(method, "floor"))
        jinja_fail(run, "filter 'round': method must be common, ceil or floor");
    if (self.type == JINJA_UNDEFINED)
        jinja_fail_undefined(run, self);
    if (!jinja_is_number(self))
        jinja_fail(run, "filter 'round' needs a number, not '%s'", jinja_type_name(self));
    if (jinja_text_is(method, "common"))
        return jinja_as_int(self, &integer) ? jinja_int(round_integer(run, integer, digits))
                                            : jinja_float(round_decimal(self.real, digits));
    real = jinja_as_float(self);
    scale = pow(10, (double)digits);
    return jinja_float((ceils ? ceil(real * scale) : floor(real * scale)) / scale);
}
