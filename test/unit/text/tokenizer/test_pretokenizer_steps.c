// SPDX-License-Identifier: Apache-2.0
/* Cost of the pre-tokenizers' expressions, in steps of PCRE2 and bytes that it passes: linear in a text. */
#undef NDEBUG
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/cleanup.h"
#include "text/tokenizer/pretokenizer_table.h"

#define ACUTE "\xcc\x81"
#define HAN "\xe4\xb8\xad"
#define NBSP "\xc2\xa0"
#define LINE_SEPARATOR "\xe2\x80\xa8"

enum {
    HEAP_KIB = 64, /* for a match of any text; it does not grow with the text */
};

typedef struct Steps {
    uint64_t n;
    size_t at; /* place of the last step */
} Steps;

/* Called before each item of an expression, at every place where it is tried. The distance from the last place is the
 * bytes that a repetition took or gave back. */
static int count_step(pcre2_callout_block *block, void *opaque) {
    Steps *steps = opaque;
    size_t at = block->current_position;

    steps->n += 1 + (at > steps->at ? at - steps->at : steps->at - at);
    steps->at = at;
    return 0;
}

typedef struct StagePieces {
    size_t *lens;
    size_t n;
} StagePieces;

static void add_piece(StagePieces *pieces, size_t len_bytes) {
    if (len_bytes)
        pieces->lens[pieces->n++] = len_bytes;
}

/* Runs one expression on the pieces of the one before, as pretokenizer_split() does. */
static void run_stage(const pcre2_code *code, const char *text, const StagePieces *before, StagePieces *after,
                      Steps *steps) {
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(match);

    pcre2_set_callout(context, count_step, steps);
    pcre2_set_heap_limit(context, HEAP_KIB);
    after->n = 0;
    for (size_t i = 0; i < before->n; text += before->lens[i++]) {
        size_t at = 0, end = before->lens[i];

        steps->at = 0;
        while (at < end) {
            int n = pcre2_match(code, (PCRE2_SPTR)text, end, at, PCRE2_NO_UTF_CHECK, match, context);

            if (n == PCRE2_ERROR_NOMATCH)
                break;
            if (n < 0)
                fail_msg("PCRE2 gives %d in a piece of %zu bytes at %zu", n, end, at);
            assert_true(span[1] > span[0]);
            add_piece(after, span[0] - at);
            add_piece(after, span[1] - span[0]);
            at = span[1];
        }
        add_piece(after, end - at);
    }
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
}

/* PCRE2's interpreter takes the same steps as its compiled programs, except for matches that these find without a
 * step. */
static uint64_t count_steps(pcre2_code *const *stages, size_t n_stages, const char *text, size_t len_bytes) {
    _cleanup_(freep) size_t *lens = malloc(2 * len_bytes * sizeof(*lens));
    StagePieces before = { lens, 0 }, after = { lens + len_bytes, 0 };
    Steps steps = { 0 };

    assert_non_null(lens);
    add_piece(&before, len_bytes);
    for (size_t i = 0; i < n_stages; i++) {
        StagePieces swapped = before;

        run_stage(stages[i], text, &before, &after, &steps);
        before = after;
        after = swapped;
    }
    return steps.n;
}

/* Makes a run of units and its end. */
static size_t make_text(char *text, size_t n_bytes, const char *unit, const char *end) {
    size_t unit_bytes = strlen(unit), n = n_bytes / unit_bytes * unit_bytes;

    for (size_t i = 0; i < n; i += unit_bytes)
        memcpy(text + i, unit, unit_bytes);
    memcpy(text + n, end, strlen(end));
    return n + strlen(end);
}

