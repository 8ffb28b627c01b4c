// SPDX-License-Identifier: Apache-2.0
/* JSON: values as Python's json.dumps() writes them, and text from outside as values. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/strings/decimal.h"
#include "base/strings/utf8.h"
#include "text/jinja/jinja_builtin.h"

/* --- writing ---------------------------------------------------------------------------------------------------- */

static void write_json_text(JinjaWriter *writer, const JinjaText *text, bool ascii_only) {
    size_t from = 0, n;

    jinja_write_chars(writer, "\"");
    for (size_t at = 0; at < text->len_bytes && !writer->failure; at += n) {
        uint32_t code_point = jinja_text_code_point(text, at, &n);
        static const char plain[] = "\"\\\b\f\n\r\t", named[] = "\"\\bfnrt";
        const char *special = code_point && code_point < 0x80 ? strchr(plain, (int)code_point) : NULL;
        char escape[16];

        if (special)
            snprintf(escape, sizeof(escape), "\\%c", named[special - plain]);
        else if (code_point < 0x20 || (ascii_only && code_point >= 0x7f && code_point < 0x10000 && code_point != 0x7f))
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

static void write_json_line(JinjaWriter *writer, const JinjaJsonStyle *style, uint32_t depth) {
    if (!style->is_indented)
        return;
    jinja_write_chars(writer, "\n");
    for (uint32_t i = 0; i < depth && !writer->failure; i++)
        jinja_write(writer, style->indent);
}

static void write_json_value(JinjaWriter *writer, JinjaValue value, const JinjaJsonStyle *style, uint32_t depth);

static void write_json_list(JinjaWriter *writer, const JinjaList *list, const JinjaJsonStyle *style, uint32_t depth) {
    jinja_write_chars(writer, "[");
    for (uint32_t i = 0; i < list->n && !writer->failure; i++) {
        if (i)
            jinja_write(writer, style->item_separator);
        write_json_line(writer, style, depth + 1);
        write_json_value(writer, list->items[i], style, depth + 1);
    }
    if (list->n)
        write_json_line(writer, style, depth);
    jinja_write_chars(writer, "]");
}

static void write_json_key(JinjaWriter *writer, JinjaValue key, const JinjaJsonStyle *style) {
    char text[40];

    switch (key.type) {
    case JINJA_TEXT:
        write_json_text(writer, key.text, style->ascii_only);
        return;
    case JINJA_NONE:
        jinja_write_chars(writer, "\"null\"");
        return;
    case JINJA_BOOL:
        jinja_write_chars(writer, key.boolean ? "\"true\"" : "\"false\"");
        return;
    case JINJA_INT:
        snprintf(text, sizeof(text), "\"%" PRId64 "\"", key.integer);
        jinja_write_chars(writer, text);
        return;
    case JINJA_FLOAT:
        jinja_write_chars(writer, "\"");
        write_json_value(writer, key, style, 0);
        jinja_write_chars(writer, "\"");
        return;
    default:
        if (!writer->failure)
            writer->failure = jinja_fail(writer->run, "tojson: keys must be strings, not '%s'", jinja_type_name(key));
        return;
    }
}

/* Indexes of a dict's keys in their order. Sorted by merging: the time goes with n log n, whatever the keys are. */
static int sort_keys(JinjaRun *run, const JinjaDict *dict, uint32_t **orderp) {
    uint32_t *from = jinja_take(run, 2 * (size_t)dict->n + 1, sizeof(*from)), *to = from + dict->n;

    if (!from)
        return jinja_fail_memory(run);
    for (uint32_t i = 0; i < dict->n; i++)
        from[i] = i;
    for (uint64_t width = 1; width < dict->n; width *= 2) {
        uint32_t *other = from;

        for (uint64_t begin = 0; begin < dict->n; begin += 2 * width) {
            uint64_t middle = begin + width < dict->n ? begin + width : dict->n,
                     end = begin + 2 * width < dict->n ? begin + 2 * width : dict->n, a = begin, b = middle;

            for (uint64_t i = begin; i < end; i++) {
                int order = -1, r = 0;

                if (a < middle && b < end)
                    r = jinja_compare(run, dict->keys[from[b]], dict->keys[from[a]], "<", &order);
                if (r)
                    return r;
                to[i] = b == end || (a < middle && order >= 0) ? from[a++] : from[b++];
            }
        }
        from = to;
        to = other;
    }
    *orderp = from;
    return 0;
}

static void write_json_dict(JinjaWriter *writer, const JinjaDict *dict, const JinjaJsonStyle *style, uint32_t depth) {
    uint32_t *order = NULL;

    if (style->sorts_keys && !writer->failure)
        writer->failure = sort_keys(writer->run, dict, &order);
    jinja_write_chars(writer, "{");
    for (uint32_t i = 0; i < dict->n && !writer->failure; i++) {
        uint32_t at = order ? order[i] : i;

        if (i)
            jinja_write(writer, style->item_separator);
        write_json_line(writer, style, depth + 1);
        write_json_key(writer, dict->keys[at], style);
        jinja_write(writer, style->key_separator);
        write_json_value(writer, dict->values[at], style, depth + 1);
    }
    if (dict->n)
        write_json_line(writer, style, depth);
    jinja_write_chars(writer, "}");
}

static void write_json_float(JinjaWriter *writer, double real) {
    char text[40];

    if (isfinite(real))
        jinja_float_text(real, text);
    else
        snprintf(text, sizeof(text), "%s", isnan(real) ? "NaN" : real < 0 ? "-Infinity" : "Infinity");
    jinja_write_chars(writer, text);
}

static void write_json_value(JinjaWriter *writer, JinjaValue value, const JinjaJsonStyle *style, uint32_t depth) {
    if (!writer->failure)
        writer->failure = jinja_spend(writer->run, 1);
    if (writer->failure)
        return;
    switch (value.type) {
    case JINJA_NONE:
        jinja_write_chars(writer, "null");
        return;
    case JINJA_BOOL:
        jinja_write_chars(writer, value.boolean ? "true" : "false");
        return;
    case JINJA_INT:
        jinja_write_repr(writer, value);
        return;
    case JINJA_FLOAT:
        write_json_float(writer, value.real);
        return;
    case JINJA_TEXT:
        write_json_text(writer, value.text, style->ascii_only);
        return;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
        writer->failure = jinja_enter(writer->run);
        if (writer->failure)
            return;
        if (value.type == JINJA_DICT)
            write_json_dict(writer, value.dict, style, depth);
        else
            write_json_list(writer, value.list, style, depth);
        jinja_leave(writer->run);
        return;
    default:
        writer->failure = jinja_fail(writer->run, "tojson: a value of type '%s' is no JSON", jinja_type_name(value));
        return;
    }
}

void jinja_json_write(JinjaWriter *writer, JinjaValue value, const JinjaJsonStyle *style) {
    write_json_value(writer, value, style, 0);
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

#define JSON_DEPTH_MAX 100

typedef struct JsonReader {
    JinjaRun *run;
    const char *data;
    size_t len_bytes, at;
    uint32_t depth;
} JsonReader;

static int json_fail(const JsonReader *reader, const char *what) {
    return err_set(reader->run->err, JINJA_E_RUN, "byte %zu: %s", reader->at, what);
}

static void json_skip_blanks(JsonReader *reader) {
    while (reader->at < reader->len_bytes && strchr(" \t\n\r", reader->data[reader->at]) && reader->data[reader->at])
        reader->at++;
}

static bool json_takes(JsonReader *reader, const char *word) {
    size_t n = strlen(word);

    if (reader->len_bytes - reader->at < n || memcmp(reader->data + reader->at, word, n) != 0)
        return false;
    reader->at += n;
    return true;
}

static bool json_hex(const JsonReader *reader, size_t at, uint32_t *valuep) {
    *valuep = 0;
    for (size_t i = at; i < at + 4; i++) {
        if (i >= reader->len_bytes || !isxdigit((unsigned char)reader->data[i]))
            return false;
        *valuep = *valuep << 4 |
                  (uint32_t)(reader->data[i] <= '9' ? reader->data[i] - '0' : (reader->data[i] | 0x20) - 'a' + 10);
    }
    return true;
}

static int json_read_escape(JsonReader *reader, JinjaWriter *writer) {
    static const char named[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    const char c = reader->at < reader->len_bytes ? reader->data[reader->at++] : 0;
    const char *special = c ? strchr(named, c) : NULL;
    uint32_t code_point, low;

    if (special) {
        jinja_write_ascii(writer, plain + (special - named), 1);
        return 0;
    }
    if (c != 'u' || !json_hex(reader, reader->at, &code_point))
        return json_fail(reader, "an escape that JSON does not have");
    reader->at += 4;
    if (code_point >= 0xd800 && code_point < 0xdc00 && reader->len_bytes - reader->at >= 6 &&
        reader->data[reader->at] == '\\' && reader->data[reader->at + 1] == 'u' &&
        json_hex(reader, reader->at + 2, &low) && low >= 0xdc00 && low < 0xe000) {
        reader->at += 6;
        code_point = 0x10000 + ((code_point - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code_point >= 0xd800 && code_point < 0xe000)
        return json_fail(reader, "half of a surrogate pair");
    jinja_write_code_point(writer, code_point, false);
    return 0;
}

static int json_read_text(JsonReader *reader, JinjaValue *valuep) {
    JinjaWriter writer;
    int r = 0;

    jinja_writer_init(&writer, reader->run);
    for (;;) {
        size_t from = reader->at, n = 1;
        JinjaText part;

        while (reader->at < reader->len_bytes && (unsigned char)reader->data[reader->at] >= 0x20 &&
               reader->data[reader->at] != '"' && reader->data[reader->at] != '\\' && n) {
            n = utf8_sequence(reader->data + reader->at, reader->len_bytes - reader->at);
            reader->at += n;
        }
        if (!n)
            return json_fail(reader, "a text that is no UTF-8");
        if (reader->at == reader->len_bytes)
            return json_fail(reader, "a text that does not end");
        part = (JinjaText){ .data = reader->data + from, .len_bytes = (uint32_t)(reader->at - from) };
        for (size_t i = 0; i < part.len_bytes; i += jinja_text_char(&part, i))
            part.n_chars++;
        jinja_write(&writer, &part);
        if ((unsigned char)reader->data[reader->at] < 0x20)
            return json_fail(reader, "a control character in a text");
        if (reader->data[reader->at++] == '"')
            return jinja_writer_finish(&writer, valuep);
        r = json_read_escape(reader, &writer);
        if (r || writer.failure)
            return r ? r : writer.failure;
    }
}

static int json_read_number(JsonReader *reader, JinjaValue *valuep) {
    char text[320];
    size_t n = 0, at = reader->at, digits;
    bool is_float = false;
    double real;

    if (at < reader->len_bytes && reader->data[at] == '-')
        at++;
    digits = at;
    while (at < reader->len_bytes && isdigit((unsigned char)reader->data[at]))
        at++;
    if (at == digits || (at > digits + 1 && reader->data[digits] == '0'))
        return json_fail(reader, "no JSON value");
    if (at + 1 < reader->len_bytes && reader->data[at] == '.' && isdigit((unsigned char)reader->data[at + 1])) {
        is_float = true;
        for (at++; at < reader->len_bytes && isdigit((unsigned char)reader->data[at]);)
            at++;
    }
    if (at < reader->len_bytes && (reader->data[at] == 'e' || reader->data[at] == 'E')) {
        size_t exponent = at + 1;

        exponent += exponent < reader->len_bytes && (reader->data[exponent] == '+' || reader->data[exponent] == '-');
        for (digits = exponent; exponent < reader->len_bytes && isdigit((unsigned char)reader->data[exponent]);)
            exponent++;
        if (exponent > digits) {
            is_float = true;
            at = exponent;
        }
    }
    n = at - reader->at;
    if (n >= sizeof(text))
        return json_fail(reader, "a number of too many digits");
    memcpy(text, reader->data + reader->at, n);
    text[n] = 0;
    reader->at = at;
    if (!is_float) {
        errno = 0;
        *valuep = jinja_int(strtoll(text, NULL, 10));
        return errno ? json_fail(reader, "an integer past 64 bits") : 0;
    }
    if (!decimal_parse(text, &real))
        return json_fail(reader, "a number that is too large");
    *valuep = jinja_float(real);
    return 0;
}

static int json_read_value(JsonReader *reader, JinjaValue *valuep);

/* Behind "[" or "{". */
static int json_read_items(JsonReader *reader, bool is_dict, JinjaValue *valuep) {
    JinjaRun *run = reader->run;
    JinjaValue all, key, value;
    uint32_t room = 0;
    int r = is_dict ? jinja_dict_new(run, JINJA_DICT, &all) : jinja_list_new(run, JINJA_LIST, 0, &all);

    json_skip_blanks(reader);
    for (bool is_first = true; !r && !json_takes(reader, is_dict ? "}" : "]"); is_first = false) {
        if (!is_first && !json_takes(reader, ","))
            return json_fail(reader, is_dict ? "expected ',' or '}'" : "expected ',' or ']'");
        json_skip_blanks(reader);
        if (is_dict) {
            if (!json_takes(reader, "\""))
                return json_fail(reader, "expected a key in quotes");
            r = json_read_text(reader, &key);
            json_skip_blanks(reader);
            if (!r && !json_takes(reader, ":"))
                return json_fail(reader, "expected ':'");
        }
        if (!r)
            r = json_read_value(reader, &value);
        json_skip_blanks(reader);
        if (!r && is_dict)
            r = jinja_dict_set(run, all.dict, key, value);
        if (r || is_dict)
            continue;
        if (all.list->n == room) {
            JinjaValue *items;

            room = room ? 2 * room : 4;
            items = jinja_take(run, room, sizeof(*items));
            if (!items)
                return jinja_fail_memory(run);
            if (all.list->n)
                memcpy(items, all.list->items, all.list->n * sizeof(*items));
            all.list->items = items;
        }
        all.list->items[all.list->n++] = value;
    }
    *valuep = all;
    return r;
}

static int json_read_value(JsonReader *reader, JinjaValue *valuep) {
    bool is_dict;
    int r = jinja_spend(reader->run, 1);

    if (r)
        return r;
    json_skip_blanks(reader);
    if (json_takes(reader, "null"))
        *valuep = JINJA_NOTHING;
    else if (json_takes(reader, "true"))
        *valuep = jinja_bool(true);
    else if (json_takes(reader, "false"))
        *valuep = jinja_bool(false);
    else if (json_takes(reader, "\""))
        return json_read_text(reader, valuep);
    else if ((is_dict = json_takes(reader, "{")) || json_takes(reader, "[")) {
        if (++reader->depth > JSON_DEPTH_MAX)
            return json_fail(reader, "nested more than 100 deep");
        r = json_read_items(reader, is_dict, valuep);
        reader->depth--;
        return r;
    } else {
        return json_read_number(reader, valuep);
    }
    return 0;
}

int jinja_json_read(JinjaRun *run, const char *data, size_t len_bytes, JinjaValue *valuep) {
    JsonReader reader = { .run = run, .data = data, .len_bytes = len_bytes };
    int r = json_read_value(&reader, valuep);

    if (r)
        return r;
    json_skip_blanks(&reader);
    return reader.at == reader.len_bytes ? 0 : json_fail(&reader, "more behind the value");
}
