// SPDX-License-Identifier: Apache-2.0
/* Python's methods of strings. Every byte keeps its origin. */
#include "text/jinja_builtin.h"

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

/* --- case ------------------------------------------------------------------------------------------------------- */

static bool is_cased(uint32_t code_point) {
    return jinja_unicode_is_upper(code_point) || jinja_unicode_is_lower(code_point) ||
           jinja_unicode_is_title(code_point);
}

/* The character that ends before a byte. */
static size_t char_before(const JinjaText *text, size_t at) {
    size_t n = 1;

    while (n < at && n < 4 && ((uint8_t)text->data[at - n] & 0xc0) == 0x80)
        n++;
    return jinja_text_char(text, at - n) == n ? n : 1;
}

/* Whether a capital sigma ends a word, and is written as such in lower case. Bounded: who writes hundreds of combining
 * marks there does not mind. */
static bool sigma_ends_word(const JinjaText *text, size_t at, size_t len_bytes) {
    size_t n, before = at, behind = at + len_bytes, n_looked = 0;
    uint32_t code_point = 0;

    for (;; n_looked++) {
        if (!before || n_looked == 64)
            return false;
        before -= char_before(text, before);
        code_point = jinja_text_code_point(text, before, &n);
        if (!jinja_unicode_is_case_ignorable(code_point))
            break;
    }
    if (!is_cased(code_point))
        return false;
    for (n_looked = 0; behind < text->len_bytes && n_looked < 64; behind += n, n_looked++) {
        code_point = jinja_text_code_point(text, behind, &n);
        if (!jinja_unicode_is_case_ignorable(code_point))
            return !is_cased(code_point);
    }
    return true;
}

static void write_converted(JinjaWriter *writer, const JinjaText *text, size_t at, JinjaCase to) {
    size_t len_bytes;
    uint32_t code_point = jinja_text_code_point(text, at, &len_bytes), made[3];
    size_t n = jinja_unicode_convert(code_point, to, made);

    if (code_point == 0x3a3 && to == JINJA_CASE_LOWER && sigma_ends_word(text, at, len_bytes))
        made[0] = 0x3c2;
    if (n == 1 && made[0] == code_point) {
        jinja_write_part(writer, text, at, at + len_bytes);
        return;
    }
    for (size_t i = 0; i < n; i++)
        jinja_write_code_point(writer, made[i], jinja_text_is_own(text, at));
}

int jinja_text_convert(JinjaRun *run, const JinjaText *text, JinjaCase to, JinjaValue *valuep) {
    JinjaWriter writer;

    jinja_writer_init(&writer, run);
    writer.failure = jinja_spend(run, text->len_bytes / 8);
    for (size_t at = 0; at < text->len_bytes && !writer.failure; at += jinja_text_char(text, at))
        write_converted(&writer, text, at, to);
    return jinja_writer_finish(&writer, valuep);
}

int jinja_text_capitalize(JinjaRun *run, const JinjaText *text, JinjaValue *valuep) {
    JinjaWriter writer;

    jinja_writer_init(&writer, run);
    writer.failure = jinja_spend(run, text->len_bytes / 8);
    for (size_t at = 0; at < text->len_bytes && !writer.failure; at += jinja_text_char(text, at))
        write_converted(&writer, text, at, at ? JINJA_CASE_LOWER : JINJA_CASE_TITLE);
    return jinja_writer_finish(&writer, valuep);
}

bool jinja_text_is_case(const JinjaText *text, bool upper) {
    bool is_any = false;
    size_t n;

    for (size_t at = 0; at < text->len_bytes; at += n) {
        uint32_t code_point = jinja_text_code_point(text, at, &n);
        bool is_upper = jinja_unicode_is_upper(code_point), is_lower = jinja_unicode_is_lower(code_point);

        if ((upper ? is_lower : is_upper) || jinja_unicode_is_title(code_point))
            return false;
        is_any = is_any || is_upper || is_lower;
    }
    return is_any;
}

static int method_upper(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return jinja_text_convert(run, self.text, JINJA_CASE_UPPER, valuep);
}

static int method_lower(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return jinja_text_convert(run, self.text, JINJA_CASE_LOWER, valuep);
}

