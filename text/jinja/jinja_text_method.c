// SPDX-License-Identifier: Apache-2.0
/* Python's methods of strings: ends, search, width; the others are in jinja_text_case.c and jinja_text_split.c. Every
 * byte keeps its origin. */
#include "text/jinja/jinja_builtin.h"

/* --- arguments -------------------------------------------------------------------------------------------------- */

int jinja_take_int(JinjaRun *run, JinjaValue value, const char *what, int64_t *integerp) {
    if (!jinja_given(value))
        return 0;
    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!jinja_as_int(value, integerp))
        return jinja_fail(run, "%s must be an integer, not '%s'", what, jinja_type_name(value));
    return 0;
}

int jinja_take_text(JinjaRun *run, JinjaValue value, const char *what, const JinjaText **textp) {
    if (!jinja_given(value))
        return 0;
    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (value.type != JINJA_TEXT)
        return jinja_fail(run, "%s must be a string, not '%s'", what, jinja_type_name(value));
    *textp = value.text;
    return 0;
}

/* --- ends ------------------------------------------------------------------------------------------------------- */

/* Whether the character at a byte is one of chars; NULL: white space. */
static bool is_stripped(const JinjaText *text, size_t at, size_t n, const JinjaText *chars) {
    size_t len_bytes;

    if (!chars)
        return jinja_unicode_is_space(jinja_text_code_point(text, at, &len_bytes));
    for (size_t i = 0; i < chars->len_bytes; i += jinja_text_char(chars, i))
        if (jinja_text_char(chars, i) == n && !memcmp(chars->data + i, text->data + at, n))
            return true;
    return false;
}

int jinja_text_strip(JinjaRun *run, const JinjaText *text, JinjaValue chars, bool left, bool right,
                     JinjaValue *valuep) {
    size_t from = 0, to = text->len_bytes, n;
    const JinjaText *set = NULL;
    int r = 0;

    if (chars.type != JINJA_NONE)
        r = jinja_take_text(run, chars, "what is stripped", &set);
    if (r)
        return r;
    while (left && from < to) {
        n = jinja_text_char(text, from);
        if (!is_stripped(text, from, n, set))
            break;
        from += n;
    }
    while (right && to > from) {
        n = jinja_text_char_before(text, to);
        if (!is_stripped(text, to - n, n, set))
            break;
        to -= n;
    }
    n = from + text->len_bytes - to;
    r = jinja_spend(run, n * (set ? set->len_bytes + 1 : 4) / 16);
    return r ? r : jinja_text_slice(run, text, from, to, valuep);
}

static int method_strip(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return jinja_text_strip(run, self.text, values[0], true, true, valuep);
}

static int method_lstrip(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return jinja_text_strip(run, self.text, values[0], true, false, valuep);
}

static int method_rstrip(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return jinja_text_strip(run, self.text, values[0], false, true, valuep);
}

static bool has_end(const JinjaText *text, size_t from, size_t to, const JinjaText *end, bool at_start) {
    return from <= to && end->len_bytes <= to - from &&
           (!end->len_bytes ||
            !memcmp(text->data + (at_start ? from : to - end->len_bytes), end->data, end->len_bytes));
}

/* Bytes of text[start:end], by characters; false: start is behind the text, where nothing is found. */
static int part_bounds(JinjaRun *run, const JinjaText *text, const JinjaValue *values, size_t *fromp, size_t *top,
                       bool *insidep) {
    int64_t start = 0, stop = INT64_MAX, length = text->n_chars;
    int r = values[0].type == JINJA_NONE ? 0 : jinja_take_int(run, values[0], "start", &start);

    if (!r && values[1].type != JINJA_NONE)
        r = jinja_take_int(run, values[1], "end", &stop);
    if (r)
        return r;
    start = start < 0 ? (start < -length ? 0 : start + length) : start;
    stop = stop < 0 ? (stop < -length ? 0 : stop + length) : stop > length ? length : stop;
    *insidep = start <= length && start <= stop;
    *fromp = *insidep ? jinja_text_offset(text, (size_t)start) : 0;
    *top = *insidep ? jinja_text_offset(text, (size_t)stop) : 0;
    return jinja_spend(run, jinja_text_is_ascii(text) ? 0 : text->len_bytes / 64);
}

