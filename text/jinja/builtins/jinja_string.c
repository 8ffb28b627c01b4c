// SPDX-License-Identifier: Apache-2.0
/* Methods and filters of strings. Every byte keeps its origin. */
#include "base/min_max.h"
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/values/jinja_print.h"
#include "text/jinja/values/jinja_unicode.h"

/* Defines a method of one expression. */
#define STR_METHOD(name, result)                                                                                       \
    JinjaValue jinja_str_##name(JinjaRun *run, JinjaValue self, const JinjaValue *values) {                            \
        return result;                                                                                                 \
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

STR_METHOD(strip, strip(run, self.text, values[0], true, true))
STR_METHOD(lstrip, strip(run, self.text, values[0], true, false))
STR_METHOD(rstrip, strip(run, self.text, values[0], false, true))

static bool has_end(const JinjaText *text, const JinjaText *end, bool at_start) {
    return end->len_bytes <= text->len_bytes &&
           !memcmp(text->data + (at_start ? 0 : text->len_bytes - end->len_bytes), end->data, end->len_bytes);
}

static JinjaValue has_ends(JinjaRun *run, const JinjaText *text, const JinjaValue *values, bool at_start) {
    const JinjaList one = { .items = (JinjaValue *)values, .n = 1 };
    const JinjaList *ends = values[0].type == JINJA_TUPLE ? values[0].list : &one;
    bool found = false;

    for (uint32_t i = 0; i < ends->n && !found; i++)
        found = has_end(text, jinja_take_text(run, ends->items[i], "the argument of startswith() and endswith()", NULL),
                        at_start);
    return jinja_bool(found);
}

STR_METHOD(startswith, has_ends(run, self.text, values, true))
STR_METHOD(endswith, has_ends(run, self.text, values, false))

JinjaValue jinja_str_removeprefix(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaText *end = jinja_take_text(run, values[0], "the prefix", NULL), *text = self.text;
    size_t from = has_end(text, end, true) ? end->len_bytes : 0;

    return jinja_str(jinja_text_slice(run, text, from, text->len_bytes));
}

JinjaValue jinja_str_removesuffix(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaText *end = jinja_take_text(run, values[0], "the suffix", NULL), *text = self.text;
    size_t more = has_end(text, end, false) ? end->len_bytes : 0;

    return jinja_str(jinja_text_slice(run, text, 0, text->len_bytes - more));
}

/* --- search ----------------------------------------------------------------------------------------------------- */

/* Counts the steps that a search takes at most. */
static void spend_search(JinjaRun *run, const JinjaText *text, const JinjaText *needle, bool backwards) {
    jinja_spend(run, 1 + (uint64_t)text->len_bytes * (backwards ? needle->len_bytes + 1 : 1) / 64);
}

/* Finds the character at which a text begins; -1: nowhere. */
static JinjaValue find(JinjaRun *run, const JinjaText *text, JinjaValue value, bool backwards) {
    const JinjaText *needle = jinja_take_text(run, value, "what is looked for", NULL);
    size_t at;

    spend_search(run, text, needle, backwards);
    at = backwards ? jinja_text_rfind(text, 0, text->len_bytes, needle)
                   : jinja_text_find(text, 0, text->len_bytes, needle);
    return jinja_int(at == SIZE_MAX ? -1 : (int64_t)jinja_text_slice(run, text, 0, at)->n_chars);
}

STR_METHOD(find, find(run, self.text, values[0], false))
STR_METHOD(rfind, find(run, self.text, values[0], true))

JinjaValue jinja_str_count(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaText *needle = jinja_take_text(run, values[0], "what is counted", NULL), *text = self.text;
    int64_t n = 0;

    spend_search(run, text, needle, false);
    if (!needle->len_bytes)
        return jinja_int((int64_t)text->n_chars + 1);
    for (size_t at = 0; (at = jinja_text_find(text, at, text->len_bytes, needle)) != SIZE_MAX; at += needle->len_bytes)
        n++;
    return jinja_int(n);
}

