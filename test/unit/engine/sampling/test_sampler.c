// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/sampling/sampler.h"
#include "test/unit/fixtures/patience.h"

#define N_VOCAB 5000
#define N_HISTORY 6000

static float logits[N_VOCAB];
static SamplerCandidate scratch[N_VOCAB];

static int setup(void **state) {
    uint32_t x = 12345;

    for (size_t i = 0; i < N_VOCAB; i++) {
        x = x * 1664525u + 1013904223u;
        logits[i] = (float)(x >> 8) * 0x1p-24f * 12 - 6;
    }
    return 0;
}

/* Published test vector of Philox4x32-10 (Random123): zero key and counter give 6627e8d5 as the first word. */
static void test_sampler_uniform_is_philox(void **state) {
    assert_true(sampler_uniform(0, 0, SAMPLER_STREAM_DRAW) == (float)(0x6627e8d5u >> 8) * 0x1p-24f);
    for (uint64_t position = 0; position < 10000; position++)
        assert_in_range((int)(sampler_uniform(42, position, SAMPLER_STREAM_DRAW) * 1000), 0, 999);
    assert_true(sampler_uniform(1, 7, SAMPLER_STREAM_DRAW) != sampler_uniform(2, 7, SAMPLER_STREAM_DRAW));
    assert_true(sampler_uniform(1, 7, SAMPLER_STREAM_DRAW) != sampler_uniform(1, 8, SAMPLER_STREAM_DRAW));
    assert_true(sampler_uniform(1, 7, SAMPLER_STREAM_DRAW) != sampler_uniform(1, 7, SAMPLER_STREAM_XTC));
}

static void test_sampler_greedy_takes_the_first_largest(void **state) {
    SamplerOptions options = SAMPLER_OPTIONS_GREEDY;
    float flat[4] = { 1, 3, 3, 2 };

    assert_int_equal(sampler_pick(&options, flat, 4, NULL, 0, 0, scratch), 1);
}

/* Quotients by the smallest temperatures overflow: every way of choosing returns the best token. */
static void test_sampler_almost_no_temperature(void **state) {
    static const float temperatures[] = { 1e-3f, 1e-20f, 1e-37f, 1e-38f, 1e-45f };
    SamplerOptions greedy = SAMPLER_OPTIONS_GREEDY;

    for (int sign = 1; sign >= -1; sign -= 2) {
        static float shifted[N_VOCAB];
        uint32_t best;

        for (size_t i = 0; i < N_VOCAB; i++) /* when all logits are negative */
            shifted[i] = logits[i] + (sign < 0 ? -100.0f : 0);
        best = sampler_pick(&greedy, shifted, N_VOCAB, NULL, 0, 0, scratch);
        for (size_t i = 0; i < ARRAY_LEN(temperatures); i++)
            for (uint32_t way = 0; way < 4; way++) {
                SamplerOptions options = { .temperature = temperatures[i],
                                           .top_k = way == 1 ? 40 : 0,
                                           .top_p = way == 2 ? 0.95f : 1,
                                           .min_p = way == 3 ? 0.05f : 0,
                                           .repetition_penalty = 1,
                                           .seed = 5 };

                assert_int_equal(sampler_options_check(&options, &(ErrText){ 0 }), 0);
                assert_int_equal(sampler_pick(&options, shifted, N_VOCAB, NULL, 0, i, scratch), best);
            }
    }
}

static void test_sampler_penalty_counts_a_token_once(void **state) {
    SamplerOptions options = SAMPLER_OPTIONS_GREEDY;
    float values[4] = { 1.0f, 2.0f, 1.9f, -1.0f };
    uint32_t history[] = { 1, 1, 1 };

    options.repetition_penalty = 1.1f; /* 2 / 1.1 = 1.82, below 1.9; 1.5 if counted thrice */
    assert_int_equal(sampler_pick(&options, values, 4, history, 3, 3, scratch), 2);
    values[2] = 1.7f;
    assert_int_equal(sampler_pick(&options, values, 4, history, 3, 3, scratch), 1);
    options.repetition_window = 1; /* only the last token counts */
    history[2] = 0;
    values[2] = 1.9f;
    assert_int_equal(sampler_pick(&options, values, 4, history, 3, 3, scratch), 1);
}

/* The penalty by its definition: each token of the window is penalised once. */
static void penalise_plainly(const SamplerOptions *options, const uint32_t *history, size_t n_history, size_t first,
                             float *values) {
    for (uint32_t id = 0; id < N_VOCAB; id++) {
        bool occurs = false;

        for (size_t i = first; i < n_history && !occurs; i++)
            occurs = history[i] == id;
        if (occurs && values[id] > 0)
            values[id] /= options->repetition_penalty;
        else if (occurs)
            values[id] *= options->repetition_penalty;
    }
}

