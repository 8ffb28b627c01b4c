// SPDX-License-Identifier: Apache-2.0
/* An engine that is there before its weights. Whenever steps begin, and whatever takes the weights in, the bits are
 * those of an engine that was loaded whole. A package that is cut short meanwhile fails the load and the steps with its
 * name. An engine that is given up in the middle leaves nothing behind. */
#undef NDEBUG
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine/generation.h"
#include "model/package/package.h"
#include "test/unit/fixtures/loaded_engine.h"
#include "weights/image/weights_image.h"

/* The first step makes way before every operator, where the test takes a part of the weights in. */
static int forward_making_way(Loaded *loaded, float *logits, ErrText *err) {
    static const _Atomic bool wanted = true;
    uint32_t tokens[LOADED_CHUNK];
    EngineSpan span = { .sequence = loaded->sequence,
                        .tokens = tokens,
                        .n = LOADED_CHUNK,
                        .head = { .n_rows = LOADED_CHUNK, .logits = logits } };
    EngineStep *step;
    int r;

    for (uint32_t i = 0; i < LOADED_CHUNK; i++)
        tokens[i] = i * 7 % LOADED_N_VOCAB;
    r = engine_step_begin(&step, loaded->engine, &span, 1, err);
    while (!r && (r = engine_step_run(step, &(EngineYield){ .wanted = &wanted }, err)) == ENGINE_E_YIELDED)
        r = engine_arrive(loaded->engine, err);
    return r;
}

typedef struct PackageCase {
    double bits;
    bool static_activations, tied;
} PackageCase;

static const PackageCase packages[] = { { 8, false, false }, { 4.5, false, true }, { 8, true, false } };

static void test_arrival_bits(void **state) {
    static float expected[LOADED_N_TOKENS * LOADED_N_VOCAB], logits[LOADED_N_TOKENS * LOADED_N_VOCAB];

    for (size_t i = 0; i < ARRAY_LEN(packages); i++) {
        char path[PATH_MAX];
        uint64_t weights_bytes;
        Loaded loaded = { 0 };
        ErrText err = { 0 };

        loaded_make_package(*state, packages[i].bits, packages[i].static_activations, packages[i].tied, path);
        loaded_init(&loaded, path, 0);
        assert_false(engine_is_arriving(loaded.engine));
        weights_bytes = engine_info(loaded.engine)->weights.resident_bytes;
        assert_int_equal(weights_bytes + tokenizer_memory_bytes(engine_tokenizer(loaded.engine)),
                         loaded.accounts.used_bytes[ACCOUNT_WEIGHTS]);
        assert_int_equal(loaded_forward(&loaded, expected, &err), 0);
        loaded_deinit(&loaded);
        /* A part of the weights, from nothing to all, is taken in before the first step; the step takes the rest. */
        for (size_t n_before = 0;; n_before = 3 * n_before + 1) {
            bool was_arriving;

            loaded_init(&loaded, path, LOADED_ARRIVING);
            assert_true(engine_is_arriving(loaded.engine));
            for (size_t j = 0; j < n_before; j++)
                assert_int_equal(engine_arrive(loaded.engine, &err), 0);
            was_arriving = engine_is_arriving(loaded.engine);
            memset(logits, 0, sizeof(logits));
            assert_int_equal(loaded_forward(&loaded, logits, &err), 0);
            assert_memory_equal(logits, expected, sizeof(logits));
            assert_false(engine_is_arriving(loaded.engine));
            assert_int_equal(engine_info(loaded.engine)->weights.resident_bytes, weights_bytes);
            assert_int_equal(engine_arrive(loaded.engine, &err), 0);
            loaded_deinit(&loaded);
            if (!was_arriving)
                break;
        }
        loaded_init(&loaded, path, LOADED_ARRIVING);
        memset(logits, 0, sizeof(logits));
        assert_int_equal(forward_making_way(&loaded, logits, &err), 0);
        assert_memory_equal(logits, expected, LOADED_CHUNK * LOADED_N_VOCAB * sizeof(float));
        loaded_deinit(&loaded);
    }
}

