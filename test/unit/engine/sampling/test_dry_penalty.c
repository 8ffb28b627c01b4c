// SPDX-License-Identifier: Apache-2.0
/* DRY beside its definition: every earlier place is compared with the end, token by token. */
#undef NDEBUG
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "engine/sampling/dry_penalty.h"

#define N_VOCAB 40
#define N_MAX 400

static uint32_t x = 7;

static uint32_t next(uint32_t below) {
    x = x * 1664525u + 1013904223u;
    return (x >> 8) % below;
}

/* Bytes of tokens: letters, some with a mark, one of more bytes than any breaker, one without any. */
static const char *piece_of(uint32_t token) {
    static char text[64];

    if (token == 3)
        return "";
    if (token == 4)
        return "0123456789012345678901234567890123456789;";
    if (token == 5)
        return "|im_end|";
    snprintf(text, sizeof(text), "%c%s", (int)('a' + token % 26), token % 6 == 1 ? "." : token % 7 == 2 ? "-" : "");
    return text;
}

static void add_piece(const void *arg, uint32_t token, StrBuf *text) {
    str_buf_add(text, piece_of(token));
}

/* How many tokens are behind the last breaker, from the text of them all. */
static size_t limit_of(const DryOptions *options, const uint32_t *last, size_t n) {
    for (size_t i = n; i-- > 0;) {
        char text[N_MAX * 50] = "";
        size_t end = 0, own_bytes, room = 0;

        for (size_t j = i; j < n && j < i + 40; j++)
            room += (size_t)snprintf(text + room, sizeof(text) - room, "%s", piece_of(last[j]));
        own_bytes = strlen(piece_of(last[i]));
        for (size_t b = 0; b < options->n_breakers; b++)
            for (size_t at = 0; at < own_bytes; at++)
                if (!strncmp(text + at, options->breakers[b], strlen(options->breakers[b])))
                    end = MAX(end, at + strlen(options->breakers[b]));
        if (!end)
            continue;
        for (size_t done = own_bytes; done < end; done += strlen(piece_of(last[i])))
            i++;
        return n - 1 - i;
    }
    return n;
}

static void penalise_plainly(const DryOptions *options, const uint32_t *history, size_t n_history, float *logits) {
    const size_t n = options->window && options->window < n_history ? options->window : n_history;
    const uint32_t *last = history + n_history - n;
    const size_t limit = limit_of(options, last, n);
    int64_t longest[N_VOCAB];

    if (n <= options->allowed_length || limit < options->allowed_length)
        return;
    for (size_t i = 0; i < N_VOCAB; i++)
        longest[i] = -1;
    for (size_t at = 1; at < n; at++) {
        size_t length = 0;

        while (length < at && last[at - 1 - length] == last[n - 1 - length])
            length++;
        length = MIN(length, limit);
        if (length >= options->allowed_length && last[at] < N_VOCAB)
            longest[last[at]] = MAX(longest[last[at]], (int64_t)length);
    }
    for (size_t i = 0; i < N_VOCAB; i++) {
        double penalty = 1;
        bool is_breaker = false;

        for (size_t b = 0; b < options->n_breakers; b++)
            is_breaker = is_breaker || strstr(piece_of((uint32_t)i), options->breakers[b]);
        if (longest[i] < 0 || is_breaker)
            continue;
        for (int64_t k = options->allowed_length; k < longest[i]; k++)
            penalty = MIN(penalty * (double)options->base, (double)FLT_MAX);
        logits[i] -= (float)MIN((double)options->multiplier * penalty, (double)FLT_MAX);
    }
}

static void compare(const DryOptions *options, const uint32_t *history, size_t n) {
    _cleanup_(dry_penalty_freep) DryPenalty *dry = NULL;
    SamplerCandidate candidates[N_VOCAB];
    float logits[N_VOCAB];

    assert_int_equal(dry_options_check(options, &(ErrText){ 0 }), 0);
    assert_int_equal(dry_penalty_new(&dry, options, N_MAX, add_piece, NULL), 0);
    for (uint32_t i = 0; i < N_VOCAB; i++) {
        logits[i] = (float)next(100) - 50;
        candidates[i] = (SamplerCandidate){ logits[i], i };
    }
    penalise_plainly(options, history, n, logits);
    for (int turn = 0; turn < 2; turn++) { /* what a row leaves behind must not matter to the next one */
        SamplerCandidate now[N_VOCAB];

        memcpy(now, candidates, sizeof(now));
        dry_penalty_apply(dry, history, n, now, N_VOCAB);
        for (uint32_t i = 0; i < N_VOCAB; i++) {
            assert_int_equal(now[i].id, i);
            if (!(fabsf(now[i].logit - logits[i]) <= 1e-6f * fabsf(logits[i])))
                fail_msg("token %u: %.9g instead of %.9g", i, (double)now[i].logit, (double)logits[i]);
        }
    }
}

