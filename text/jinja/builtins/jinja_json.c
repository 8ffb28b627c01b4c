// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>

#include "base/strings/utf8.h"
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/values/jinja_print.h"

/* --- writing ---------------------------------------------------------------------------------------------------- */

JinjaValue jinja_filter_tojson(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    static const JinjaText comma_space = JINJA_LITERAL(", "), comma = JINJA_LITERAL(","), colon = JINJA_LITERAL(": "),
                           space = JINJA_LITERAL(" ");
    const bool is_indented = jinja_is_some(values[1]);
    JinjaStyle style = { .quotes = jinja_is_set(values[0]) ? JINJA_QUOTES_JSON_ASCII : JINJA_QUOTES_JSON,
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
    jinja_write_styled(&writer, self, &style, 0);
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

static bool read_hex(const JsonReader *reader, size_t at, uint32_t *valuep) {
    return jinja_hex_read(reader->data + at, reader->len_bytes - at, 4, valuep);
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

static JinjaValue read_number(JsonReader *reader) {
    const char *data = reader->data + reader->at;
    const size_t left = reader->len_bytes - reader->at, sign = left && data[0] == '-';
    const size_t n = jinja_number_at(data + sign, left - sign, false);
    JinjaValue number;

    if (!n || (n > 1 && data[sign] == '0' && isdigit((unsigned char)data[sign + 1])))
        json_fail(reader, "no JSON value");
    if (!jinja_number_read(data, sign + n, &number))
        json_fail(reader, "a number that is too large, or of too many digits");
    reader->at += sign + n;
    return number;
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
