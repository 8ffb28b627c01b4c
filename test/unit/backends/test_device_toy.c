// SPDX-License-Identifier: Apache-2.0
/* Tests of the engine on a device that it has never seen: the toy of test/device, which has no optional operator. The
 * toy gives the reference device's tokens, on a small model and on the real one. Sharing a step and drafting change no
 * bit. */
#undef NDEBUG
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "engine/step/step_state.h"
#include "test/device/toy_device.h"
#include "test/device/toy_graphs.h"
#include "test/device/toy_npu.h"
#include "test/unit/fixtures/drafted_run.h"
#include "test/unit/fixtures/npu_engine.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/fixtures/real_model.h"
#include "test/unit/fixtures/tiny_engine.h"
#include "test/unit/fixtures/tree_model.h"

enum {
    CHUNK = 24,
    PROMPT = 70,
    ANSWER = 40,
    REAL_ANSWER = 4,
};

/* A device's answer to a prompt: tokens, and the logits of each. */
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
    ErrText err = { 0 };

    if (engine_forward(engine, sequence, tokens, n, 1, logits, &err))
        fail_msg("%s", err.text);
}

/* Computes the n most probable tokens after the prompt, one by one. */
static void answer(Engine *engine, const uint32_t *prompt, size_t n_prompt, size_t n, Answer *answer) {
    Sequence *sequence;

    *answer = (Answer){ .n = n, .n_vocab = engine_info(engine)->n_vocab };
    answer->logits = malloc(n * answer->n_vocab * sizeof(float));
    assert_non_null(answer->logits);
    assert_int_equal(sequence_new(&sequence, engine, n_prompt + n, NULL), 0);
    for (size_t at = 0, some; at < n_prompt; at += some) {
        some = MIN(n_prompt - at, CHUNK);
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

/* Compares answers in float32 with sums in different orders. */
static void same_answer(Answer *toy, Answer *reference) {
    assert_int_equal(toy->n_vocab, reference->n_vocab);
    assert_memory_equal(toy->tokens, reference->tokens, toy->n * sizeof(*toy->tokens));
    for (size_t i = 0; i < toy->n * toy->n_vocab; i++)
        assert_true(fabsf(toy->logits[i] - reference->logits[i]) < 1e-3f);
    free(toy->logits);
    free(reference->logits);
}

/* own: device to use; NULL: the reference device. */
static void open_tiny(TinyEngine *tiny, const DeviceUnderTest *own) {
    tiny->own_device = own ? &own->device : NULL;
    tiny_engine_open(tiny, ENGINE_DEVICE_REFERENCE, CHUNK);
    assert_string_equal(engine_info(tiny->engine)->device, own ? own->name : "reference");
}

static void same_tokens(const DeviceUnderTest *own) {
    const DeviceUnderTest *devices[] = { own, NULL };

    for (uint32_t text = 0; text < 5; text++) {
        Answer answers[2];

        for (size_t i = 0; i < 2; i++) {
            TinyEngine tiny = { 0 };
            uint32_t prompt[PROMPT];

            open_tiny(&tiny, devices[i]);
            for (size_t p = 0; p < PROMPT; p++)
                prompt[p] = tree_case_token(tiny.engine, text, p);
            answer(tiny.engine, prompt, PROMPT - 10 * text, ANSWER, &answers[i]);
            tiny_engine_close(&tiny);
        }
        same_answer(&answers[0], &answers[1]);
    }
}

static void test_device_toy_tokens(void **state) {
    same_tokens(&toy_device);
}

/* A device with its own products that borrows all other operators. */
static void test_device_toy_npu_tokens(void **state) {
    same_tokens(&toy_npu_device);
}

/* Trees of every shape that a step verifies, and the rows kept of them. */
static void test_device_toy_trees(void **state) {
    TinyEngine tiny = { 0 };
    Sequence *sequence, *plain;
    uint64_t random = 20261127;
    TreeCase tree;

    open_tiny(&tiny, &toy_device);
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

/* --- threads ------------------------------------------------------------------------------------------------------ */

/* A toy with a device per thread; each device checks how far it attends. */
enum {
    DEVICES_MAX = 8,
    LONG_CHUNK = 128, /* two groups of rows */
};

static BackendOps threaded_ops;
static Backend *threaded[DEVICES_MAX];
static size_t threaded_positions[DEVICES_MAX];
static _Atomic size_t n_threaded, n_not_reserved, n_by_threads;

static size_t device_index(const Backend *backend) {
    size_t i = 0;

    while (i + 1 < DEVICES_MAX && threaded[i] != backend)
        i++;
    return i;
}

static int threaded_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err) {
    const size_t i = n_threaded++ % DEVICES_MAX;
    const int r = toy_device_new(backendp, cpu, pool, accounts, err);

    if (r)
        return r;
    for (size_t other = 0; other < DEVICES_MAX; other++) /* of an earlier device */
        threaded[other] = threaded[other] == *backendp ? NULL : threaded[other];
    threaded[i] = *backendp;
    threaded_positions[i] = 0;
    (*backendp)->ops = &threaded_ops;
    return 0;
}

static int threaded_thread_new(const Backend *backend, Backend **threadp, WorkerPool *pool, ErrText *err) {
    return threaded_new(threadp, 0, pool, backend->accounts, err);
}

static size_t threaded_thread_rows(const Backend *backend) {
    return 1;
}

static int threaded_reserve_positions(Backend *backend, size_t n_positions, ErrText *err) {
    size_t *reserved = &threaded_positions[device_index(backend)];

    *reserved = MAX(n_positions, *reserved);
    return 0;
}

/* Runs on any thread, so it must not assert. */
static void threaded_attention(Backend *backend, const AttentionCall *call) {
    const size_t i = device_index(backend);

    n_by_threads += i > 0;
    for (size_t r = 0; r < call->rows.n; r++)
        n_not_reserved += call->batch->rows[call->rows.first + r].position >= threaded_positions[i];
    toy_ops()->attention(backend, call);
}

/* Prompts go through the layers in groups, each on the device of a thread. Later sequences are longer than those at the
 * time when the devices were made; devices are also made anew. */
static void test_device_toy_threads(void **state) {
    static const BackendDevice device = { "toy", false, threaded_new, false };
    float logits[2][TINY_VOCAB];

    threaded_ops = *toy_ops();
    threaded_ops.thread_new = threaded_thread_new;
    threaded_ops.thread_rows = threaded_thread_rows;
    threaded_ops.reserve_positions = threaded_reserve_positions;
    threaded_ops.attention = threaded_attention;
    for (size_t i = 0; i < 2; i++) {
        TinyEngine tiny = { .own_device = i ? &device : &toy_device.device };
        Sequence *sequence;

        tiny_engine_open(&tiny, ENGINE_DEVICE_REFERENCE, LONG_CHUNK);
        for (size_t capacity = 150; capacity <= 350; capacity += 200) {
            assert_int_equal(sequence_new(&sequence, tiny.engine, capacity, NULL), 0);
            if (capacity < 200)
                assert_int_equal(engine_set_chunk_tokens(tiny.engine, LONG_CHUNK, NULL), 0);
            for (size_t at = 0; at + LONG_CHUNK <= capacity; at += LONG_CHUNK) {
                uint32_t tokens[LONG_CHUNK];

                for (size_t t = 0; t < LONG_CHUNK; t++)
                    tokens[t] = tree_case_token(tiny.engine, 3, at + t);
                forward(tiny.engine, sequence, tokens, LONG_CHUNK, logits[i]);
            }
            sequence_free(sequence);
        }
        assert_int_equal(sequence_new(&sequence, tiny.engine, 10, NULL), 0);
        sequence_free(sequence);
        tiny_engine_close(&tiny);
    }
    assert_true(n_by_threads > 0);
    assert_int_equal(n_not_reserved, 0);
    assert_memory_equal(logits[0], logits[1], sizeof(logits[0]));
}

/* --- static graphs ------------------------------------------------------------------------------------------------ */

enum {
    GRAPHS_PROMPT = 150, /* rows for more than one graph of prompts */
};

/* Makes a package of static activations without outliers. */
static const char *make_clipped(ImportFixture *fixture) {
    static ImportReport report;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportMethod method = import_method_plain;
    ErrText err = { 0 };

    import_fixture_source(fixture, &maker);
    method.profile = import_fixture_profile;
    fixture->options.method = &method;
    fixture->options.recipe.static_activations = true;
    fixture->options.recipe.prune_percent = 100;
    if (import_run(fixture->source, NULL, &fixture->options, &report, &err))
        fail_msg("%s", err.text);
    fixture->options.method = NULL;
    return report.path;
}

/* own: device to use; NULL: the cpu device. */
static void load_graphs(NpuEngine *loaded, const char *package, const BackendDevice *own, GraphForm form) {
    static char image[PATH_MAX];

    snprintf(image, sizeof(image), "%s.image", package);
    npu_engine_load(loaded,
                    &(EngineOptions){ .path = package,
                                      .load.device = ENGINE_DEVICE_CPU,
                                      .own_device = own,
                                      .load.isa = ISA_BEST,
                                      .load.chunk_tokens = 256,
                                      .image_path = own ? image : NULL,
                                      .load.weights.graphs = { .form = form } },
                    2);
}

/* The toy has the cpu device's products and operators, so every bit of an answer is the same: with graphs from the
 * package and from an image, and with prompts that go through the queue. */
static void test_device_toy_graphs(void **state) {
    static const GraphForm forms[] = { GRAPH_FORM_MATERIALISED, GRAPH_FORM_PACKED };
    const GenerationSpeculation none = { 0 };
    const char *package = make_clipped(*state);
    Given expected;

    for (size_t i = 0; i <= ARRAY_LEN(forms); i++) {
        NpuEngine loaded;
        Given given;
        GenerationOptions options;

        load_graphs(&loaded, package, i ? &toy_graphs_device.device : NULL, i ? forms[i - 1] : GRAPH_FORM_AUTO);
        options = given_options(&given, loaded.engine, ANSWER, false, &none);
        given_run(&given, given_begin(loaded.engine, GRAPHS_PROMPT, &options));
        assert_int_equal(given.n, ANSWER);
        if (i)
            given_check_same(&given, &expected);
        else
            expected = given;
        npu_engine_unload(&loaded);
    }
}

/* Operators of a device of which one product call fails. */
static BackendOps failing_ops;
static const BackendOps *real_ops;
static size_t fails_at, n_calls;

static int failing_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                          size_t rows, const LinearOutput *out, ErrText *err) {
    if (++n_calls == fails_at)
        return err_set(err, -EIO, "toy-graphs: the NPU does not answer: it was reset");
    return real_ops->linear(backend, linears, n, in, rows, out, err);
}

static int failing_end(Backend *backend, size_t slot, BackendTime *time, ErrText *err) {
    int r = real_ops->linear_end(backend, slot, time, err);

    if (++n_calls == fails_at)
        return err_set(err, -EIO, "toy-graphs: the NPU does not answer: it was reset");
    return r;
}

/* A device's failure ends the step, with the device's text. The sequence stays as it was, and the next step is
 * unaffected, with the queue and without it. */
static void test_device_toy_graphs_fail(void **state) {
    const char *package = make_clipped(*state);
    NpuEngine loaded;
    uint32_t tokens[GRAPHS_PROMPT];
    float logits[2][TINY_VOCAB];

    load_graphs(&loaded, package, &toy_graphs_device.device, GRAPH_FORM_PACKED);
    given_prompt(tokens, GRAPHS_PROMPT, TINY_VOCAB);
    real_ops = loaded.engine->backend->ops;
    failing_ops = *real_ops;
    failing_ops.linear = failing_linear;
    failing_ops.linear_end = failing_end;
    loaded.engine->backend->ops = &failing_ops;
    for (size_t n = 20; n <= GRAPHS_PROMPT; n += GRAPHS_PROMPT - 20) {
        Sequence *sequence;

        assert_int_equal(sequence_new(&sequence, loaded.engine, GRAPHS_PROMPT, NULL), 0);
        fails_at = n_calls = 0;
        forward(loaded.engine, sequence, tokens, n, logits[0]);
        assert_true(n_calls > 3);
        for (fails_at = 1; fails_at <= 3; fails_at++) {
            ErrText err = { 0 };

            sequence_rewind(sequence, 0);
            n_calls = 0;
            assert_int_equal(engine_forward(loaded.engine, sequence, tokens, n, 1, logits[1], &err), -EIO);
            assert_non_null(strstr(err.text, "the NPU does not answer"));
            assert_int_equal(sequence_n_tokens(sequence), 0);
            forward(loaded.engine, sequence, tokens, n, logits[1]);
            assert_memory_equal(logits[1], logits[0], sizeof(logits[0]));
        }
        sequence_free(sequence);
    }
    assert_true(loaded.engine->steps->queue_counts.n_products > 0);
    loaded.engine->backend->ops = real_ops;
    npu_engine_unload(&loaded);
}

/* A device that reads sources refuses a package; the error names the device. */
static void test_device_toy_is_named(void **state) {
    const ModelMaker maker = MODEL_MAKER_DEFAULT;
    AccountTable accounts;
    ErrText err = { 0 };
    Engine *engine = NULL;
    WorkerPool *pool;

    account_table_init(&accounts);
    assert_int_equal(worker_pool_new(&pool, 1), 0);
    assert_int_equal(engine_new(&engine,
                                &(EngineOptions){ .path = import_fixture_package(*state, &maker, 8, false),
                                                  .load.device = ENGINE_DEVICE_CPU,
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
        EngineOptions options = { .path = real_model_path(), .load.chunk_tokens = CHUNK };
        AccountTable accounts;
        WorkerPool *pool;
        ErrText err = { 0 };
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
        cmocka_unit_test(test_device_toy_tokens),     cmocka_unit_test(test_device_toy_trees),
        cmocka_unit_test(test_device_toy_threads),    WITH_FOLDER(test_device_toy_is_named),
        cmocka_unit_test(test_device_toy_real_model), cmocka_unit_test(test_device_toy_npu_tokens),
        WITH_FOLDER(test_device_toy_graphs),          WITH_FOLDER(test_device_toy_graphs_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
