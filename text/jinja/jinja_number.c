// SPDX-License-Identifier: Apache-2.0
/* Filters of numbers, and numbers in texts. */
#include <math.h>
#include <stdio.h>

#include "base/strings/decimal.h"
#include "text/jinja/jinja_builtin.h"

static bool is_set(JinjaValue value) {
    return jinja_given(value) && jinja_truth(value);
}

/* --- numbers in texts ------------------------------------------------------------------------------------------- */

/* Without white space around it. */
static size_t stripped(const JinjaText *text, char *out, size_t room_bytes) {
    size_t from = 0, to = text->len_bytes, n, len_bytes = 0;

    while (from < to && jinja_unicode_is_space(jinja_text_code_point(text, from, &n)))
        from += n;
    while (to > from && text->data[to - 1] && strchr(" \t\n\r\f\v", text->data[to - 1]))
        to--;
    for (; from < to && len_bytes + 1 < room_bytes; from++)
        out[len_bytes++] = text->data[from];
    out[len_bytes] = 0;
    return from < to ? 0 : len_bytes;
}

/* Takes "_" out from between digits; false: one is somewhere else. */
static bool without_lines(char *text) {
    size_t n = 0;

    for (size_t i = 0; text[i]; i++) {
        bool between = i && strchr("_", text[i - 1]) == NULL && text[i + 1] && text[i + 1] != '_';

        if (text[i] == '_' && !between)
            return false;
        if (text[i] != '_')
            text[n++] = text[i];
    }
    text[n] = 0;
    return true;
}

