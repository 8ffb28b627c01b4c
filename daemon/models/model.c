// SPDX-License-Identifier: Apache-2.0
#include "daemon/models/model.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/min_max.h"

Model *model_free(Model *model) {
    if (!model)
        return NULL;
    model_import_free(model->import);
    closep(&model->fd);
    free(model->job);
    engine_free(model->engine);
    free(model->name);
    free(model->path);
    free(model->shown_path);
    free(model->draft_failure);
    draft_pair_free(model->draft_pair);
    free(model->package_path);
    free(model->image_path);
    free(model);
    return NULL;
}

const char *model_stage_name(ModelStage stage) {
    static const char *const names[] = {
        [MODEL_AVAILABLE] = "available", [MODEL_IMPORTING] = "importing", [MODEL_LOADING] = "loading",
        [MODEL_READY] = "ready",         [MODEL_UNLOADING] = "unloading", [MODEL_RELOADING] = "unloading",
        [MODEL_FAILED] = "failed",
    };

    return names[stage];
}

/* The stages that may follow each stage. A load may be repeated without its image, or start again with an import. */
static const unsigned int next_stages[_MODEL_STAGE_N] = {
    [MODEL_AVAILABLE] = 1u << MODEL_IMPORTING | 1u << MODEL_LOADING | 1u << MODEL_FAILED,
    [MODEL_IMPORTING] = 1u << MODEL_LOADING | 1u << MODEL_FAILED | 1u << MODEL_AVAILABLE,
    [MODEL_LOADING] = 1u << MODEL_LOADING | 1u << MODEL_IMPORTING | 1u << MODEL_READY | 1u << MODEL_FAILED,
    [MODEL_READY] = 1u << MODEL_UNLOADING | 1u << MODEL_FAILED,
    [MODEL_UNLOADING] = 1u << MODEL_RELOADING | 1u << MODEL_AVAILABLE,
    [MODEL_RELOADING] = 1u << MODEL_AVAILABLE,
    [MODEL_FAILED] = 1u << MODEL_FAILED | 1u << MODEL_IMPORTING | 1u << MODEL_LOADING | 1u << MODEL_AVAILABLE,
};

static bool is_unloading(ModelStage stage) {
    return stage == MODEL_UNLOADING || stage == MODEL_RELOADING;
}

void model_set_stage(Model *model, ModelStage stage) {
    assert(next_stages[model->stage] & 1u << stage);
    model->registry->n_unloading += (unsigned int)is_unloading(stage) - (unsigned int)is_unloading(model->stage);
    model->stage = stage;
    model->registry->is_unsettled = true;
    if (stage == MODEL_AVAILABLE) { /* the next client that wants the model hands over its file again */
        closep(&model->fd);
        model->fd = -1;
    }
    model->registry->on_change(model->registry->on_change_arg, model);
}

void model_fail(Model *model, ModelFailure failure, const char *text) {
    model->failure = failure;
    err_set(&model->failure_text, 0, "%s", text);
    log_error(TOPIC_DAEMON, "model %s: %s: %s", model->name,
              model->stage == MODEL_READY ? "cannot be used any more" : "cannot be loaded", text);
    model_set_stage(model, MODEL_FAILED);
}

bool model_is_coming(const Model *model) {
    return model->stage == MODEL_IMPORTING || model->stage == MODEL_LOADING;
}

bool model_is_loaded(const Model *model) {
    return model->stage == MODEL_READY || model_is_coming(model);
}

bool model_is_unloading(const Model *model) {
    return is_unloading(model->stage);
}

bool model_lacked_memory(const Model *model) {
    return model->stage == MODEL_FAILED &&
           (model->failure == MODEL_FAILURE_MEMORY || model->failure == MODEL_FAILURE_MEMORY_IN_USE);
}

bool model_will_come(const Model *model) {
    return model_is_coming(model) || model->stage == MODEL_RELOADING;
}

bool model_can_serve(const Model *model) {
    return model->stage == MODEL_READY || (model->stage == MODEL_LOADING && model->engine);
}

const char *model_failure(const Model *model, bool with_paths) {
    return with_paths                   ? model->failure_text.text
           : model_lacked_memory(model) ? model->no_room.text
                                        : "administrators see why";
}

const BackendDevice *model_device(const Model *model) {
    return engine_device(config_load_options(model->registry->config, model->name).device);
}

uint32_t model_context_tokens(const Model *model) {
    const uint32_t trained = engine_info(model->engine)->n_context,
                   setting = config_context_tokens(model->registry->config, model->name);

    return MIN(setting, trained);
}
