// SPDX-License-Identifier: Apache-2.0
/* Tests packages with static activations in the engine. The logits do not depend on which columns are in memory and
 * which are read on demand. Outliers make a difference. A package that is cut short while in use fails the step with
 * its name, and nothing else. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "model/package/package.h"
#include "test/unit/importer/import_fixture.h"

enum {
    N_VOCAB = 40,
    N_TOKENS = 30
};

typedef struct Loaded {
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
    Sequence *sequence;
} Loaded;

static void loaded_init(Loaded *loaded, const char *package) {
    ErrText err = { 0 };

    account_table_init(&loaded->accounts);
    assert_int_equal(worker_pool_new(&loaded->pool, 2), 0);
    if (engine_new(&loaded->engine,
                   &(EngineOptions){ .path = package,
                                     .load.device = ENGINE_DEVICE_CPU,
                                     .load.chunk_tokens = 16,
                                     .pool = loaded->pool,
                                     .accounts = &loaded->accounts },
                   &err))
        fail_msg("%s", err.text);
    assert_int_equal(sequence_new(&loaded->sequence, loaded->engine, N_TOKENS, &err), 0);
}

static void loaded_deinit(Loaded *loaded) {
    sequence_free(loaded->sequence);
    engine_free(loaded->engine);
    worker_pool_free(loaded->pool);
    for (int id = 0; id < _ACCOUNT_N; id++)
        assert_int_equal(atomic_load(&loaded->accounts.used_bytes[id]), 0);
}

static int forward(Loaded *loaded, uint32_t first, size_t n, float *logits, ErrText *err) {
    uint32_t tokens[N_TOKENS];

    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (first + i) * 7 % N_VOCAB;
    return engine_forward(loaded->engine, loaded->sequence, tokens, n, n, logits, err);
}

/* Logits of all positions, in two steps of 15, and their cost. */
static ShadowCounts logits_of(const char *package, float *logits) {
    ShadowCounts counts;
    Loaded loaded;

    loaded_init(&loaded, package);
    assert_int_equal(forward(&loaded, 0, 15, logits, NULL), 0);
    assert_int_equal(forward(&loaded, 15, 15, logits + 15 * N_VOCAB, NULL), 0);
    engine_backend(loaded.engine)->ops->shadow_counts(engine_backend(loaded.engine), &counts);
    loaded_deinit(&loaded);
    return counts;
}

static ImportMethod method;

/* Makes a package with hot_percent of the channels in memory. */
static void make_package(ImportFixture *fixture, double bits, double hot_percent, double prune_percent,
                         char path[PATH_MAX]) {
    QuantRecipe *recipe = &fixture->options.recipe;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportReport report;
    ErrText err = { 0 };

    import_fixture_source(fixture, &maker);
    method = import_method_plain;
    method.profile = import_fixture_profile;
    fixture->options.method = &method;
    quant_recipe_set_bits(recipe, bits);
    recipe->static_activations = true;
    recipe->hot_percent = hot_percent;
    recipe->prune_percent = prune_percent;
    if (import_run(fixture->source, NULL, &fixture->options, &report, &err))
        fail_msg("%s", err.text);
    memcpy(path, report.path, sizeof(report.path));
}

static void test_static_package_hot_or_not(void **state) {
    static const double bits[] = { 8, 4.5 };
    ImportFixture *fixture = *state;
    float all[N_TOKENS * N_VOCAB], some[N_TOKENS * N_VOCAB], none[N_TOKENS * N_VOCAB], clipped[N_TOKENS * N_VOCAB];

    for (size_t i = 0; i < ARRAY_LEN(bits); i++) {
        ShadowCounts counts;
        char path[PATH_MAX];

        make_package(fixture, bits[i], 100, 0, path);
        counts = logits_of(path, all);
        assert_true(counts.n_rows && counts.n_outliers && counts.n_hot == counts.n_outliers && !counts.n_columns_read);
        make_package(fixture, bits[i], 30, 0, path);
        counts = logits_of(path, some);
        assert_true(counts.n_hot && counts.n_hot < counts.n_outliers && counts.n_columns_read);
        make_package(fixture, bits[i], 0, 0, path);
        counts = logits_of(path, none);
        assert_true(!counts.n_hot && counts.n_outliers && counts.n_columns_read);
        make_package(fixture, bits[i], 0, 100, path);
        counts = logits_of(path, clipped);
        assert_true(!counts.n_rows && !counts.n_outliers);
        assert_memory_equal(all, some, sizeof(all));
        assert_memory_equal(all, none, sizeof(all));
        assert_memory_not_equal(all, clipped, sizeof(all));
    }
}