static JinjaValue replace(JinjaRun *run, const JinjaText *text, const JinjaText *old, const JinjaText *new_text,
                          int64_t count) {
    JinjaWriter writer;
    size_t from = 0, at;

    spend_search(run, text, old, false);
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

/* --- pieces ----------------------------------------------------------------------------------------------------- */

static void add_piece(JinjaRun *run, JinjaValue pieces, const JinjaText *text, size_t from, size_t to) {
    jinja_list_add(run, pieces.list, jinja_str(jinja_text_slice(run, text, from, to)));
}

/* The place behind a run of white space, or of all else. */
static size_t skip(const JinjaText *text, size_t at, bool are_spaces) {
    for (size_t n; at < text->len_bytes; at += n)
        if (jinja_unicode_is_space(jinja_text_code_point(text, at, &n)) != are_spaces)
            break;
    return at;
}

static void split_at_spaces(JinjaRun *run, JinjaValue pieces, const JinjaText *text, int64_t count) {
    size_t at = skip(text, 0, true), end;

    for (; at < text->len_bytes && count; count--) {
        end = skip(text, at, false);
        add_piece(run, pieces, text, at, end);
        at = skip(text, end, true);
    }
    if (at < text->len_bytes)
        add_piece(run, pieces, text, at, text->len_bytes);
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
    if (!separator && backwards)
        jinja_fail(run, "rsplit() without a separator is not supported in chat templates");
    if (separator)
        split_at_text(run, pieces, text, separator, count, backwards);
    else
        split_at_spaces(run, pieces, text, count);
    for (uint32_t i = 0, n = pieces.list->n; backwards && i < n / 2; i++) {
        JinjaValue other = pieces.list->items[i];

        pieces.list->items[i] = pieces.list->items[n - 1 - i];
        pieces.list->items[n - 1 - i] = other;
    }
    return pieces;
}

STR_METHOD(split, split(run, self.text, values, false))
STR_METHOD(rsplit, split(run, self.text, values, true))

JinjaValue jinja_str_partition(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaText *separator = jinja_take_text(run, values[0], "the separator", NULL), *text = self.text;
    JinjaValue parts = jinja_list_room(run, JINJA_TUPLE, 3);
    size_t at, end = text->len_bytes;

    if (!separator->len_bytes)
        jinja_fail(run, "partition(): the separator is empty");
    spend_search(run, text, separator, false);
    at = jinja_text_find(text, 0, end, separator);
    end = at == SIZE_MAX ? end : at + separator->len_bytes;
    at = MIN(at, end);
    add_piece(run, parts, text, 0, at);
    add_piece(run, parts, text, at, end);
    add_piece(run, parts, text, end, text->len_bytes);
    return parts;
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

STR_METHOD(splitlines, lines_of(run, self.text, jinja_is_set(values[0])))

JinjaValue jinja_str_indent(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    static const JinjaText newline = JINJA_LITERAL("\n"), space = JINJA_LITERAL(" ");
    const bool first = jinja_is_set(values[1]), blank = jinja_is_set(values[2]), is_text = values[0].type == JINJA_TEXT;
    const int64_t width = is_text ? 1 : jinja_take_int(run, values[0], "the width", 4);
    JinjaWriter writer;
    JinjaValue lines;

    jinja_check_defined(run, self);
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

/* --- letters ---------------------------------------------------------------------------------------------------- */

static void write_case(JinjaWriter *writer, const JinjaText *text, size_t from, size_t to, JinjaCase to_case) {
    jinja_spend(writer->run, (to - from) / 8);
    for (size_t at = from, len_bytes; at < to; at += len_bytes) {
        uint32_t code_point = jinja_text_code_point(text, at, &len_bytes), made[3];
        size_t n = jinja_unicode_convert(code_point, to_case, made);

        if (n == 1 && made[0] == code_point) {
            jinja_write_part(writer, text, at, at + len_bytes);
            continue;
        }
        for (size_t i = 0; i < n; i++)
            jinja_write_code_point(writer, made[i], jinja_text_is_own(text, at));
    }
}

static JinjaValue convert(JinjaRun *run, const JinjaText *text, JinjaCase first, JinjaCase others) {
    size_t n = text->len_bytes ? jinja_text_char(text, 0) : 0;
    JinjaWriter writer;

    jinja_writer_init(&writer, run);
    write_case(&writer, text, 0, n, first);
    write_case(&writer, text, n, text->len_bytes, others);
    return jinja_str(jinja_writer_finish(&writer));
}

STR_METHOD(upper, convert(run, self.text, JINJA_CASE_UPPER, JINJA_CASE_UPPER))
STR_METHOD(lower, convert(run, self.text, JINJA_CASE_LOWER, JINJA_CASE_LOWER))
STR_METHOD(capitalize, convert(run, self.text, JINJA_CASE_TITLE, JINJA_CASE_LOWER))

/* Whether a character stands in a word of Jinja's filter "title": "-", white space and opening brackets do not. */
static bool is_in_title_word(uint32_t code_point) {
    return !jinja_unicode_is_space(code_point) &&
           (!code_point || code_point >= 0x80 || !strchr("-({[<", (int)code_point));
}

static JinjaValue title(JinjaRun *run, const JinjaText *text, JinjaCase first, bool (*is_in_word)(uint32_t)) {
    JinjaWriter writer;
    bool in_word = false;

    jinja_writer_init(&writer, run);
    for (size_t at = 0, n; at < text->len_bytes; at += n) {
        uint32_t code_point = jinja_text_code_point(text, at, &n);

        jinja_spend(run, 1);
        write_case(&writer, text, at, at + n, in_word ? JINJA_CASE_LOWER : first);
        in_word = is_in_word(code_point);
    }
    return jinja_str(jinja_writer_finish(&writer));
}

STR_METHOD(title, title(run, self.text, JINJA_CASE_TITLE, jinja_unicode_is_cased))

JinjaValue jinja_filter_title(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return title(run, self.text, JINJA_CASE_UPPER, is_in_title_word);
}

/* Whether all characters are of a class, or all that have a case if only_cased is set. */
static JinjaValue all_are(JinjaRun *run, const JinjaText *text, bool (*is)(uint32_t code_point), bool only_cased) {
    bool is_any = false;
    size_t n;

    jinja_spend(run, text->len_bytes / 16);
    for (size_t at = 0; at < text->len_bytes; at += n) {
        uint32_t code_point = jinja_text_code_point(text, at, &n);

        if (is(code_point))
            is_any = true;
        else if (!only_cased || jinja_unicode_is_cased(code_point))
            return jinja_bool(false);
    }
    return jinja_bool(is_any);
}

STR_METHOD(isalnum, all_are(run, self.text, jinja_unicode_is_alnum, false))
STR_METHOD(isalpha, all_are(run, self.text, jinja_unicode_is_alpha, false))
STR_METHOD(isdigit, all_are(run, self.text, jinja_unicode_is_digit, false))
STR_METHOD(islower, all_are(run, self.text, jinja_unicode_is_lower, true))
STR_METHOD(isspace, all_are(run, self.text, jinja_unicode_is_space, false))
STR_METHOD(isupper, all_are(run, self.text, jinja_unicode_is_upper, true))

/* --- format and escapes ----------------------------------------------------------------------------------------- */

/* The argument for a field of format(): the next one, the one of an index, or the one of a name. After an index, *nextp
 * is past all arguments: Python lets no field without an index follow. */
static JinjaValue field_argument(JinjaRun *run, const JinjaArguments *arguments, const JinjaText *field,
                                 uint32_t *nextp) {
    JinjaValue index = jinja_int(*nextp);

    for (const char *c = ":!.[{"; *c; c++)
        if (memchr(field->data, *c, field->len_bytes))
            jinja_fail(run, "format(): a '%c' in a field is not supported in chat templates", *c);
    for (uint32_t i = 0; i < arguments->n_named; i++)
        if (jinja_text_equal(arguments->names[i], field))
            return arguments->named[i];
    if (!field->len_bytes)
        ++*nextp;
    else if (!jinja_number_read(field->data, field->len_bytes, &index))
        jinja_fail(run, "the format names '%.*s', which is not given", (int)field->len_bytes, field->data);
    else if (*nextp && *nextp != UINT32_MAX)
        jinja_fail(run, "format(): a field with an index behind one without");
    else
        *nextp = UINT32_MAX;
    if (index.type != JINJA_INT || index.integer < 0 || index.integer >= arguments->n)
        jinja_fail(run, "replacement index out of range for the arguments of format()");
    return arguments->items[index.integer];
}

JinjaValue jinja_str_format(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments) {
    static const JinjaText close = JINJA_LITERAL("}");
    const JinjaText *format = self.text;
    uint32_t next = 0;
    JinjaWriter writer;

    jinja_spend(run, format->len_bytes / 16);
    jinja_writer_init(&writer, run);
    for (size_t at = 0, end = 0; at < format->len_bytes; at = ++end) {
        while (end < format->len_bytes && format->data[end] != '{' && format->data[end] != '}')
            end++;
        jinja_write_part(&writer, format, at, end);
        if (end == format->len_bytes)
            break;
        at = end++;
        if (end < format->len_bytes && format->data[end] == format->data[at]) {
            jinja_write_part(&writer, format, at, end);
            continue;
        }
        end = jinja_text_find(format, at, format->len_bytes, &close);
        if (end == at || end == SIZE_MAX)
            jinja_fail(run, "a '%c' without its other half in a format", format->data[at]);
        jinja_write_value(&writer, field_argument(run, arguments, jinja_text_slice(run, format, at + 1, end), &next));
    }
    return jinja_str(jinja_writer_finish(&writer));
}

JinjaValue jinja_str_safe(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    JinjaText *safe = jinja_take(run, 1, sizeof(*safe));

    *safe = *self.text;
    safe->is_safe = true;
    return jinja_str(safe);
}

JinjaValue jinja_str_escape(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    static const char *const escapes[] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&#34;", ['\''] = "&#39;"
    };
    const JinjaText *text = self.text;
    JinjaWriter writer;
    size_t from = 0;

    if (text->is_safe)
        return self;
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
