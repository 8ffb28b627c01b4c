// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/builtins/jinja_json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/strings/decimal.h"
#include "base/strings/utf8.h"
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/values/jinja_print.h"
#include "text/jinja/values/jinja_sort.h"

/* --- writing ---------------------------------------------------------------------------------------------------- */

/* The settings of Python's json.dumps(). */
typedef struct JsonStyle {
    bool ascii_only, sorts_keys;
    const JinjaText *indent; /* NULL: all on one line */
    const JinjaText *item_separator, *key_separator;
} JsonStyle;

static void write_text(JinjaWriter *writer, const JinjaText *text, bool ascii_only) {
    static const char plain[] = "\"\\\b\f\n\r\t", named[] = "\"\\bfnrt";
    size_t from = 0, n;

    jinja_write_chars(writer, "\"");
    for (size_t at = 0; at < text->len_bytes; at += n) {
        uint32_t code_point = jinja_text_code_point(text, at, &n);
        const char *special = code_point && code_point < 0x80 ? strchr(plain, (int)code_point) : NULL;
        char escape[16];

        if (special)
            snprintf(escape, sizeof(escape), "\\%c", named[special - plain]);
        else if (code_point < 0x20 || (ascii_only && code_point > 0x7f && code_point < 0x10000))
            snprintf(escape, sizeof(escape), "\\u%04x", code_point);
        else if (ascii_only && code_point >= 0x10000)
            snprintf(escape, sizeof(escape), "\\u%04x\\u%04x", 0xd800 + ((code_point - 0x10000) >> 10),
                     0xdc00 + ((code_point - 0x10000) & 0x3ff));
        else
            continue;
        jinja_write_part(writer, text, from, at);
        jinja_write_chars(writer, escape);
        from = at + n;
    }
    jinja_write_part(writer, text, from, text->len_bytes);
    jinja_write_chars(writer, "\"");
}

static void write_line(JinjaWriter *writer, const JsonStyle *style, uint32_t depth) {
    if (!style->indent)
        return;
    jinja_write_chars(writer, "\n");
    for (; depth; depth--)
        jinja_write(writer, style->indent);
}

static void write_value(JinjaWriter *writer, JinjaValue value, const JsonStyle *style, uint32_t depth);

static void write_list(JinjaWriter *writer, const JinjaList *list, const JsonStyle *style, uint32_t depth) {
    jinja_write_chars(writer, "[");
    for (uint32_t i = 0; i < list->n; i++) {
        if (i)
            jinja_write(writer, style->item_separator);
        write_line(writer, style, depth + 1);
        write_value(writer, list->items[i], style, depth + 1);
    }
    if (list->n)
        write_line(writer, style, depth);
    jinja_write_chars(writer, "]");
}

static void write_key(JinjaWriter *writer, JinjaValue key, const JsonStyle *style) {
    const char *quote = key.type == JINJA_TEXT ? "" : "\"";

    if (key.type != JINJA_TEXT && key.type != JINJA_NONE && !jinja_is_number(key))
        jinja_fail(writer->run, "tojson: keys must be strings, not '%s'", jinja_type_name(key));
    jinja_write_chars(writer, quote);
    write_value(writer, key, style, 0);
    jinja_write_chars(writer, quote);
}

static void write_dict(JinjaWriter *writer, const JinjaDict *dict, const JsonStyle *style, uint32_t depth) {
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
        write_value(writer, items[i].item, style, depth + 1);
    }
    if (dict->n)
        write_line(writer, style, depth);
    jinja_write_chars(writer, "}");
}

static void write_value(JinjaWriter *writer, JinjaValue value, const JsonStyle *style, uint32_t depth) {
    jinja_spend(writer->run, 1);
    switch (value.type) {
    case JINJA_NONE:
        jinja_write_chars(writer, "null");
        return;
    case JINJA_BOOL:
        jinja_write_chars(writer, value.boolean ? "true" : "false");
        return;
    case JINJA_FLOAT:
        if (!isfinite(value.real)) {
            jinja_write_chars(writer, isnan(value.real) ? "NaN" : value.real < 0 ? "-Infinity" : "Infinity");
            return;
        }
        __attribute__((fallthrough));
    case JINJA_INT:
        jinja_write_repr(writer, value);
        return;
    case JINJA_TEXT:
        write_text(writer, value.text, style->ascii_only);
        return;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
        jinja_enter(writer->run);
        if (value.type == JINJA_DICT)
            write_dict(writer, value.dict, style, depth);
        else
            write_list(writer, value.list, style, depth);
        jinja_leave(writer->run);
        return;
    default:
        jinja_fail(writer->run, "tojson: a value of type '%s' is no JSON", jinja_type_name(value));
    }
}

