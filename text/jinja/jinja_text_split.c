// SPDX-License-Identifier: Apache-2.0
/* Methods of strings that cut them into pieces, or make one of pieces. */
#include "text/jinja/jinja_builtin.h"

/* --- pieces ----------------------------------------------------------------------------------------------------- */

/* A list that grows. */
typedef struct PieceWriter {
    JinjaRun *run;
    const JinjaText *text;
    JinjaValue *items;
    uint32_t n, room;
    int failure;
} PieceWriter;

static void add_piece(PieceWriter *pieces, size_t from, size_t to) {
    if (pieces->failure)
        return;
    if (pieces->n == pieces->room) {
        uint32_t room = pieces->room ? 2 * pieces->room : 8;
        JinjaValue *items = jinja_take(pieces->run, room, sizeof(*items));

        if (!items) {
            pieces->failure = jinja_fail_memory(pieces->run);
            return;
        }
        if (pieces->n)
            memcpy(items, pieces->items, pieces->n * sizeof(*items));
        pieces->items = items;
        pieces->room = room;
    }
    pieces->failure = jinja_text_slice(pieces->run, pieces->text, from, to, &pieces->items[pieces->n]);
    pieces->n += !pieces->failure;
}

static int finish_pieces(PieceWriter *pieces, bool reversed, JinjaValue *valuep) {
    int r = pieces->failure;

    if (!r)
        r = jinja_list_new(pieces->run, JINJA_LIST, 0, valuep);
    for (uint32_t i = 0; reversed && i < pieces->n / 2; i++) {
        JinjaValue other = pieces->items[i];

        pieces->items[i] = pieces->items[pieces->n - 1 - i];
        pieces->items[pieces->n - 1 - i] = other;
    }
    if (!r) {
        valuep->list->items = pieces->items;
        valuep->list->n = pieces->n;
    }
    return r;
}

static size_t skip_spaces(const JinjaText *text, size_t at, bool are_spaces) {
    size_t n;

    while (at < text->len_bytes && jinja_unicode_is_space(jinja_text_code_point(text, at, &n)) == are_spaces)
        at += n;
    return at;
}

static void split_at_spaces(PieceWriter *pieces, int64_t count) {
    const JinjaText *text = pieces->text;
    size_t at = skip_spaces(text, 0, true), end;

    for (; at < text->len_bytes && count && !pieces->failure; count--) {
        end = skip_spaces(text, at, false);
        add_piece(pieces, at, end);
        at = skip_spaces(text, end, true);
    }
    if (at < text->len_bytes)
        add_piece(pieces, at, text->len_bytes);
}

static size_t skip_spaces_back(const JinjaText *text, size_t at, bool are_spaces) {
    size_t len_bytes;

    while (at) {
        size_t n = jinja_text_char_before(text, at);

        if (jinja_unicode_is_space(jinja_text_code_point(text, at - n, &len_bytes)) != are_spaces)
            break;
        at -= n;
    }
    return at;
}

static void rsplit_at_spaces(PieceWriter *pieces, int64_t count) {
    const JinjaText *text = pieces->text;
    size_t at = skip_spaces_back(text, text->len_bytes, true), begin;

    for (; at && count && !pieces->failure; count--) {
        begin = skip_spaces_back(text, at, false);
        add_piece(pieces, begin, at);
        at = skip_spaces_back(text, begin, true);
    }
    if (at)
        add_piece(pieces, 0, at);
}

static int split_text(JinjaRun *run, const JinjaText *text, const JinjaValue *values, bool backwards,
                      JinjaValue *valuep) {
    PieceWriter pieces = { .run = run, .text = text };
    const JinjaText *separator = NULL;
    size_t from = 0, to = text->len_bytes, at;
    int64_t count = -1;
    int r = values[0].type == JINJA_NONE ? 0 : jinja_take_text(run, values[0], "the separator", &separator);

    if (!r)
        r = jinja_take_int(run, values[1], "maxsplit", &count);
    if (!r && separator && !separator->len_bytes)
        return jinja_fail(run, "split(): the separator is empty");
    if (!r)
        r = jinja_spend(run, text->len_bytes / 16);
    if (r)
        return r;
    if (!separator && backwards)
        rsplit_at_spaces(&pieces, count);
    else if (!separator)
        split_at_spaces(&pieces, count);
    for (; separator && count && !pieces.failure; count--) {
        at = backwards ? jinja_text_rfind(text, from, to, separator) : jinja_text_find(text, from, to, separator);
        if (at == SIZE_MAX)
            break;
        if (backwards) {
            add_piece(&pieces, at + separator->len_bytes, to);
            to = at;
        } else {
            add_piece(&pieces, from, at);
            from = at + separator->len_bytes;
        }
    }
    if (separator)
        add_piece(&pieces, from, to);
    return finish_pieces(&pieces, backwards, valuep);
}