static void test_arrival_given_up(void **state) {
    char path[PATH_MAX];

    loaded_make_package(*state, 4.5, false, false, path);
    for (size_t n = 0; n < 150; n += 25) {
        ErrText err = { 0 };
        Loaded loaded = { 0 };

        loaded_init(&loaded, path, LOADED_ARRIVING);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(engine_arrive(loaded.engine, &err), 0);
        loaded_deinit(&loaded);
    }
}

/* A lack of memory is told before anything is read. */
static void test_arrival_memory(void **state) {
    char path[PATH_MAX];
    Loaded loaded = { 0 };
    EngineOptions options;
    ErrText err = { 0 };

    loaded_make_package(*state, 8, false, false, path);
    account_table_init(&loaded.accounts);
    loaded.accounts.limit_bytes[ACCOUNT_WEIGHTS] = 300 << 10;
    assert_int_equal(worker_pool_new(&loaded.pool, 2), 0);
    options = loaded_options(&loaded, path, LOADED_ARRIVING);
    assert_int_equal(engine_new(&loaded.engine, &options, &err), ENGINE_E_MEMORY);
    assert_null(loaded.engine);
    worker_pool_free(loaded.pool);
    loaded_accounts_are_empty(&loaded.accounts);
}

/* All memory is taken at the begin: the arrival asks for none. */
static void test_arrival_takes_no_memory(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(packages); i++) {
        char path[PATH_MAX];
        Loaded loaded = { 0 };
        ErrText err = { 0 };

        loaded_make_package(*state, packages[i].bits, packages[i].static_activations, packages[i].tied, path);
        loaded_init(&loaded, path, LOADED_ARRIVING);
        loaded.accounts.total_limit_bytes = loaded.accounts.total_bytes;
        while (engine_is_arriving(loaded.engine))
            if (engine_arrive(loaded.engine, &err))
                fail_msg("%s", err.text);
        assert_int_equal(engine_info(loaded.engine)->weights.resident_bytes +
                             tokenizer_memory_bytes(engine_tokenizer(loaded.engine)),
                         loaded.accounts.used_bytes[ACCOUNT_WEIGHTS]);
        loaded_deinit(&loaded);
    }
}

/* If steps have no room beside the staging memory of the weights, the engine is there when its weights are. */
static void test_arrival_little_memory(void **state) {
    static float expected[LOADED_N_TOKENS * LOADED_N_VOCAB], logits[LOADED_N_TOKENS * LOADED_N_VOCAB];
    char path[PATH_MAX];
    uint64_t needed_bytes;
    Loaded loaded = { 0 };
    EngineOptions options;
    ErrText err = { 0 };

    loaded_make_package(*state, 8, false, false, path);
    loaded_init(&loaded, path, 0);
    assert_int_equal(loaded_forward(&loaded, expected, &err), 0);
    needed_bytes = loaded.accounts.used_bytes[ACCOUNT_ACTIVATIONS];
    loaded_deinit(&loaded);

    loaded = (Loaded){ 0 };
    account_table_init(&loaded.accounts);
    assert_int_equal(worker_pool_new(&loaded.pool, 2), 0);
    options = loaded_options(&loaded, path, LOADED_ARRIVING);
    assert_int_equal(engine_new(&loaded.engine, &options, &err), 0);
    assert_true(loaded.accounts.used_bytes[ACCOUNT_ACTIVATIONS] > needed_bytes);
    engine_free(loaded.engine);
    loaded.accounts.limit_bytes[ACCOUNT_ACTIVATIONS] = needed_bytes;
    if (engine_new(&loaded.engine, &options, &err))
        fail_msg("%s", err.text);
    assert_false(engine_is_arriving(loaded.engine));
    assert_int_equal(sequence_new(&loaded.sequence, loaded.engine, LOADED_N_TOKENS, &err), 0);
    assert_int_equal(loaded_forward(&loaded, logits, &err), 0);
    assert_memory_equal(logits, expected, sizeof(logits));
    loaded_deinit(&loaded);
}

