// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/values/jinja_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/min_max.h"
#include "base/strings/decimal.h"
#include "text/jinja/values/jinja_run.h"
#include "text/jinja/values/jinja_unicode.h"

/* --- numbers and texts ------------------------------------------------------------------------------------------ */

/* Writes the shortest digits that read back as the number. */
static void write_float(JinjaWriter *writer, double value, bool is_json) {
    int exponent, n_digits = 0;
    char text[64];
    double back;

    if (!isfinite(value)) {
        jinja_write_chars(writer, value < 0 ? "-" : "");
        jinja_write_chars(writer, isnan(value) ? (is_json ? "NaN" : "nan") : is_json ? "Infinity" : "inf");
        return;
    }
    do
        snprintf(text, sizeof(text), "%.*e", n_digits, value);
    while (++n_digits < 17 && !(decimal_parse(text, &back) && back == value));
    exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    if (exponent >= -4 && exponent < 16)
        snprintf(text, sizeof(text), "%.*f", MAX(n_digits - 1 - exponent, 1), value);
    jinja_write_chars(writer, text);
}

/* Makes the escape of a character; false: it needs none. */
static bool make_escape(char escape[16], uint32_t code_point, char quote, JinjaQuotes quotes) {
    static const char plain[] = "\\\n\r\t\b\f", names[] = "\\nrtbf";
    const bool is_json = quotes != JINJA_QUOTES_PYTHON, is_ascii = code_point >= 0x20 && code_point < 0x7f;
    const char *special = code_point && code_point < 0x80 ? strchr(plain, (int)code_point) : NULL;

    if (special && (is_json || special - plain < 4)) /* Python has no names for \b and \f */
        snprintf(escape, 16, "\\%c", names[special - plain]);
    else if (code_point == (uint32_t)quote)
        snprintf(escape, 16, "\\%c", quote);
    else if (is_ascii || (is_json ? code_point >= 0x20 && (quotes == JINJA_QUOTES_JSON || code_point == 0x7f)
                                  : jinja_unicode_is_printable(code_point)))
        return false;
    else if (is_json && code_point >= 0x10000)
        snprintf(escape, 16, "\\u%04x\\u%04x", 0xd800 + ((code_point - 0x10000) >> 10),
                 0xdc00 + ((code_point - 0x10000) & 0x3ff));
    else
        snprintf(escape, 16,
                 !is_json && code_point < 0x100 ? "\\x%02x"
                 : code_point < 0x10000         ? "\\u%04x"
                                                : "\\U%08x",
                 code_point);
    return true;
}

/* Writes a text between quotes, with escapes. */
static void write_quoted(JinjaWriter *writer, const JinjaText *text, JinjaQuotes quotes) {
    const bool has_single = memchr(text->data, '\'', text->len_bytes),
               has_double = memchr(text->data, '"', text->len_bytes);
    const char quote[2] = { quotes != JINJA_QUOTES_PYTHON || (has_single && !has_double) ? '"' : '\'', 0 };
    size_t from = 0;
    char escape[16];

    jinja_write_chars(writer, quote);
    for (size_t at = 0, n; at < text->len_bytes; at += n) {
        if (!make_escape(escape, jinja_text_code_point(text, at, &n), quote[0], quotes))
            continue;
        jinja_write_part(writer, text, from, at);
        jinja_write_chars(writer, escape);
        from = at + n;
    }
    jinja_write_part(writer, text, from, text->len_bytes);
    jinja_write_chars(writer, quote);
}

/* --- lists and dicts -------------------------------------------------------------------------------------------- */

/* Begins an item, or the closing bracket, on a line of its own if the style has indents. */
static void write_line(JinjaWriter *writer, const JinjaStyle *style, uint32_t depth) {
    if (!style->indent)
        return;
    jinja_write_chars(writer, "\n");
    for (; depth; depth--)
        jinja_write(writer, style->indent);
}

static void write_list(JinjaWriter *writer, JinjaValue value, const JinjaStyle *style, uint32_t depth) {
    const bool is_tuple = value.type == JINJA_TUPLE && style->quotes == JINJA_QUOTES_PYTHON;
    const JinjaList *list = value.list;

    jinja_write_chars(writer, is_tuple ? "(" : "[");
    for (uint32_t i = 0; i < list->n; i++) {
        if (i)
            jinja_write(writer, style->item_separator);
        write_line(writer, style, depth + 1);
        jinja_write_styled(writer, list->items[i], style, depth + 1);
    }
    if (list->n)
        write_line(writer, style, depth);
    jinja_write_chars(writer, !is_tuple ? "]" : list->n == 1 ? ",)" : ")");
}

