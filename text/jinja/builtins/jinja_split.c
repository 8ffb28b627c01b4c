// SPDX-License-Identifier: Apache-2.0
/* Methods of strings that cut them into pieces, or make one of pieces. */
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/builtins/jinja_string.h"

static void add_piece(JinjaRun *run, JinjaValue pieces, const JinjaText *text, size_t from, size_t to) {
    jinja_list_add(run, pieces.list, jinja_str(jinja_text_slice(run, text, from, to)));
}

/* The place behind a run of white space, or of all else, from a place in a direction. */
static size_t skip(const JinjaText *text, size_t at, bool are_spaces, bool backwards) {
    size_t n, len_bytes;

    while (backwards ? at > 0 : at < text->len_bytes) {
        n = backwards ? jinja_text_char_before(text, at) : jinja_text_char(text, at);
        if (jinja_unicode_is_space(jinja_text_code_point(text, backwards ? at - n : at, &len_bytes)) != are_spaces)
            break;
        at = backwards ? at - n : at + n;
    }
    return at;
}

static void split_at_spaces(JinjaRun *run, JinjaValue pieces, const JinjaText *text, int64_t count, bool backwards) {
    const size_t last = backwards ? 0 : text->len_bytes;
    size_t at = skip(text, text->len_bytes - last, true, backwards), end;

    for (; at != last && count; count--) {
        end = skip(text, at, false, backwards);
        add_piece(run, pieces, text, backwards ? end : at, backwards ? at : end);
        at = skip(text, end, true, backwards);
    }
    if (at != last)
        add_piece(run, pieces, text, backwards ? 0 : at, backwards ? at : last);
}

static void split_at_text(JinjaRun *run, JinjaValue pieces, const JinjaText *text, const JinjaText *separator,
                          int64_t count, bool backwards) {
    size_t from = 0, to = text->len_bytes, at;

    for (; count; count--) {
        at = backwards ? jinja_text_rfind(text, from, to, separator) : jinja_text_find(text, from, to, separator);
        if (at == SIZE_MAX)
            break;
        if (backwards) {
            add_piece(run, pieces, text, at + separator->len_bytes, to);
            to = at;
        } else {
            add_piece(run, pieces, text, from, at);
            from = at + separator->len_bytes;
        }
    }
    add_piece(run, pieces, text, from, to);
}

static JinjaValue split(JinjaRun *run, const JinjaText *text, const JinjaValue *values, bool backwards) {
    const JinjaText *separator =
        values[0].type == JINJA_NONE ? NULL : jinja_take_text(run, values[0], "the separator", NULL);
    int64_t count = jinja_take_int(run, values[1], "maxsplit", -1);
    JinjaValue pieces = jinja_list_room(run, JINJA_LIST, 0);

    jinja_spend(run, text->len_bytes / 16);
    if (separator && !separator->len_bytes)
        jinja_fail(run, "split(): the separator is empty");
    if (separator)
        split_at_text(run, pieces, text, separator, count, backwards);
    else
        split_at_spaces(run, pieces, text, count, backwards);
    for (uint32_t i = 0, n = pieces.list->n; backwards && i < n / 2; i++) {
        JinjaValue other = pieces.list->items[i];

        pieces.list->items[i] = pieces.list->items[n - 1 - i];
        pieces.list->items[n - 1 - i] = other;
    }
    return pieces;
}

JinjaValue jinja_str_split(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return split(run, self.text, values, false);
}

JinjaValue jinja_str_rsplit(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return split(run, self.text, values, true);
}

static JinjaValue partition(JinjaRun *run, const JinjaText *text, JinjaValue value, bool backwards) {
    const JinjaText *separator = jinja_take_text(run, value, "the separator", NULL);
    JinjaValue parts = jinja_list_room(run, JINJA_TUPLE, 3);
    size_t at, end;

    if (!separator->len_bytes)
        jinja_fail(run, "partition(): the separator is empty");
    jinja_spend_search(run, text, separator, backwards);
    at = backwards ? jinja_text_rfind(text, 0, text->len_bytes, separator)
                   : jinja_text_find(text, 0, text->len_bytes, separator);
    end = at != SIZE_MAX ? at + separator->len_bytes : backwards ? 0 : text->len_bytes;
    at = at != SIZE_MAX ? at : end;
    add_piece(run, parts, text, 0, at);
    add_piece(run, parts, text, at, end);
    add_piece(run, parts, text, end, text->len_bytes);
    return parts;
}

JinjaValue jinja_str_partition(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return partition(run, self.text, values[0], false);
}

JinjaValue jinja_str_rpartition(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return partition(run, self.text, values[0], true);
}

/* Whether Python's splitlines() ends a line here. */
static bool is_line_end(uint32_t code_point) {
    return (code_point >= 0x0a && code_point <= 0x0d) || (code_point >= 0x1c && code_point <= 0x1e) ||
           code_point == 0x85 || code_point == 0x2028 || code_point == 0x2029;
}

static JinjaValue lines_of(JinjaRun *run, const JinjaText *text, bool keep_ends) {
    JinjaValue lines = jinja_list_room(run, JINJA_LIST, 0);
    size_t from = 0, n;

    jinja_spend(run, text->len_bytes / 16);
    for (size_t at = 0; at < text->len_bytes; at += n) {
        if (!is_line_end(jinja_text_code_point(text, at, &n)))
            continue;
        if (text->data[at] == '\r' && at + 1 < text->len_bytes && text->data[at + 1] == '\n')
            n = 2;
        add_piece(run, lines, text, from, keep_ends ? at + n : at);
        from = at + n;
    }
    if (from < text->len_bytes)
        add_piece(run, lines, text, from, text->len_bytes);
    return lines;
}

JinjaValue jinja_str_splitlines(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return lines_of(run, self.text, jinja_is_set(values[0]));
}

JinjaValue jinja_str_indent(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    static const JinjaText newline = JINJA_LITERAL("\n"), space = JINJA_LITERAL(" ");
    const bool first = jinja_is_set(values[1]), blank = jinja_is_set(values[2]), is_text = values[0].type == JINJA_TEXT;
    const int64_t width = is_text ? 1 : jinja_take_int(run, values[0], "the width", 4);
    JinjaWriter writer;
    JinjaValue lines;

    if (self.type == JINJA_UNDEFINED)
        jinja_fail_undefined(run, self);
    if (self.type != JINJA_TEXT)
        jinja_fail(run, "filter 'indent' needs a string, not '%s'", jinja_type_name(self));
    lines = lines_of(run, jinja_text_concat(run, self.text, &newline), false);
    jinja_writer_init(&writer, run);
    for (uint32_t i = 0; i < lines.list->n; i++) {
        const JinjaText *line = lines.list->items[i].text;

        jinja_write_chars(&writer, i ? "\n" : "");
        if (i ? blank || line->len_bytes : first)
            jinja_write_fill(&writer, is_text ? values[0].text : &space, width);
        jinja_write(&writer, line);
    }
    return jinja_str(jinja_writer_finish(&writer));
}
