// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/loaded_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum {
    N_LAYERS = 20,
};

void loaded_accounts_are_empty(AccountTable *accounts) {
    for (int id = 0; id < _ACCOUNT_N; id++)
        assert_int_equal(atomic_load(&accounts->used_bytes[id]), 0);
}

EngineOptions loaded_options(const Loaded *loaded, const char *package, LoadedFlags flags) {
    return (EngineOptions){
        .path = package,
        .device = ENGINE_DEVICE_CPU,
        .isa = loaded->isa,
        .chunk_tokens = LOADED_CHUNK,
        .preemption = true,
        .pool = loaded->pool,
        .accounts = (AccountTable *)&loaded->accounts,
        .reading = WEIGHT_READING_CACHED, /* nothing is read ahead of its use */
        .arriving = flags & LOADED_ARRIVING,
        .optional_image = flags & LOADED_OPTIONAL_IMAGE,
        .image_path = loaded->image_path,
        .weights_memory = loaded->weights_memory,
        .flash_limit = loaded->flash_limit,
        .checking = loaded->checking,
        .cache_dir = loaded->cache_dir,
    };
}

int loaded_try(Loaded *loaded, const char *package, LoadedFlags flags, ErrText *err) {
    EngineOptions options;
    int r;

    *loaded = (Loaded){
        .image_path = loaded->image_path,
        .isa = loaded->isa,
        .weights_memory = loaded->weights_memory,
        .flash_limit = loaded->flash_limit,
        .checking = loaded->checking,
        .cache_dir = loaded->cache_dir,
    };
    account_table_init(&loaded->accounts);
    assert_int_equal(worker_pool_new(&loaded->pool, 2), 0);
    options = loaded_options(loaded, package, flags);
    r = engine_new(&loaded->engine, &options, err);
    if (r)
        loaded->pool = worker_pool_free(loaded->pool);
    else
        assert_int_equal(sequence_new(&loaded->sequence, loaded->engine, LOADED_N_TOKENS, err), 0);
    return r;
}

void loaded_init(Loaded *loaded, const char *package, LoadedFlags flags) {
    ErrText err = { "" };

    if (loaded_try(loaded, package, flags, &err))
        fail_msg("%s", err.text);
}

void loaded_deinit(Loaded *loaded) {
    sequence_free(loaded->sequence);
    engine_free(loaded->engine);
    worker_pool_free(loaded->pool);
    loaded_accounts_are_empty(&loaded->accounts);
}

void loaded_make_package(ImportFixture *fixture, double bits, bool static_activations, bool tied, char path[PATH_MAX]) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.n_layers = N_LAYERS;
    maker.tied = tied;
    snprintf(path, PATH_MAX, "%s", import_fixture_package(fixture, &maker, bits, static_activations));
}

int loaded_forward(Loaded *loaded, float logits[LOADED_N_TOKENS * LOADED_N_VOCAB], ErrText *err) {
    uint32_t tokens[LOADED_N_TOKENS];
    int r = 0;

    for (uint32_t i = 0; i < LOADED_N_TOKENS; i++)
        tokens[i] = i * 7 % LOADED_N_VOCAB;
    for (size_t at = 0; at < LOADED_N_TOKENS && !r; at += LOADED_CHUNK) {
        const size_t n = LOADED_N_TOKENS - at < LOADED_CHUNK ? LOADED_N_TOKENS - at : LOADED_CHUNK;

        r = engine_forward(loaded->engine, loaded->sequence, tokens + at, n, n, logits + at * LOADED_N_VOCAB, err);
    }
    return r;
}