/* Writes a key; one that JSON does not have as such stands in quotes. */
static void write_key(JinjaWriter *writer, JinjaValue key, const JinjaStyle *style) {
    const char *quote = key.type == JINJA_TEXT || style->quotes == JINJA_QUOTES_PYTHON ? "" : "\"";

    jinja_write_chars(writer, quote);
    jinja_write_styled(writer, key, style, 0);
    jinja_write_chars(writer, quote);
}

static void write_dict(JinjaWriter *writer, const JinjaDict *dict, const JinjaStyle *style, uint32_t depth) {
    JinjaSortItem *items = jinja_take(writer->run, (size_t)dict->n + 1, sizeof(*items));

    for (uint32_t i = 0; i < dict->n; i++)
        items[i] = (JinjaSortItem){ dict->keys[i], dict->values[i] };
    if (style->sorts_keys)
        items = jinja_sort(writer->run, items, dict->n, false);
    jinja_write_chars(writer, "{");
    for (uint32_t i = 0; i < dict->n; i++) {
        if (i)
            jinja_write(writer, style->item_separator);
        write_line(writer, style, depth + 1);
        write_key(writer, items[i].key, style);
        jinja_write(writer, style->key_separator);
        jinja_write_styled(writer, items[i].item, style, depth + 1);
    }
    if (dict->n)
        write_line(writer, style, depth);
    jinja_write_chars(writer, "}");
}

static _Noreturn void fail_unprintable(JinjaRun *run, JinjaValue value, bool is_json) {
    const bool has_items = value.type == JINJA_RANGE || value.type == JINJA_STREAM || value.type == JINJA_VIEW;

    if (is_json)
        jinja_fail(run, "tojson: a value of type '%s' is no JSON", jinja_type_name(value));
    jinja_fail(run, "a value of type '%s' cannot be printed%s", jinja_type_name(value),
               has_items ? ": '|list' or '|join' make another value of it" : "");
}

void jinja_write_styled(JinjaWriter *writer, JinjaValue value, const JinjaStyle *style, uint32_t depth) {
    const bool is_json = style->quotes != JINJA_QUOTES_PYTHON;
    char text[32];

    jinja_spend(writer->run, 1);
    switch (value.type) {
    case JINJA_NONE:
        jinja_write_chars(writer, is_json ? "null" : "None");
        return;
    case JINJA_BOOL:
        jinja_write_chars(writer, value.boolean ? (is_json ? "true" : "True") : is_json ? "false" : "False");
        return;
    case JINJA_INT:
        snprintf(text, sizeof(text), "%" PRId64, value.integer);
        jinja_write_chars(writer, text);
        return;
    case JINJA_FLOAT:
        write_float(writer, value.real, is_json);
        return;
    case JINJA_TEXT:
        write_quoted(writer, value.text, style->quotes);
        return;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
        jinja_enter(writer->run);
        if (value.type == JINJA_DICT)
            write_dict(writer, value.dict, style, depth);
        else
            write_list(writer, value, style, depth);
        jinja_leave(writer->run);
        return;
    case JINJA_UNDEFINED:
        if (!is_json) {
            jinja_write_chars(writer, "Undefined");
            return;
        }
        __attribute__((fallthrough));
    default:
        fail_unprintable(writer->run, value, is_json);
    }
}

void jinja_write_value(JinjaWriter *writer, JinjaValue value) {
    static const JinjaText comma = JINJA_LITERAL(", "), colon = JINJA_LITERAL(": ");
    static const JinjaStyle python = { .item_separator = &comma, .key_separator = &colon };

    if (value.type == JINJA_TEXT)
        jinja_write(writer, value.text);
    else if (value.type != JINJA_UNDEFINED)
        jinja_write_styled(writer, value, &python, 0);
}

const JinjaText *jinja_to_text(JinjaRun *run, JinjaValue value) {
    JinjaWriter writer;

    if (value.type == JINJA_TEXT)
        return value.text;
    jinja_writer_init(&writer, run);
    jinja_write_value(&writer, value);
    return jinja_writer_finish(&writer);
}
