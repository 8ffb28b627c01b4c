// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/npu_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/loaded_engine.h"

int npu_engine_try(NpuEngine *loaded, const EngineOptions *options, unsigned int threads, ErrText *err) {
    EngineOptions all = *options;

    *loaded = (NpuEngine){ .engine = NULL };
    account_table_init(&loaded->accounts);
    assert_int_equal(worker_pool_new(&loaded->pool, threads), 0);
    all.pool = loaded->pool;
    all.accounts = &loaded->accounts;
    return engine_new(&loaded->engine, &all, err);
}

void npu_engine_load(NpuEngine *loaded, const EngineOptions *options, unsigned int threads) {
    ErrText err = { "" };

    if (npu_engine_try(loaded, options, threads, &err))
        fail_msg("%s", err.text);
}

void npu_engine_unload(NpuEngine *loaded) {
    engine_free(loaded->engine);
    worker_pool_free(loaded->pool);
    loaded_accounts_are_empty(&loaded->accounts);
}
