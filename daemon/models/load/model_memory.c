// SPDX-License-Identifier: Apache-2.0
#include "daemon/models/load/model_memory.h"

#include <stdio.h>

#include "base/memory/account_refusal.h"
#include "base/strings/byte_text.h"
#include "base/strings/printable.h"

enum {
    MODELS_TOLD = 3,
};

static uint64_t weights_bytes_of(const Model *model) {
    return model->stage == MODEL_READY ? engine_info(model->engine)->weights.resident_bytes : 0;
}

/* Returns the loaded model with the most weights below @below_bytes; NULL: none. */
static const Model *next_largest(const ModelRegistry *registry, uint64_t below_bytes) {
    const Model *model, *largest = NULL;

    TAILQ_FOREACH (model, &registry->models, link)
        if (weights_bytes_of(model) && weights_bytes_of(model) < below_bytes &&
            (!largest || weights_bytes_of(model) > weights_bytes_of(largest)))
            largest = model;
    return largest;
}

/**
 * model_explain_memory() - add to a memory error what holds the memory, and the remedy
 *
 * The text lists accounts and models by name and size, the largest first. Only administrators may receive it, since
 * apps must not learn what other apps do.
 */
void model_explain_memory(const ModelRegistry *registry, ErrText *err) {
    const Model *model = next_largest(registry, UINT64_MAX), *largest = model;
    char holders[160], source[160] = "", models[320] = "";
    const ErrText met = *err;
    size_t at = 0;
    ByteText size;

    account_holders(registry->accounts, holders, sizeof(holders));
    for (size_t i = 0; model && i < MODELS_TOLD && at < sizeof(models); i++) {
        at += (size_t)snprintf(models + at, sizeof(models) - at, "%s%.*s %s",
                               i ? ", " : "; models: ", UTF8_PREFIX(model->name, 64),
                               byte_text(&size, weights_bytes_of(model)));
        model = next_largest(registry, weights_bytes_of(model));
    }
    if (met.limit && met.limit == registry->accounts->total_limit_name)
        config_memory_limit_source(registry->config, source, sizeof(source));
    err_set(err, 0, "%.*s; held: %s%s; %s%.*s%sraise that limit%s%s%s, or take less (context-tokens, weights-memory)",
            UTF8_PREFIX(met.text, 360), *holders ? holders : "nothing", models,
            largest ? "unload a model (coordgenctl model unload " : "", UTF8_PREFIX(largest ? largest->name : "", 64),
            largest ? "), " : "", *source ? " (memory-limit: " : "", source, *source ? ")" : "");
}