static int method_split(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return split_text(run, self.text, values, false, valuep);
}

static int method_rsplit(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return split_text(run, self.text, values, true, valuep);
}

static int partition_text(JinjaRun *run, const JinjaText *text, JinjaValue value, bool backwards, JinjaValue *valuep) {
    const JinjaText *separator = NULL;
    size_t at, ends[4];
    JinjaValue parts;
    int r = jinja_take_text(run, value, "the separator", &separator);

    if (!r && !separator->len_bytes)
        return jinja_fail(run, "partition(): the separator is empty");
    if (!r)
        r = jinja_spend_search(run, text, separator, backwards);
    if (!r)
        r = jinja_list_new(run, JINJA_TUPLE, 3, &parts);
    if (r)
        return r;
    at = backwards ? jinja_text_rfind(text, 0, text->len_bytes, separator)
                   : jinja_text_find(text, 0, text->len_bytes, separator);
    ends[0] = 0;
    ends[3] = text->len_bytes;
    ends[1] = at != SIZE_MAX ? at : backwards ? 0 : text->len_bytes;
    ends[2] = at != SIZE_MAX ? at + separator->len_bytes : ends[1];
    for (int i = 0; i < 3 && !r; i++)
        r = jinja_text_slice(run, text, ends[i], ends[i + 1], &parts.list->items[i]);
    *valuep = parts;
    return r;
}

static int method_partition(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return partition_text(run, self.text, values[0], false, valuep);
}

static int method_rpartition(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return partition_text(run, self.text, values[0], true, valuep);
}

/* Line ends that Python's splitlines() knows. */
static bool is_line_end(uint32_t code_point) {
    return (code_point >= 0x0a && code_point <= 0x0d) || (code_point >= 0x1c && code_point <= 0x1e) ||
           code_point == 0x85 || code_point == 0x2028 || code_point == 0x2029;
}

int jinja_text_lines(JinjaRun *run, const JinjaText *text, bool keep_ends, JinjaValue *valuep) {
    PieceWriter pieces = { .run = run, .text = text };
    size_t from = 0, n;
    int r = jinja_spend(run, text->len_bytes / 16);

    if (r)
        return r;
    for (size_t at = 0; at < text->len_bytes && !pieces.failure; at += n) {
        if (!is_line_end(jinja_text_code_point(text, at, &n)))
            continue;
        if (text->data[at] == '\r' && at + 1 < text->len_bytes && text->data[at + 1] == '\n')
            n = 2;
        add_piece(&pieces, from, keep_ends ? at + n : at);
        from = at + n;
    }
    if (from < text->len_bytes)
        add_piece(&pieces, from, text->len_bytes);
    return finish_pieces(&pieces, false, valuep);
}

static int method_splitlines(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return jinja_text_lines(run, self.text, jinja_given(values[0]) && jinja_truth(values[0]), valuep);
}

int jinja_text_join(JinjaRun *run, const JinjaText *separator, JinjaValue items, bool only_texts, JinjaValue *valuep) {
    JinjaWriter writer;
    JinjaList list;
    int r = jinja_items(run, items, &list);

    jinja_writer_init(&writer, run);
    for (uint32_t i = 0; i < list.n && !r; i++) {
        if (i)
            jinja_write(&writer, separator);
        if (only_texts && list.items[i].type != JINJA_TEXT)
            return jinja_fail(run, "join(): item %u is no string, but '%s'", i, jinja_type_name(list.items[i]));
        jinja_write_value(&writer, list.items[i]);
        r = writer.failure ? writer.failure : jinja_spend(run, 1);
    }
    return r ? r : jinja_writer_finish(&writer, valuep);
}

static int method_join(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return jinja_text_join(run, self.text, values[0], true, valuep);
}

/* --- table ------------------------------------------------------------------------------------------------------ */

const JinjaBuiltin jinja_text_split_methods[] = {
    { .name = "join", .fn = method_join, .n_required = 1, .parameters = { "iterable" } },
    { .name = "partition", .fn = method_partition, .n_required = 1, .parameters = { "sep" } },
    { .name = "rpartition", .fn = method_rpartition, .n_required = 1, .parameters = { "sep" } },
    { .name = "rsplit", .fn = method_rsplit, .parameters = { "sep", "maxsplit" } },
    { .name = "split", .fn = method_split, .parameters = { "sep", "maxsplit" } },
    { .name = "splitlines", .fn = method_splitlines, .parameters = { "keepends" } },
};
const size_t jinja_n_text_split_methods = ARRAY_LEN(jinja_text_split_methods);