static int method_capitalize(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return jinja_text_capitalize(run, self.text, valuep);
}

static int method_title(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = self.text;
    JinjaWriter writer;
    bool in_word = false;
    size_t n;

    jinja_writer_init(&writer, run);
    writer.failure = jinja_spend(run, text->len_bytes / 8);
    for (size_t at = 0; at < text->len_bytes && !writer.failure; at += n) {
        uint32_t code_point = jinja_text_code_point(text, at, &n);

        write_converted(&writer, text, at, in_word ? JINJA_CASE_LOWER : JINJA_CASE_TITLE);
        in_word = is_cased(code_point);
    }
    return jinja_writer_finish(&writer, valuep);
}

static int method_swapcase(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = self.text;
    JinjaWriter writer;
    size_t n;

    jinja_writer_init(&writer, run);
    writer.failure = jinja_spend(run, text->len_bytes / 8);
    for (size_t at = 0; at < text->len_bytes && !writer.failure; at += n) {
        uint32_t code_point = jinja_text_code_point(text, at, &n);

        if (jinja_unicode_is_upper(code_point) || jinja_unicode_is_lower(code_point))
            write_converted(&writer, text, at,
                            jinja_unicode_is_upper(code_point) ? JINJA_CASE_LOWER : JINJA_CASE_UPPER);
        else
            jinja_write_part(&writer, text, at, at + n);
    }
    return jinja_writer_finish(&writer, valuep);
}

/* --- what a text consists of ------------------------------------------------------------------------------------ */

static bool is_alnum(uint32_t code_point) {
    return jinja_unicode_is_alpha(code_point) || jinja_unicode_is_numeric(code_point) ||
           jinja_unicode_is_digit(code_point) || jinja_unicode_is_decimal(code_point);
}

static bool is_ascii(uint32_t code_point) {
    return code_point < 0x80;
}

static int all_are(JinjaRun *run, const JinjaText *text, bool (*is)(uint32_t code_point), bool when_empty,
                   JinjaValue *valuep) {
    bool all = text->len_bytes > 0 || when_empty;
    size_t n;

    for (size_t at = 0; at < text->len_bytes && all; at += n)
        all = is(jinja_text_code_point(text, at, &n));
    *valuep = jinja_bool(all);
    return jinja_spend(run, text->len_bytes / 16);
}

#define ALL_ARE_METHOD(name, is, when_empty)                                                                           \
    static int method_##name(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {           \
        return all_are(run, self.text, is, when_empty, valuep);                                                        \
    }

ALL_ARE_METHOD(isalpha, jinja_unicode_is_alpha, false)
ALL_ARE_METHOD(isdecimal, jinja_unicode_is_decimal, false)
ALL_ARE_METHOD(isdigit, jinja_unicode_is_digit, false)
ALL_ARE_METHOD(isnumeric, jinja_unicode_is_numeric, false)
ALL_ARE_METHOD(isalnum, is_alnum, false)
ALL_ARE_METHOD(isspace, jinja_unicode_is_space, false)
ALL_ARE_METHOD(isascii, is_ascii, true)
ALL_ARE_METHOD(isprintable, jinja_unicode_is_printable, true)

static int method_isupper(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    *valuep = jinja_bool(jinja_text_is_case(self.text, true));
    return jinja_spend(run, self.text->len_bytes / 16);
}

static int method_islower(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    *valuep = jinja_bool(jinja_text_is_case(self.text, false));
    return jinja_spend(run, self.text->len_bytes / 16);
}

