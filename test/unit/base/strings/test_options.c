// SPDX-License-Identifier: Apache-2.0
/* Tests of command lines: the reader's result, refusals with their texts, and the help of a table. */
#define _GNU_SOURCE
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strings/options.h"
#include "base/strings/str_buf.h"

static const Option common[] = {
    { "output", 'o', "FILE", "where it goes" },
    { "json", 0, "[HOW]", "as JSON,\nof one line perhaps" },
    { "quiet", 'q', NULL, "say less" },
    { "", 'j', NULL, "short for something" },
    { "old", 0, "", NULL },
};

/* Options known after the argument "verb". */
static const Option of_verb[] = {
    { "outline", 0, NULL, "draw" },
    { "number", 'n', "N", "how many" },
};

/* Writes the words as "name=value" and "(argument)", or the error. */
static void read_words(StrBuf *made, const char *line) {
    _cleanup_(freep) char *copy = strdup(line);
    char *argv[16] = { (char *)"program" }, *rest = copy;
    OptionReader reader;
    OptionWord word;
    int argc = 1, r;
    ErrText err;

    assert_non_null(copy);
    while (*line && (argv[argc] = strsep(&rest, " ")))
        argc++;
    option_reader_init(&reader, argc, argv);
    option_reader_add(&reader, common, ARRAY_LEN(common));
    str_buf_add(made, "");
    while (!(r = option_reader_next(&reader, &word, &err))) {
        if (made->len_bytes)
            str_buf_add(made, " ");
        if (!word.option)
            str_buf_addf(made, "(%s)", word.text);
        else
            str_buf_addf(made, "%s%c%s", *word.option->name ? word.option->name : "-j", word.text ? '=' : '.',
                         word.text ? word.text : "");
        if (!word.option && !strcmp(word.text, "verb"))
            option_reader_add(&reader, of_verb, ARRAY_LEN(of_verb));
    }
    if (r == OPTIONS_E_USAGE)
        str_buf_addf(made, "%s%s", made->len_bytes ? " " : "", err.text);
    assert_int_equal(r == OPTIONS_E_USAGE ? OPTIONS_E_END : r, OPTIONS_E_END);
}

static void test_options_read(void **state) {
    static const struct {
        const char *line, *made;
    } rows[] = {
        { "", "" },
        { "a --output x b", "(a) output=x (b)" },
        { "--output=x=y -o z -oz", "output=x=y output=z output=z" },
        { "--output= --output --quiet", "output= output=--quiet" }, /* the word after a name is its value */
        { "--json --json=short --json short", "json. json=short json. (short)" },
        { "-qj -qox", "quiet. -j. quiet. output=x" },
        { "--quiet -- --quiet -q", "quiet. (--quiet) (-q)" },
        { "-", "(-)" },
        { "- --quiet -- - -q", "(-) quiet. (-) (-q)" },
        { "--ou x", "output=x" },
        { "verb --number 5 -n6", "(verb) number=5 number=6" },
        { "--old x", "old=x" }, /* known, but not in the help */
        { "--number 5", "unknown option '--number': --help lists the options" },
        { "verb --ou x", "(verb) '--ou' is the beginning of 2 options: write out which one" },
        { "a --outptu=x", "(a) unknown option '--outptu=x': did you mean --output?" },
        { "--xyzzy", "unknown option '--xyzzy': --help lists the options" },
        { "-qx", "quiet. unknown option '-x': --help lists the options" },
        { "---", "unknown option '---': --help lists the options" },
        { "--=x", "unknown option '--=x': --help lists the options" },
        { "--quiet=yes", "--quiet takes no value, 'yes' was given" },
        { "a --output", "(a) '--output' needs a value: --output=FILE" },
        { "-qo", "quiet. '-qo' needs a value: --output=FILE" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_(str_buf_deinit) StrBuf made = STR_BUF_NULL;

        read_words(&made, rows[i].line);
        assert_false(str_buf_failed(&made));
        assert_string_equal(made.data ? made.data : "", rows[i].made);
    }
}

static void test_options_print(void **state) {
    _cleanup_(freep) char *text = NULL;
    size_t text_bytes;
    FILE *out = open_memstream(&text, &text_bytes);

    assert_non_null(out);
    options_print(out, common, ARRAY_LEN(common), 20);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "  -o, --output=FILE  where it goes\n"
                              "      --json[=HOW]   as JSON,\n"
                              "                     of one line perhaps\n"
                              "  -q, --quiet        say less\n"
                              "  -j                 short for something\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_read),
        cmocka_unit_test(test_options_print),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
