// SPDX-License-Identifier: Apache-2.0
/* Comparison of answers in `coordgen-bench spec`: equal with drafts and without; different by one token, by one bit of
 * one logit, or in number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/fixtures/tiny_engine.h"
#include "tools/bench/speculation/spec_answer.h"

static const SpecLab always = { .always = true };

enum {
    N_PROMPT = 40,
    OUTPUT = 60
};

static TinyEngine tiny;

static int setup(void **state) {
    tiny_engine_open(&tiny, ENGINE_DEVICE_CPU, 32);
    return 0;
}

static int teardown(void **state) {
    tiny_engine_close(&tiny);
    return 0;
}

/* A text that repeats itself. */
static void answer_of(SpecAnswer *answer, uint32_t sources, uint64_t seed) {
    GenerationOptions options = {
        .max_tokens = OUTPUT,
        .ignore_end = true,
        .no_reuse = true,
        .sampler = SAMPLER_OPTIONS_GREEDY,
        .speculation = { .sources = sources, .lab = &always },
    };
    uint32_t ids[N_PROMPT];
    const TokenList prompt = { .ids = ids, .n = N_PROMPT };
    ErrText err = { 0 };

    for (uint32_t i = 0; i < N_PROMPT; i++)
        ids[i] = (i % 9) * (i % 9) * 7 % TINY_VOCAB;
    options.sampler.temperature = 0.2F;
    options.sampler.seed = seed;
    assert_int_equal(spec_answer_init(answer, OUTPUT), 0);
    if (spec_answer_run(answer, tiny.engine, &prompt, &options, &err))
        fail_msg("%s", err.text);
}

static void test_spec_answer_run(void **state) {
    SpecAnswer plain, drafted, other;
    ErrText err = { 0 };

    answer_of(&plain, 0, 1);
    answer_of(&drafted, 1u << SPECULATION_LOOKUP, 1);
    answer_of(&other, 0, 2);
    assert_int_equal(plain.n, OUTPUT);
    assert_int_equal(plain.n_hashes, OUTPUT);
    assert_int_equal(plain.n_decoded, OUTPUT - 1);
    assert_int_equal(plain.n_prompt, N_PROMPT);
    assert_int_equal(plain.report.n_steps, OUTPUT - 1);
    assert_int_equal(plain.draft_bytes, 0);
    assert_true(drafted.report.n_steps < OUTPUT - 1 && drafted.draft_bytes > 0);
    assert_true(0 < plain.prefill_ns && plain.prefill_ns == plain.ends_ns[0]);
    assert_true(plain.ends_ns[OUTPUT - 1] == plain.total_ns);
    for (size_t i = 1; i < OUTPUT; i++)
        assert_true(plain.ends_ns[i - 1] < plain.ends_ns[i] && drafted.ends_ns[i - 1] <= drafted.ends_ns[i]);
    assert_int_equal(spec_answer_compare(&drafted, &plain, &err), 0);
    assert_int_equal(spec_answer_compare(&other, &plain, &err), SPEC_ANSWER_E_DIFFERS);
    spec_answer_deinit(&plain);
    spec_answer_deinit(&drafted);
    spec_answer_deinit(&other);
}

static void expect_difference(const SpecAnswer *answer, const SpecAnswer *plain, const char *text) {
    ErrText err = { 0 };

    assert_int_equal(spec_answer_compare(answer, plain, &err), SPEC_ANSWER_E_DIFFERS);
    if (!strstr(err.text, text))
        fail_msg("'%s' is not in '%s'", text, err.text);
}

static void test_spec_answer_compare(void **state) {
    uint32_t tokens[] = { 5, 6, 7 }, other_tokens[] = { 5, 8, 7 };
    uint64_t hashes[] = { 10, 11, 12, 13 }, other_hashes[] = { 10, 11, 99, 13 };
    const SpecAnswer plain = { .tokens = tokens, .hashes = hashes, .n = 3, .n_hashes = 4 };
    SpecAnswer answer = plain;
    ErrText err;

    assert_int_equal(spec_answer_compare(&answer, &plain, &err), 0);
    answer.tokens = other_tokens;
    expect_difference(&answer, &plain, "token 1 of the answer is 8; plain decoding gives 6");
    answer = plain;
    answer.n = 2;
    expect_difference(&answer, &plain, "2 tokens; plain decoding gives 3");
    answer = plain;
    answer.hashes = other_hashes;
    expect_difference(&answer, &plain, "the logits of token 2");
    answer = plain;
    answer.n_hashes = 3; /* no end token behind it */
    expect_difference(&answer, &plain, "3 rows of logits; plain decoding has 4");
    answer.n = 2; /* fewer tokens were asked for */
    answer.n_hashes = 2;
    assert_int_equal(spec_answer_compare_start(&answer, &plain, &err), 0);
    assert_int_equal(spec_answer_compare_start(&plain, &answer, &err), SPEC_ANSWER_E_DIFFERS);
    answer.tokens = other_tokens;
    assert_int_equal(spec_answer_compare_start(&answer, &plain, &err), SPEC_ANSWER_E_DIFFERS);
    answer.tokens = tokens;
    answer.hashes = other_hashes;
    assert_int_equal(spec_answer_compare_start(&answer, &plain, &err), 0);
    answer.n = answer.n_hashes = 3;
    assert_int_equal(spec_answer_compare_start(&answer, &plain, &err), SPEC_ANSWER_E_DIFFERS);
}

/* The hash differs for any single bit at every place of a row, with the rest behind groups of eight, and for swapped
 * places. */
static void test_spec_answer_hash(void **state) {
    float logits[19], changed[19];

    for (size_t n = 1; n <= 19; n++) {
        for (size_t i = 0; i < n; i++)
            logits[i] = changed[i] = (float)i / 7;
        for (size_t i = 0; i < n; i++)
            for (uint32_t bit = 0; bit < 32; bit++) {
                uint32_t word;

                memcpy(&word, &logits[i], sizeof(word));
                word ^= 1u << bit;
                memcpy(&changed[i], &word, sizeof(word));
                assert_true(spec_logits_hash(changed, n) != spec_logits_hash(logits, n));
                changed[i] = logits[i];
            }
    }
    changed[2] = logits[12];
    changed[12] = logits[2];
    assert_true(spec_logits_hash(changed, 19) != spec_logits_hash(logits, 19));
    assert_true(spec_logits_hash(logits, 18) != spec_logits_hash(logits, 19));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_answer_run),
        cmocka_unit_test(test_spec_answer_compare),
        cmocka_unit_test(test_spec_answer_hash),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
