// SPDX-License-Identifier: Apache-2.0
#include "daemon/models/load/model_room.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/strings/printable.h"
#include "daemon/models/load/model_unload.h"

/* Tells whether a model may be unloaded: ready, neither used nor held, and reachable again by its name. */
static bool is_idle(const Model *model) {
    const ModelRegistry *registry = model->registry;

    return model->stage == MODEL_READY && !model->job && !model->n_users && model->source.origin != MODEL_FROM_CLIENT &&
           !(registry->watch.is_held && registry->watch.is_held(registry->watch.arg, model));
}

static Model *find_idle(ModelRegistry *registry) {
    Model *model, *oldest = NULL;

    TAILQ_FOREACH (model, &registry->models, link)
        if (is_idle(model) && (!oldest || model->used_ns < oldest->used_ns))
            oldest = model;
    return oldest;
}

/* Unloads a model, and the model that drafts only for it. @what: who needs the memory, for the log. */
static bool evict(Model *model, const char *what) {
    Model *draft = model->draft.model;
    ErrText err = { .text = "out of memory" };

    if (model_unload_unused(model, &err)) {
        log_error(TOPIC_DAEMON, "model %s: it stays loaded: %s", model->name, err.text);
        return false;
    }
    log_notice(TOPIC_DAEMON, "model %s: unloaded to make room for %s: nobody used it", model->name, what);
    if (draft && draft->is_loaded_as_draft && is_idle(draft)) /* the draft model was loaded with this target */
        (void)evict(draft, what);
    return true;
}

/* Tells whether the model would fit if all unused models were unloaded; weights take about as much as their package.
 * Without this check a model that is far too large would evict all others in vain. */
static bool may_fit(const Model *wanting) {
    const ModelRegistry *registry = wanting->registry;
    const uint64_t limit_bytes = registry->accounts->others_limit_bytes;
    uint64_t held_bytes = 0;
    const Model *model;
    struct stat file;

    if (model_device(wanting)->has_graphs ||
        config_load_options(registry->config, wanting->name).weights.memory.is_set || limit_bytes == UINT64_MAX ||
        (wanting->source.fd >= 0 ? fstat(wanting->source.fd, &file) : stat(wanting->load.package_path, &file)))
        return true;
    TAILQ_FOREACH (model, &registry->models, link)
        if (model->stage == MODEL_READY && !is_idle(model) && !model->is_loaded_as_draft)
            held_bytes += engine_info(model->engine)->weights.resident_bytes;
    return held_bytes < limit_bytes && (uint64_t)file.st_size / 8 * 7 <= limit_bytes - held_bytes;
}

bool model_make_room_for_kv(ModelRegistry *registry) {
    Model *model;

    assert_on_loop(registry->loop);
    /* Evicts only what the next request can load again, and only if the shared limit is reached, not just the limit on
     * keys and values. */
    if (registry->config->models.on_demand != CONFIG_DEMAND_ALL ||
        account_shared_room_bytes(registry->accounts, ACCOUNT_KV) >=
            account_own_room_bytes(registry->accounts, ACCOUNT_KV))
        return false;
    model = find_idle(registry);
    return model && evict(model, "the keys and values of requests");
}

bool model_make_room(Model *wanting) {
    Model *model;

    assert_on_loop(wanting->registry->loop);
    if (wanting->load.mode != MODEL_LOAD_EVICTS || !may_fit(wanting))
        return false;
    model = find_idle(wanting->registry);
    return model && evict(model, wanting->name);
}

bool model_tell_room(Model *wanting, ErrText *err) {
    const AccountTable *accounts = wanting->registry->accounts;
    char limit[64] = "", others[160] = "";
    const bool evicts = wanting->load.mode == MODEL_LOAD_EVICTS;
    size_t n_bytes = 0;
    const Model *model;
    const ErrText met = *err;

    if (accounts->total_limit_bytes != UINT64_MAX)
        snprintf(limit, sizeof(limit), " (%" PRIu64 " MiB)", accounts->total_limit_bytes >> 20);
    TAILQ_FOREACH (model, &wanting->registry->models, link) {
        if (model == wanting || !model->engine || n_bytes + 2 >= sizeof(others))
            continue;
        n_bytes += (size_t)snprintf(others + n_bytes, sizeof(others) - n_bytes, "%s%.*s", n_bytes ? ", " : "",
                                    UTF8_PREFIX(model->name, 40));
    }
    if (*others)
        err_set(&wanting->no_room, 0, "memory-limit%s holds it only without %s%s", limit, others,
                evicts ? ", which are in use or being loaded" : "");
    else
        err_set(&wanting->no_room, 0, "memory-limit%s is too low for it, also when no other model is loaded", limit);
    err_set(err, 0, "%.*s: %s", UTF8_PREFIX(met.text, 560), wanting->no_room.text);
    return *others && evicts;
}
