// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/values/jinja_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/strings/decimal.h"
#include "text/jinja/values/jinja_run.h"
#include "text/jinja/values/jinja_unicode.h"

/* --- numbers ---------------------------------------------------------------------------------------------------- */

/* Finds the shortest digits that read back as the number; *exponentp belongs to the first digit. */
static int float_digits(double value, char digits[24], int *exponentp) {
    char text[40];
    int n = 0;

    for (int precision = 0; precision < 17; precision++) {
        double back;

        snprintf(text, sizeof(text), "%.*e", precision, value);
        if (decimal_parse(text, &back) && back == value)
            break;
    }
    for (const char *c = text; *c != 'e'; c++)
        if (*c != '.')
            digits[n++] = *c;
    *exponentp = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
    return n;
}

size_t jinja_float_text(double value, char text[static 32]) {
    const char *sign = signbit(value) ? "-" : "";
    char digits[24];
    int exponent, n;

    if (isnan(value) || isinf(value))
        return (size_t)snprintf(text, 32, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    n = float_digits(fabs(value), digits, &exponent);
    if (exponent < -4 || exponent >= 16)
        return (size_t)snprintf(text, 32, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "", digits + 1,
                                exponent < 0 ? '-' : '+', abs(exponent));
    if (exponent < 0)
        return (size_t)snprintf(text, 32, "%s0.%.*s%s", sign, -exponent - 1, "000", digits);
    if (n <= exponent + 1)
        return (size_t)snprintf(text, 32, "%s%s%.*s.0", sign, digits, exponent + 1 - n, "0000000000000000");
    return (size_t)snprintf(text, 32, "%s%.*s.%s", sign, exponent + 1, digits, digits + exponent + 1);
}

/* --- texts ------------------------------------------------------------------------------------------------------ */

/* Writes one character of a text that stands between quotes. */
static void write_escaped(JinjaWriter *writer, const JinjaText *text, size_t at, char quote) {
    static const char plain[] = "\n\r\t", named[] = "nrt";
    size_t n;
    uint32_t code_point = jinja_text_code_point(text, at, &n);
    const char *special = code_point && code_point < 0x80 ? strchr(plain, (int)code_point) : NULL;
    char escape[16];

    if (code_point == (uint32_t)quote || code_point == '\\' || special)
        snprintf(escape, sizeof(escape), "\\%c", special ? named[special - plain] : (char)code_point);
    else if (jinja_unicode_is_printable(code_point)) {
        jinja_write_part(writer, text, at, at + n);
        return;
    } else
        snprintf(escape, sizeof(escape),
                 code_point < 0x100     ? "\\x%02x"
                 : code_point < 0x10000 ? "\\u%04x"
                                        : "\\U%08x",
                 code_point);
    jinja_write_chars(writer, escape);
}

static void write_text_repr(JinjaWriter *writer, const JinjaText *text) {
    bool has_single = memchr(text->data, '\'', text->len_bytes), has_double = memchr(text->data, '"', text->len_bytes);
    const char quote[2] = { has_single && !has_double ? '"' : '\'', 0 };
    size_t from = 0;

    jinja_write_chars(writer, quote);
    for (size_t at = 0; at < text->len_bytes;) {
        size_t n = jinja_text_char(text, at);
        unsigned char c = (unsigned char)text->data[at];

        if (c < 0x20 || c >= 0x7f || c == '\\' || c == (unsigned char)quote[0]) {
            jinja_write_part(writer, text, from, at);
            write_escaped(writer, text, at, quote[0]);
            from = at + n;
        }
        at += n;
    }
    jinja_write_part(writer, text, from, text->len_bytes);
    jinja_write_chars(writer, quote);
}

/* --- lists and dicts -------------------------------------------------------------------------------------------- */

static void write_items(JinjaWriter *writer, const JinjaList *list, const char *open, const char *close) {
    jinja_write_chars(writer, open);
    for (uint32_t i = 0; i < list->n; i++) {
        jinja_write_chars(writer, i ? ", " : "");
        jinja_write_repr(writer, list->items[i]);
    }
    jinja_write_chars(writer, close);
}

static void write_dict(JinjaWriter *writer, const JinjaDict *dict) {
    jinja_write_chars(writer, "{");
    for (uint32_t i = 0; i < dict->n; i++) {
        jinja_write_chars(writer, i ? ", " : "");
        jinja_write_repr(writer, dict->keys[i]);
        jinja_write_chars(writer, ": ");
        jinja_write_repr(writer, dict->values[i]);
    }
    jinja_write_chars(writer, "}");
}

static void write_range(JinjaWriter *writer, const JinjaRange *range) {
    char text[80];
    int n = snprintf(text, sizeof(text), "range(%" PRId64 ", %" PRId64, range->start, range->stop);

    if (range->step != 1)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ", %" PRId64, range->step);
    snprintf(text + n, sizeof(text) - (size_t)n, ")");
    jinja_write_chars(writer, text);
}

