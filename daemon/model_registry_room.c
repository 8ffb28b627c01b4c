// SPDX-License-Identifier: Apache-2.0
/* Room for a model that is to be loaded: models that nobody uses give their memory back. */
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "base/printable.h"
#include "daemon/model_registry.h"

/* Tells whether a model may go: it is ready, nothing uses or holds it, and it is found again by its name. */
static bool is_idle(const Model *model) {
    const ModelRegistry *registry = model->registry;

    return model->stage == MODEL_READY && !model->job && !model->n_users && (model->from_folder || model->is_named) &&
           !(registry->is_held && registry->is_held(registry->on_change_arg, model));
}

static Model *find_idle(ModelRegistry *registry) {
    Model *model, *oldest = NULL;

    TAILQ_FOREACH(model, &registry->models, link)
    if (is_idle(model) && (!oldest || model->used_ns < oldest->used_ns))
        oldest = model;
    return oldest;
}

static bool evict(Model *model, const Model *wanting) {
    Model *draft = model->draft;
    ErrText err = { "out of memory" };

    if (model_unload_unused(model, &err)) {
        log_error(TOPIC_DAEMON, "model %s: it stays loaded: %s", model->name, err.text);
        return false;
    }
    log_notice(TOPIC_DAEMON, "model %s: unloaded to make room for %s: nobody used it", model->name, wanting->name);
    if (draft && draft->is_loaded_as_draft && is_idle(draft)) /* it came with this one */
        (void)evict(draft, wanting);
    return true;
}

bool model_make_room(Model *wanting) {
    Model *model;

    assert_on_loop(wanting->registry->loop);
    if (!wanting->makes_room)
        return false;
    model = find_idle(wanting->registry);
    return model && evict(model, wanting);
}

void model_tell_room(Model *wanting, ErrText *err) {
    const AccountTable *accounts = wanting->registry->accounts;
    const ErrText before = *err;
    char limit[64] = "", others[160] = "";
    size_t n_bytes = 0;
    const Model *model;

    if (accounts->total_limit_bytes != UINT64_MAX)
        snprintf(limit, sizeof(limit), " (%" PRIu64 " MiB)", accounts->total_limit_bytes >> 20);
    TAILQ_FOREACH(model, &wanting->registry->models, link) {
        if (model == wanting || model->stage != MODEL_READY || n_bytes + 2 >= sizeof(others))
            continue;
        n_bytes += (size_t)snprintf(others + n_bytes, sizeof(others) - n_bytes, "%s%.*s", n_bytes ? ", " : "",
                                    UTF8_PREFIX(model->name, 40));
    }
    wanting->may_fit_later = *others && wanting->makes_room;
    if (*others)
        err_set(err, 0, "%.400s: memory-limit%s holds it only without %s%s", before.text, limit, others,
                wanting->makes_room ? ", which requests or sessions use" : "");
    else
        err_set(err, 0, "%.400s: memory-limit%s is too low for it, also when no other model is loaded", before.text,
                limit);
}
