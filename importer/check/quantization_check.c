// SPDX-License-Identifier: Apache-2.0
#include "importer/check/quantization_check.h"

#include <string.h>

#include "base/memory/account.h"
#include "base/system/worker_pool.h"

/* Generated from importer/check/sample.txt by the Makefile. */
static const unsigned char own_text[] = {
#include "importer/check/sample_bytes.inc"
};

QuantizationHarm quantization_harm_of(double nats) {
    if (nats < 0.01)
        return QUANTIZATION_HARM_NONE;
    if (nats < 0.05)
        return QUANTIZATION_HARM_LITTLE;
    return nats < 0.2 ? QUANTIZATION_HARM_SOME : QUANTIZATION_HARM_MUCH;
}

const char *quantization_harm_name(QuantizationHarm harm) {
    static const char *const names[] = { "none", "little", "some", "much" };

    return names[harm];
}

/* A model with its own workers and accounts. */
typedef struct CheckedModel {
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
} CheckedModel;

static void model_close(CheckedModel *model) {
    engine_free(model->engine);
    worker_pool_free(model->pool);
}

static int model_open(CheckedModel *model, const char *path, EngineDevice device, unsigned int n_threads,
                      ErrText *err) {
    EngineOptions options = { .path = path,
                              .load.device = device,
                              .load.isa = ISA_BEST,
                              .load.threads = n_threads,
                              .accounts = &model->accounts };
    int r;

    account_table_init(&model->accounts);
    r = worker_pool_new(&model->pool, load_options_threads(&options.load));
    if (r)
        return err_set(err, r, "cannot start the worker threads: %s", strerror(-r));
    options.pool = model->pool;
    return engine_new(&model->engine, &options, err);
}

/**
 * quantization_check() - measure the divergence of a package from its source
 *
 * The caller checks that the package was made of this source. Both models are in memory at a time: the package's
 * weights, and the source's map as far as the page cache holds it. The reference device takes nearly all of the time.
 */
int quantization_check(Divergence *result, const QuantizationCheckOptions *options, ErrText *err) {
    _cleanup_(model_close) CheckedModel package = { 0 }, source = { 0 };
    _cleanup_(text_windows_deinit) TextWindows windows = { 0 };
    int r = model_open(&package, options->package, ENGINE_DEVICE_CPU, options->n_threads, err);

    if (!r)
        r = model_open(&source, options->source, ENGINE_DEVICE_REFERENCE, options->n_threads, err);
    if (r)
        return r;
    if (options->text)
        r = text_windows_init(&windows, package.engine, options->text, QUANTIZATION_CHECK_WINDOW, options->n_windows,
                              err);
    else
        r = text_windows_of(&windows, package.engine, "the text of coordgen", (const char *)own_text, sizeof(own_text),
                            QUANTIZATION_CHECK_WINDOW, options->n_windows, err);
    return r ? r
             : divergence_measure(result, package.engine, source.engine, &windows, options->progress,
                                  options->progress_arg, err);
}