static void one_token(Engine *engine, bool makes_way, GenerationUsage *usage) {
    const GenerationOptions greedy = { .max_tokens = 1, .no_reuse = true, .sampler = SAMPLER_OPTIONS_GREEDY };
    const EngineYield no_waiting = { .no_waiting = true };
    const uint32_t prompt[] = { 1, 2, 3 };
    _cleanup_(generation_freep) Generation *generation = NULL;
    GenerationTurn turn = { .standing = { PRIORITY_NORMAL, PRIORITY_NORMAL } };
    GenerationStep step;
    ErrText err = { 0 };
    int r;

    assert_int_equal(generation_new(&generation, engine, prompt, ARRAY_LEN(prompt), &greedy, &err), 0);
    turn.generation = generation;
    assert_int_equal(generation_step_begin(&step, &turn, 1, 0, &err), 0);
    while ((r = generation_step_run(&step, makes_way ? &no_waiting : NULL, &err)) == GENERATION_E_WAITING) {
        (void)usleep(5000);
        assert_int_equal(engine_arrive(engine, &err), 0);
    }
    assert_int_equal(r, 0);
    *usage = *generation_usage(generation);
}

/* The time that a prompt waits for weights counts as time of the load, in the step and away from it. */
static void test_arrival_is_load(void **state) {
    char path[PATH_MAX];

    loaded_make_package(*state, 8, false, false, path);
    for (int makes_way = 0; makes_way < 2; makes_way++) {
        const uint64_t start_ns = clock_now_ns();
        GenerationUsage usage;
        Loaded loaded = { 0 };

        loaded_init(&loaded, path, LOADED_ARRIVING);
        one_token(loaded.engine, makes_way, &usage);
        assert_true(usage.prefill_ns > 0 && usage.load_ns > (makes_way ? 5000000u : 0u));
        assert_true(usage.prefill_ns + usage.load_ns <= clock_now_ns() - start_ns);
        one_token(loaded.engine, makes_way, &usage);
        assert_int_equal(usage.load_ns, 0);
        assert_true(usage.prefill_ns > 0);
        loaded_deinit(&loaded);
    }
}

static void test_arrival_cut_short(void **state) {
    ErrText err = { 0 }, again = { 0 };
    float logits[LOADED_N_TOKENS * LOADED_N_VOCAB];
    char path[PATH_MAX];
    GenerationOptions greedy = { .max_tokens = 2, .sampler = SAMPLER_OPTIONS_GREEDY };
    const uint32_t prompt[] = { 1, 2, 3 };
    Generation *generation;
    Loaded loaded = { 0 };

    loaded_make_package(*state, 8, false, false, path);
    loaded_init(&loaded, path, LOADED_ARRIVING);
    assert_true(engine_is_arriving(loaded.engine));
    assert_int_equal(truncate(path, 64 << 10), 0); /* the metadata and a part of the layers */
    assert_int_equal(loaded_forward(&loaded, logits, &err), ENGINE_E_READ);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "cut short"));
    assert_int_equal(sequence_n_tokens(loaded.sequence), 0);
    /* Every later call returns the error again. */
    assert_true(engine_is_arriving(loaded.engine));
    assert_int_equal(engine_arrive(loaded.engine, &again), ENGINE_E_MODEL);
    assert_string_equal(again.text, err.text);
    again.text[0] = 0;
    assert_int_equal(loaded_forward(&loaded, logits, &again), ENGINE_E_READ);
    assert_string_equal(again.text, err.text);
    assert_int_equal(generation_new(&generation, loaded.engine, prompt, 3, &greedy, &again), 0);
    assert_int_equal(generation_step(generation, NULL, NULL, &again), GENERATION_E_READ);
    generation_free(generation);
    loaded_deinit(&loaded);
}

