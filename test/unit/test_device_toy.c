// SPDX-License-Identifier: Apache-2.0
/* The engine on a device that it has never heard of: the toy of test/device, which has no optional operator. It gives
 * the tokens that the reference device gives, on a small model and on the real one, and whatever shares a step or is
 * drafted in it changes no bit. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/device/toy_device.h"
#include "test/unit/patience.h"
#include "test/unit/real_model.h"
#include "test/unit/tiny_engine.h"
#include "test/unit/tree_model.h"

enum {
    CHUNK = 24,
    PROMPT = 70,
    ANSWER = 40,
    REAL_ANSWER = 4,
};

/* What a device makes of a prompt: tokens, and the logits of each. */
typedef struct Answer {
    size_t n, n_vocab;
    uint32_t tokens[ANSWER];
    float *logits; /* f32[n][n_vocab] */
} Answer;

static uint32_t greatest(const float *logits, size_t n) {
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return (uint32_t)best;
}

static void forward(Engine *engine, Sequence *sequence, const uint32_t *tokens, size_t n, float *logits) {
    ErrText err = { "" };

    if (engine_forward(engine, sequence, tokens, n, 1, logits, &err))
        fail_msg("%s", err.text);
}

/* The n most probable tokens behind the prompt, one by one. */
static void answer(Engine *engine, const uint32_t *prompt, size_t n_prompt, size_t n, Answer *answer) {
    Sequence *sequence;

    *answer = (Answer){ .n = n, .n_vocab = engine_info(engine)->n_vocab };
    answer->logits = malloc(n * answer->n_vocab * sizeof(float));
    assert_non_null(answer->logits);
    assert_int_equal(sequence_new(&sequence, engine, n_prompt + n, NULL), 0);
    for (size_t at = 0, some; at < n_prompt; at += some) {
        some = n_prompt - at < CHUNK ? n_prompt - at : CHUNK;
        forward(engine, sequence, prompt + at, some, answer->logits);
    }
    for (size_t i = 0; i < n; i++) {
        float *logits = answer->logits + i * answer->n_vocab;

        if (i)
            forward(engine, sequence, &answer->tokens[i - 1], 1, logits);
        answer->tokens[i] = greatest(logits, answer->n_vocab);
    }
    sequence_free(sequence);
}

/* Both in float32, with sums in another order. */
static void same_answer(Answer *toy, Answer *reference) {
    assert_int_equal(toy->n_vocab, reference->n_vocab);
    assert_memory_equal(toy->tokens, reference->tokens, toy->n * sizeof(*toy->tokens));
    for (size_t i = 0; i < toy->n * toy->n_vocab; i++)
        assert_true(fabsf(toy->logits[i] - reference->logits[i]) < 1e-3f);
    free(toy->logits);
    free(reference->logits);
}

static void open_tiny(TinyEngine *tiny, bool is_toy) {
    tiny->own_device = is_toy ? &toy_device.device : NULL;
    tiny_engine_open(tiny, ENGINE_DEVICE_REFERENCE, CHUNK);
    assert_string_equal(engine_info(tiny->engine)->device, is_toy ? "toy" : "reference");
}

static void test_device_toy_tokens(void **state) {
    for (uint32_t text = 0; text < 5; text++) {
        Answer answers[2];

        for (size_t i = 0; i < 2; i++) {
            TinyEngine tiny = { 0 };
            uint32_t prompt[PROMPT];

            open_tiny(&tiny, i == 0);
            for (size_t p = 0; p < PROMPT; p++)
                prompt[p] = tree_case_token(tiny.engine, text, p);
            answer(tiny.engine, prompt, PROMPT - 10 * text, ANSWER, &answers[i]);
            tiny_engine_close(&tiny);
        }
        same_answer(&answers[0], &answers[1]);
    }
}

/* Trees of every shape that a step verifies, and what is kept of them. */
static void test_device_toy_trees(void **state) {
    TinyEngine tiny = { 0 };
    Sequence *sequence, *plain;
    uint64_t random = 20261127;
    TreeCase tree;

    open_tiny(&tiny, true);
    tree_case_init(&tree, tiny.engine);
    assert_int_equal(sequence_new(&sequence, tiny.engine, TINY_CONTEXT, NULL), 0);
    assert_int_equal(sequence_new(&plain, tiny.engine, TINY_CONTEXT, NULL), 0);
    for (size_t before = 0; before < 140; before += 46) {
        tree_case_append(tiny.engine, sequence, 1, before);
        tree_case_append(tiny.engine, plain, 1, before);
        for (TreeShape shape = 0; shape < _TREE_SHAPE_N; shape++) {
            tree_case_fill(&tree, &random, shape, 2 + test_random(&random) % (CHUNK - 1));
            tree_case_check_alone(&tree, sequence, plain, "a tree on the toy device");
        }
    }
    sequence_free(sequence);
    sequence_free(plain);
    tree_case_deinit(&tree);
    tiny_engine_close(&tiny);
}

/* A package is nothing for a device that reads sources, and it is the one that says so. */
static void test_device_toy_is_named(void **state) {
    const ModelMaker maker = MODEL_MAKER_DEFAULT;
    AccountTable accounts;
    ErrText err = { "" };
    Engine *engine = NULL;
    WorkerPool *pool;

    account_table_init(&accounts);
    assert_int_equal(worker_pool_new(&pool, 1), 0);
    assert_int_equal(engine_new(&engine,
                                &(EngineOptions){ .path = import_fixture_package(*state, &maker, 8, false),
                                                  .device = ENGINE_DEVICE_CPU,
                                                  .own_device = &toy_device.device,
                                                  .pool = pool,
                                                  .accounts = &accounts },
                                &err),
                     ENGINE_E_MODEL);
    assert_null(engine);
    assert_non_null(strstr(err.text, "the toy device reads the .gguf"));
    worker_pool_free(pool);
}

static void test_device_toy_real_model(void **state) {
    static const char text[] = "The tide turns";
    Answer answers[2];

    if (patience_is_short()) {
        print_message("left out: plain loops take too long here\n");
        skip();
    }
    for (size_t i = 0; i < 2; i++) {
        _cleanup_(token_list_deinit) TokenList tokens = { 0 };
        EngineOptions options = { .path = real_model_path(), .chunk_tokens = CHUNK };
        AccountTable accounts;
        WorkerPool *pool;
        ErrText err = { "" };
        Engine *engine;

        account_table_init(&accounts);
        assert_int_equal(worker_pool_new(&pool, 2), 0);
        options.accounts = &accounts;
        options.pool = pool;
        options.own_device = i ? NULL : &toy_device.device;
        if (engine_new(&engine, &options, &err))
            fail_msg("%s", err.text);
        assert_int_equal(
            tokenizer_encode(engine_tokenizer(engine), text, strlen(text), TOKENIZE_ADD_SPECIAL, &tokens, &err), 0);
        answer(engine, tokens.ids, tokens.n, REAL_ANSWER, &answers[i]);
        engine_free(engine);
        worker_pool_free(pool);
    }
    same_answer(&answers[0], &answers[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_toy_tokens),
        cmocka_unit_test(test_device_toy_trees),
        WITH_FOLDER(test_device_toy_is_named),
        cmocka_unit_test(test_device_toy_real_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
