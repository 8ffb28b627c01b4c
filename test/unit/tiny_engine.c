// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/tiny_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/tree_model.h"

void tiny_engine_open(TinyEngine *tiny, EngineDevice device, uint32_t chunk_tokens) {
    ModelMaker maker = tiny->maker ? *tiny->maker : tiny->arch ? tree_model_maker(tiny->arch) : MODEL_MAKER_DEFAULT;
    EngineOptions options = { .device = device,
                              .own_device = tiny->own_device,
                              .isa = tiny->isa,
                              .chunk_tokens = chunk_tokens,
                              .preemption = tiny->preempts,
                              .accounts = &tiny->accounts,
                              .prefix_cache = tiny->prefix_cache };
    static ImportReport report;
    ErrText err = { "" };

    maker.adds_bos = maker.adds_bos || tiny->adds_bos;
    if (tiny->puts_spaces)
        maker.tokenizer = "llama";
    assert_int_equal(import_fixture_setup((void **)&tiny->files), 0);
    import_fixture_source(tiny->files, &maker);
    account_table_init(&tiny->accounts);
    assert_int_equal(worker_pool_new(&tiny->pool, 2), 0);
    options.pool = tiny->pool;
    options.path = tiny->files->source;
    if (device == ENGINE_DEVICE_CPU) {
        if (import_run(tiny->files->source, NULL, &tiny->files->options, &report, &err))
            fail_msg("%s", err.text);
        options.path = report.path;
    }
    if (engine_new(&tiny->engine, &options, &err))
        fail_msg("%s", err.text);
}

void tiny_engine_close(TinyEngine *tiny) {
    tiny->engine = engine_free(tiny->engine);
    tiny->pool = worker_pool_free(tiny->pool);
    for (size_t i = 0; i < _ACCOUNT_N; i++)
        assert_int_equal(tiny->accounts.used_bytes[i], 0);
    import_fixture_teardown((void **)&tiny->files);
}