static void test_dry_penalty_equals_definition(void **state) {
    static const char *const breakers[] = { ".", "b-c", "|im_end|", "9;a", "zzzzzzzz" };
    uint32_t history[N_MAX];

    for (int round = 0; round < 1500; round++) {
        const size_t n = next(round % 10 ? 60 : N_MAX);
        const uint32_t n_letters = 2 + next(round % 3 ? 4 : N_VOCAB + 2),
                       first = next(20); /* ids behind the table too */
        DryOptions options = { .multiplier = (float)(1 + next(8)) / 4,
                               .base = (float)(4 + next(12)) / 4,
                               .allowed_length = next(4),
                               .window = round % 4 ? 0 : next(50),
                               .breakers = breakers,
                               .n_breakers = next(ARRAY_LEN(breakers) + 1) };

        for (size_t i = 0; i < n; i++)
            history[i] = (first + next(n_letters)) % (N_VOCAB + 2);
        for (size_t i = n / 2; round % 5 == 0 && i + 1 < n; i++) /* a long repetition */
            history[i] = history[i - n / 2];
        compare(&options, history, n);
    }
}

/* Penalties that no float can hold leave logits finite, and so do the longest repetitions. */
static void test_dry_penalty_has_a_ceiling(void **state) {
    uint32_t history[N_MAX] = { 0 };

    compare(&(DryOptions){ .multiplier = 100, .base = 10 }, history, N_MAX);
    compare(&(DryOptions){ .multiplier = 100, .base = 1 }, history, N_MAX);
    compare(&(DryOptions){ .multiplier = 1, .base = 2, .allowed_length = UINT32_MAX }, history, N_MAX);
    compare(&(DryOptions){ .multiplier = 1, .base = 2, .window = 1 }, history, N_MAX);
    compare(&(DryOptions){ .multiplier = 1, .base = 2 }, history, 0);
    compare(&(DryOptions){ .multiplier = 1, .base = 2 }, history, 1);
}

/* The example of llama.cpp's source: behind "a b c c b c y a b c", c is penalised by 3, b by 1 and y by 2 tokens. */
static void test_dry_penalty_example(void **state) {
    const uint32_t history[] = { 10, 11, 12, 12, 11, 12, 24, 10, 11, 12 };
    _cleanup_(dry_penalty_freep) DryPenalty *dry = NULL;
    SamplerCandidate candidates[N_VOCAB] = { 0 };

    for (uint32_t i = 0; i < N_VOCAB; i++)
        candidates[i].id = i;
    assert_int_equal(
        dry_penalty_new(&dry, &(DryOptions){ .multiplier = 1, .base = 2, .allowed_length = 1 }, N_MAX, add_piece, NULL),
        0);
    dry_penalty_apply(dry, history, ARRAY_LEN(history), candidates, N_VOCAB);
    for (uint32_t i = 0; i < N_VOCAB; i++)
        assert_true(candidates[i].logit == (i == 12 ? -4.0f : i == 11 ? -1.0f : i == 24 ? -2.0f : 0.0f));
}

static void test_dry_penalty_refuses_options(void **state) {
    const char *const breakers[17] = { [0 ... 16] = "." };
    const char *const long_breakers[] = { "012345678901234567890123456789012" }, *const empty_breakers[] = { "" };
    const DryOptions good = { .multiplier = 1, .base = 1.75f };
    ErrText err;

    assert_int_equal(dry_options_check(&(DryOptions){ .multiplier = 0, .base = 0 }, &err), 0);
    assert_int_equal(dry_options_check(&good, &err), 0);
#define REFUSED(word, ...)                                                                                             \
    do {                                                                                                               \
        DryOptions bad = good;                                                                                         \
        __VA_ARGS__;                                                                                                   \
        assert_int_equal(dry_options_check(&bad, &err), DRY_PENALTY_E_OPTIONS);                                        \
        assert_non_null(strstr(err.text, word));                                                                       \
    } while (0)
    REFUSED("dry_multiplier", bad.multiplier = NAN);
    REFUSED("dry_multiplier", bad.multiplier = -1);
    REFUSED("dry_multiplier", bad.multiplier = 101);
    REFUSED("dry_base", bad.base = 0.99f);
    REFUSED("dry_base", bad.base = NAN);
    REFUSED("dry_breaker", bad.breakers = breakers; bad.n_breakers = 17);
    REFUSED("dry_breaker", bad.breakers = long_breakers; bad.n_breakers = 1);
    REFUSED("dry_breaker", bad.breakers = empty_breakers; bad.n_breakers = 1);
#undef REFUSED
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dry_penalty_equals_definition),
        cmocka_unit_test(test_dry_penalty_has_a_ceiling),
        cmocka_unit_test(test_dry_penalty_example),
        cmocka_unit_test(test_dry_penalty_refuses_options),
    };

    return cmocka_run_group_tests_name("dry_penalty", tests, NULL, NULL);
}
