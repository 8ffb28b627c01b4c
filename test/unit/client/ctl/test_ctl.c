// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#define _GNU_SOURCE
#include "client/ctl/ctl.h"

#include <fcntl.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/file_io.h"
#include "client/ctl/ctl_json.h"
#include "test/unit/client/ctl/diverted.h"

static const CtlVerb *const verbs[] = { &ctl_verb_generate, &ctl_verb_status, &ctl_verb_model_list,
                                        &ctl_verb_model_load };

/* Parses words (a NULL ends them); drops standard error. */
static int parse(Ctl *ctl, bool *helpp, char **words) {
    Diverted errors;
    bool version;
    int argc = 0, r;

    while (words[argc])
        argc++;
    *ctl = (Ctl){ .signal_fd = -1 };
    divert(&errors, stderr);
    r = ctl_parse(ctl, argc, words, verbs, ARRAY_LEN(verbs), helpp, &version);
    free(divert_end(&errors));
    return r;
}

static void drop(Ctl *ctl) {
    free(ctl->values);
    free(ctl->args);
}

#define WORDS(...) ((char *[]){ (char[]){ "coordgenctl" }, __VA_ARGS__, NULL })
#define WORD(text) ((char[]){ text })

static void test_ctl_parse_finds_verb_options_and_arguments(void **state) {
    uint64_t n = 0;
    bool help;
    Ctl ctl;

    assert_int_equal(parse(&ctl, &help,
                           WORDS(WORD("--socket"), WORD("/s"), WORD("generate"), WORD("one"), WORD("-n5"),
                                 WORD("--stop=a"), WORD("--stop"), WORD("--b"), WORD("-j"), WORD("--"), WORD("--two"))),
                     0);
    assert_ptr_equal(ctl.verb, &ctl_verb_generate);
    assert_int_equal(ctl.n_args, 2);
    assert_string_equal(ctl.args[0], "one");
    assert_string_equal(ctl.args[1], "--two");
    assert_string_equal(ctl_text(&ctl, "socket", ""), "/s");
    assert_true(ctl_number(&ctl, "max-tokens", 5, &n));
    assert_int_equal(n, 5);
    /* the last one counts; the word after an option is its value */
    assert_string_equal(ctl_text(&ctl, "stop", ""), "--b");
    assert_int_equal(ctl.json, CTL_JSON_SHORT);
    drop(&ctl);
}

static void test_ctl_parse_groups_and_aliases(void **state) {
    bool help;
    Ctl ctl;

    assert_int_equal(parse(&ctl, &help, WORDS(WORD("model"), WORD("-q"), WORD("list"))), 0);
    assert_ptr_equal(ctl.verb, &ctl_verb_model_list);
    assert_true(ctl.quiet);
    drop(&ctl);
    assert_int_equal(parse(&ctl, &help, WORDS(WORD("ls"))), 0);
    assert_ptr_equal(ctl.verb, &ctl_verb_model_list);
    drop(&ctl);
    assert_int_equal(parse(&ctl, &help, WORDS(WORD("ps"), WORD("--json=off"))), 0);
    assert_ptr_equal(ctl.verb, &ctl_verb_status);
    drop(&ctl);
    assert_int_equal(parse(&ctl, &help, WORDS(WORD("model"), WORD("load"), WORD("--help"))), 0);
    assert_true(help); /* even though an argument is missing */
    drop(&ctl);
}

static void test_ctl_parse_refuses(void **state) {
    char **cases[] = {
        WORDS(WORD("frobnicate")),
        WORDS(WORD("model")),
        WORDS(WORD("model"), WORD("ls")), /* an alias stands for the whole verb */
        WORDS(WORD("list")),
        WORDS(WORD("status"), WORD("extra")),
        WORDS(WORD("status"), WORD("--max-tokens=1")), /* option of another verb */
        WORDS(WORD("--max-tokens=1"), WORD("generate")),
        WORDS(WORD("generate"), WORD("--max-tokens")),
        WORDS(WORD("generate"), WORD("--raw=yes")),
        WORDS(WORD("generate"), WORD("--")), /* valid: no argument means standard input */
        WORDS(WORD("generate"), WORD("-rzq")),
        WORDS(WORD("generate"), WORD("-z")),
        WORDS(WORD("status"), WORD("--json=loud")),
        WORDS(WORD("status"), WORD("---")),
        WORDS(WORD("status"), WORD("--=x")),
        WORDS(WORD("model"), WORD("load")),
        WORDS(WORD("-q")),
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bool help;
        Ctl ctl;

        if (parse(&ctl, &help, cases[i]) != (i == 9 ? 0 : CTL_EXIT_USAGE))
            fail_msg("case %zu", i);
        drop(&ctl);
    }
}

