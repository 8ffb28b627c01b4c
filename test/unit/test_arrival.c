/* An engine that is there before its weights: whenever steps begin, and whatever takes the weights in, the bits are those
 * of an engine that was loaded whole; a package that is cut short meanwhile fails load and steps with its name; an engine
 * that is given up in the middle leaves nothing behind. */
#undef NDEBUG
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/generation.h"
#include "test/unit/import_fixture.h"

enum {
    N_LAYERS = 20,
    N_VOCAB = 40,
    N_TOKENS = 20,
    CHUNK = 8,
};

typedef struct Loaded {
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
    Sequence *sequence;
} Loaded;

static void accounts_are_empty(AccountTable *accounts) {
    for (int id = 0; id < _ACCOUNT_N; id++)
        assert_int_equal(atomic_load(&accounts->used_bytes[id]), 0);
}

static EngineOptions options_of(Loaded *loaded, const char *package, bool arriving) {
    return (EngineOptions){
        .path = package,
        .device = ENGINE_DEVICE_CPU,
        .chunk_tokens = CHUNK,
        .preemption = true,
        .pool = loaded->pool,
        .accounts = &loaded->accounts,
        .reading = WEIGHT_READING_CACHED, /* nothing is read ahead of its use */
        .arriving = arriving,
    };
}

static void loaded_init(Loaded *loaded, const char *package, bool arriving) {
    EngineOptions options;
    ErrText err = { "" };

    *loaded = (Loaded){ 0 };
    account_table_init(&loaded->accounts);
    assert_int_equal(worker_pool_new(&loaded->pool, 2), 0);
    options = options_of(loaded, package, arriving);
    if (engine_new(&loaded->engine, &options, &err))
        fail_msg("%s", err.text);
    assert_int_equal(sequence_new(&loaded->sequence, loaded->engine, N_TOKENS, &err), 0);
}

static void loaded_deinit(Loaded *loaded) {
    sequence_free(loaded->sequence);
    engine_free(loaded->engine);
    worker_pool_free(loaded->pool);
    accounts_are_empty(&loaded->accounts);
}

static void make_package(ImportFixture *fixture, double bits, bool static_activations, bool tied, char path[PATH_MAX]) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportMethod method = import_method_plain;
    QuantRecipe *recipe = &fixture->options.recipe;
    ImportReport report;
    ErrText err = { "" };

    maker.n_layers = N_LAYERS;
    maker.tied = tied;
    import_fixture_source(fixture, &maker);
    method.profile = import_fixture_profile;
    fixture->options.method = static_activations ? &method : NULL;
    quant_recipe_set_bits(recipe, bits);
    recipe->static_activations = static_activations;
    recipe->hot_percent = static_activations ? 30 : 0;
    recipe->prune_percent = 0;
    if (import_run(fixture->source, NULL, &fixture->options, &report, &err))
        fail_msg("%s", err.text);
    snprintf(path, PATH_MAX, "%s", report.path);
    fixture->options.method = NULL;
}

