// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/real_model.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "importer/importer.h"
#include "test/unit/tokenizer_golden.h"

const char *real_model_path(void) {
    static char path[PATH_MAX];

    return golden_model_path(GOLDEN_DEFAULT_MODEL, path, sizeof(path));
}

void real_model_open(RealModel *model, EngineDevice device, Isa isa, unsigned int threads, uint32_t chunk_tokens) {
    EngineOptions options = { .path = real_model_path(),
                              .device = device,
                              .isa = isa,
                              .chunk_tokens = chunk_tokens,
                              .preemption = true, /* as the service has it */
                              .accounts = &model->accounts };
    ImportOptions import = IMPORT_OPTIONS_DEFAULT;
    static ImportReport report;
    ErrText err = { 0 };

    account_table_init(&model->accounts);
    assert_int_equal(worker_pool_new(&model->pool, threads), 0);
    options.pool = model->pool;
    if (device == ENGINE_DEVICE_CPU) {
        if (import_run(real_model_path(), NULL, &import, &report, &err))
            fail_msg("%s (tools/fetch-model smollm2-135m brings the default model)", err.text);
        options.path = report.path;
    }
    if (engine_new(&model->engine, &options, &err))
        fail_msg("%s", err.text);
}

void real_model_close(RealModel *model) {
    model->engine = engine_free(model->engine);
    model->pool = worker_pool_free(model->pool);
    for (size_t i = 0; i < _ACCOUNT_N; i++)
        assert_int_equal(model->accounts.used_bytes[i], 0);
    assert_int_equal(model->accounts.total_bytes, 0);
}