JinjaValue jinja_filter_tojson(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    static const JinjaText comma_space = JINJA_LITERAL(", "), comma = JINJA_LITERAL(","), colon = JINJA_LITERAL(": "),
                           space = JINJA_LITERAL(" ");
    const bool is_indented = jinja_is_some(values[1]);
    JsonStyle style = { .ascii_only = jinja_is_set(values[0]),
                        .sorts_keys = jinja_is_set(values[3]),
                        .item_separator = is_indented ? &comma : &comma_space,
                        .key_separator = &colon };
    JinjaWriter writer;

    if (is_indented && values[1].type == JINJA_TEXT) {
        style.indent = values[1].text;
    } else if (is_indented) {
        jinja_writer_init(&writer, run);
        jinja_write_fill(&writer, &space, jinja_take_int(run, values[1], "indent", 0));
        style.indent = jinja_writer_finish(&writer);
    }
    if (jinja_is_some(values[2])) {
        JinjaList list = jinja_items(run, values[2]);

        if (list.n != 2 || list.items[0].type != JINJA_TEXT || list.items[1].type != JINJA_TEXT)
            jinja_fail(run, "tojson: separators must be two strings");
        style.item_separator = list.items[0].text;
        style.key_separator = list.items[1].text;
    }
    jinja_writer_init(&writer, run);
    write_value(&writer, self, &style, 0);
    return jinja_str(jinja_writer_finish(&writer));
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

#define JSON_DEPTH_MAX 100

typedef struct JsonReader {
    JinjaRun *run;
    const char *data;
    size_t len_bytes, at;
    uint32_t depth;
} JsonReader;

static _Noreturn void json_fail(const JsonReader *reader, const char *what) {
    jinja_throw(reader->run, err_set(reader->run->err, JINJA_E_RUN, "byte %zu: %s", reader->at, what));
}

/* The byte at a place; 0: the text ends there. */
static char json_byte(const JsonReader *reader, size_t at) {
    return at < reader->len_bytes ? reader->data[at] : 0;
}

static void skip_blanks(JsonReader *reader) {
    for (char c; (c = json_byte(reader, reader->at)) && strchr(" \t\n\r", c);)
        reader->at++;
}

static bool takes(JsonReader *reader, const char *word) {
    size_t n = strlen(word);

    if (reader->len_bytes - reader->at < n || memcmp(reader->data + reader->at, word, n) != 0)
        return false;
    reader->at += n;
    return true;
}

/* Reads four hexadecimal digits; false: there are none. */
static bool read_hex(const JsonReader *reader, size_t at, uint32_t *valuep) {
    *valuep = 0;
    for (size_t i = at; i < at + 4; i++) {
        const char c = json_byte(reader, i);

        if (!isxdigit((unsigned char)c))
            return false;
        *valuep = *valuep << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return true;
}

static void read_escape(JsonReader *reader, JinjaWriter *writer) {
    static const char named[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    const char c = json_byte(reader, reader->at++);
    const char *special = c ? strchr(named, c) : NULL;
    uint32_t code_point, low;

    if (special) {
        jinja_write_code_point(writer, (uint32_t)plain[special - named], false);
        return;
    }
    if (c != 'u' || !read_hex(reader, reader->at, &code_point))
        json_fail(reader, "an escape that JSON does not have");
    reader->at += 4;
    if (code_point >= 0xd800 && code_point < 0xdc00 && json_byte(reader, reader->at) == '\\' &&
        json_byte(reader, reader->at + 1) == 'u' && read_hex(reader, reader->at + 2, &low) && low >= 0xdc00 &&
        low < 0xe000) {
        reader->at += 6;
        code_point = 0x10000 + ((code_point - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code_point >= 0xd800 && code_point < 0xe000)
        json_fail(reader, "half of a surrogate pair");
    jinja_write_code_point(writer, code_point, false);
}

static const JinjaText *read_text(JsonReader *reader) {
    JinjaWriter writer;

    jinja_writer_init(&writer, reader->run);
    for (;;) {
        JinjaText part = { .data = reader->data + reader->at };
        size_t n = 1;

        while (reader->at < reader->len_bytes && (unsigned char)reader->data[reader->at] >= 0x20 &&
               reader->data[reader->at] != '"' && reader->data[reader->at] != '\\') {
            n = utf8_sequence(reader->data + reader->at, reader->len_bytes - reader->at);
            if (!n)
                json_fail(reader, "a text that is no UTF-8");
            reader->at += n;
            part.len_bytes += (uint32_t)n;
            part.n_chars++;
        }
        if (reader->at == reader->len_bytes)
            json_fail(reader, "a text that does not end");
        jinja_write(&writer, &part);
        if ((unsigned char)reader->data[reader->at] < 0x20)
            json_fail(reader, "a control character in a text");
        if (reader->data[reader->at++] == '"')
            return jinja_writer_finish(&writer);
        read_escape(reader, &writer);
    }
}

static size_t skip_digits(const JsonReader *reader, size_t at) {
    while (isdigit((unsigned char)json_byte(reader, at)))
        at++;
    return at;
}

static JinjaValue read_number(JsonReader *reader) {
    size_t digits = reader->at + (json_byte(reader, reader->at) == '-'), at = skip_digits(reader, digits), n;
    bool is_float = false;
    char text[320];
    double real;
    int64_t integer;

    if (at == digits || (at > digits + 1 && reader->data[digits] == '0'))
        json_fail(reader, "no JSON value");
    if (json_byte(reader, at) == '.' && isdigit((unsigned char)json_byte(reader, at + 1))) {
        is_float = true;
        at = skip_digits(reader, at + 1);
    }
    if ((json_byte(reader, at) | 0x20) == 'e') {
        const char sign = json_byte(reader, at + 1);

        digits = at + 1 + (sign == '+' || sign == '-');
        if (skip_digits(reader, digits) > digits) {
            is_float = true;
            at = skip_digits(reader, digits);
        }
    }
    n = at - reader->at;
    if (n >= sizeof(text))
        json_fail(reader, "a number of too many digits");
    memcpy(text, reader->data + reader->at, n);
    text[n] = 0;
    reader->at = at;
    if (is_float) {
        if (!decimal_parse(text, &real))
            json_fail(reader, "a number that is too large");
        return jinja_float(real);
    }
    errno = 0;
    integer = strtoll(text, NULL, 10);
    if (errno)
        json_fail(reader, "an integer past 64 bits");
    return jinja_int(integer);
}

static JinjaValue read_value(JsonReader *reader);

static JinjaValue read_list(JsonReader *reader) {
    JinjaValue list = jinja_list_room(reader->run, JINJA_LIST, 0);

    skip_blanks(reader);
    while (!takes(reader, "]")) {
        if (list.list->n && !takes(reader, ","))
            json_fail(reader, "expected ',' or ']'");
        jinja_list_add(reader->run, list.list, read_value(reader));
        skip_blanks(reader);
    }
    return list;
}

static JinjaValue read_dict(JsonReader *reader) {
    JinjaValue dict = jinja_dict_new(reader->run, JINJA_DICT);

    skip_blanks(reader);
    while (!takes(reader, "}")) {
        const JinjaText *key;

        if (dict.dict->n && !takes(reader, ","))
            json_fail(reader, "expected ',' or '}'");
        skip_blanks(reader);
        if (!takes(reader, "\""))
            json_fail(reader, "expected a key in quotes");
        key = read_text(reader);
        skip_blanks(reader);
        if (!takes(reader, ":"))
            json_fail(reader, "expected ':'");
        jinja_dict_set(reader->run, dict.dict, jinja_str(key), read_value(reader));
        skip_blanks(reader);
    }
    return dict;
}

static JinjaValue read_value(JsonReader *reader) {
    JinjaValue value;
    bool is_dict;

    jinja_spend(reader->run, 1);
    skip_blanks(reader);
    if (takes(reader, "null"))
        return JINJA_NOTHING;
    if (takes(reader, "true"))
        return jinja_bool(true);
    if (takes(reader, "false"))
        return jinja_bool(false);
    if (takes(reader, "\""))
        return jinja_str(read_text(reader));
    is_dict = takes(reader, "{");
    if (!is_dict && !takes(reader, "["))
        return read_number(reader);
    if (++reader->depth > JSON_DEPTH_MAX)
        json_fail(reader, "nested more than 100 deep");
    value = is_dict ? read_dict(reader) : read_list(reader);
    reader->depth--;
    return value;
}

JinjaValue jinja_json_read(JinjaRun *run, const char *data, size_t len_bytes) {
    JsonReader reader = { .run = run, .data = data, .len_bytes = len_bytes };
    JinjaValue value = read_value(&reader);

    skip_blanks(&reader);
    if (reader.at != reader.len_bytes)
        json_fail(&reader, "more behind the value");
    return value;
}
