// SPDX-License-Identifier: Apache-2.0
#include "daemon/models/model.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/min_max.h"

Model *model_free(Model *model) {
    if (!model)
        return NULL;
    model_import_free(model->load.import);
    closep(&model->source.fd);
    free(model->job);
    engine_free(model->engine);
    free(model->name);
    free(model->source.path);
    free(model->source.shown_path);
    free(model->draft.mismatch);
    draft_pair_free(model->draft.pair);
    free(model->load.package_path);
    free(model->load.image_path);
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
        closep(&model->source.fd);
        model->source.fd = -1;
    }
    model->registry->watch.on_change(model->registry->watch.arg, model);
}

void model_fail(Model *model, ModelFailure failure, const char *text) {
    model->failure = failure;
    err_set(&model->failure_text, 0, "%s", text);
    log_error(TOPIC_DAEMON, "model %s: %s: %s", model->name,
              model->stage == MODEL_READY ? "cannot be used any more" : "cannot be loaded", text);
    model_set_stage(model, MODEL_FAILED);
}

/* ---- other states ------------------------------------------------------------------------------------------------ */

void model_note_origin(Model *model, ModelOrigin origin) {
    assert(origin < _MODEL_ORIGIN_N);
    model->source.origin = MAX(model->source.origin, origin);
}

void model_set_load_mode(Model *model, ModelLoadMode mode) {
    static const unsigned int next[_MODEL_LOAD_MODE_N] = {
        [MODEL_LOAD_FITS] = 1u << MODEL_LOAD_FITS | 1u << MODEL_LOAD_EVICTS | 1u << MODEL_LOAD_NAMED,
        [MODEL_LOAD_EVICTS] = 1u << MODEL_LOAD_FITS | 1u << MODEL_LOAD_EVICTS | 1u << MODEL_LOAD_NAMED,
        [MODEL_LOAD_NAMED] = 1u << MODEL_LOAD_FITS | 1u << MODEL_LOAD_NAMED, /* a load begins first */
    };

    assert(next[model->load.mode] & 1u << mode);
    model->load.mode = mode;
}

void model_set_image(Model *model, ModelImage image) {
    static const unsigned int next[_MODEL_IMAGE_N] = {
        [MODEL_IMAGE_UNUSED] = 1u << MODEL_IMAGE_UNUSED | 1u << MODEL_IMAGE_USED,
        [MODEL_IMAGE_USED] = 1u << MODEL_IMAGE_UNUSED | 1u << MODEL_IMAGE_USED | 1u << MODEL_IMAGE_FAILED,
        [MODEL_IMAGE_FAILED] = 1u << MODEL_IMAGE_USED, /* by a load that has made the image anew */
    };

    assert(next[model->load.image] & 1u << image);
    model->load.image = image;
}

void model_set_draft_state(Model *target, ModelDraftState state) {
    static const unsigned int next[_MODEL_DRAFT_STATE_N] = {
        [MODEL_DRAFT_NONE] = 1u << MODEL_DRAFT_TRIED | 1u << MODEL_DRAFT_UNFIT | 1u << MODEL_DRAFT_JOINED,
        [MODEL_DRAFT_TRIED] = 1u << MODEL_DRAFT_NONE | 1u << MODEL_DRAFT_UNFIT | 1u << MODEL_DRAFT_JOINED,
        [MODEL_DRAFT_UNFIT] = 1u << MODEL_DRAFT_NONE,
        [MODEL_DRAFT_JOINED] = 1u << MODEL_DRAFT_NONE | 1u << MODEL_DRAFT_JOINED | 1u << MODEL_DRAFT_LEAVING,
        [MODEL_DRAFT_LEAVING] = 1u << MODEL_DRAFT_NONE | 1u << MODEL_DRAFT_JOINED | 1u << MODEL_DRAFT_LEAVING,
    };

    assert(next[target->draft.state] & 1u << state);
    assert(!target->draft.model == (state < MODEL_DRAFT_JOINED));
    target->draft.state = state;
}

/* ---- what the states mean ---------------------------------------------------------------------------------------- */

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
