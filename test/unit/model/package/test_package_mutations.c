// SPDX-License-Identifier: Apache-2.0
/* Tests packages with random faults: each is refused with a text that names it, or is loaded and generates some text;
 * nothing is left on any account. Three kinds of package are used. Most faults are in their heads, where every byte has
 * a meaning. TEST_SEED sets other faults, TEST_ROUNDS how many. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/files/file_io.h"
#include "base/log.h"
#include "engine/generation.h"
#include "model/package/package.h"
#include "test/unit/fixtures/loaded_engine.h"

enum {
    ROUNDS = 150, /* faults of each package */
    FILE_MAX_BYTES = 64 << 20,
};

#define MEMORY_BYTES (UINT64_C(256) << 20)

static uint64_t seed;
static size_t n_refused, n_failed, n_generated;

static size_t draw(size_t n) {
    return (size_t)(test_random(&seed) % n);
}

/* Changes a bit, a byte, or a number of 4 or 8 bytes, often to an extreme value. */
static void damage(char *data, size_t len_bytes, size_t head_bytes) {
    static const uint32_t words[] = { 0, 1, UINT32_MAX, INT32_MAX, 0x80000000, 0x7f800000, 0x7fc00000, 0x00000001 };
    static const uint64_t longs[] = { 0, 1, UINT64_MAX, INT64_MAX, UINT64_C(1) << 32, UINT64_C(1) << 63 };
    const size_t at = draw(draw(3) ? head_bytes : len_bytes - 8);

    switch (draw(5)) {
    case 0:
        data[at] = (char)(data[at] ^ 1 << draw(8));
        break;
    case 1:
        data[at] = (char)draw(256);
        break;
    case 2:
        memcpy(data + at, &words[draw(ARRAY_LEN(words))], sizeof(*words));
        break;
    case 3:
        memcpy(data + at, &longs[draw(ARRAY_LEN(longs))], sizeof(*longs));
        break;
    default: /* a small number: another count, type or length */
        memcpy(data + at, &(uint32_t){ (uint32_t)draw(70) }, sizeof(uint32_t));
    }
}

static void generate(Engine *engine) {
    static const uint32_t prompt[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    const GenerationOptions options = {
        .max_tokens = 3,
        .ignore_end = true,
        .sampler = { .temperature = 1, .top_p = 0.9f, .min_p = 0.01f, .repetition_penalty = 1.1f },
    };
    Generation *generation;
    ErrText err = { 0 };
    int r = generation_new(&generation, engine, prompt, ARRAY_LEN(prompt), &options, &err);

    if (r) {
        n_failed++;
        return;
    }
    while (!r && !generation_end(generation))
        r = generation_step(generation, NULL, NULL, &err);
    *(r ? &n_failed : &n_generated) += 1;
    generation_free(generation);
}

static void load(const char *path, WorkerPool *pool) {
    static const Isa isas[] = { ISA_BEST, ISA_SCALAR };
    Loaded loaded = { .pool = pool, .isa = isas[draw(ARRAY_LEN(isas))] };
    EngineOptions options;
    ErrText err = { 0 };
    int r;

    account_table_init(&loaded.accounts);
    loaded.accounts.total_limit_bytes = loaded.accounts.others_limit_bytes = MEMORY_BYTES;
    options = loaded_options(&loaded, path, draw(2) ? LOADED_ARRIVING : 0);
    r = engine_new(&loaded.engine, &options, &err);
    if (r) {
        n_refused++;
        if (!err.text[0])
            fail_msg("refused with %d and no text", r);
        assert_null(loaded.engine);
    } else {
        generate(loaded.engine);
        engine_free(loaded.engine);
    }
    loaded_accounts_are_empty(&loaded.accounts);
}

static size_t head_of(const char *path) {
    _cleanup_(package_freep) Package *package = NULL;

    assert_int_equal(package_open(&package, path, NULL), 0);
    return gguf_tensor_at(package_file(package), 0)->offset_bytes;
}

static void check_package(ImportFixture *fixture, double bits, bool static_activations, size_t n_rounds) {
    char path[PATH_MAX], damaged[PATH_MAX + 16];
    _cleanup_(freep) char *whole = NULL, *copy = NULL;
    WorkerPool *pool;
    size_t len_bytes;
    ErrText err;

    loaded_make_package(fixture, bits, static_activations, false, path);
    assert_int_equal(file_slurp(path, FILE_MAX_BYTES, &whole, &len_bytes, &err), 0);
    snprintf(damaged, sizeof(damaged), "%s/damaged.cgm", fixture->folder);
    copy = malloc(len_bytes);
    assert_non_null(copy);
    assert_int_equal(worker_pool_new(&pool, 1), 0);
    for (size_t round = 0; round < n_rounds; round++) {
        const size_t n_faults = 1 + !draw(4);

        memcpy(copy, whole, len_bytes);
        for (size_t i = 0; i < n_faults; i++)
            damage(copy, len_bytes, head_of(path) - 8);
        test_write_file(fixture->folder, "damaged.cgm", copy, draw(20) ? len_bytes : draw(len_bytes));
        load(damaged, pool);
    }
    worker_pool_free(pool);
}

static void test_package_mutations(void **state) {
    const char *env = getenv("TEST_ROUNDS");
    const size_t n_rounds = env ? (size_t)strtoull(env, NULL, 0) : ROUNDS;

    log_set_level(LOG_LEVEL_ERROR);
    check_package(*state, 8, false, n_rounds);
    check_package(*state, 4.5, false, n_rounds);
    check_package(*state, 8, true, n_rounds);
    printf("%zu were refused, %zu failed at work, %zu generated\n", n_refused, n_failed, n_generated);
    /* Faults that nobody notices, or everybody, show nothing. */
    assert_true(n_refused > n_rounds / 10 && n_generated > n_rounds / 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_package_mutations),
    };
    const char *env = getenv("TEST_SEED");

    seed = env ? strtoull(env, NULL, 0) : 20261122;
    printf("seed %llu (TEST_SEED sets another)\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
