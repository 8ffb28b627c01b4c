// SPDX-License-Identifier: Apache-2.0
/* Arguments of all that is built in, and the filters of single values; those of lists are in
 * jinja_sequence.c, those of numbers in jinja_number.c. */
#include <stdio.h>

#include "base/strings/printable.h"
#include "text/jinja/jinja_builtin.h"

/* --- arguments -------------------------------------------------------------------------------------------------- */

const JinjaBuiltin *jinja_builtin_find(const JinjaBuiltin *table, size_t n, const JinjaText *name) {
    for (size_t i = 0; i < n; i++)
        if (jinja_text_is(name, table[i].name))
            return &table[i];
    return NULL;
}

static uint32_t count_parameters(const JinjaBuiltin *builtin) {
    uint32_t n = 0;

    while (builtin->parameters[n])
        n++;
    return n;
}

static int sort_arguments(JinjaRun *run, const char *kind, const JinjaBuiltin *builtin, const JinjaArguments *arguments,
                          JinjaValue *values) {
    const uint32_t n = count_parameters(builtin);
    Printable shown;

    if (arguments->n > n)
        return jinja_fail(run, "%s '%s' takes %u arguments at most, not %u", kind, builtin->name, n, arguments->n);
    for (uint32_t i = 0; i < JINJA_PARAMETERS_MAX; i++)
        values[i] = i < arguments->n ? arguments->items[i] : JINJA_NO_VALUE;
    for (uint32_t i = 0; i < arguments->n_named; i++) {
        uint32_t at = 0;

        while (at < n && !jinja_text_is(arguments->names[i], builtin->parameters[at]))
            at++;
        if (at == n || jinja_given(values[at]))
            return jinja_fail(run, "%s '%s' %s argument '%s'", kind, builtin->name,
                              at == n ? "takes no" : "got twice its",
                              printable(&shown, arguments->names[i]->data, arguments->names[i]->len_bytes));
        values[at] = arguments->named[i];
    }
    for (uint32_t i = 0; i < builtin->n_required; i++)
        if (!jinja_given(values[i]))
            return jinja_fail(run, "%s '%s' needs its argument '%s'", kind, builtin->name, builtin->parameters[i]);
    return 0;
}

int jinja_builtin_call(JinjaRun *run, const char *kind, const JinjaBuiltin *builtin, JinjaValue self,
                       const JinjaArguments *arguments, JinjaValue *valuep) {
    JinjaValue values[JINJA_PARAMETERS_MAX];
    int r;

    if (builtin->variadic)
        return builtin->variadic(run, self, arguments, valuep);
    r = sort_arguments(run, kind, builtin, arguments, values);
    return r ? r : builtin->fn(run, self, values, valuep);
}

int jinja_filter_call(JinjaRun *run, const JinjaText *name, const JinjaFilter *filter, JinjaValue subject,
                      const JinjaArguments *arguments, JinjaValue *valuep) {
    Printable shown;

    if (!filter)
        return jinja_fail(run, "filter '%s' is not known", printable(&shown, name->data, name->len_bytes));
    return jinja_builtin_call(run, "filter", filter, subject, arguments, valuep);
}

/* What stays as it is when it is a text, and becomes one else. */
static int soft_text(JinjaRun *run, JinjaValue value, const JinjaText **textp) {
    return jinja_to_text(run, value, textp);
}

static bool is_set(JinjaValue value) {
    return jinja_given(value) && jinja_truth(value);
}

/* --- text ------------------------------------------------------------------------------------------------------- */

static int filter_trim(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    int r = soft_text(run, self, &text);

    return r ? r : jinja_text_strip(run, text, values[0], true, true, valuep);
}

static int filter_upper(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    int r = soft_text(run, self, &text);

    return r ? r : jinja_text_convert(run, text, JINJA_CASE_UPPER, valuep);
}

static int filter_lower(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    int r = soft_text(run, self, &text);

    return r ? r : jinja_text_convert(run, text, JINJA_CASE_LOWER, valuep);
}

static int filter_capitalize(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    int r = soft_text(run, self, &text);

    return r ? r : jinja_text_capitalize(run, text, valuep);
}

/* What Jinja's title filter takes for the end of a word: "-", white space and opening brackets. */
static bool ends_title_word(uint32_t code_point) {
    return jinja_unicode_is_space(code_point) ||
           (code_point && code_point < 0x80 && strchr("-({[<", (int)code_point) != NULL);
}

