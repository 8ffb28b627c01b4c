// SPDX-License-Identifier: Apache-2.0
/* Methods of strings about letters: their case, and what a string consists of. */
#include "text/jinja/jinja_builtin.h"

/* --- case ------------------------------------------------------------------------------------------------------- */

static bool is_cased(uint32_t code_point) {
    return jinja_unicode_is_upper(code_point) || jinja_unicode_is_lower(code_point) ||
           jinja_unicode_is_title(code_point);
}

/* Whether a capital sigma ends a word, and is written as such in lower case. Bounded: who writes hundreds of combining
 * marks there does not mind. */
static bool sigma_ends_word(const JinjaText *text, size_t at, size_t len_bytes) {
    size_t n, before = at, behind = at + len_bytes, n_looked = 0;
    uint32_t code_point = 0;

    for (;; n_looked++) {
        if (!before || n_looked == 64)
            return false;
        before -= jinja_text_char_before(text, before);
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

/* --- table ------------------------------------------------------------------------------------------------------ */

const JinjaBuiltin jinja_text_case_methods[] = {
    { .name = "capitalize", .fn = method_capitalize }, { .name = "casefold", .fn = method_lower },
    { .name = "isalnum", .fn = method_isalnum },       { .name = "isalpha", .fn = method_isalpha },
    { .name = "isascii", .fn = method_isascii },       { .name = "isdecimal", .fn = method_isdecimal },
    { .name = "isdigit", .fn = method_isdigit },       { .name = "islower", .fn = method_islower },
    { .name = "isnumeric", .fn = method_isnumeric },   { .name = "isprintable", .fn = method_isprintable },
    { .name = "isspace", .fn = method_isspace },       { .name = "istitle", .fn = method_istitle },
    { .name = "isupper", .fn = method_isupper },       { .name = "lower", .fn = method_lower },
    { .name = "swapcase", .fn = method_swapcase },     { .name = "title", .fn = method_title },
    { .name = "upper", .fn = method_upper },
};
const size_t jinja_n_text_case_methods = ARRAY_LEN(jinja_text_case_methods);