static void test_ctl_numbers(void **state) {
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        { "0", true },
        { "18446744073709551615", true },
        { "18446744073709551616", false },
        { "-1", false },
        { "+1", false },
        { " 1", false },
        { "1x", false },
        { "", false },
        { "0x10", false },
        { "1.5", false },
    };
    static const Option seed = { "seed", 0, "N", "" };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CtlValue value = { &seed, cases[i].text };
        Ctl ctl = { .values = &value, .n_values = 1 };
        uint64_t n = 7;
        Diverted errors;
        bool good;

        divert(&errors, stderr);
        good = ctl_number(&ctl, "seed", UINT64_MAX, &n);
        free(divert_end(&errors));
        if (good != cases[i].good || (!good && n != 7))
            fail_msg("'%s'", cases[i].text);
    }
}

static void test_ctl_reals(void **state) {
    static const struct {
        const char *text;
        bool good;
        double value;
    } cases[] = {
        { "4.7", true, 4.7 }, { "-0.1", true, -0.1 }, { "1e-400", true, 0 }, { "1e400", false, 7 },
        { "4.7x", false, 7 }, { "", false, 7 },       { "0x4", false, 7 },   { "0X1.8p2", false, 7 },
        { "nan", false, 7 },  { "inf", false, 7 },    { " 4", false, 7 },
    };
    static const Option bits = { "bits", 0, "B", "" };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CtlValue value = { &bits, cases[i].text };
        Ctl ctl = { .values = &value, .n_values = 1 };
        Diverted errors;
        double wide = 7;
        float narrow = 7;
        bool good;

        divert(&errors, stderr);
        good = ctl_real(&ctl, "bits", &wide) && ctl_float(&ctl, "bits", &narrow);
        free(divert_end(&errors));
        if (good != cases[i].good || wide != cases[i].value || narrow != (float)cases[i].value)
            fail_msg("'%s'", cases[i].text);
    }
}

static void check_queued(uint32_t position, const char *expected) {
    Ctl ctl = { .err_tty = true };
    Diverted errors;
    char *text;

    divert(&errors, stderr);
    ctl_progress_queued(&ctl, position);
    text = divert_end(&errors);
    if (!strstr(text, expected))
        fail_msg("'%s', expected '%s'", text, expected);
    free(text);
}

/* The service counts from 1. */
static void test_ctl_progress_queued(void **state) {
    check_queued(1, "waiting: this is the next");
    check_queued(2, "waiting: 1 before this one");
    check_queued(UINT32_MAX, "waiting: 4294967294 before this one");
}

static void check_put(const char *in, size_t len_bytes, bool tty, const char *out, size_t out_bytes) {
    char *text = NULL;
    size_t text_bytes;
    FILE *file = open_memstream(&text, &text_bytes);

    ctl_put(file, in, len_bytes, tty);
    fclose(file);
    assert_int_equal(text_bytes, out_bytes);
    assert_memory_equal(text, out, out_bytes);
    free(text);
}

#define PUT(in, out) check_put(in, sizeof(in) - 1, true, out, sizeof(out) - 1)

static void test_ctl_put_keeps_a_terminal_safe(void **state) {
    PUT("plain \xc3\xbc \xe2\x82\xac \xf0\x9f\x99\x82\n\tend", "plain \xc3\xbc \xe2\x82\xac \xf0\x9f\x99\x82\n\tend");
    PUT("\033]0;title\007x\033[2Jy", "]0;titlex[2Jy");
    PUT("a\0b\rc\bd\177e", "abcde");
    PUT("\xc2\x9b"
        "31mred\xc2\xa0ok",
        "31mred\xc2\xa0ok"); /* C1: CSI as U+009B; U+00A0 is text */
    PUT("\x9b"
        "2J\x85",
        "2J"); /* single bytes, which are not UTF-8 */
    PUT("cut\xe2\x82", "cut");
    PUT("\xe2\x9b[31m", "[31m"); /* a lead byte must not swallow what follows */
    PUT("a\xe0\x80\x9b\x5b"
        "2J",
        "a[2J"); /* a lenient reader would take this overlong form for an escape */
    PUT("a\xed\xa0\x80z", "az");
    check_put("\033[0m", 4, false, "\033[0m", 4); /* a file gets every byte */
}