static int has_ends(JinjaRun *run, const JinjaText *text, const JinjaValue *values, bool at_start, JinjaValue *valuep) {
    bool inside, found = false;
    size_t from, to;
    int r = part_bounds(run, text, values + 1, &from, &to, &inside);

    if (r)
        return r;
    if (values[0].type == JINJA_TUPLE) {
        for (uint32_t i = 0; i < values[0].list->n && !found; i++) {
            if (values[0].list->items[i].type != JINJA_TEXT)
                return jinja_fail(run, "startswith() and endswith() need strings");
            found = inside && has_end(text, from, to, values[0].list->items[i].text, at_start);
        }
    } else {
        const JinjaText *end = NULL;

        r = jinja_take_text(run, values[0], "the argument of startswith() and endswith()", &end);
        found = !r && inside && has_end(text, from, to, end, at_start);
    }
    *valuep = jinja_bool(found);
    return r;
}

static int method_startswith(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return has_ends(run, self.text, values, true, valuep);
}

static int method_endswith(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return has_ends(run, self.text, values, false, valuep);
}

static int method_removeprefix(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *end = NULL, *text = self.text;
    int r = jinja_take_text(run, values[0], "the prefix", &end);

    return r ? r
             : jinja_text_slice(run, text, has_end(text, 0, text->len_bytes, end, true) ? end->len_bytes : 0,
                                text->len_bytes, valuep);
}

static int method_removesuffix(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *end = NULL, *text = self.text;
    int r = jinja_take_text(run, values[0], "the suffix", &end);

    return r ? r
             : jinja_text_slice(run, text, 0,
                                text->len_bytes - (has_end(text, 0, text->len_bytes, end, false) ? end->len_bytes : 0),
                                valuep);
}

/* --- search ----------------------------------------------------------------------------------------------------- */

/* What searching backwards can cost. */
int jinja_spend_search(JinjaRun *run, const JinjaText *text, const JinjaText *needle, bool backwards) {
    return jinja_spend(run, 1 + (uint64_t)text->len_bytes * (backwards ? needle->len_bytes + 1 : 1) / 64);
}

static int64_t chars_before(const JinjaText *text, size_t at) {
    int64_t n = 0;

    if (jinja_text_is_ascii(text))
        return (int64_t)at;
    for (size_t i = 0; i < at; i += jinja_text_char(text, i))
        n++;
    return n;
}

static int find_text(JinjaRun *run, const JinjaText *text, const JinjaValue *values, bool backwards, bool must,
                     JinjaValue *valuep) {
    const JinjaText *needle = NULL;
    size_t from, to, at = SIZE_MAX;
    bool inside;
    int r = jinja_take_text(run, values[0], "what is looked for", &needle);

    if (!r)
        r = part_bounds(run, text, values + 1, &from, &to, &inside);
    if (!r)
        r = jinja_spend_search(run, text, needle, backwards);
    if (r)
        return r;
    if (inside)
        at = backwards ? jinja_text_rfind(text, from, to, needle) : jinja_text_find(text, from, to, needle);
    if (at == SIZE_MAX && must)
        return jinja_fail(run, "substring not found");
    *valuep = jinja_int(at == SIZE_MAX ? -1 : chars_before(text, at));
    return 0;
}

static int method_find(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return find_text(run, self.text, values, false, false, valuep);
}

static int method_rfind(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return find_text(run, self.text, values, true, false, valuep);
}

static int method_index(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return find_text(run, self.text, values, false, true, valuep);
}

static int method_rindex(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return find_text(run, self.text, values, true, true, valuep);
}

static int method_count(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *needle = NULL, *text = self.text;
    size_t from, to;
    int64_t n = 0;
    bool inside;
    int r = jinja_take_text(run, values[0], "what is counted", &needle);

    if (!r)
        r = part_bounds(run, text, values + 1, &from, &to, &inside);
    if (!r)
        r = jinja_spend_search(run, text, needle, false);
    if (r)
        return r;
    if (inside && !needle->len_bytes)
        n = chars_before(text, to) - chars_before(text, from) + 1;
    while (inside && needle->len_bytes && (from = jinja_text_find(text, from, to, needle)) != SIZE_MAX) {
        n++;
        from += needle->len_bytes;
    }
    *valuep = jinja_int(n);
    return 0;
}