static void write_compound(JinjaWriter *writer, JinjaValue value) {
    static const char *const views[] = { "dict_keys([", "dict_values([", "dict_items([" };

    switch (value.type) {
    case JINJA_LIST:
        write_items(writer, value.list, "[", "]");
        break;
    case JINJA_TUPLE:
        write_items(writer, value.list, "(", value.list->n == 1 ? ",)" : ")");
        break;
    case JINJA_VIEW:
        write_items(writer, value.list, views[value.list->view], "])");
        break;
    case JINJA_DICT:
        write_dict(writer, value.dict);
        break;
    case JINJA_NAMESPACE:
        jinja_write_chars(writer, "<Namespace ");
        write_dict(writer, value.dict);
        jinja_write_chars(writer, ">");
        break;
    case JINJA_RANGE:
        write_range(writer, value.range);
        break;
    case JINJA_STREAM: /* Python shows an address, which nobody wants in a prompt */
        jinja_fail(writer->run, "a generator cannot be printed: '|list' or '|join' make a value of it");
    default:
        jinja_fail(writer->run, "a value of type '%s' cannot be printed", jinja_type_name(value));
    }
}

void jinja_write_repr(JinjaWriter *writer, JinjaValue value) {
    char text[32];

    switch (value.type) {
    case JINJA_UNDEFINED:
    case JINJA_MISSING:
        jinja_write_chars(writer, "Undefined");
        return;
    case JINJA_NONE:
        jinja_write_chars(writer, "None");
        return;
    case JINJA_BOOL:
        jinja_write_chars(writer, value.boolean ? "True" : "False");
        return;
    case JINJA_INT:
        snprintf(text, sizeof(text), "%" PRId64, value.integer);
        jinja_write_chars(writer, text);
        return;
    case JINJA_FLOAT:
        jinja_float_text(value.real, text);
        jinja_write_chars(writer, text);
        return;
    case JINJA_TEXT:
        write_text_repr(writer, value.text);
        return;
    default:
        jinja_enter(writer->run);
        write_compound(writer, value);
        jinja_leave(writer->run);
        return;
    }
}

void jinja_write_value(JinjaWriter *writer, JinjaValue value) {
    if (value.type == JINJA_TEXT)
        jinja_write(writer, value.text);
    else if (value.type != JINJA_UNDEFINED)
        jinja_write_repr(writer, value);
}

const JinjaText *jinja_repr(JinjaRun *run, JinjaValue value) {
    JinjaWriter writer;

    jinja_writer_init(&writer, run);
    jinja_write_repr(&writer, value);
    return jinja_writer_finish(&writer);
}

const JinjaText *jinja_to_text(JinjaRun *run, JinjaValue value) {
    static const JinjaText nothing = JINJA_LITERAL("");

    return value.type == JINJA_TEXT ? value.text : value.type == JINJA_UNDEFINED ? &nothing : jinja_repr(run, value);
}
