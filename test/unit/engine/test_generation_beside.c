// SPDX-License-Identifier: Apache-2.0
/* Answers of one prompt that compute it once: each has the tokens of a generation of its own, with every kind of drafts
 * and sampling, whichever of them ends first. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/generation.h"
#include "test/unit/fixtures/tiny_engine.h"

enum {
    CHUNK = 32,
    OUTPUT = 40,
    ANSWERS = 4,
    STEPS_MAX = 1000,
};

static TinyEngine tiny;
static const SpecLab always = { .always = true };

static int setup(void **state) {
    tiny_engine_open(&tiny, ENGINE_DEVICE_CPU, CHUNK);
    return 0;
}

static int teardown(void **state) {
    tiny_engine_close(&tiny);
    return 0;
}

typedef struct Answer {
    Generation *generation;
    uint32_t tokens[OUTPUT];
    size_t n;
} Answer;

static void take(void *arg, const GenerationDelta *delta) {
    Answer *answer = arg;

    for (size_t i = 0; i < delta->n_tokens; i++) {
        assert_true(answer->n < OUTPUT);
        answer->tokens[answer->n++] = delta->tokens[i];
    }
}

/* Options of answer i; each has another length. */
static GenerationOptions options_of(size_t i, float temperature, uint32_t sources) {
    GenerationOptions options = { .max_tokens = (uint32_t)(OUTPUT - 7 * i),
                                  .ignore_end = true,
                                  .sampler = SAMPLER_OPTIONS_GREEDY,
                                  .speculation = { .sources = sources, .lab = &always } };

    options.sampler.temperature = temperature;
    options.sampler.seed = 50 + i;
    return options;
}

static void fill_prompt(uint32_t *prompt, size_t n) {
    for (size_t i = 0; i < n; i++)
        prompt[i] = (uint32_t)(i * i * 7 % TINY_VOCAB);
}

static void make(Answer *answer, const uint32_t *prompt, size_t n, const GenerationOptions *options) {
    ErrText err = { 0 };

    *answer = (Answer){ 0 };
    if (generation_new(&answer->generation, tiny.engine, prompt, n, options, &err))
        fail_msg("%s", err.text);
}

static void run_alone(Answer *answer) {
    ErrText err = { 0 };

    while (!generation_end(answer->generation))
        assert_int_equal(generation_step(answer->generation, take, answer, &err), 0);
    answer->generation = generation_free(answer->generation);
}

/* Computes steps of all answers until each has ended; an answer is freed when it ends. */
static void run_together(Answer *answers, size_t n_prompt) {
    for (size_t step = 0, n_left = ANSWERS; n_left; step++) {
        GenerationTurn turns[ANSWERS];
        ErrText err = { 0 };
        size_t n = 0;

        assert_true(step < STEPS_MAX);
        for (size_t i = 0; i < ANSWERS; i++)
            if (answers[i].generation)
                turns[n++] = (GenerationTurn){ .generation = answers[i].generation, .fn = take, .arg = &answers[i] };
        assert_int_equal(generation_step_together(turns, n, &err), 0);
        for (size_t i = 0; i < ANSWERS; i++) {
            if (!answers[i].generation || !generation_end(answers[i].generation))
                continue;
            /* The prompt was computed once, but for the last token of each answer. */
            assert_int_equal(generation_usage(answers[i].generation)->n_prefilled_tokens, i ? 1 : n_prompt);
            answers[i].generation = generation_free(answers[i].generation);
            n_left--;
        }
    }
}

static void compare(size_t n_prompt, float temperature, uint32_t sources) {
    Answer alone[ANSWERS], together[ANSWERS];
    uint32_t prompt[200];

    fill_prompt(prompt, n_prompt);
    for (size_t i = 0; i < ANSWERS; i++) {
        GenerationOptions options = options_of(i, temperature, 0);

        make(&alone[i], prompt, n_prompt, &options);
        run_alone(&alone[i]);
    }
    for (size_t i = 0; i < ANSWERS; i++) {
        GenerationOptions options = options_of(i, temperature, sources);

        options.beside = i ? together[0].generation : NULL;
        make(&together[i], prompt, n_prompt, &options);
        assert_int_equal(generation_is_ready(together[i].generation), !i);
        assert_int_equal(generation_shared_kv_bytes(together[i].generation),
                         i ? engine_kv_full_bytes(tiny.engine, n_prompt - 1) : 0);
    }
    run_together(together, n_prompt);
    for (size_t i = 0; i < ANSWERS; i++) {
        assert_int_equal(together[i].n, alone[i].n);
        assert_memory_equal(together[i].tokens, alone[i].tokens, alone[i].n * sizeof(uint32_t));
    }
    assert_int_equal(tiny.accounts.used_bytes[ACCOUNT_KV], 0);
}

static void test_generation_beside_is_the_same(void **state) {
    static const size_t lengths[] = { 1, 2, 31, 33, 64, 65, 130 };

    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        compare(lengths[i], 0, 0);
        compare(lengths[i], 0.9f, 0);
    }
}

static void test_generation_beside_with_drafts(void **state) {
    compare(70, 0, 1u << SPECULATION_LOOKUP);
    compare(70, 0.9f, 1u << SPECULATION_LOOKUP | 1u << SPECULATION_SAM);
    compare(1, 0.5f, 1u << SPECULATION_LOOKUP);
}

/* An answer that waits gets no rows, can be cancelled, and can outlive the one that it waits for. */
static void test_generation_beside_waits(void **state) {
    GenerationOptions options = options_of(0, 0, 0);
    Answer answers[3];
    GenerationTurn turn;
    uint32_t prompt[70];
    ErrText err = { 0 };

    fill_prompt(prompt, 70);
    make(&answers[0], prompt, 70, &options);
    options.beside = answers[0].generation;
    make(&answers[1], prompt, 70, &options);
    make(&answers[2], prompt, 70, &options);
    turn = (GenerationTurn){ .generation = answers[1].generation, .fn = take, .arg = &answers[1] };
    assert_int_equal(generation_step_together(&turn, 1, &err), 0);
    assert_false(turn.ran);
    assert_int_equal(generation_usage(answers[1].generation)->n_prefilled_tokens, 0);
    generation_cancel(answers[1].generation);
    assert_int_equal(generation_step_together(&turn, 1, &err), 0);
    assert_true(turn.ran);
    assert_int_equal(generation_end(answers[1].generation), GENERATION_END_CANCELLED);
    answers[0].generation = generation_free(answers[0].generation);
    assert_false(generation_is_ready(answers[2].generation));
    generation_free(answers[1].generation);
    generation_free(answers[2].generation);
    assert_int_equal(tiny.accounts.used_bytes[ACCOUNT_KV], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generation_beside_is_the_same),
        cmocka_unit_test(test_generation_beside_with_drafts),
        cmocka_unit_test(test_generation_beside_waits),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
