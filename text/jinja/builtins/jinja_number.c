// SPDX-License-Identifier: Apache-2.0
/* Filters of numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/strings/decimal.h"
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/values/jinja_operator.h"

#define ROUND_DIGITS_MAX 320 /* a double has no digits behind these */
#define TWO_TO_63 9223372036854775808.0

/* Reads a decimal number, which may have white space around it; false: the value is no such text. An integer past 64
 * bits is read as a float. */
static bool text_number(JinjaRun *run, JinjaValue value, JinjaValue *numberp) {
    const JinjaText *text;
    char digits[400];
    double real;

    if (value.type != JINJA_TEXT)
        return false;
    text = jinja_str_strip(run, value, &JINJA_NO_VALUE).text;
    if (text->len_bytes >= sizeof(digits))
        return false;
    memcpy(digits, text->data, text->len_bytes);
    digits[text->len_bytes] = 0;
    if (strlen(digits) != text->len_bytes || !decimal_parse(digits, &real))
        return false;
    *numberp = jinja_float(real);
    (void)jinja_number_read(digits, text->len_bytes, numberp);
    return true;
}

JinjaValue jinja_filter_int(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    JinjaValue number = self;
    int64_t integer;

    jinja_check_defined(run, self);
    if (!jinja_is_number(self) && !text_number(run, self, &number))
        return jinja_given(values[0]) ? values[0] : jinja_int(0);
    if (jinja_as_int(number, &integer))
        return jinja_int(integer);
    if (!(fabs(number.real) < TWO_TO_63))
        jinja_fail(run, "filter 'int': an integer past 64 bits");
    return jinja_int((int64_t)number.real);
}

JinjaValue jinja_filter_float(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    JinjaValue number = self;

    jinja_check_defined(run, self);
    if (!jinja_is_number(self) && !text_number(run, self, &number))
        return jinja_given(values[0]) ? values[0] : jinja_float(0);
    return jinja_float(jinja_as_float(number));
}

JinjaValue jinja_filter_abs(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    int64_t integer;

    if (self.type == JINJA_FLOAT)
        return jinja_float(fabs(self.real));
    return jinja_as_int(self, &integer) && integer >= 0 ? jinja_int(integer) : jinja_negate(run, self);
}

/* Rounds as Python's round() does, to the nearest decimal, half to even; printf's digits are exact. */
static double round_decimal(double real, int64_t digits) {
    char text[700];

    if (!isfinite(real))
        return real;
    snprintf(text, sizeof(text), "%.*f", (int)digits, real);
    return strtod(text, NULL);
}

JinjaValue jinja_filter_round(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const int64_t digits = jinja_take_int(run, values[0], "precision", 0);

    if (digits < 0 || digits > ROUND_DIGITS_MAX)
        jinja_fail(run, "filter 'round': a precision below 0 or above %d is not supported in chat templates",
                   ROUND_DIGITS_MAX);
    jinja_check_defined(run, self);
    if (!jinja_is_number(self))
        jinja_fail(run, "filter 'round' needs a number, not '%s'", jinja_type_name(self));
    return self.type == JINJA_FLOAT ? jinja_float(round_decimal(self.real, digits))
                                    : jinja_filter_int(run, self, values);
}
