// SPDX-License-Identifier: Apache-2.0
/* Methods and filters of strings about letters: their case, and the classes of characters in a string. */
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/builtins/jinja_string.h"

#define SIGMA 0x3a3
#define FINAL_SIGMA 0x3c2
#define SIGMA_LOOKS_MAX 64 /* characters looked at on each side; longer runs of combining marks are no text */

static bool is_cased(uint32_t code_point) {
    return jinja_unicode_is_upper(code_point) || jinja_unicode_is_lower(code_point) ||
           jinja_unicode_is_title(code_point);
}

/* Whether a capital sigma ends a word and gets the form for that in lower case. */
static bool sigma_ends_word(const JinjaText *text, size_t at, size_t len_bytes) {
    size_t n, before = at, behind = at + len_bytes, n_looked = 0;
    uint32_t code_point = 0;

    do {
        if (!before || n_looked++ == SIGMA_LOOKS_MAX)
            return false;
        before -= jinja_text_char_before(text, before);
        code_point = jinja_text_code_point(text, before, &n);
    } while (jinja_unicode_is_case_ignorable(code_point));
    if (!is_cased(code_point))
        return false;
    for (n_looked = 0; behind < text->len_bytes && n_looked < SIGMA_LOOKS_MAX; behind += n, n_looked++) {
        code_point = jinja_text_code_point(text, behind, &n);
        if (!jinja_unicode_is_case_ignorable(code_point))
            return !is_cased(code_point);
    }
    return true;
}

void jinja_write_case(JinjaWriter *writer, const JinjaText *text, size_t from, size_t to, JinjaCase to_case) {
    jinja_spend(writer->run, (to - from) / 8);
    for (size_t at = from, len_bytes; at < to; at += len_bytes) {
        uint32_t code_point = jinja_text_code_point(text, at, &len_bytes), made[3];
        size_t n = jinja_unicode_convert(code_point, to_case, made);

        if (code_point == SIGMA && to_case == JINJA_CASE_LOWER && sigma_ends_word(text, at, len_bytes))
            made[0] = FINAL_SIGMA;
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
    jinja_write_case(&writer, text, 0, n, first);
    jinja_write_case(&writer, text, n, text->len_bytes, others);
    return jinja_str(jinja_writer_finish(&writer));
}

JinjaValue jinja_str_upper(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return convert(run, self.text, JINJA_CASE_UPPER, JINJA_CASE_UPPER);
}

JinjaValue jinja_str_lower(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return convert(run, self.text, JINJA_CASE_LOWER, JINJA_CASE_LOWER);
}

JinjaValue jinja_str_capitalize(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return convert(run, self.text, JINJA_CASE_TITLE, JINJA_CASE_LOWER);
}

JinjaValue jinja_str_title(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaText *text = self.text;
    JinjaWriter writer;
    bool in_word = false;

    jinja_writer_init(&writer, run);
    for (size_t at = 0, n; at < text->len_bytes; at += n) {
        uint32_t code_point = jinja_text_code_point(text, at, &n);

        jinja_spend(run, 1);
        jinja_write_case(&writer, text, at, at + n, in_word ? JINJA_CASE_LOWER : JINJA_CASE_TITLE);
        in_word = is_cased(code_point);
    }
    return jinja_str(jinja_writer_finish(&writer));
}

/* Whether Jinja's filter "title" ends a word here: at "-", white space and opening brackets. */
static bool ends_title_word(uint32_t code_point) {
    return jinja_unicode_is_space(code_point) ||
           (code_point && code_point < 0x80 && strchr("-({[<", (int)code_point) != NULL);
}

JinjaValue jinja_filter_title(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaText *text = self.text;
    JinjaWriter writer;
    bool in_word = false;

    jinja_writer_init(&writer, run);
    for (size_t at = 0, end, n; at < text->len_bytes; at = end) {
        const bool ends_word = ends_title_word(jinja_text_code_point(text, at, &n));

        jinja_spend(run, 1);
        end = at + n;
        if (ends_word) {
            jinja_write_part(&writer, text, at, end);
        } else if (!in_word) {
            jinja_write_case(&writer, text, at, end, JINJA_CASE_UPPER);
        } else {
            while (end < text->len_bytes && !ends_title_word(jinja_text_code_point(text, end, &n)))
                end += n;
            jinja_write(&writer, jinja_str_lower(run, jinja_str(jinja_text_slice(run, text, at, end)), NULL).text);
        }
        in_word = !ends_word;
    }
    return jinja_str(jinja_writer_finish(&writer));
}

/* --- classes of characters -------------------------------------------------------------------------------------- */

static JinjaValue is_case(JinjaRun *run, const JinjaText *text, bool upper) {
    bool is_any = false;
    size_t n;

    jinja_spend(run, text->len_bytes / 16);
    for (size_t at = 0; at < text->len_bytes; at += n) {
        uint32_t code_point = jinja_text_code_point(text, at, &n);
        bool is_upper = jinja_unicode_is_upper(code_point), is_lower = jinja_unicode_is_lower(code_point);

        if ((upper ? is_lower : is_upper) || jinja_unicode_is_title(code_point))
            return jinja_bool(false);
        is_any = is_any || is_upper || is_lower;
    }
    return jinja_bool(is_any);
}

JinjaValue jinja_str_isupper(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return is_case(run, self.text, true);
}

JinjaValue jinja_str_islower(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return is_case(run, self.text, false);
}

static bool is_alnum(uint32_t code_point) {
    return jinja_unicode_is_alpha(code_point) || jinja_unicode_is_numeric(code_point);
}

static bool is_ascii(uint32_t code_point) {
    return code_point < 0x80;
}

static JinjaValue all_are(JinjaRun *run, const JinjaText *text, bool (*is)(uint32_t code_point), bool when_empty) {
    bool all = text->len_bytes > 0 || when_empty;
    size_t n;

    jinja_spend(run, text->len_bytes / 16);
    for (size_t at = 0; at < text->len_bytes && all; at += n)
        all = is(jinja_text_code_point(text, at, &n));
    return jinja_bool(all);
}

#define ALL_ARE_METHOD(name, is, when_empty)                                                                           \
    JinjaValue jinja_str_##name(JinjaRun *run, JinjaValue self, const JinjaValue *values) {                            \
        return all_are(run, self.text, is, when_empty);                                                                \
    }

ALL_ARE_METHOD(isalpha, jinja_unicode_is_alpha, false)
ALL_ARE_METHOD(isdecimal, jinja_unicode_is_decimal, false)
ALL_ARE_METHOD(isdigit, jinja_unicode_is_digit, false)
ALL_ARE_METHOD(isnumeric, jinja_unicode_is_numeric, false)
ALL_ARE_METHOD(isalnum, is_alnum, false)
ALL_ARE_METHOD(isspace, jinja_unicode_is_space, false)
ALL_ARE_METHOD(isascii, is_ascii, true)
ALL_ARE_METHOD(isprintable, jinja_unicode_is_printable, true)