static int filter_title(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    JinjaWriter writer;
    int r = soft_text(run, self, &text);

    jinja_writer_init(&writer, run);
    for (size_t at = 0, n; !r && at < text->len_bytes;) {
        size_t end = at;
        JinjaValue part;

        bool is_word = !ends_title_word(jinja_text_code_point(text, at, &n));

        while (end < text->len_bytes && is_word == !ends_title_word(jinja_text_code_point(text, end, &n)))
            end += n;
        if (!is_word) {
            jinja_write_part(&writer, text, at, end);
        } else {
            n = jinja_text_char(text, at);
            r = jinja_text_slice(run, text, at, at + n, &part);
            if (!r)
                r = jinja_text_convert(run, part.text, JINJA_CASE_UPPER, &part);
            if (!r)
                jinja_write(&writer, part.text);
            if (!r)
                r = jinja_text_slice(run, text, at + n, end, &part);
            if (!r)
                r = jinja_text_convert(run, part.text, JINJA_CASE_LOWER, &part);
            if (!r)
                jinja_write(&writer, part.text);
        }
        at = end;
        r = r ? r : writer.failure;
    }
    return r ? r : jinja_writer_finish(&writer, valuep);
}

static int filter_replace(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = NULL, *old = NULL, *new_text = NULL;
    int64_t count = -1;
    int r = jinja_to_text(run, self, &text);

    if (!r)
        r = jinja_to_text(run, values[0], &old);
    if (!r)
        r = jinja_to_text(run, values[1], &new_text);
    if (!r && values[2].type != JINJA_NONE)
        r = jinja_take_int(run, values[2], "count", &count);
    return r ? r : jinja_text_replace(run, text, old, new_text, count, valuep);
}

static int filter_string(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    int r = soft_text(run, self, &text);

    if (!r)
        *valuep = (JinjaValue){ .type = JINJA_TEXT, .text = text };
    return r;
}

static int filter_center(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    int64_t width = 80;
    int r = soft_text(run, self, &text);

    if (!r)
        r = jinja_take_int(run, values[0], "the width", &width);
    return r ? r : jinja_text_center(run, text, width, valuep);
}

int jinja_text_mark_safe(JinjaRun *run, const JinjaText *text, JinjaValue *valuep) {
    JinjaText *safe = jinja_take(run, 1, sizeof(*safe));

    if (!safe)
        return jinja_fail_memory(run);
    *safe = *text;
    safe->is_safe = true;
    *valuep = (JinjaValue){ .type = JINJA_TEXT, .text = safe };
    return 0;
}

int jinja_text_escape(JinjaRun *run, const JinjaText *text, JinjaValue *valuep) {
    static const char *const escapes[] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&#34;", ['\''] = "&#39;"
    };
    JinjaWriter writer;
    size_t from = 0;
    int r;

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
    r = jinja_writer_finish(&writer, valuep);
    return r ? r : jinja_text_mark_safe(run, valuep->text, valuep);
}

static int filter_escape(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    int r = soft_text(run, self, &text);

    if (r || text->is_safe) {
        *valuep = self;
        return r;
    }
    return jinja_text_escape(run, text, valuep);
}

static int filter_forceescape(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    int r = soft_text(run, self, &text);

    return r ? r : jinja_text_escape(run, text, valuep);
}

static int filter_safe(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    int r = soft_text(run, self, &text);

    return r ? r : jinja_text_mark_safe(run, text, valuep);
}

static int filter_indent(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    static const JinjaText newline = { .data = "\n", .len_bytes = 1, .n_chars = 1 };
    bool first = is_set(values[1]), blank = is_set(values[2]);
    const JinjaText *width_text = NULL;
    JinjaValue whole, lines;
    JinjaWriter writer;
    int64_t width = 4;
    int r = 0;

    if (self.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, self);
    if (self.type != JINJA_TEXT)
        return jinja_fail(run, "filter 'indent' needs a string, not '%s'", jinja_type_name(self));
    if (values[0].type == JINJA_TEXT)
        width_text = values[0].text;
    else
        r = jinja_take_int(run, values[0], "the width", &width);
    if (!r)
        r = jinja_text_concat(run, self.text, &newline, &whole);
    if (!r)
        r = jinja_text_lines(run, whole.text, false, &lines);
    jinja_writer_init(&writer, run);
    for (uint32_t i = 0; !r && i < lines.list->n; i++) {
        const JinjaText *line = lines.list->items[i].text;

        if (i)
            jinja_write_chars(&writer, "\n");
        if (i ? blank || line->len_bytes : first) {
            if (width_text)
                jinja_write(&writer, width_text);
            for (int64_t k = 0; !width_text && k < width && !writer.failure; k++)
                jinja_write_chars(&writer, " ");
        }
        jinja_write(&writer, line);
        r = writer.failure;
    }
    return r ? r : jinja_writer_finish(&writer, valuep);
}