/* Every choice is the one from logits that the definition changed, bit for bit. */
static void test_sampler_penalty_equals_definition(void **state) {
    static const uint32_t windows[] = { 1, 2, 64, 1000, 4095, 4096 };
    static uint32_t history[N_HISTORY];
    static float values[N_VOCAB];
    uint32_t x = 99;

    for (size_t i = 0; i < N_HISTORY; i++) { /* ids behind the table, as a padded embedding has them */
        x = x * 1664525u + 1013904223u;
        history[i] = (x >> 8) % (i % 3 ? 700 : N_VOCAB + 100);
    }
    for (size_t w = 0; w < ARRAY_LEN(windows); w++) {
        SamplerOptions options = { .temperature = 0.8f, .top_p = 0.95f, .top_k = w % 2 ? 60 : 0, .seed = w };
        SamplerOptions plain = options;

        options.repetition_penalty = w % 2 ? 1.3f : 0.7f;
        options.repetition_window = windows[w];
        plain.repetition_penalty = 1;
        memcpy(values, logits, sizeof(values));
        penalise_plainly(&options, history, N_HISTORY, N_HISTORY - windows[w], values);
        for (uint64_t position = 0; position < 20; position++)
            assert_int_equal(sampler_pick(&options, logits, N_VOCAB, history, N_HISTORY, position, scratch),
                             sampler_pick(&plain, values, N_VOCAB, history, N_HISTORY, position, scratch));
        options.temperature = 0; /* The penalty restores all ids and leaves the logits as they were. */
        (void)sampler_pick(&options, logits, N_VOCAB, history, N_HISTORY, 0, scratch);
        for (uint32_t id = 0; id < N_VOCAB; id++) {
            assert_int_equal(scratch[id].id, id);
            assert_memory_equal(&scratch[id].logit, &values[id], sizeof(values[id]));
        }
    }
}

/* A window of 0 is all tokens of the sequence; any other number is that number of tokens, however large. */
static void test_sampler_window_has_no_end_of_its_own(void **state) {
    static uint32_t history[20000];
    SamplerOptions options = SAMPLER_OPTIONS_GREEDY;
    const size_t n = ARRAY_LEN(history);
    float values[3] = { 3.0f, 2.0f, 1.0f };

    memset(history, 0xff, sizeof(history));
    history[0] = 0; /* a token of 20000 tokens ago */
    history[n - 5000] = 1;
    options.repetition_penalty = 10;
    assert_int_equal(options.repetition_window, 64);
    assert_int_equal(sampler_pick(&options, values, 3, history, n, n, scratch), 0);
    options.repetition_window = 0; /* 0.3, 0.2, 1 */
    assert_int_equal(sampler_pick(&options, values, 3, history, n, n, scratch), 2);
    options.repetition_window = (uint32_t)n;
    assert_int_equal(sampler_pick(&options, values, 3, history, n, n, scratch), 2);
    options.repetition_window = UINT32_MAX; /* a window longer than the text */
    assert_int_equal(sampler_pick(&options, values, 3, history, n, n, scratch), 2);
    options.repetition_window = (uint32_t)n - 1; /* 3, 0.2, 1 */
    assert_int_equal(sampler_pick(&options, values, 3, history, n, n, scratch), 0);
    values[0] = 0.5f;
    options.repetition_window = 5000; /* 0.5, 0.2, 1 */
    assert_int_equal(sampler_pick(&options, values, 3, history, n, n, scratch), 2);
    options.repetition_window = 4999; /* 0.5, 2, 1 */
    assert_int_equal(sampler_pick(&options, values, 3, history, n, n, scratch), 1);
}

/* The steps by their definition, in double, on a full sort. */
static int by_logit(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return logits[x] > logits[y] || (logits[x] == logits[y] && x < y) ? -1 : 1;
}

static size_t kept_by_definition(const SamplerOptions *options, uint32_t *ids) {
    size_t n = options->top_k ? options->top_k : N_VOCAB, kept = 0;
    double mass = 0, reached = 0;

    for (uint32_t i = 0; i < N_VOCAB; i++)
        ids[i] = i;
    qsort(ids, N_VOCAB, sizeof(*ids), by_logit);
    for (size_t i = 0; i < n; i++)
        mass += exp((logits[ids[i]] - logits[ids[0]]) / options->temperature);
    while (kept < n && reached < options->top_p * mass) {
        double weight = exp((logits[ids[kept]] - logits[ids[0]]) / options->temperature);

        if (kept && weight < options->min_p)
            break;
        reached += weight;
        kept++;
    }
    return kept;
}