static int method_istitle(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    bool in_word = false, is_any = false, is_title = true;
    size_t n;

    for (size_t at = 0; at < self.text->len_bytes && is_title; at += n) {
        uint32_t code_point = jinja_text_code_point(self.text, at, &n);
        bool begins = jinja_unicode_is_upper(code_point) || jinja_unicode_is_title(code_point);

        is_title = begins ? !in_word : in_word || !jinja_unicode_is_lower(code_point);
        in_word = begins || jinja_unicode_is_lower(code_point);
        is_any = is_any || begins;
    }
    *valuep = jinja_bool(is_title && is_any);
    return jinja_spend(run, self.text->len_bytes / 16);
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
        n = char_before(text, to);
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
static int spend_search(JinjaRun *run, const JinjaText *text, const JinjaText *needle, bool backwards) {
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
        r = spend_search(run, text, needle, backwards);
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
        r = spend_search(run, text, needle, false);
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
    int r = spend_search(run, text, old, false);

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
        size_t n = char_before(text, at);

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
        r = spend_search(run, text, separator, backwards);
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
        { .name = "capitalize", .fn = method_capitalize },
        { .name = "casefold", .fn = method_lower },
        { .name = "center", .fn = method_center, .n_required = 1, .parameters = { "width", "fillchar" } },
        { .name = "count", .fn = method_count, .n_required = 1, .parameters = { "sub", "start", "end" } },
        { .name = "encode", .fn = method_encode, .parameters = { "encoding", "errors" } },
        { .name = "endswith", .fn = method_endswith, .n_required = 1, .parameters = { "suffix", "start", "end" } },
        { .name = "expandtabs", .fn = method_expandtabs, .parameters = { "tabsize" } },
        { .name = "find", .fn = method_find, .n_required = 1, .parameters = { "sub", "start", "end" } },
        { .name = "format", .variadic = jinja_format_braces },
        { .name = "index", .fn = method_index, .n_required = 1, .parameters = { "sub", "start", "end" } },
        { .name = "isalnum", .fn = method_isalnum },
        { .name = "isalpha", .fn = method_isalpha },
        { .name = "isascii", .fn = method_isascii },
        { .name = "isdecimal", .fn = method_isdecimal },
        { .name = "isdigit", .fn = method_isdigit },
        { .name = "islower", .fn = method_islower },
        { .name = "isnumeric", .fn = method_isnumeric },
        { .name = "isprintable", .fn = method_isprintable },
        { .name = "isspace", .fn = method_isspace },
        { .name = "istitle", .fn = method_istitle },
        { .name = "isupper", .fn = method_isupper },
        { .name = "join", .fn = method_join, .n_required = 1, .parameters = { "iterable" } },
        { .name = "ljust", .fn = method_ljust, .n_required = 1, .parameters = { "width", "fillchar" } },
        { .name = "lower", .fn = method_lower },
        { .name = "lstrip", .fn = method_lstrip, .parameters = { "chars" } },
        { .name = "partition", .fn = method_partition, .n_required = 1, .parameters = { "sep" } },
        { .name = "removeprefix", .fn = method_removeprefix, .n_required = 1, .parameters = { "prefix" } },
        { .name = "removesuffix", .fn = method_removesuffix, .n_required = 1, .parameters = { "suffix" } },
        { .name = "replace", .fn = method_replace, .n_required = 2, .parameters = { "old", "new", "count" } },
        { .name = "rfind", .fn = method_rfind, .n_required = 1, .parameters = { "sub", "start", "end" } },
        { .name = "rindex", .fn = method_rindex, .n_required = 1, .parameters = { "sub", "start", "end" } },
        { .name = "rjust", .fn = method_rjust, .n_required = 1, .parameters = { "width", "fillchar" } },
        { .name = "rpartition", .fn = method_rpartition, .n_required = 1, .parameters = { "sep" } },
        { .name = "rsplit", .fn = method_rsplit, .parameters = { "sep", "maxsplit" } },
        { .name = "rstrip", .fn = method_rstrip, .parameters = { "chars" } },
        { .name = "split", .fn = method_split, .parameters = { "sep", "maxsplit" } },
        { .name = "splitlines", .fn = method_splitlines, .parameters = { "keepends" } },
        { .name = "startswith", .fn = method_startswith, .n_required = 1, .parameters = { "prefix", "start", "end" } },
        { .name = "strip", .fn = method_strip, .parameters = { "chars" } },
        { .name = "swapcase", .fn = method_swapcase },
        { .name = "title", .fn = method_title },
        { .name = "upper", .fn = method_upper },
        { .name = "zfill", .fn = method_zfill, .n_required = 1, .parameters = { "width" } },
    };

    return jinja_builtin_find(methods, ARRAY_LEN(methods), name);
}