int jinja_text_to_int(JinjaRun *run, const JinjaText *text, int base, bool *foundp, int64_t *integerp) {
    char digits[100], *at = digits;
    bool negative;
    int64_t value = 0;
    static const char marks[] = "bBoOxX";

    *foundp = false;
    if (!stripped(text, digits, sizeof(digits)) || !without_lines(digits))
        return 0;
    negative = *at == '-';
    at += *at == '-' || *at == '+';
    if (at[0] == '0' && at[1] && strchr(marks, at[1])) {
        int marked = at[1] == 'b' || at[1] == 'B' ? 2 : at[1] == 'o' || at[1] == 'O' ? 8 : 16;

        if (base == 0 || base == marked) {
            base = marked;
            at += 2;
        }
    }
    base = base ? base : 10;
    if (!*at)
        return 0;
    for (; *at; at++) {
        int digit = *at >= '0' && *at <= '9'                     ? *at - '0'
                    : (*at | 0x20) >= 'a' && (*at | 0x20) <= 'z' ? (*at | 0x20) - 'a' + 10
                                                                 : 99;

        if (digit >= base)
            return 0;
        if (__builtin_mul_overflow(value, (int64_t)base, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return jinja_fail(run, "an integer past 64 bits in a text");
    }
    *foundp = true;
    *integerp = value;
    return 0;
}

bool jinja_text_to_float(const JinjaText *text, double *realp) {
    static const struct {
        const char *name;
        double value;
    } names[] = { { "inf", INFINITY },      { "+inf", INFINITY },       { "-inf", -INFINITY },
                  { "infinity", INFINITY }, { "-infinity", -INFINITY }, { "nan", NAN } };
    char digits[400];

    if (!stripped(text, digits, sizeof(digits)) || !without_lines(digits))
        return false;
    if (decimal_parse(digits, realp))
        return true;
    for (char *c = digits; *c; c++)
        *c |= *c >= 'A' && *c <= 'Z' ? 0x20 : 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!strcmp(digits, names[i].name)) {
            *realp = names[i].value;
            return true;
        }
    return false;
}

/* --- filters ---------------------------------------------------------------------------------------------------- */

static int filter_int(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    int64_t integer, base = 10;
    bool found = false;
    double real;
    int r = jinja_take_int(run, values[1], "base", &base);

    if (r)
        return r;
    *valuep = jinja_given(values[0]) ? values[0] : jinja_int(0);
    if (self.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, self);
    if (jinja_as_int(self, &integer)) {
        *valuep = jinja_int(integer);
        return 0;
    }
    if (self.type == JINJA_TEXT) {
        if (base < 0 || base == 1 || base > 36)
            return 0;
        r = jinja_text_to_int(run, self.text, (int)base, &found, &integer);
        if (r || found) {
            *valuep = jinja_int(integer);
            return r;
        }
        if (!jinja_text_to_float(self.text, &real))
            return 0;
    } else if (self.type == JINJA_FLOAT) {
        real = self.real;
    } else {
        return 0;
    }
    if (!isfinite(real))
        return self.type == JINJA_FLOAT && isinf(real) ? jinja_fail(run, "cannot convert float infinity to integer")
                                                       : 0;
    if (fabs(real) >= 9223372036854775807.0)
        return jinja_fail(run, "filter 'int': an integer past 64 bits");
    *valuep = jinja_int((int64_t)real);
    return 0;
}

static int filter_float(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    double real;

    *valuep = jinja_given(values[0]) ? values[0] : jinja_float(0);
    if (self.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, self);
    if (jinja_is_number(self))
        *valuep = jinja_float(jinja_as_float(self));
    else if (self.type == JINJA_TEXT && jinja_text_to_float(self.text, &real))
        *valuep = jinja_float(real);
    return 0;
}

static int filter_abs(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    int64_t integer;

    if (self.type == JINJA_FLOAT) {
        *valuep = jinja_float(fabs(self.real));
        return 0;
    }
    if (self.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, self);
    if (!jinja_as_int(self, &integer))
        return jinja_fail(run, "bad operand type for abs(): '%s'", jinja_type_name(self));
    *valuep = jinja_int(integer);
    return integer < 0 ? jinja_negate(run, *valuep, true, valuep) : 0;
}

/* Python's round(): the decimal that is nearest, half to even; printf's digits are exact. */
static double round_decimal(double real, int64_t digits) {
    char text[700];
    double result = real;

    if (!isfinite(real) || digits > 320)
        return real;
    if (digits < 0) {
        double scale = pow(10, (double)-digits);

        return digits < -308 ? 0 * real : nearbyint(real / scale) * scale;
    }
    snprintf(text, sizeof(text), "%.*f", (int)digits, real);
    result = strtod(text, NULL);
    return result;
}

static int round_integer(JinjaRun *run, int64_t integer, int64_t digits, JinjaValue *valuep) {
    int64_t scale = 1, rest;

    *valuep = jinja_int(integer);
    if (digits >= 0)
        return 0;
    for (; digits < 0; digits++)
        if (__builtin_mul_overflow(scale, 10, &scale)) {
            *valuep = jinja_int(0);
            return 0;
        }
    rest = integer % scale;
    integer -= rest;
    if (rest > scale / 2 || (rest == scale / 2 && (integer / scale) % 2))
        return __builtin_add_overflow(integer, scale, &valuep->integer) ? jinja_fail(run, "round: past 64 bits") : 0;
    if (rest < -(scale / 2) || (rest == -(scale / 2) && (integer / scale) % 2))
        return __builtin_sub_overflow(integer, scale, &valuep->integer) ? jinja_fail(run, "round: past 64 bits") : 0;
    *valuep = jinja_int(integer);
    return 0;
}

static int filter_round(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    static const JinjaText common = { .data = "common", .len_bytes = 6, .n_chars = 6 };
    const JinjaText *method = &common;
    int64_t digits = 0, integer;
    double real, scale;
    int r = jinja_take_int(run, values[0], "precision", &digits);

    if (!r)
        r = jinja_take_text(run, values[1], "method", &method);
    if (r)
        return r;
    if (!jinja_text_is(method, "common") && !jinja_text_is(method, "ceil") && !jinja_text_is(method, "floor"))
        return jinja_fail(run, "filter 'round': method must be common, ceil or floor");
    if (self.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, self);
    if (!jinja_is_number(self))
        return jinja_fail(run, "filter 'round' needs a number, not '%s'", jinja_type_name(self));
    if (jinja_text_is(method, "common")) {
        if (jinja_as_int(self, &integer))
            return round_integer(run, integer, digits, valuep);
        *valuep = jinja_float(round_decimal(self.real, digits));
        return 0;
    }
    real = jinja_as_float(self);
    scale = pow(10, (double)digits);
    *valuep = jinja_float((jinja_text_is(method, "ceil") ? ceil(real * scale) : floor(real * scale)) / scale);
    return 0;
}

static int filter_filesizeformat(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    static const char prefixes[] = "kMGTPEZY";
    double bytes, base = is_set(values[0]) ? 1024 : 1000, unit = base;
    char text[80];
    size_t i = 0;

    if (self.type == JINJA_TEXT ? !jinja_text_to_float(self.text, &bytes) : !jinja_is_number(self))
        return jinja_fail(run, "filter 'filesizeformat' needs a number, not '%s'", jinja_type_name(self));
    bytes = self.type == JINJA_TEXT ? bytes : jinja_as_float(self);
    if (bytes == 1) {
        snprintf(text, sizeof(text), "1 Byte");
    } else if (bytes < base) {
        snprintf(text, sizeof(text), "%.0f Bytes", trunc(bytes));
    } else {
        for (unit = base * base; i < 7 && bytes >= unit; i++)
            unit *= base;
        if (base == 1024)
            snprintf(text, sizeof(text), "%.1f %ciB", base * bytes / unit, prefixes[i] == 'k' ? 'K' : prefixes[i]);
        else
            snprintf(text, sizeof(text), "%.1f %cB", base * bytes / unit, prefixes[i]);
    }
    return jinja_text_new(run, text, strlen(text), valuep);
}

/* --- table ------------------------------------------------------------------------------------------------------ */

const JinjaFilter jinja_number_filters[] = {
    { .name = "abs", .fn = filter_abs },
    { .name = "filesizeformat", .fn = filter_filesizeformat, .parameters = { "binary" } },
    { .name = "float", .fn = filter_float, .parameters = { "default" } },
    { .name = "int", .fn = filter_int, .parameters = { "default", "base" } },
    { .name = "round", .fn = filter_round, .parameters = { "precision", "method" } },
};
const size_t jinja_n_number_filters = ARRAY_LEN(jinja_number_filters);