static int filter_wordcount(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    bool in_word = false;
    int64_t count = 0;
    int r = soft_text(run, self, &text);

    for (size_t at = 0, n; !r && at < text->len_bytes; at += n) {
        uint32_t code_point = jinja_text_code_point(text, at, &n);
        bool is_word = code_point == '_' || jinja_unicode_is_alpha(code_point) ||
                       jinja_unicode_is_numeric(code_point) || jinja_unicode_is_digit(code_point);

        count += is_word && !in_word;
        in_word = is_word;
    }
    *valuep = jinja_int(count);
    return r;
}

static int filter_truncate(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    static const JinjaText dots = { .data = "...", .len_bytes = 3, .n_chars = 3 },
                           space = { .data = " ", .len_bytes = 1, .n_chars = 1 };
    const JinjaText *text, *end = &dots;
    int64_t length = 255, leeway = 5, n_chars;
    JinjaValue part;
    size_t at;
    int r = jinja_take_int(run, values[0], "length", &length);

    if (!r)
        r = jinja_take_text(run, values[2], "end", &end);
    if (!r && values[3].type != JINJA_NONE)
        r = jinja_take_int(run, values[3], "leeway", &leeway);
    if (!r && (length < (int64_t)end->n_chars || leeway < 0 || length > INT32_MAX || leeway > INT32_MAX))
        return jinja_fail(run, "filter 'truncate': length and leeway do not fit");
    if (!r && !jinja_length(self, &n_chars))
        return jinja_fail(run, "object of type '%s' has no length", jinja_type_name(self));
    if (r || n_chars <= length + leeway) {
        *valuep = self;
        return r;
    }
    if (self.type != JINJA_TEXT)
        return jinja_fail(run, "filter 'truncate' needs a string, not '%s'", jinja_type_name(self));
    text = self.text;
    at = jinja_text_offset(text, (size_t)(length - end->n_chars));
    if (!is_set(values[1])) {
        size_t word = jinja_text_rfind(text, 0, at, &space);

        at = word == SIZE_MAX ? at : word;
    }
    r = jinja_text_slice(run, text, 0, at, &part);
    return r ? r : jinja_text_concat(run, part.text, end, valuep);
}

static int filter_format(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    int r = soft_text(run, self, &text);

    if (!r && arguments->n && arguments->n_named)
        return jinja_fail(run, "filter 'format' takes arguments with names or without, not both");
    return r ? r : jinja_format_percent(run, text, arguments, false, valuep);
}

