// SPDX-License-Identifier: Apache-2.0
#include "daemon/models/load/model_unload.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings/printable.h"

void model_set_draft(Model *target, Model *draft) {
    Model *before = target->draft.model;

    assert_on_loop(target->registry->loop);
    assert(!target->draft.n_generations);
    target->draft.pair = draft_pair_free(target->draft.pair);
    target->draft.model = draft;
    if (draft || before)
        model_set_draft_state(target, draft ? MODEL_DRAFT_JOINED : MODEL_DRAFT_NONE);
    if (draft)
        draft->n_users++;
    if (before)
        model_leave(before);
}

static int submit_unload(Model *model) {
    model->job = calloc(1, sizeof(*model->job));
    if (!model->job)
        return err_raise(-ENOMEM);
    model_set_draft(model, NULL);
    model->job->kind = JOB_UNLOAD;
    model->job->owner = model;
    model->job->engine = model->engine;
    engine_thread_submit(model->registry->thread, model->job);
    return 0;
}

/* Unloads an engine whose weights did not arrive, once it has no user. */
void model_unload_failed(Model *model) {
    if (model->stage == MODEL_FAILED && model->engine && !model->job && !model->n_users && submit_unload(model))
        log_error(TOPIC_DAEMON, "model %s: out of memory: its engine stays", model->name);
}

/* Fails a model whose mapped weights may be gone (engine_check_whole()), since its steps fail from then on. */
static void check_engine(Model *model) {
    ErrText why = { 0 };

    if (model->stage == MODEL_READY && engine_check_whole(model->engine, &why))
        model_fail(model, MODEL_FAILURE_CORRUPT, why.text);
}

void model_leave(Model *model) {
    assert_on_loop(model->registry->loop);
    assert(model->n_users);
    model->n_users--;
    model->used_ns = clock_now_ns();
    if (model->draft.state == MODEL_DRAFT_LEAVING || model->is_loaded_as_draft) {
        model->registry->is_unsettled = true;
        loop_pump(model->registry->loop);
    }
    check_engine(model);
    model_unload_failed(model);
    model_forget_unused(model);
}

int model_unload(Model *model, ErrText *err) {
    int r;

    assert_on_loop(model->registry->loop);
    assert(model->n_users == 1);
    switch (model->stage) {
    case MODEL_IMPORTING:
        model_import_abandon(steal(&model->load.import), &model->registry->abandoned);
        model_set_load_mode(model, MODEL_LOAD_NAMED);
        model_set_stage(model, MODEL_AVAILABLE);
        return 0;
    case MODEL_FAILED:
        if (model->engine)
            return err_set(err, MODEL_E_STATE, "model %.*s is being unloaded: try again", UTF8_PREFIX(model->name, 64));
        model_set_load_mode(model, MODEL_LOAD_NAMED);
        model_set_stage(model, MODEL_AVAILABLE);
        return 0;
    case MODEL_AVAILABLE:
        model_set_load_mode(model, MODEL_LOAD_NAMED);
        return err_set(err, MODEL_E_STATE, "model %.*s is not loaded", UTF8_PREFIX(model->name, 64));
    case MODEL_LOADING:
        return err_set(err, MODEL_E_STATE, "model %.*s is being loaded: try again", UTF8_PREFIX(model->name, 64));
    case MODEL_UNLOADING:
    case MODEL_RELOADING:
        model_set_load_mode(model, MODEL_LOAD_NAMED);
        return err_set(err, MODEL_E_STATE, "model %.*s is being unloaded: try again", UTF8_PREFIX(model->name, 64));
    case MODEL_READY:
    case _MODEL_STAGE_N:
        break;
    }
    r = submit_unload(model);
    if (r)
        return r;
    model_set_load_mode(model, MODEL_LOAD_NAMED);
    model_set_stage(model, MODEL_UNLOADING);
    return 0;
}

int model_unload_unused(Model *model, ErrText *err) {
    int r;

    model->n_users++; /* the caller is a user, too */
    r = model_unload(model, err);
    model_set_load_mode(model, MODEL_LOAD_FITS);
    model->n_users--;
    return r;
}
