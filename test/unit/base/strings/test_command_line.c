// SPDX-License-Identifier: Apache-2.0
/* Command lines by tables: values in their fields and bounds, what is refused with which text, options by verb. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/strings/command_line.h"
#include "base/system/cpu.h"

typedef struct Settings {
    const char *name, *file;
    bool fast;
    uint32_t small;
    uint64_t large;
    size_t n;
    double share;
    Isa isa;
} Settings;

#define AT(field) .offset = offsetof(Settings, field)

static const CommandOption rows[] = {
    { { "name", 'n', "NAME", "a name" }, .set = command_set_text, AT(name) },
    { { "fast", 0, NULL, "be fast" }, .set = command_set_flag, AT(fast), .verbs = "run, walk" },
    { { "small", 0, "N", "a number" }, .set = command_set_u32, AT(small), .least = 5, .most = 10 },
    { { "large", 0, "N", "a number" }, .set = command_set_u64, AT(large), .most = UINT64_MAX, .accepts = "whole" },
    { { "help", 'h', NULL, "this text" }, .set = NULL },
};

static const CommandOption more_rows[] = {
    { { "count", 'c', "N", "how many" }, .set = command_set_size, AT(n), .least = 1, .most = 3, .verbs = "walk" },
    { { "share", 0, "X", "a part" }, .set = command_set_share, AT(share), .accepts = "a number from 0 on" },
    { { "isa", 0, "NAME", "instructions" }, .set = command_set_choice, AT(isa), .choices = isa_choices },
    { { "file", 0, "FILE", "a file" }, .set = command_set_text, AT(file), .least = 1, .accepts = "a file's name" },
};

static CommandLine line_of(Settings *settings) {
    return (CommandLine){
        .program = "prog",
        .see_help = "; see prog --help",
        .tables = { { "Options\n", rows, ARRAY_LEN(rows) }, { "More\n", more_rows, ARRAY_LEN(more_rows) } },
        .help_column = 20,
        .help_foot = "",
        .options = settings,
    };
}

/* Reads words with spaces between; what the program writes on standard error goes into text[500]. */
static bool read_line(CommandLine *line, const char *words, int *statusp, char *text) {
    static char copy[500]; /* arguments and values point into it */
    char *argv[16] = { (char *)"prog" }, *rest = copy;
    const int kept = dup(STDERR_FILENO);
    FILE *file = tmpfile();
    int argc = 1;
    size_t n;
    bool is_read;

    assert_true(file && kept >= 0);
    snprintf(copy, sizeof(copy), "%s", words);
    while (*words && (argv[argc] = strsep(&rest, " ")))
        argc++;
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    is_read = command_line_read(line, argc, argv, statusp);
    if (is_read && line->arguments[0])
        *statusp = command_line_check_verb(line, line->arguments[0]);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    rewind(file);
    n = fread(text, 1, 499, file);
    text[n] = 0;
    fclose(file);
    return is_read;
}

static void test_command_line_values(void **state) {
    Settings settings = { 0 };
    CommandLine line = line_of(&settings);
    char text[500];
    int status = -1;

    assert_true(read_line(&line, "walk -n me --small 10 --large=18446744073709551615 -c3 --share 0.5 --isa scalar here",
                          &status, text));
    assert_int_equal(status, COMMAND_OK);
    assert_string_equal(settings.name, "me");
    assert_true(settings.small == 10 && settings.large == UINT64_MAX && settings.n == 3 && settings.share == 0.5);
    assert_true(settings.isa == ISA_SCALAR && !settings.fast && !settings.file);
    assert_string_equal(line.arguments[0], "walk");
    assert_string_equal(line.arguments[1], "here");
    assert_null(line.arguments[2]);
    assert_true(command_line_has(&line, "name") && command_line_has(&line, "count"));
    assert_false(command_line_has(&line, "fast") || command_line_has(&line, "nothing"));
}

static void test_command_line_refusals(void **state) {
    static const struct {
        const char *words, *text;
    } cases[] = {
        { "--small 4", "prog: --small is 5..10, not '4'; see prog --help\n" },
        { "--small 11", "prog: --small is 5..10, not '11'; see prog --help\n" },
        { "--small 7x", "prog: --small is 5..10, not '7x'; see prog --help\n" },
        { "--small -7", "prog: --small is 5..10, not '-7'; see prog --help\n" },
        { "--large 18446744073709551616", "prog: --large is whole, not '18446744073709551616'; see prog --help\n" },
        { "--share -1", "prog: --share is a number from 0 on, not '-1'; see prog --help\n" },
        { "--isa mmx",
          "prog: --isa is best, scalar, avx2, avx512vnni, amx, neon, neondot or i8mm, not 'mmx'; see prog --help\n" },
        { "--file=", "prog: --file is a file's name, not ''; see prog --help\n" },
        { "--smal", "prog: '--smal' needs a value: --small=N\n" },
        { "--smart 1", "prog: unknown option '--smart': did you mean --small?\n" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Settings settings = { .small = 3 };
        CommandLine line = line_of(&settings);
        char text[500];
        int status = -1;

        assert_false(read_line(&line, cases[i].words, &status, text));
        assert_string_equal(text, cases[i].text);
        assert_int_equal(status, COMMAND_USAGE);
        assert_true(settings.small == 3);
    }
}

static void test_command_line_verbs(void **state) {
    Settings settings = { 0 };
    CommandLine line = line_of(&settings);
    char text[500];
    int status = -1;

    assert_true(read_line(&line, "run --fast", &status, text));
    assert_int_equal(status, COMMAND_OK);
    assert_true(settings.fast);
    line = line_of(&settings);
    assert_true(read_line(&line, "run -c 2", &status, text));
    assert_int_equal(status, COMMAND_USAGE);
    assert_string_equal(text, "prog: --count is for walk, not for 'run'; see prog --help\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command_line_values),
        cmocka_unit_test(test_command_line_refusals),
        cmocka_unit_test(test_command_line_verbs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