static int filter_urlencode(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *text = NULL;
    JinjaWriter writer;
    int r = soft_text(run, self, &text);

    if (!r && jinja_is_iterable(self) && self.type != JINJA_TEXT)
        return jinja_fail(run, "filter 'urlencode' is known for strings only");
    jinja_writer_init(&writer, run);
    for (size_t at = 0; !r && at < text->len_bytes; at++) {
        unsigned char c = (unsigned char)text->data[at];
        char escape[4];

        if (c &&
            (c < 0x80 && (strchr("_.-~/", c) || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')))) {
            jinja_write_part(&writer, text, at, at + 1);
        } else {
            snprintf(escape, sizeof(escape), "%%%02X", c);
            jinja_write_chars(&writer, escape);
        }
        r = writer.failure;
    }
    return r ? r : jinja_writer_finish(&writer, valuep);
}

/* --- any value -------------------------------------------------------------------------------------------------- */

static int filter_default(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    if (self.type != JINJA_UNDEFINED && !(is_set(values[1]) && !jinja_truth(self))) {
        *valuep = self;
        return 0;
    }
    *valuep = values[0];
    return jinja_given(values[0]) ? 0 : jinja_text_new(run, "", 0, valuep);
}

static int filter_length(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    int64_t length;

    if (!jinja_length(self, &length))
        return jinja_fail(run, "object of type '%s' has no length%s", jinja_type_name(self),
                          self.type == JINJA_STREAM ? ": '|list' makes a list of it" : "");
    *valuep = jinja_int(length);
    return 0;
}

static int filter_attr(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaText *name = NULL;
    int r = jinja_take_text(run, values[0], "the name", &name);

    if (!r && self.type == JINJA_DICT) { /* attributes, not keys */
        JinjaValue empty;

        r = jinja_dict_new(run, JINJA_DICT, &empty);
        return r ? r : jinja_attribute(run, empty, name, valuep);
    }
    return r ? r : jinja_attribute(run, self, name, valuep);
}

/* json.dumps(): the settings of its arguments. */
static int filter_tojson(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    static const JinjaText comma_space = { .data = ", ", .len_bytes = 2, .n_chars = 2 },
                           comma = { .data = ",", .len_bytes = 1, .n_chars = 1 },
                           colon = { .data = ": ", .len_bytes = 2, .n_chars = 2 };
    JinjaJsonStyle style = { .ascii_only = is_set(values[0]), .sorts_keys = is_set(values[3]) };
    JinjaWriter writer;
    JinjaValue indent;
    int64_t width = 0;
    int r = 0;

    style.is_indented = jinja_given(values[1]) && values[1].type != JINJA_NONE;
    style.item_separator = style.is_indented ? &comma : &comma_space;
    style.key_separator = &colon;
    if (style.is_indented && values[1].type == JINJA_TEXT) {
        style.indent = values[1].text;
    } else if (style.is_indented) {
        r = jinja_take_int(run, values[1], "indent", &width);
        jinja_writer_init(&writer, run);
        for (int64_t i = 0; i < width && !r && !writer.failure; i++)
            jinja_write_chars(&writer, " ");
        if (!r)
            r = jinja_writer_finish(&writer, &indent);
        if (!r)
            style.indent = indent.text;
    }
    if (!r && jinja_given(values[2]) && values[2].type != JINJA_NONE) {
        JinjaList list;

        r = jinja_items(run, values[2], &list);
        if (!r && (list.n != 2 || list.items[0].type != JINJA_TEXT || list.items[1].type != JINJA_TEXT))
            return jinja_fail(run, "tojson: separators must be two strings");
        if (!r) {
            style.item_separator = list.items[0].text;
            style.key_separator = list.items[1].text;
        }
    }
    if (r)
        return r;
    jinja_writer_init(&writer, run);
    jinja_json_write(&writer, self, &style);
    return jinja_writer_finish(&writer, valuep);
}

/* --- table ------------------------------------------------------------------------------------------------------ */

const JinjaFilter *jinja_filter_find(const JinjaText *name) {
    static const JinjaFilter filters[] = {
        { .name = "attr", .fn = filter_attr, .n_required = 1, .parameters = { "name" } },
        { .name = "capitalize", .fn = filter_capitalize },
        { .name = "center", .fn = filter_center, .parameters = { "width" } },
        { .name = "count", .fn = filter_length },
        { .name = "d", .fn = filter_default, .parameters = { "default_value", "boolean" } },
        { .name = "default", .fn = filter_default, .parameters = { "default_value", "boolean" } },
        { .name = "e", .fn = filter_escape },
        { .name = "escape", .fn = filter_escape },
        { .name = "forceescape", .fn = filter_forceescape },
        { .name = "format", .variadic = filter_format },
        { .name = "indent", .fn = filter_indent, .parameters = { "width", "first", "blank" } },
        { .name = "length", .fn = filter_length },
        { .name = "lower", .fn = filter_lower },
        { .name = "replace", .fn = filter_replace, .n_required = 2, .parameters = { "old", "new", "count" } },
        { .name = "safe", .fn = filter_safe },
        { .name = "string", .fn = filter_string },
        { .name = "title", .fn = filter_title },
        { .name = "tojson",
          .fn = filter_tojson,
          .parameters = { "ensure_ascii", "indent", "separators", "sort_keys" } },
        { .name = "trim", .fn = filter_trim, .parameters = { "chars" } },
        { .name = "truncate", .fn = filter_truncate, .parameters = { "length", "killwords", "end", "leeway" } },
        { .name = "upper", .fn = filter_upper },
        { .name = "urlencode", .fn = filter_urlencode },
        { .name = "wordcount", .fn = filter_wordcount },
    };
    const JinjaFilter *found = jinja_builtin_find(filters, ARRAY_LEN(filters), name);

    if (!found)
        found = jinja_builtin_find(jinja_number_filters, jinja_n_number_filters, name);
    return found ? found : jinja_builtin_find(jinja_sequence_filters, jinja_n_sequence_filters, name);
}