/* The columns of hot channels are gone: an error names the file and the tensor, as for the integers. */
static void test_arrival_columns_cut_short(void **state) {
    _cleanup_(package_freep) Package *package = NULL;
    uint64_t cut_bytes = 0;
    float logits[LOADED_N_TOKENS * LOADED_N_VOCAB];
    const char *name = NULL;
    char path[PATH_MAX];
    Loaded loaded = { 0 };
    ErrText err = { 0 };

    loaded_make_package(*state, 8, true, false, path);
    assert_int_equal(package_open(&package, path, &err), 0);
    for (size_t i = 0; i < package_n_linears(package); i++) {
        const PackageLinear *linear = package_linear_at(package, i);

        if (linear->activations.n_hot) {
            name = linear->name;
            cut_bytes = linear->activations.columns_offset_bytes + linear->activations.hot[0] * linear->n + 1;
        }
    }
    assert_non_null(name);
    loaded_init(&loaded, path, LOADED_ARRIVING);
    assert_int_equal(truncate(path, (off_t)cut_bytes), 0);
    assert_int_equal(loaded_forward(&loaded, logits, &err), ENGINE_E_READ);
    if (!strstr(err.text, path) || !strstr(err.text, name) || !strstr(err.text, "the file is too short"))
        fail_msg("'%s' does not name %s and %s", err.text, path, name);
    loaded_deinit(&loaded);
}

/* --- memory ahead ------------------------------------------------------------------------------------------------- */

/* A cpu device that counts the matrices begun and the blocks filled before linears_begun(). */
static BackendOps told_ops;
static int (*cpu_begin)(Backend *, BackendLinear **, const LinearSource *, ErrText *);
static void (*cpu_fill)(const Backend *, BackendLinear *, size_t, size_t, const void *);
static void (*cpu_begun)(Backend *);
static size_t n_begun, n_told, n_begun_when_told, n_filled_when_told;
static _Atomic size_t n_filled;

static int told_begin(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    n_begun++;
    return cpu_begin(backend, linearp, source, err);
}

static void told_fill(const Backend *backend, BackendLinear *linear, size_t begin, size_t end, const void *bytes) {
    n_filled++;
    cpu_fill(backend, linear, begin, end, bytes);
}

static void told_begun(Backend *backend) {
    n_told++;
    n_begun_when_told = n_begun;
    n_filled_when_told = n_filled;
    cpu_begun(backend);
}

static int told_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err) {
    const int r = backend_cpu_new(backendp, cpu, pool, accounts, err);

    if (r)
        return r;
    told_ops = *(*backendp)->ops;
    cpu_begin = told_ops.linear_begin;
    cpu_fill = told_ops.linear_fill;
    cpu_begun = told_ops.linears_begun;
    told_ops.linear_begin = told_begin;
    told_ops.linear_fill = told_fill;
    told_ops.linears_begun = told_begun;
    (*backendp)->ops = &told_ops;
    n_begun = 0;
    n_told = 0;
    n_filled = 0;
    return 0;
}

/* The device is told once that the matrices of a load are all begun, before the first of them is filled, so that their
 * memory can be touched ahead. With an image there is no such memory. */
static void test_arrival_memory_ahead(void **state) {
    static const BackendDevice device = { "told", true, told_new, false };
    ImportFixture *fixture = *state;
    char path[PATH_MAX], image[PATH_MAX];

    loaded_make_package(fixture, 8, false, false, path);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, path), 0);
    for (int with_image = 0; with_image < 2; with_image++) {
        Loaded loaded = { .image_path = image };
        EngineOptions options;
        ErrText err = { 0 };

        account_table_init(&loaded.accounts);
        assert_int_equal(worker_pool_new(&loaded.pool, 2), 0);
        options = loaded_options(&loaded, path, 0);
        options.own_device = &device;
        if (engine_new(&loaded.engine, &options, &err))
            fail_msg("%s", err.text);
        assert_true(n_begun > 20);
        assert_int_equal(n_told, with_image ? 0 : 1);
        if (!with_image) {
            assert_int_equal(n_begun_when_told, n_begun);
            assert_int_equal(n_filled_when_told, 0);
            assert_true(n_filled > 0);
        }
        assert_int_equal(weights_wait_image(engine_weights(loaded.engine), &err), 0);
        engine_free(loaded.engine);
        worker_pool_free(loaded.pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_arrival_bits),
        WITH_FOLDER(test_arrival_given_up),
        WITH_FOLDER(test_arrival_memory),
        WITH_FOLDER(test_arrival_little_memory),
        WITH_FOLDER(test_arrival_is_load),
        WITH_FOLDER(test_arrival_cut_short),
        WITH_FOLDER(test_arrival_takes_no_memory),
        WITH_FOLDER(test_arrival_columns_cut_short),
        WITH_FOLDER(test_arrival_memory_ahead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