int jinja_text_replace(JinjaRun *run, const JinjaText *text, const JinjaText *old, const JinjaText *new_text,
                       int64_t count, JinjaValue *valuep) {
    JinjaWriter writer;
    size_t from = 0, at;
    int r = jinja_spend_search(run, text, old, false);

    if (r)
        return r;
    jinja_writer_init(&writer, run);
    for (; count && !writer.failure; count--) {
        at = jinja_text_find(text, from, text->len_bytes, old);
        if (at == SIZE_MAX)
            break;
        if (!old->len_bytes) { /* before every character, and at the end */
            jinja_write(&writer, new_text);
            if (from == text->len_bytes)
                break;
            at = from + jinja_text_char(text, from);
            jinja_write_part(&writer, text, from, at);
        } else {
            jinja_write_part(&writer, text, from, at);
            jinja_write(&writer, new_text);
            at += old->len_bytes;
        }
        from = at;
        if (!writer.failure)
            writer.failure = jinja_spend(run, 1);
    }
    jinja_write_part(&writer, text, from, text->len_bytes);
    return jinja_writer_finish(&writer, valuep);
}

static int method_replace(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *old = NULL, *new_text = NULL;
    int64_t count = -1;
    int r = jinja_take_text(run, values[0], "what is replaced", &old);

    if (!r)
        r = jinja_take_text(run, values[1], "the replacement", &new_text);
    if (!r)
        r = jinja_take_int(run, values[2], "count", &count);
    return r ? r : jinja_text_replace(run, self.text, old, new_text, count, valuep);
}

/* --- width ------------------------------------------------------------------------------------------------------ */

static int pad(JinjaRun *run, const JinjaText *text, int64_t left, int64_t right, JinjaValue fill_value,
               JinjaValue *valuep) {
    static const JinjaText space = { .data = " ", .len_bytes = 1, .n_chars = 1 };
    const JinjaText *fill = &space;
    JinjaWriter writer;
    int r = jinja_take_text(run, fill_value, "the fill character", &fill);

    if (!r && fill->n_chars != 1)
        return jinja_fail(run, "the fill character must be exactly one character long");
    jinja_writer_init(&writer, run);
    writer.failure = r;
    for (int64_t i = 0; i < left && !writer.failure; i++)
        jinja_write(&writer, fill);
    jinja_write(&writer, text);
    for (int64_t i = 0; i < right && !writer.failure; i++)
        jinja_write(&writer, fill);
    return jinja_writer_finish(&writer, valuep);
}

static int pad_to(JinjaRun *run, const JinjaText *text, const JinjaValue *values, bool left, JinjaValue *valuep) {
    int64_t width = 0, more;
    int r = jinja_take_int(run, values[0], "the width", &width);

    more = width > (int64_t)text->n_chars ? width - text->n_chars : 0;
    return r ? r : pad(run, text, left ? more : 0, left ? 0 : more, values[1], valuep);
}

static int method_ljust(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return pad_to(run, self.text, values, false, valuep);
}

static int method_rjust(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return pad_to(run, self.text, values, true, valuep);
}

static int center(JinjaRun *run, const JinjaText *text, int64_t width, JinjaValue fill, JinjaValue *valuep) {
    int64_t more = width > (int64_t)text->n_chars ? width - text->n_chars : 0, left = more / 2 + (more & width & 1);

    return pad(run, text, left, more - left, fill, valuep);
}

int jinja_text_center(JinjaRun *run, const JinjaText *text, int64_t width, JinjaValue *valuep) {
    return center(run, text, width, JINJA_NO_VALUE, valuep);
}

static int method_center(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    int64_t width = 0;
    int r = jinja_take_int(run, values[0], "the width", &width);

    return r ? r : center(run, self.text, width, values[1], valuep);
}