/* Characters have their display width; an invalid byte takes one column. */
static void test_ctl_put_lines(void **state) {
    static const char text[] = "Gr\xc3\xbc\xc3\x9f"
                               "e!\n\n\xe4\xb8\x96\xe7\x95\x8c"
                               "x\n\xff\xfe\xff\xfe\xff"
                               "end\ne\xcc\x81\xcc\x81"
                               "abcd";
    _cleanup_(freep) char *out = NULL;
    size_t len_bytes;
    FILE *file = open_memstream(&out, &len_bytes);

    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    ctl_put_lines(file, text, 4);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(out, "Gr\xc3\xbc\xc3\x9f\n\n\xe4\xb8\x96\xe7\x95\x8c\n\xff\xfe\xff\xfe\n"
                             "e\xcc\x81\xcc\x81"
                             "abc\n");
}

static void test_ctl_columns(void **state) {
    static const struct {
        const char *given;
        unsigned columns;
    } cases[] = { { "50", 50 }, { "0", 80 }, { "many", 80 }, { "99999999", 80 }, { NULL, 80 } };
    int fd = open("/dev/null", O_RDONLY);

    assert_true(fd >= 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (cases[i].given)
            setenv("COLUMNS", cases[i].given, 1);
        else
            unsetenv("COLUMNS");
        assert_int_equal(ctl_columns(fd), cases[i].columns);
    }
    close(fd);
}

static void test_ctl_put_escaped(void **state) {
    static const char in[] = "a\n\\\xe2\x82\xac\x1b\xff";
    char *text = NULL;
    size_t text_bytes;
    FILE *file = open_memstream(&text, &text_bytes);

    ctl_put_escaped(file, in, sizeof(in) - 1);
    fclose(file);
    assert_string_equal(text, "a\\n\\\\\xe2\x82\xac\\x1b\\xff");
    free(text);
}

static void test_ctl_json_text_is_always_text(void **state) {
    json_t *good = ctl_json_text("a\0b", 3), *bad = ctl_json_text("a\xff\xe2\x82z\xe2\x82\xac", 8);

    assert_int_equal(json_string_length(good), 3);
    assert_string_equal(json_string_value(bad), "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\xe2\x82\xac");
    json_decref(good);
    json_decref(bad);
}

static void test_ctl_amounts(void **state) {
    char room[32];

    assert_string_equal(ctl_bytes_text(room, sizeof(room), 1023), "1023 B");
    assert_string_equal(ctl_bytes_text(room, sizeof(room), 1536), "1.5 KiB");
    assert_string_equal(ctl_bytes_text(room, sizeof(room), UINT64_MAX), "16.0 EiB");
    assert_string_equal(ctl_duration_text(room, sizeof(room), 999), "999 us");
    assert_string_equal(ctl_duration_text(room, sizeof(room), 61000000), "1 min 1 s");
    assert_string_equal(ctl_duration_text(room, sizeof(room), UINT64_C(90000) * 1000000), "1 days 1 h");
    assert_string_equal(ctl_count_text(room, sizeof(room), 134515008), "134.5 M");
}

static void test_ctl_exit_status(void **state) {
    assert_int_equal(ctl_exit_status(COORDGEN_E_BUSY, 100), CTL_EXIT_BUSY);
    assert_int_equal(ctl_exit_status(COORDGEN_E_BUSY, 0), CTL_EXIT_FAILED);
    assert_int_equal(ctl_exit_status(COORDGEN_E_MODEL_NOT_READY, 100), CTL_EXIT_BUSY);
    assert_int_equal(ctl_exit_status(COORDGEN_E_MODEL_NOT_READY, 0), CTL_EXIT_FAILED);
    assert_int_equal(ctl_exit_status(COORDGEN_E_QUOTA_EXCEEDED, 100), CTL_EXIT_BUSY);
    assert_int_equal(ctl_exit_status(COORDGEN_E_QUOTA_EXCEEDED, 0), CTL_EXIT_FAILED);
    assert_int_equal(ctl_exit_status(COORDGEN_E_MODEL_IN_USE, 0), CTL_EXIT_BUSY);
    assert_int_equal(ctl_exit_status(COORDGEN_E_INVALID_ARGUMENT, 100), CTL_EXIT_USAGE);
    assert_int_equal(ctl_exit_status(COORDGEN_E_DENIED, 0), CTL_EXIT_DENIED);
    assert_int_equal(ctl_exit_status(COORDGEN_E_MODEL_NOT_FOUND, 0), CTL_EXIT_FAILED);
    assert_int_equal(ctl_exit_status(-1, 0), CTL_EXIT_FAILED);
    assert_int_equal(ctl_exit_status(0, 0), CTL_EXIT_OK);
}

