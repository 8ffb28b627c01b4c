// SPDX-License-Identifier: Apache-2.0
/* Methods and filters of strings: ends, search, width, escapes. The others are in jinja_letter.c and jinja_split.c. */
#include "text/jinja/builtins/jinja_string.h"

#include "base/min_max.h"
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/values/jinja_print.h"

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

static JinjaValue strip(JinjaRun *run, const JinjaText *text, JinjaValue chars, bool left, bool right) {
    const JinjaText *set = chars.type == JINJA_NONE ? NULL : jinja_take_text(run, chars, "what is stripped", NULL);
    size_t from = 0, to = text->len_bytes, n;

    for (; left && from < to; from += n) {
        n = jinja_text_char(text, from);
        if (!is_stripped(text, from, n, set))
            break;
    }
    for (; right && to > from; to -= n) {
        n = jinja_text_char_before(text, to);
        if (!is_stripped(text, to - n, n, set))
            break;
    }
    jinja_spend(run, (from + text->len_bytes - to) * (set ? set->len_bytes + 1 : 4) / 16);
    return jinja_str(jinja_text_slice(run, text, from, to));
}

JinjaValue jinja_str_strip(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return strip(run, self.text, values[0], true, true);
}

JinjaValue jinja_str_lstrip(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return strip(run, self.text, values[0], true, false);
}

JinjaValue jinja_str_rstrip(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return strip(run, self.text, values[0], false, true);
}

static bool has_end(const JinjaText *text, size_t from, size_t to, const JinjaText *end, bool at_start) {
    return from <= to && end->len_bytes <= to - from &&
           (!end->len_bytes ||
            !memcmp(text->data + (at_start ? from : to - end->len_bytes), end->data, end->len_bytes));
}

/* Bytes of text[start:end], which are given in characters; false: start is behind the text, where nothing is found. */
static bool part_bounds(JinjaRun *run, const JinjaText *text, const JinjaValue *values, size_t *fromp, size_t *top) {
    int64_t length = text->n_chars, start, stop;

    start = values[0].type == JINJA_NONE ? 0 : jinja_take_int(run, values[0], "start", 0);
    stop = values[1].type == JINJA_NONE ? INT64_MAX : jinja_take_int(run, values[1], "end", INT64_MAX);
    start = start < 0 ? (start < -length ? 0 : start + length) : start;
    stop = stop < 0 ? (stop < -length ? 0 : stop + length) : MIN(length, stop);
    if (start > length || start > stop)
        return false;
    jinja_spend(run, jinja_text_is_ascii(text) ? 0 : text->len_bytes / 64);
    *fromp = jinja_text_offset(text, (size_t)start);
    *top = jinja_text_offset(text, (size_t)stop);
    return true;
}

static JinjaValue has_ends(JinjaRun *run, const JinjaText *text, const JinjaValue *values, bool at_start) {
    const JinjaList one = { .items = (JinjaValue *)values, .n = 1 };
    const JinjaList *ends = values[0].type == JINJA_TUPLE ? values[0].list : &one;
    size_t from = 0, to = 0;
    bool inside = part_bounds(run, text, values + 1, &from, &to), found = false;

    for (uint32_t i = 0; i < ends->n && !found; i++)
        found = has_end(text, from, to,
                        jinja_take_text(run, ends->items[i], "the argument of startswith() and endswith()", NULL),
                        at_start) &&
                inside;
    return jinja_bool(found);
}

JinjaValue jinja_str_startswith(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return has_ends(run, self.text, values, true);
}

JinjaValue jinja_str_endswith(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return has_ends(run, self.text, values, false);
}

JinjaValue jinja_str_removeprefix(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaText *end = jinja_take_text(run, values[0], "the prefix", NULL), *text = self.text;
    size_t from = has_end(text, 0, text->len_bytes, end, true) ? end->len_bytes : 0;

    return jinja_str(jinja_text_slice(run, text, from, text->len_bytes));
}

JinjaValue jinja_str_removesuffix(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaText *end = jinja_take_text(run, values[0], "the suffix", NULL), *text = self.text;
    size_t more = has_end(text, 0, text->len_bytes, end, false) ? end->len_bytes : 0;

    return jinja_str(jinja_text_slice(run, text, 0, text->len_bytes - more));
}

/* --- search ----------------------------------------------------------------------------------------------------- */

void jinja_spend_search(JinjaRun *run, const JinjaText *text, const JinjaText *needle, bool backwards) {
    jinja_spend(run, 1 + (uint64_t)text->len_bytes * (backwards ? needle->len_bytes + 1 : 1) / 64);
}

static int64_t chars_before(const JinjaText *text, size_t at) {
    int64_t n = 0;

    if (jinja_text_is_ascii(text))
        return (int64_t)at;
    for (size_t i = 0; i < at; i += jinja_text_char(text, i))
        n++;
    return n;
}

/* Finds the character at which a text begins; -1: nowhere. */
static int64_t find_text(JinjaRun *run, const JinjaText *text, const JinjaValue *values, bool backwards) {
    const JinjaText *needle = jinja_take_text(run, values[0], "what is looked for", NULL);
    size_t from, to, at = SIZE_MAX;

    jinja_spend_search(run, text, needle, backwards);
    if (part_bounds(run, text, values + 1, &from, &to))
        at = backwards ? jinja_text_rfind(text, from, to, needle) : jinja_text_find(text, from, to, needle);
    return at == SIZE_MAX ? -1 : chars_before(text, at);
}

static JinjaValue index_of(JinjaRun *run, int64_t found) {
    if (found < 0)
        jinja_fail(run, "substring not found");
    return jinja_int(found);
}

JinjaValue jinja_str_find(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return jinja_int(find_text(run, self.text, values, false));
}

