// SPDX-License-Identifier: Apache-2.0
/* Values as text, as Python's str() and repr() write them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/strings/decimal.h"
#include "text/jinja/jinja_unicode.h"
#include "text/jinja/jinja_value.h"

/* The shortest digits that read back as the number; *exponentp: of the first one. */
static size_t float_digits(double value, char digits[24], int *exponentp) {
    char text[40];
    size_t n = 0;

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
    return n;
}

size_t jinja_float_text(double value, char *text) {
    char digits[24];
    int exponent, n, at = 0;

    if (isnan(value))
        return (size_t)snprintf(text, 32, "nan");
    if (isinf(value))
        return (size_t)snprintf(text, 32, value < 0 ? "-inf" : "inf");
    if (signbit(value))
        text[at++] = '-';
    n = (int)float_digits(fabs(value), digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        text[at++] = digits[0];
        if (n > 1) {
            text[at++] = '.';
            memcpy(text + at, digits + 1, (size_t)n - 1);
            at += n - 1;
        }
        return (size_t)(at + snprintf(text + at, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent)));
    }
    if (exponent < 0) {
        text[at++] = '0';
        text[at++] = '.';
        for (int i = -1; i > exponent; i--)
            text[at++] = '0';
        memcpy(text + at, digits, (size_t)n);
        at += n;
    } else {
        for (int i = 0; i <= exponent; i++)
            text[at++] = i < n ? digits[i] : '0';
        text[at++] = '.';
        for (int i = exponent + 1; i < n; i++)
            text[at++] = digits[i];
        if (n <= exponent + 1)
            text[at++] = '0';
    }
    text[at] = 0;
    return (size_t)at;
}

/* What one character of a text is written as between quotes. */
static void write_escaped(JinjaWriter *writer, const JinjaText *text, size_t at, size_t n, char quote) {
    size_t len_bytes;
    uint32_t code_point = jinja_text_code_point(text, at, &len_bytes);
    char escape[16];

    if (code_point == (uint32_t)quote || code_point == '\\')
        snprintf(escape, sizeof(escape), "\\%c", (char)code_point);
    else if (code_point == '\n' || code_point == '\r' || code_point == '\t')
        snprintf(escape, sizeof(escape), "\\%c", code_point == '\n' ? 'n' : code_point == '\r' ? 'r' : 't');
    else if (jinja_unicode_is_printable(code_point)) {
        jinja_write_part(writer, text, at, at + n);
        return;
    } else if (code_point < 0x100)
        snprintf(escape, sizeof(escape), "\\x%02x", code_point);
    else
        snprintf(escape, sizeof(escape), code_point < 0x10000 ? "\\u%04x" : "\\U%08x", code_point);
    jinja_write_chars(writer, escape);
}

static void write_text_repr(JinjaWriter *writer, const JinjaText *text) {
    bool has_single = memchr(text->data, '\'', text->len_bytes), has_double = memchr(text->data, '"', text->len_bytes);
    char quote = has_single && !has_double ? '"' : '\'';
    size_t from = 0;

    jinja_write_ascii(writer, &quote, 1);
    for (size_t at = 0; at < text->len_bytes && !writer->failure;) {
        size_t n = jinja_text_char(text, at);
        unsigned char c = (unsigned char)text->data[at];

        if (c < 0x80 ? c < 0x20 || c == 0x7f || c == '\\' || c == (unsigned char)quote : true) {
            jinja_write_part(writer, text, from, at);
            write_escaped(writer, text, at, n, quote);
            from = at + n;
        }
        at += n;
    }
    jinja_write_part(writer, text, from, text->len_bytes);
    jinja_write_ascii(writer, &quote, 1);
}

static void write_items(JinjaWriter *writer, const JinjaList *list, const char *open, const char *close) {
    jinja_write_chars(writer, open);
    for (uint32_t i = 0; i < list->n && !writer->failure; i++) {
        if (i)
            jinja_write_chars(writer, ", ");
        jinja_write_repr(writer, list->items[i]);
    }
    jinja_write_chars(writer, close);
}

static void write_dict(JinjaWriter *writer, const JinjaDict *dict) {
    jinja_write_chars(writer, "{");
    for (uint32_t i = 0; i < dict->n && !writer->failure; i++) {
        if (i)
            jinja_write_chars(writer, ", ");
        jinja_write_repr(writer, dict->keys[i]);
        jinja_write_chars(writer, ": ");
        jinja_write_repr(writer, dict->values[i]);
    }
    jinja_write_chars(writer, "}");
}

static void write_number(JinjaWriter *writer, JinjaValue value) {
    char text[40];

    if (value.type == JINJA_FLOAT)
        jinja_float_text(value.real, text);
    else
        snprintf(text, sizeof(text), "%" PRId64, value.integer);
    jinja_write_chars(writer, text);
}

static void write_range(JinjaWriter *writer, const JinjaRange *range) {
    char text[80];

    if (range->step == 1)
        snprintf(text, sizeof(text), "range(%" PRId64 ", %" PRId64 ")", range->start, range->stop);
    else
        snprintf(text, sizeof(text), "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")", range->start, range->stop,
                 range->step);
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
        writer->failure =
            jinja_fail(writer->run, "a generator cannot be printed: '|list' or '|join' make a value of it");
        break;
    default:
        writer->failure = jinja_fail(writer->run, "a value of type '%s' cannot be printed", jinja_type_name(value));
        break;
    }
}

void jinja_write_repr(JinjaWriter *writer, JinjaValue value) {
    if (writer->failure)
        return;
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
    case JINJA_FLOAT:
        write_number(writer, value);
        return;
    case JINJA_TEXT:
        write_text_repr(writer, value.text);
        return;
    default:
        break;
    }
    writer->failure = jinja_enter(writer->run);
    if (writer->failure)
        return;
    write_compound(writer, value);
    jinja_leave(writer->run);
}

void jinja_write_value(JinjaWriter *writer, JinjaValue value) {
    if (value.type == JINJA_TEXT)
        jinja_write(writer, value.text);
    else if (value.type != JINJA_UNDEFINED)
        jinja_write_repr(writer, value);
}

int jinja_to_text(JinjaRun *run, JinjaValue value, const JinjaText **textp) {
    static const JinjaText nothing = { .data = "" };
    JinjaWriter writer;
    JinjaValue made;
    int r;

    if (value.type == JINJA_TEXT || value.type == JINJA_UNDEFINED) {
        *textp = value.type == JINJA_TEXT ? value.text : &nothing;
        return 0;
    }
    jinja_writer_init(&writer, run);
    jinja_write_repr(&writer, value);
    r = jinja_writer_finish(&writer, &made);
    if (!r)
        *textp = made.text;
    return r;
}