/* Logits of all positions, in steps of a chunk. */
static int forward(Loaded *loaded, float *logits, ErrText *err) {
    uint32_t tokens[N_TOKENS];
    int r = 0;

    for (uint32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = i * 7 % N_VOCAB;
    for (size_t at = 0; at < N_TOKENS && !r; at += CHUNK) {
        const size_t n = N_TOKENS - at < CHUNK ? N_TOKENS - at : CHUNK;

        r = engine_forward(loaded->engine, loaded->sequence, tokens + at, n, n, logits + at * N_VOCAB, err);
    }
    return r;
}

/* The first step makes way before every operator, and there a part of the weights is taken in from outside of it. */
static int forward_making_way(Loaded *loaded, float *logits, ErrText *err) {
    static const _Atomic bool wanted = true;
    uint32_t tokens[CHUNK];
    EngineSpan span = { loaded->sequence, tokens, CHUNK, CHUNK, logits, false };
    EngineStep *step;
    int r;

    for (uint32_t i = 0; i < CHUNK; i++)
        tokens[i] = i * 7 % N_VOCAB;
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
    static float expected[N_TOKENS * N_VOCAB], logits[N_TOKENS * N_VOCAB];

    for (size_t i = 0; i < ARRAY_LEN(packages); i++) {
        char path[PATH_MAX];
        uint64_t weights_bytes;
        Loaded loaded;
        ErrText err = { "" };

        make_package(*state, packages[i].bits, packages[i].static_activations, packages[i].tied, path);
        loaded_init(&loaded, path, false);
        assert_false(engine_is_arriving(loaded.engine));
        weights_bytes = engine_info(loaded.engine)->weights_bytes;
        assert_int_equal(weights_bytes, loaded.accounts.used_bytes[ACCOUNT_WEIGHTS]);
        assert_int_equal(forward(&loaded, expected, &err), 0);
        loaded_deinit(&loaded);
        /* Some of it, from nothing to all, is taken in before the first step; the step takes the rest. */
        for (size_t n_before = 0;; n_before = 3 * n_before + 1) {
            bool was_arriving;

            loaded_init(&loaded, path, true);
            assert_true(engine_is_arriving(loaded.engine));
            for (size_t j = 0; j < n_before; j++)
                assert_int_equal(engine_arrive(loaded.engine, &err), 0);
            was_arriving = engine_is_arriving(loaded.engine);
            memset(logits, 0, sizeof(logits));
            assert_int_equal(forward(&loaded, logits, &err), 0);
            assert_memory_equal(logits, expected, sizeof(logits));
            assert_false(engine_is_arriving(loaded.engine));
            assert_int_equal(engine_info(loaded.engine)->weights_bytes, weights_bytes);
            assert_int_equal(engine_arrive(loaded.engine, &err), 0);
            loaded_deinit(&loaded);
            if (!was_arriving)
                break;
        }
        loaded_init(&loaded, path, true);
        memset(logits, 0, sizeof(logits));
        assert_int_equal(forward_making_way(&loaded, logits, &err), 0);
        assert_memory_equal(logits, expected, CHUNK * N_VOCAB * sizeof(float));
        loaded_deinit(&loaded);
    }
}

static void test_arrival_given_up(void **state) {
    char path[PATH_MAX];

    make_package(*state, 4.5, false, false, path);
    for (size_t n = 0; n < 150; n += 25) {
        ErrText err = { "" };
        Loaded loaded;

        loaded_init(&loaded, path, true);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(engine_arrive(loaded.engine, &err), 0);
        loaded_deinit(&loaded);
    }
}

/* What has no room is told before anything is read. */
static void test_arrival_memory(void **state) {
    char path[PATH_MAX];
    Loaded loaded = { 0 };
    EngineOptions options;
    ErrText err = { "" };

    make_package(*state, 8, false, false, path);
    account_table_init(&loaded.accounts);
    loaded.accounts.limit_bytes[ACCOUNT_WEIGHTS] = 300 << 10;
    assert_int_equal(worker_pool_new(&loaded.pool, 2), 0);
    options = options_of(&loaded, path, true);
    assert_int_equal(engine_new(&loaded.engine, &options, &err), ENGINE_E_MEMORY);
    assert_null(loaded.engine);
    worker_pool_free(loaded.pool);
    accounts_are_empty(&loaded.accounts);
}

/* Where steps have no room beside what the weights come through, the engine is there when they are. */
static void test_arrival_little_memory(void **state) {
    static float expected[N_TOKENS * N_VOCAB], logits[N_TOKENS * N_VOCAB];
    char path[PATH_MAX];
    uint64_t needed_bytes;
    Loaded loaded;
    EngineOptions options;
    ErrText err = { "" };

    make_package(*state, 8, false, false, path);
    loaded_init(&loaded, path, false);
    assert_int_equal(forward(&loaded, expected, &err), 0);
    needed_bytes = loaded.accounts.used_bytes[ACCOUNT_ACTIVATIONS];
    loaded_deinit(&loaded);

    loaded = (Loaded){ 0 };
    account_table_init(&loaded.accounts);
    assert_int_equal(worker_pool_new(&loaded.pool, 2), 0);
    options = options_of(&loaded, path, true);
    assert_int_equal(engine_new(&loaded.engine, &options, &err), 0);
    assert_true(loaded.accounts.used_bytes[ACCOUNT_ACTIVATIONS] > needed_bytes);
    engine_free(loaded.engine);
    loaded.accounts.limit_bytes[ACCOUNT_ACTIVATIONS] = needed_bytes;
    if (engine_new(&loaded.engine, &options, &err))
        fail_msg("%s", err.text);
    assert_false(engine_is_arriving(loaded.engine));
    assert_int_equal(sequence_new(&loaded.sequence, loaded.engine, N_TOKENS, &err), 0);
    assert_int_equal(forward(&loaded, logits, &err), 0);
    assert_memory_equal(logits, expected, sizeof(logits));
    loaded_deinit(&loaded);
}

static void test_arrival_cut_short(void **state) {
    ErrText err = { "" }, again = { "" };
    float logits[N_TOKENS * N_VOCAB];
    char path[PATH_MAX];
    GenerationOptions greedy = { .max_tokens = 2, .sampler = SAMPLER_OPTIONS_GREEDY };
    const uint32_t prompt[] = { 1, 2, 3 };
    Generation *generation;
    Loaded loaded;

    make_package(*state, 8, false, false, path);
    loaded_init(&loaded, path, true);
    assert_true(engine_is_arriving(loaded.engine));
    assert_int_equal(truncate(path, 64 << 10), 0); /* the metadata and a part of the layers */
    assert_int_equal(forward(&loaded, logits, &err), ENGINE_E_READ);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "cut short"));
    assert_int_equal(sequence_n_tokens(loaded.sequence), 0);
    /* It stays so, whoever asks. */
    assert_true(engine_is_arriving(loaded.engine));
    assert_int_equal(engine_arrive(loaded.engine, &again), ENGINE_E_MODEL);
    assert_string_equal(again.text, err.text);
    again.text[0] = 0;
    assert_int_equal(forward(&loaded, logits, &again), ENGINE_E_READ);
    assert_string_equal(again.text, err.text);
    assert_int_equal(generation_new(&generation, loaded.engine, prompt, 3, &greedy, &again), 0);
    assert_int_equal(generation_step(generation, NULL, NULL, &again), GENERATION_E_READ);
    generation_free(generation);
    loaded_deinit(&loaded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_arrival_bits),
        WITH_FOLDER(test_arrival_given_up),
        WITH_FOLDER(test_arrival_memory),
        WITH_FOLDER(test_arrival_little_memory),
        WITH_FOLDER(test_arrival_cut_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
