// SPDX-License-Identifier: Apache-2.0
/* Finds the default model among the models by the name that model_default.h stores. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/system/kernel_call.h"
#include "daemon/models/model_registry.h"

/* Finds the model that is named as the default; NULL: none is named, or the named model does not exist. */
static Model *named_default(const ModelRegistry *registry) {
    const char *name = model_default_name(registry->def);

    if (registry->default_model)
        return registry->default_model;
    return name ? model_registry_find_name((ModelRegistry *)(uintptr_t)registry, name) : NULL;
}

Model *model_registry_default(const ModelRegistry *registry) {
    Model *model = named_default(registry);

    if (model || model_default_by(registry->def) == MODEL_DEFAULT_BY_SETTING || registry->n_models != 1)
        return model;
    return TAILQ_FIRST(&registry->models); /* an only model is the default */
}

Model *model_registry_find(ModelRegistry *registry, const char *name) {
    return *name ? model_registry_find_name(registry, name) : model_registry_default(registry);
}

bool model_is_default(const Model *model) {
    return model == model_registry_default(model->registry);
}

ModelDefaultBy model_registry_default_by(const ModelRegistry *registry) {
    const ModelDefaultBy by = registry->default_model ? MODEL_DEFAULT_BY_SETTING : model_default_by(registry->def);

    return by == MODEL_DEFAULT_BY_SETTING || named_default(registry) ? by : MODEL_DEFAULT_BY_FIRST;
}

/* Tells whether the earliest model may become the default: no default was named, and no earlier default exists. */
static bool is_open(const ModelRegistry *registry) {
    const ModelDefaultBy by = model_default_by(registry->def);

    return !named_default(registry) && (by == MODEL_DEFAULT_NONE || by == MODEL_DEFAULT_BY_FIRST);
}

static void note_first(ModelRegistry *registry, const Model *model) {
    /* The service forgets a model outside of the folder when it restarts. */
    model_default_note_first(registry->def, model->name, model->source.scan > 0);
    log_notice(TOPIC_DAEMON, "model %s: the default from now on, as the first one: see coordgenctl model default",
               model->name);
}

void model_registry_note_default(ModelRegistry *registry) {
    assert_on_loop(registry->loop);
    if (registry->n_models == 1 && is_open(registry))
        note_first(registry, TAILQ_FIRST(&registry->models));
}

/* Returns the creation time of the file in ns; UINT64_MAX if the file system does not tell. */
static uint64_t arrival_ns(const Model *model) {
    uint64_t at_ns;

    return kernel_birth_ns(model->source.path, &at_ns) ? UINT64_MAX : at_ns;
}

Model *model_registry_choose_default(ModelRegistry *registry) {
    uint64_t first_ns = UINT64_MAX;
    Model *model, *first = NULL;

    assert_on_loop(registry->loop);
    if (!is_open(registry))
        return NULL;
    TAILQ_FOREACH (model, &registry->models, link) {
        const uint64_t at_ns = model->source.scan ? arrival_ns(model) : UINT64_MAX;

        if (!first || at_ns < first_ns || (at_ns == first_ns && strcmp(model->name, first->name) < 0)) {
            first = model;
            first_ns = at_ns;
        }
    }
    if (first)
        note_first(registry, first);
    return first;
}
