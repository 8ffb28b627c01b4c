// SPDX-License-Identifier: Apache-2.0
/* The rule on loops beside a naive form of it that looks at every period anew, and texts that are no loops. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/repetition_check.h"

enum {
    TEXT_MAX = 4096
};

static uint64_t random_state = 20261128;

static size_t random_below(size_t limit) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state >> 20) % limit;
}

/* Returns after how many tokens the text becomes a loop; 0: it does not. */
static size_t loop_at(const uint32_t *text, size_t n) {
    RepetitionCheck check = { 0 };

    for (size_t i = 1; i <= n; i++)
        if (repetition_check_push(&check, text, i))
            return i;
    return 0;
}

static size_t n_different(const uint32_t *text, size_t n) {
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        size_t before = 0;

        while (before < i && text[before] != text[i])
            before++;
        count += before == i;
    }
    return count;
}

/* The rule word by word as the header states it. */
static bool is_loop(const uint32_t *text, size_t n) {
    for (size_t period = 1; period <= REPETITION_PERIOD_MAX && period < n; period++) {
        size_t tokens = period, factor;

        while (tokens < n && text[n - 1 - (tokens - period)] == text[n - 1 - tokens])
            tokens++;
        if (tokens < REPETITION_TOKENS_MIN)
            continue;
        factor = n_different(text + n - period, period) < REPETITION_VARIETY ? 2 : 1;
        if (tokens >= factor * REPETITION_TOKENS_MIN && tokens >= factor * REPETITION_REPEATS_MIN * period)
            return true;
    }
    return false;
}

static size_t loop_at_by_force(const uint32_t *text, size_t n) {
    for (size_t i = 1; i <= n; i++)
        if (is_loop(text, i))
            return i;
    return 0;
}

/* Fills a text: a beginning, then a period of so many different tokens over and over, with a mistake now and then. */
static size_t random_text(uint32_t *text) {
    const size_t n_begin = random_below(100), period = 1 + random_below(290), n = 300 + random_below(2000);
    const uint32_t n_vocab = 1 + (uint32_t)random_below(24);
    const size_t mistake = random_below(4) ? 0 : n_begin + random_below(n);

    for (size_t i = 0; i < n; i++)
        text[i] = i < n_begin + period ? (uint32_t)random_below(n_vocab) : text[i - period];
    if (mistake && mistake < n)
        text[mistake] += 1000;
    return n;
}

static void test_repetition_check_by_force(void **state) {
    static uint32_t text[TEXT_MAX];
    size_t n_loops = 0, n_others = 0;

    for (int round = 0; round < 120; round++) {
        const size_t n = random_text(text), at = loop_at(text, n);

        assert_int_equal(at, loop_at_by_force(text, n));
        n_loops += at != 0;
        n_others += at == 0;
    }
    assert_true(n_loops > 20 && n_others > 20);
}

/* Fills text[n] with a period of `different` tokens. */
static void repeat(uint32_t *text, size_t n, size_t period, size_t different) {
    for (size_t i = 0; i < n; i++)
        text[i] = (uint32_t)(i % period % different);
}

static void test_repetition_check_limits(void **state) {
    static uint32_t text[TEXT_MAX];
    static const struct {
        size_t period, different, at;
    } cases[] = {
        { 20, 20, 256 },                       /* a sentence */
        { 20, 8, 256 },                        /* enough variety */
        { 20, 7, 512 },                        /* too little variety: a table may repeat so */
        { 1, 1, 512 },                         /* a ruler */
        { 42, 42, 256 },                       /* the repeats have too few tokens */
        { 43, 43, 258 },                       /* six of them */
        { 100, 100, 600 },                     /* a paragraph */
        { 100, 3, 1200 },  { 256, 200, 1536 }, /* the longest period */
        { 257, 200, 0 },                       /* a longer period is not seen */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        repeat(text, 2000, cases[i].period, cases[i].different);
        if (loop_at(text, 2000) != cases[i].at)
            fail_msg("period %zu of %zu different tokens: %zu", cases[i].period, cases[i].different,
                     loop_at(text, 2000));
    }
}

/* Fills rows of a matrix: cells and separators, then the end of the row. */
static size_t matrix(uint32_t *text, size_t rows, size_t columns) {
    size_t n = 0;

    for (size_t row = 0; row < rows; row++) {
        text[n++] = 3;
        for (size_t column = 0; column < columns; column++) {
            text[n++] = 1;
            text[n++] = 2;
        }
        text[n++] = 4;
    }
    return n;
}

static void test_repetition_check_leaves_alone(void **state) {
    static uint32_t text[TEXT_MAX];
    size_t n;

    assert_int_equal(loop_at(text, matrix(text, 16, 14)), 0); /* a matrix of zeros */
    assert_int_equal(loop_at(text, matrix(text, 20, 11)), 0);
    memset(text, 0, sizeof(text));
    assert_int_equal(loop_at(text, 511), 0); /* a run of one token */
    repeat(text, 250, 25, 25);               /* a line ten times */
    assert_int_equal(loop_at(text, 250), 0);
    for (n = 0; n < TEXT_MAX; n++) /* a list whose lines have numbers */
        text[n] = n % 12 ? (uint32_t)(n % 12) : (uint32_t)(100 + n / 12);
    assert_int_equal(loop_at(text, n), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repetition_check_by_force),
        cmocka_unit_test(test_repetition_check_limits),
        cmocka_unit_test(test_repetition_check_leaves_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