static int method_zfill(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = self.text;
    JinjaWriter writer;
    int64_t width = 0;
    size_t sign = text->len_bytes && (text->data[0] == '-' || text->data[0] == '+');
    int r = jinja_take_int(run, values[0], "the width", &width);

    jinja_writer_init(&writer, run);
    writer.failure = r;
    jinja_write_part(&writer, text, 0, sign);
    for (int64_t i = text->n_chars; i < width && !writer.failure; i++)
        jinja_write_chars(&writer, "0");
    jinja_write_part(&writer, text, sign, text->len_bytes);
    return jinja_writer_finish(&writer, valuep);
}

static int method_expandtabs(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = self.text;
    int64_t width = 8, column = 0;
    JinjaWriter writer;
    size_t n;
    int r = jinja_take_int(run, values[0], "tabsize", &width);

    jinja_writer_init(&writer, run);
    writer.failure = r ? r : jinja_spend(run, text->len_bytes / 8);
    for (size_t at = 0; at < text->len_bytes && !writer.failure; at += n) {
        char c = text->data[at];

        n = jinja_text_char(text, at);
        if (c == '\t') {
            for (int64_t i = width > 0 ? width - column % width : 0; i > 0 && !writer.failure; i--, column++)
                jinja_write_chars(&writer, " ");
            continue;
        }
        jinja_write_part(&writer, text, at, at + n);
        column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    return jinja_writer_finish(&writer, valuep);
}

/* --- table ------------------------------------------------------------------------------------------------------ */

static int method_encode(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return jinja_fail(run, "encode() is not supported: there are no bytes in a chat template");
}

const JinjaBuiltin *jinja_text_method_find(const JinjaText *name) {
    static const JinjaBuiltin methods[] = {
        { .name = "center", .fn = method_center, .n_required = 1, .parameters = { "width", "fillchar" } },
        { .name = "count", .fn = method_count, .n_required = 1, .parameters = { "sub", "start", "end" } },
        { .name = "encode", .fn = method_encode, .parameters = { "encoding", "errors" } },
        { .name = "endswith", .fn = method_endswith, .n_required = 1, .parameters = { "suffix", "start", "end" } },
        { .name = "expandtabs", .fn = method_expandtabs, .parameters = { "tabsize" } },
        { .name = "find", .fn = method_find, .n_required = 1, .parameters = { "sub", "start", "end" } },
        { .name = "format", .variadic = jinja_format_braces },
        { .name = "index", .fn = method_index, .n_required = 1, .parameters = { "sub", "start", "end" } },
        { .name = "ljust", .fn = method_ljust, .n_required = 1, .parameters = { "width", "fillchar" } },
        { .name = "lstrip", .fn = method_lstrip, .parameters = { "chars" } },
        { .name = "removeprefix", .fn = method_removeprefix, .n_required = 1, .parameters = { "prefix" } },
        { .name = "removesuffix", .fn = method_removesuffix, .n_required = 1, .parameters = { "suffix" } },
        { .name = "replace", .fn = method_replace, .n_required = 2, .parameters = { "old", "new", "count" } },
        { .name = "rfind", .fn = method_rfind, .n_required = 1, .parameters = { "sub", "start", "end" } },
        { .name = "rindex", .fn = method_rindex, .n_required = 1, .parameters = { "sub", "start", "end" } },
        { .name = "rjust", .fn = method_rjust, .n_required = 1, .parameters = { "width", "fillchar" } },
        { .name = "rstrip", .fn = method_rstrip, .parameters = { "chars" } },
        { .name = "startswith", .fn = method_startswith, .n_required = 1, .parameters = { "prefix", "start", "end" } },
        { .name = "strip", .fn = method_strip, .parameters = { "chars" } },
        { .name = "zfill", .fn = method_zfill, .n_required = 1, .parameters = { "width" } },
    };
    const JinjaBuiltin *found = jinja_builtin_find(methods, ARRAY_LEN(methods), name);

    if (!found)
        found = jinja_builtin_find(jinja_text_case_methods, jinja_n_text_case_methods, name);
    return found ? found : jinja_builtin_find(jinja_text_split_methods, jinja_n_text_split_methods, name);
}