static void test_sampler_draws_only_what_is_kept_and_as_often(void **state) {
    static const SamplerOptions cases[] = {
        { .temperature = 1, .top_p = 1, .top_k = 5, .repetition_penalty = 1, .seed = 9 },
        { .temperature = 0.7f, .top_p = 0.5f, .repetition_penalty = 1, .seed = 10 },
        { .temperature = 2, .top_p = 0.99f, .repetition_penalty = 1, .seed = 11 }, /* top-p keeps more than 256 */
        { .temperature = 0.5f, .top_p = 1, .min_p = 0.3f, .repetition_penalty = 1, .seed = 12 },
        { .temperature = 1, .top_p = 0.8f, .top_k = 300, .min_p = 0.01f, .repetition_penalty = 1, .seed = 13 },
    };
    static uint32_t ids[N_VOCAB];
    static size_t counts[N_VOCAB];
    const size_t n_draws = patience_is_short() ? 400 : 4000;

    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        size_t kept = kept_by_definition(&cases[c], ids), outside = 0;
        double mass = 0, weight;

        memset(counts, 0, sizeof(counts));
        for (size_t i = 0; i < n_draws; i++)
            counts[sampler_pick(&cases[c], logits, N_VOCAB, NULL, 0, i, scratch)]++;
        for (size_t i = 0; i < N_VOCAB; i++)
            outside += i >= kept ? counts[ids[i]] : 0;
        assert_int_equal(outside, 0);
        for (size_t i = 0; i < kept; i++)
            mass += exp((logits[ids[i]] - logits[ids[0]]) / cases[c].temperature);
        weight = 1 / mass; /* share of the likeliest token: within 5 standard deviations */
        assert_true(fabs((double)counts[ids[0]] - (double)n_draws * weight) <=
                    5 * sqrt((double)n_draws * weight * (1 - weight)) + 1);
    }
}

static void test_sampler_same_position_same_token(void **state) {
    SamplerOptions options = { .temperature = 1.5f, .top_p = 0.9f, .repetition_penalty = 1, .seed = UINT64_MAX };
    uint32_t first = sampler_pick(&options, logits, N_VOCAB, NULL, 0, 77, scratch);

    for (size_t i = 0; i < 5; i++)
        assert_int_equal(sampler_pick(&options, logits, N_VOCAB, NULL, 0, 77, scratch), first);
}

static void test_sampler_refuses_options(void **state) {
    SamplerOptions good = SAMPLER_OPTIONS_GREEDY, bad;
    ErrText err;

    assert_int_equal(sampler_options_check(&good, &err), 0);
#define REFUSED(field, value)                                                                                          \
    do {                                                                                                               \
        bad = good;                                                                                                    \
        bad.field = (value);                                                                                           \
        assert_int_equal(sampler_options_check(&bad, &err), SAMPLER_E_OPTIONS);                                        \
        assert_non_null(strstr(err.text, #field));                                                                     \
    } while (0)
    REFUSED(temperature, -0.1f);
    REFUSED(temperature, NAN);
    REFUSED(temperature, INFINITY);
    REFUSED(top_p, 0);
    REFUSED(top_p, 1.01f);
    REFUSED(min_p, 1);
    REFUSED(min_p, -1);
    REFUSED(repetition_penalty, 0);
    REFUSED(repetition_penalty, NAN);
    REFUSED(presence_penalty, 10.001f);
    REFUSED(presence_penalty, NAN);
    REFUSED(frequency_penalty, -10.001f);
    REFUSED(frequency_penalty, NAN);
    REFUSED(typical_p, 1.001f);
    REFUSED(typical_p, -0.1f);
    REFUSED(typical_p, NAN);
    REFUSED(xtc_probability, 1.001f);
    REFUSED(xtc_probability, NAN);
    REFUSED(xtc_threshold, 0.501f);
    REFUSED(xtc_threshold, NAN);
#undef REFUSED
    bad = good;
    bad.dry.multiplier = -1;
    assert_int_equal(sampler_options_check(&bad, &err), SAMPLER_E_OPTIONS);
    assert_non_null(strstr(err.text, "dry_multiplier"));
}

static void test_sampler_refuses_biases(void **state) {
    static const float good[] = { -1000, 1000, 0, -INFINITY }, bad[] = { -1000.1f, 1000.1f, INFINITY, NAN };
    SamplerOptions options = SAMPLER_OPTIONS_GREEDY;
    SamplerBias biases[SAMPLER_BIASES_MAX + 1] = { 0 };
    ErrText err;

    options.biases = biases;
    options.n_biases = SAMPLER_BIASES_MAX;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        biases[i].bias = good[i];
        assert_int_equal(sampler_options_check(&options, &err), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        biases[SAMPLER_BIASES_MAX - 1] = (SamplerBias){ 7, bad[i] };
        assert_int_equal(sampler_options_check(&options, &err), SAMPLER_E_OPTIONS);
        assert_non_null(strstr(err.text, "token 7"));
    }
    biases[SAMPLER_BIASES_MAX - 1].bias = 0;
    options.n_biases = SAMPLER_BIASES_MAX + 1;
    assert_int_equal(sampler_options_check(&options, &err), SAMPLER_E_OPTIONS);
    assert_non_null(strstr(err.text, "1025"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampler_uniform_is_philox),
        cmocka_unit_test(test_sampler_greedy_takes_the_first_largest),
        cmocka_unit_test(test_sampler_almost_no_temperature),
        cmocka_unit_test(test_sampler_penalty_counts_a_token_once),
        cmocka_unit_test(test_sampler_penalty_equals_definition),
        cmocka_unit_test(test_sampler_window_has_no_end_of_its_own),
        cmocka_unit_test(test_sampler_draws_only_what_is_kept_and_as_often),
        cmocka_unit_test(test_sampler_same_position_same_token),
        cmocka_unit_test(test_sampler_refuses_options),
        cmocka_unit_test(test_sampler_refuses_biases),
    };

    return cmocka_run_group_tests_name("sampler", tests, setup, NULL);
}
