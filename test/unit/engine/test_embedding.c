// SPDX-License-Identifier: Apache-2.0
/* The vector of a text: its poolings by hand, and the same bits in steps of any rows and beside other generations. */
#undef NDEBUG
#include <math.h>
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
    N_MAX = 100,
    WIDTH_MAX = 4096,
    STEPS_MAX = 1000,
};

static TinyEngine tiny;

static int setup(void **state) {
    tiny_engine_open(&tiny, ENGINE_DEVICE_CPU, CHUNK);
    return 0;
}

static int teardown(void **state) {
    tiny_engine_close(&tiny);
    return 0;
}

static void pool(EmbeddingPooling pooling, bool raw, const float *expected) {
    static const float states[3][2] = { { 3, 4 }, { 0, 2 }, { 3, 0 } };
    Embedding *embedding = embedding_new(&(EmbeddingOptions){ .pooling = pooling, .raw = raw }, 2);

    assert_non_null(embedding);
    for (size_t i = 0; i < 3; i++)
        embedding_add(embedding, states[i]);
    assert_memory_equal(embedding_finish(embedding), expected, 2 * sizeof(float));
    embedding_free(embedding);
}

static void test_embedding_poolings(void **state) {
    pool(EMBEDDING_MEAN, true, (const float[]){ 2, 2 });
    pool(EMBEDDING_CLS, true, (const float[]){ 3, 4 });
    pool(EMBEDDING_LAST, true, (const float[]){ 3, 0 });
    pool(EMBEDDING_CLS, false, (const float[]){ 0.6f, 0.8f });
    pool(EMBEDDING_LAST, false, (const float[]){ 1, 0 });
    pool(EMBEDDING_MEAN, false, (const float[]){ (float)sqrt(0.5), (float)sqrt(0.5) });
}

/* A vector without a direction stays as it is. */
static void test_embedding_of_zeros(void **state) {
    const float zeros[2] = { 0, 0 };
    Embedding *embedding = embedding_new(&(EmbeddingOptions){ .pooling = EMBEDDING_MEAN }, 2);

    assert_non_null(embedding);
    embedding_add(embedding, zeros);
    assert_memory_equal(embedding_finish(embedding), zeros, sizeof(zeros));
    embedding_free(embedding);
}

static Generation *make(size_t n, size_t first, EmbeddingPooling pooling) {
    const GenerationOptions options = { .sampler = SAMPLER_OPTIONS_GREEDY,
                                        .no_reuse = true,
                                        .embedding = { .pooling = pooling } };
    Generation *generation = NULL;
    uint32_t prompt[N_MAX];
    ErrText err = { 0 };

    for (size_t i = 0; i < n; i++)
        prompt[i] = (uint32_t)((first + i * i * 7) % TINY_VOCAB);
    if (generation_new(&generation, tiny.engine, prompt, n, &options, &err))
        fail_msg("%s", err.text);
    return generation;
}

static void keep(float *vector, Generation *generation) {
    assert_int_equal(generation_end(generation), GENERATION_END_PROMPT);
    assert_int_equal(generation_usage(generation)->n_output_tokens, 0);
    memcpy(vector, generation_vector(generation), engine_info(tiny.engine)->n_embd * sizeof(float));
    generation_free(generation);
}

/* Computes a vector in steps of at most rows_max rows (0: a chunk). */
static void run(float *vector, size_t n, size_t first, EmbeddingPooling pooling, size_t rows_max) {
    Generation *generation = make(n, first, pooling);
    GenerationTurn turn = { .generation = generation };
    ErrText err = { 0 };

    assert_null(generation_vector(generation));
    for (size_t i = 0; !generation_end(generation); i++) {
        GenerationStep step;

        assert_true(i < STEPS_MAX);
        assert_int_equal(generation_step_begin(&step, &turn, 1, rows_max, &err), 0);
        assert_int_equal(generation_step_run(&step, NULL, &err), 0);
    }
    keep(vector, generation);
}

static void test_embedding_in_steps_of_any_rows(void **state) {
    static const EmbeddingPooling poolings[] = { EMBEDDING_MEAN, EMBEDDING_CLS, EMBEDDING_LAST };
    static const size_t rows[] = { 1, 3, 16, 31 };
    const size_t vector_bytes = engine_info(tiny.engine)->n_embd * sizeof(float);
    static float whole[WIDTH_MAX], parts[WIDTH_MAX];

    assert_true(vector_bytes <= sizeof(whole));
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 4; k++) {
            run(whole, 70, 5, poolings[i], 0);
            run(parts, 70, 5, poolings[i], rows[k]);
            assert_memory_equal(whole, parts, vector_bytes);
        }
    run(parts, 70, 6, EMBEDDING_LAST, 0);
    assert_memory_not_equal(whole, parts, vector_bytes);
}

/* Texts of several lengths and a generation share steps. */
static void test_embedding_in_company(void **state) {
    static const size_t lengths[] = { 1, 40, 64, 70 };
    static float alone[WIDTH_MAX], together[WIDTH_MAX];
    const size_t vector_bytes = engine_info(tiny.engine)->n_embd * sizeof(float);
    const GenerationOptions options = { .max_tokens = 12, .ignore_end = true, .sampler = SAMPLER_OPTIONS_GREEDY };
    Generation *generations[5] = { NULL };
    ErrText err = { 0 };
    size_t n_left = 5;

    for (size_t i = 0; i < 4; i++)
        generations[i] = make(lengths[i], i, EMBEDDING_MEAN);
    assert_int_equal(generation_new(&generations[4], tiny.engine, (const uint32_t[]){ 1, 2 }, 2, &options, &err), 0);
    for (size_t step = 0; n_left; step++) {
        GenerationTurn turns[5];
        size_t n = 0;

        assert_true(step < STEPS_MAX);
        n_left = 0;
        for (size_t i = 0; i < 5; i++)
            if (!generation_end(generations[i]))
                turns[n++] = (GenerationTurn){ .generation = generations[i] };
        if (n)
            assert_int_equal(generation_step_together(turns, n, &err), 0);
        for (size_t i = 0; i < 5; i++)
            n_left += !generation_end(generations[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        keep(together, generations[i]);
        run(alone, lengths[i], i, EMBEDDING_MEAN, 0);
        assert_memory_equal(alone, together, vector_bytes);
    }
    generation_free(generations[4]);
    assert_int_equal(tiny.accounts.used_bytes[ACCOUNT_KV], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding_poolings),
        cmocka_unit_test(test_embedding_of_zeros),
        cmocka_unit_test(test_embedding_in_steps_of_any_rows),
        cmocka_unit_test(test_embedding_in_company),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