/* The manual page lists every error with an exit status of its own, under that status. */
static void test_ctl_exit_status_in_the_manual_page(void **state) {
    _cleanup_(freep) char *page = NULL;
    const char *section, *end;
    size_t len_bytes;

    assert_int_equal(file_slurp("packaging/man/coordgenctl.1", 1 << 20, &page, &len_bytes, NULL), 0);
    section = strstr(page, ".SH \"EXIT STATUS\"");
    assert_non_null(section);
    end = strstr(section + 1, "\n.SH");
    for (int code = 1; code <= COORDGEN_E_WRONG_STATE; code++) {
        int exit_status = ctl_exit_status(code, 100);
        char head[16], name[64] = "";
        const char *at, *found;

        if (exit_status == CTL_EXIT_FAILED)
            continue;
        for (const char *from = coordgen_error_name(code); *from; from++)
            snprintf(name + strlen(name), sizeof(name) - strlen(name), *from == '-' ? "\\-" : "%c", *from);
        snprintf(head, sizeof(head), "\n.TP\n%d\n", exit_status);
        at = strstr(section, head);
        assert_non_null(at);
        found = strstr(at, name);
        if (!found || found > end || found > strstr(at + 1, "\n.TP"))
            fail_msg("%s is not under %d", name, exit_status);
    }
}

/* A draft model is explained if one was asked for, and always in JSON. */
static void test_ctl_explanation_of_a_draft_model(void **state) {
    CoordgenExplanation explanation = { .struct_bytes = sizeof(explanation), .decode_steps = 2, .valid_rows = 2 };

    for (int asked = 0; asked < 2; asked++) {
        char *text = NULL;
        size_t len_bytes;
        FILE *out = open_memstream(&text, &len_bytes);
        json_t *object;

        explanation.model_passes = asked ? 31 : 0;
        explanation.model_rows = asked ? 52 : 0;
        explanation.model_us = asked ? 402100 : 0;
        assert_non_null(out);
        ctl_print_explanation(out, &explanation);
        fclose(out);
        assert_int_equal(
            strstr(text, "Draft model  31 passes, 52 rows, 402.1 ms with its reading of the text\n") != NULL, asked);
        assert_int_equal(strstr(text, "Draft model") != NULL, asked);
        free(text);
        object = ctl_json_explanation(&explanation);
        assert_int_equal(json_integer_value(json_object_get(object, "model_passes")), asked ? 31 : 0);
        assert_int_equal(json_integer_value(json_object_get(object, "model_rows")), asked ? 52 : 0);
        assert_int_equal(json_integer_value(json_object_get(object, "model_us")), asked ? 402100 : 0);
        json_decref(object);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ctl_parse_finds_verb_options_and_arguments),
        cmocka_unit_test(test_ctl_parse_groups_and_aliases),
        cmocka_unit_test(test_ctl_parse_refuses),
        cmocka_unit_test(test_ctl_numbers),
        cmocka_unit_test(test_ctl_reals),
        cmocka_unit_test(test_ctl_progress_queued),
        cmocka_unit_test(test_ctl_put_keeps_a_terminal_safe),
        cmocka_unit_test(test_ctl_put_lines),
        cmocka_unit_test(test_ctl_columns),
        cmocka_unit_test(test_ctl_put_escaped),
        cmocka_unit_test(test_ctl_json_text_is_always_text),
        cmocka_unit_test(test_ctl_amounts),
        cmocka_unit_test(test_ctl_explanation_of_a_draft_model),
        cmocka_unit_test(test_ctl_exit_status),
        cmocka_unit_test(test_ctl_exit_status_in_the_manual_page),
    };

    return cmocka_run_group_tests_name("ctl", tests, NULL, NULL);
}