static void check_texts(pcre2_code *const *stages, size_t n_stages, const char *family) {
    static const char *const units[] = {
        " ",
        "\n",
        "\r\n",
        " \n",
        "\n ",
        "\t ",
        NBSP,
        LINE_SEPARATOR,
        "a",
        "A",
        "aA",
        "a ",
        "A ",
        " A",
        HAN,
        HAN "A",
        "A" HAN,
        "a" HAN,
        "\xc3\x80",
        ACUTE,
        "a" ACUTE,
        " " ACUTE,
        "1",
        "1 ",
        "a1",
        "!",
        "! ",
        "!a",
        "'",
        "'s",
        "A's",
        "<",
        "<sentinel:",
        "IMGIMG",
        "IMGIMGA",
        "<sentinel:1",
        "/",
        "/\n",
        " /",
        "\x01",
        "_",
        "-" NBSP,
        "a a" ACUTE " ",
    };
    static const char *const ends[] = { "", "x", "X", "1", "!", "\n", " ", HAN, ACUTE, "\x01", "'", NBSP "1" };
    static const size_t n_short = 256;
    char text[4 * 256 + 16];

    for (size_t u = 0; u < ARRAY_LEN(units); u++)
        for (size_t e = 0; e < ARRAY_LEN(ends); e++) {
            size_t short_bytes = make_text(text, n_short, units[u], ends[e]);
            uint64_t n = count_steps(stages, n_stages, text, short_bytes), n_long;
            size_t long_bytes = make_text(text, 4 * n_short, units[u], ends[e]);

            n_long = count_steps(stages, n_stages, text, long_bytes);
            if (n_long > 4 * n + 400 || n > 60 * short_bytes + 200)
                fail_msg("%s: units \"%s\", then \"%s\": %" PRIu64 " steps for %zu bytes, %" PRIu64 " for %zu", family,
                         units[u], ends[e], n, short_bytes, n_long, long_bytes);
        }
}

/* In 32 KiB of text no match takes more memory than in a short one. */
static void check_memory(pcre2_code *const *stages, size_t n_stages, const char *family) {
    static const char *const units[] = { "a", " ", "\n",      "a a ",      "e" ACUTE " ", "A",  "aA",  HAN,
                                         "1", "!", (HAN "A"), ("a" ACUTE), " \n",         "'s", "/\n", ACUTE };
    static char text[(1 << 15) + 16];

    for (size_t u = 0; u < ARRAY_LEN(units); u++)
        (void)count_steps(stages, n_stages, text, make_text(text, 1 << 15, units[u], "x"));
}

static void each_family(bool with_callouts,
                        void (*check)(pcre2_code *const *stages, size_t n_stages, const char *family)) {
    const PretokenizerFamily *family;
    size_t n_families = 0;

    for (; (family = pretokenizer_family_at(n_families)); n_families++) {
        pcre2_code *stages[PRETOKENIZER_STAGES_MAX];
        size_t n_stages = 0;

        for (; n_stages < PRETOKENIZER_STAGES_MAX && family->stages[n_stages]; n_stages++) {
            PCRE2_SIZE at;
            int e;

            stages[n_stages] =
                pcre2_compile((PCRE2_SPTR)family->stages[n_stages], PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP | (with_callouts ? PCRE2_AUTO_CALLOUT : 0), &e, &at, NULL);
            assert_non_null(stages[n_stages]);
        }
        check(stages, n_stages, family->name);
        for (size_t i = 0; i < n_stages; i++)
            pcre2_code_free(stages[i]);
    }
    assert_true(n_families > 20);
}

static void test_pretokenizer_steps_are_linear(void **state) {
    each_family(true, check_texts);
}

static void test_pretokenizer_steps_take_no_memory(void **state) {
    each_family(false, check_memory);
}

/* The count shows that a model's own form of an expression, which is written differently here, is not linear. */
static void test_pretokenizer_steps_of_a_slow_expression(void **state) {
    PCRE2_SIZE at;
    int e;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR) "\\s+$", PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_AUTO_CALLOUT, &e, &at, NULL);
    char text[1024];
    uint64_t n, n_long;

    assert_non_null(code);
    n = count_steps(&code, 1, text, make_text(text, 200, " ", "1"));
    n_long = count_steps(&code, 1, text, make_text(text, 800, " ", "1"));
    assert_true(n_long > 12 * n);
    pcre2_code_free(code);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pretokenizer_steps_are_linear),
        cmocka_unit_test(test_pretokenizer_steps_take_no_memory),
        cmocka_unit_test(test_pretokenizer_steps_of_a_slow_expression),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
