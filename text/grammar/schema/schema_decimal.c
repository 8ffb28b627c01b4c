// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema_decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes digits x 10^exponent. False: too many digits. */
static bool place_digits(SchemaDecimal *decimal, const char *digits, int exponent) {
    int n = (int)strlen(digits), n_whole;

    while (n && digits[n - 1] == '0')
        n--, exponent++;
    while (n && *digits == '0')
        digits++, n--;
    if (!n) {
        *decimal = (SchemaDecimal){ .whole = "0" };
        return true;
    }
    n_whole = n + exponent;
    if (n_whole > SCHEMA_DIGITS_MAX || -exponent > SCHEMA_DIGITS_MAX)
        return false;
    memset(decimal->whole, 0, sizeof(decimal->whole));
    memset(decimal->fraction, 0, sizeof(decimal->fraction));
    if (n_whole <= 0)
        decimal->whole[0] = '0';
    for (int i = 0; i < n_whole; i++)
        decimal->whole[i] = i < n ? digits[i] : '0';
    for (int i = 0; i < -exponent; i++) {
        int at = n_whole + i;

        decimal->fraction[i] = at >= 0 ? digits[at] : '0';
    }
    return true;
}

bool schema_decimal_read(SchemaDecimal *decimal, const json_t *number) {
    char text[64], digits[64];
    size_t n = 0;
    char *exponent;
    int shift;

    *decimal = (SchemaDecimal){ 0 };
    if (json_is_integer(number)) {
        snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(number));
        decimal->is_negative = text[0] == '-';
        return place_digits(decimal, text + (text[0] == '-'), 0);
    }
    for (int precision = 0; precision <= 17; precision++) {
        snprintf(text, sizeof(text), "%.*e", precision, json_real_value(number));
        if (strtod(text, NULL) == json_real_value(number))
            break;
    }
    exponent = strchr(text, 'e');
    if (!exponent)
        return false;
    shift = (int)strtol(exponent + 1, NULL, 10);
    for (const char *at = text; at < exponent; at++)
        if (*at >= '0' && *at <= '9')
            digits[n++] = *at;
    digits[n] = '\0';
    decimal->is_negative = text[0] == '-';
    return place_digits(decimal, digits, shift - (int)n + 1);
}

bool schema_decimal_is_zero(const SchemaDecimal *decimal) {
    return decimal->whole[0] == '0' && !decimal->fraction[0];
}

int schema_decimal_compare(const SchemaDecimal *a, const SchemaDecimal *b) {
    size_t na = strlen(a->whole), nb = strlen(b->whole);
    int order;

    if (a->is_negative != b->is_negative)
        return a->is_negative ? -1 : 1;
    order = na != nb ? (na < nb ? -1 : 1) : strcmp(a->whole, b->whole);
    if (!order)
        order = strcmp(a->fraction, b->fraction);
    return a->is_negative ? -order : order;
}