JinjaValue jinja_str_rfind(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return jinja_int(find_text(run, self.text, values, true));
}

JinjaValue jinja_str_index(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return index_of(run, find_text(run, self.text, values, false));
}

JinjaValue jinja_str_rindex(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return index_of(run, find_text(run, self.text, values, true));
}

JinjaValue jinja_str_count(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaText *needle = jinja_take_text(run, values[0], "what is counted", NULL), *text = self.text;
    size_t from, to;
    int64_t n = 0;

    jinja_spend_search(run, text, needle, false);
    if (!part_bounds(run, text, values + 1, &from, &to))
        return jinja_int(0);
    if (!needle->len_bytes)
        return jinja_int(chars_before(text, to) - chars_before(text, from) + 1);
    for (; (from = jinja_text_find(text, from, to, needle)) != SIZE_MAX; from += needle->len_bytes)
        n++;
    return jinja_int(n);
}

static JinjaValue replace(JinjaRun *run, const JinjaText *text, const JinjaText *old, const JinjaText *new_text,
                          int64_t count) {
    JinjaWriter writer;
    size_t from = 0, at;

    jinja_spend_search(run, text, old, false);
    jinja_writer_init(&writer, run);
    for (; count && (at = jinja_text_find(text, from, text->len_bytes, old)) != SIZE_MAX; count--) {
        jinja_spend(run, 1);
        jinja_write_part(&writer, text, from, at);
        jinja_write(&writer, new_text);
        from = at + old->len_bytes;
        if (old->len_bytes)
            continue;
        /* An empty text is found before every character, and at the end. */
        if (from == text->len_bytes)
            break;
        at = from + jinja_text_char(text, from);
        jinja_write_part(&writer, text, from, at);
        from = at;
    }
    jinja_write_part(&writer, text, from, text->len_bytes);
    return jinja_str(jinja_writer_finish(&writer));
}

JinjaValue jinja_str_replace(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return replace(run, self.text, jinja_take_text(run, values[0], "what is replaced", NULL),
                   jinja_take_text(run, values[1], "the replacement", NULL),
                   jinja_take_int(run, values[2], "count", -1));
}

JinjaValue jinja_filter_replace(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return replace(run, self.text, jinja_to_text(run, values[0]), jinja_to_text(run, values[1]),
                   jinja_is_some(values[2]) ? jinja_take_int(run, values[2], "count", -1) : -1);
}

/* --- width ------------------------------------------------------------------------------------------------------ */

static JinjaValue pad(JinjaRun *run, const JinjaText *text, int64_t left, int64_t right, JinjaValue fill_value) {
    static const JinjaText space = JINJA_LITERAL(" ");
    const JinjaText *fill = jinja_take_text(run, fill_value, "the fill character", &space);
    JinjaWriter writer;

    if (fill->n_chars != 1)
        jinja_fail(run, "the fill character must be exactly one character long");
    jinja_writer_init(&writer, run);
    jinja_write_fill(&writer, fill, left);
    jinja_write(&writer, text);
    jinja_write_fill(&writer, fill, right);
    return jinja_str(jinja_writer_finish(&writer));
}

/* Characters that a text is short of the width. */
static int64_t missing_width(JinjaRun *run, const JinjaText *text, JinjaValue width_value, int64_t *widthp) {
    *widthp = jinja_take_int(run, width_value, "the width", 80);
    return *widthp > (int64_t)text->n_chars ? *widthp - text->n_chars : 0;
}

JinjaValue jinja_str_ljust(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    int64_t width;

    return pad(run, self.text, 0, missing_width(run, self.text, values[0], &width), values[1]);
}

JinjaValue jinja_str_rjust(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    int64_t width;

    return pad(run, self.text, missing_width(run, self.text, values[0], &width), 0, values[1]);
}

JinjaValue jinja_str_center(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    int64_t width, more = missing_width(run, self.text, values[0], &width), left = more / 2 + (more & width & 1);

    return pad(run, self.text, left, more - left, values[1]);
}

JinjaValue jinja_str_zfill(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    static const JinjaText zero = JINJA_LITERAL("0");
    const JinjaText *text = self.text;
    size_t sign = text->len_bytes && (text->data[0] == '-' || text->data[0] == '+');
    JinjaWriter writer;
    int64_t width;

    jinja_writer_init(&writer, run);
    jinja_write_part(&writer, text, 0, sign);
    jinja_write_fill(&writer, &zero, missing_width(run, text, values[0], &width));
    jinja_write_part(&writer, text, sign, text->len_bytes);
    return jinja_str(jinja_writer_finish(&writer));
}

/* --- escapes ---------------------------------------------------------------------------------------------------- */

JinjaValue jinja_str_string(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return self;
}

JinjaValue jinja_str_safe(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    JinjaText *safe = jinja_take(run, 1, sizeof(*safe));

    *safe = *self.text;
    safe->is_safe = true;
    return jinja_str(safe);
}

JinjaValue jinja_str_forceescape(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    static const char *const escapes[] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&#34;", ['\''] = "&#39;"
    };
    const JinjaText *text = self.text;
    JinjaWriter writer;
    size_t from = 0;

    jinja_writer_init(&writer, run);
    for (size_t at = 0; at < text->len_bytes; at++) {
        unsigned char c = (unsigned char)text->data[at];

        if (c >= ARRAY_LEN(escapes) || !escapes[c])
            continue;
        jinja_write_part(&writer, text, from, at);
        jinja_write_chars(&writer, escapes[c]);
        from = at + 1;
    }
    jinja_write_part(&writer, text, from, text->len_bytes);
    return jinja_str_safe(run, jinja_str(jinja_writer_finish(&writer)), NULL);
}

JinjaValue jinja_str_escape(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return self.text->is_safe ? self : jinja_str_forceescape(run, self, NULL);
}