static void test_static_package_cut_short(void **state) {
    ImportFixture *fixture = *state;
    float whole[N_TOKENS * N_VOCAB], logits[N_TOKENS * N_VOCAB];
    MappedFile package = { 0 };
    ErrText err = { 0 };
    char path[PATH_MAX], folder[PATH_MAX], *name;
    Loaded loaded;
    uint8_t *copy;

    make_package(fixture, 8, 0, 0, path);
    logits_of(path, whole);
    assert_int_equal(mapped_file_open(&package, path, NULL), 0);
    copy = malloc(package.len_bytes);
    assert_non_null(copy);
    memcpy(copy, package.data, package.len_bytes);
    loaded_init(&loaded, path);
    assert_int_equal(truncate(path, 4096), 0);
    assert_int_equal(forward(&loaded, 0, 15, logits, &err), ENGINE_E_READ);
    assert_int_equal(sequence_n_tokens(loaded.sequence), 0);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "tensor 'blk.0.attn_"));
    assert_non_null(strstr(err.text, "import the model again"));
    {
        _cleanup_(generation_freep) Generation *generation = NULL;
        GenerationOptions options = { .max_tokens = 3, .sampler = SAMPLER_OPTIONS_GREEDY };

        err.text[0] = 0;
        assert_int_equal(generation_new(&generation, loaded.engine, (uint32_t[]){ 1, 2, 3 }, 3, &options, &err), 0);
        assert_int_equal(generation_step(generation, NULL, NULL, &err), GENERATION_E_READ);
        assert_non_null(strstr(err.text, path));
    }
    /* The file is whole again, with the same name and inode: the same sequence goes on with the right bits. */
    snprintf(folder, sizeof(folder), "%s", path);
    name = strrchr(folder, '/');
    *name++ = 0;
    test_write_file(folder, name, copy, package.len_bytes);
    assert_int_equal(forward(&loaded, 0, 15, logits, NULL), 0);
    assert_int_equal(forward(&loaded, 15, 15, logits + 15 * N_VOCAB, NULL), 0);
    assert_memory_equal(logits, whole, sizeof(whole));
    loaded_deinit(&loaded);
    mapped_file_deinit(&package);
    free(copy);
}

/* Another package under the name is not read: the loaded one is. */
static void test_static_package_replaced(void **state) {
    ImportFixture *fixture = *state;
    float before[N_TOKENS * N_VOCAB], logits[N_TOKENS * N_VOCAB];
    char path[PATH_MAX], other[PATH_MAX + 8];
    Loaded loaded;

    make_package(fixture, 8, 0, 0, path);
    logits_of(path, before);
    loaded_init(&loaded, path);
    snprintf(other, sizeof(other), "%s/other", fixture->folder);
    test_write_file(fixture->folder, "other", "not a package", 13);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(forward(&loaded, 0, 15, logits, NULL), 0);
    assert_int_equal(forward(&loaded, 15, 15, logits + 15 * N_VOCAB, NULL), 0);
    assert_memory_equal(logits, before, sizeof(before));
    loaded_deinit(&loaded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_static_package_hot_or_not),
        WITH_FOLDER(test_static_package_cut_short),
        WITH_FOLDER(test_static_package_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
