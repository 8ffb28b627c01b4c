// SPDX-License-Identifier: Apache-2.0
#include "daemon/models/load/model_load.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings/printable.h"
#include "daemon/models/load/model_memory.h"
#include "daemon/models/model_options.h"
#include "daemon/models/load/model_room.h"
#include "daemon/models/load/model_unload.h"

static void submit_load(Model *model) {
    model->job = calloc(1, sizeof(*model->job));
    if (!model->job) {
        model_fail(model, MODEL_FAILURE_OTHER, "out of memory");
        return;
    }
    model->load.permille = 0;
    model->job->kind = JOB_LOAD;
    model->job->owner = model;
    model_choose_options(model, &model->job->load.options);
    model_set_stage(model, MODEL_LOADING);
    engine_thread_submit(model->registry->thread, model->job);
}

static void on_import_progress(void *arg, uint32_t permille) {
    Model *model = arg;

    if (permille == model->load.permille)
        return;
    model->load.permille = permille;
    model->registry->watch.on_change(model->registry->watch.arg, model);
}

static void on_import_done(void *arg, int result, const char *package_path, const ErrText *err) {
    Model *model = arg;
    ErrText text = *err;

    if (!result) {
        free(model->load.package_path);
        model->load.package_path = strdup(package_path);
    }
    model->load.import = model_import_free(model->load.import);
    if (result) {
        model_fail(model, result == MODEL_IMPORT_E_MODEL ? MODEL_FAILURE_CORRUPT : MODEL_FAILURE_OTHER, text.text);
        return;
    }
    if (!model->load.package_path) {
        model_fail(model, MODEL_FAILURE_OTHER, "out of memory");
        return;
    }
    log_info(TOPIC_DAEMON, "model %s: imported as %s in %" PRIu64 " ms", model->name, model->load.package_path,
             (clock_now_ns() - model->load.began_ns) / 1000000);
    submit_load(model);
}

static void submit_import(Model *model) {
    ErrText failure = { 0 };

    if (model_import_new(&model->load.import, model->registry->loop, model->source.path, model->source.fd,
                         model->registry->config->cache_dir, model->load.checks_package, on_import_progress,
                         on_import_done, model, &failure))
        model_fail(model, MODEL_FAILURE_OTHER, failure.text);
    else
        model_set_stage(model, MODEL_IMPORTING);
}

/**
 * model_load() - bring a model into memory
 *
 * A child process first imports a GGUF for the cpu device, or finds an earlier import of the same file. The engine
 * thread then loads the package.
 * Thread: loop. Return: 0, or MODEL_E_STATE.
 */
int model_load(Model *model, ErrText *err) {
    assert_on_loop(model->registry->loop);
    if (model_is_unloading(model) || (model->stage == MODEL_FAILED && model->engine))
        return err_set(err, MODEL_E_STATE, "model %.*s is being unloaded: try again", UTF8_PREFIX(model->name, 64));
    if (model_is_loaded(model))
        return 0;
    model_set_load_mode(model, MODEL_LOAD_FITS);
    model->load.permille = 0;
    model->load.began_ns = clock_now_ns();
    model_measure(model);
    if (model_device(model)->reads_packages && model_is_source(model->source.path)) {
        model->load.checks_package = false;
        submit_import(model);
        return 0;
    }
    free(model->load.package_path);
    model->load.package_path = strdup(model->source.path);
    if (!model->load.package_path)
        model_fail(model, MODEL_FAILURE_OTHER, "out of memory");
    else
        submit_load(model);
    return 0;
}

int model_load_with_room(Model *model, ErrText *err) {
    int r = 0;

    if (model->stage == MODEL_UNLOADING)
        model_set_stage(model, MODEL_RELOADING);
    else if (model->stage != MODEL_RELOADING)
        r = model_load(model, err);
    if (!r && model_is_coming(model))
        model_set_load_mode(model, MODEL_LOAD_EVICTS);
    return r;
}

/* Loads the package without its image, once, after the engine was freed. The image of a failed load may be damaged, and
 * the image of a loaded model may be lost. */
static bool load_without_image(Model *model) {
    if (model->load.image != MODEL_IMAGE_USED || model->engine)
        return false;
    log_warn(TOPIC_DAEMON, "model %s: once more without the image of its weights", model->name);
    model_set_image(model, MODEL_IMAGE_FAILED);
    model->load.began_ns = clock_now_ns();
    submit_load(model);
    return true;
}

/* Imports once more with a check, which replaces the package if the one that the first import found is damaged. */
static bool import_again(Model *model) {
    if (!strcmp(model->source.path, model->load.package_path) || model->load.checks_package || model->engine)
        return false;
    log_warn(TOPIC_DAEMON, "model %s: its package is compared with its checksums, and made again if it is damaged",
             model->name);
    model->load.checks_package = true;
    model->load.began_ns = clock_now_ns();
    submit_import(model);
    return true;
}

static bool load_otherwise(Model *model) {
    return load_without_image(model) || import_again(model);
}

static void on_loaded(Model *model, JobNews *news) {
    ModelFailure failure = MODEL_FAILURE_OTHER;
    const EngineInfo *info;

    if (news->result == JOB_E_MEMORY && !model->engine && model_make_room(model)) {
        submit_load(model); /* queued behind the unloads that free memory */
        return;
    }
    if (news->result) {
        if (!*news->err.text)
            err_set(&news->err, 0, "the load was given up");
        if (news->result == JOB_E_MEMORY)
            model_explain_memory(model->registry, &news->err);
        /* The error names the user's file: users do not know the package that the service made from it. */
        if (strcmp(model->source.path, model->load.package_path))
            err_prefix(&news->err, "%.*s", UTF8_PREFIX(model->source.path, 200));
        if (news->result == JOB_E_MODEL && load_otherwise(model)) {
            log_warn(TOPIC_DAEMON, "model %s: it could not be loaded before: %s", model->name, news->err.text);
            return;
        }
        if (news->result == JOB_E_MEMORY)
            failure = model_tell_room(model, &news->err) ? MODEL_FAILURE_MEMORY_IN_USE : MODEL_FAILURE_MEMORY;
        else if (news->result == JOB_E_MODEL)
            failure = MODEL_FAILURE_CORRUPT;
        model_fail(model, failure, news->err.text);
        model_unload_failed(model);
        return;
    }
    info = engine_info(model->engine);
    if (model->load.image == MODEL_IMAGE_FAILED && (info->weights.n_streamed_layers || model_device(model)->has_graphs))
        model_set_image(model, MODEL_IMAGE_USED);
    log_notice(TOPIC_DAEMON,
               "model %s: ready after %" PRIu64 " ms: %s, %" PRIu64 " parameters, %" PRIu64 " MiB of weights, %s",
               model->name, (clock_now_ns() - model->load.began_ns) / 1000000, info->architecture, info->n_parameters,
               info->weights.resident_bytes >> 20, info->kernel);
    model->used_ns = clock_now_ns();
    model_set_stage(model, MODEL_READY);
}

/* Handles the end of the engine, and loads the model again for requests that arrived meanwhile. */
static void on_unloaded(Model *model) {
    const bool is_wanted = model->stage == MODEL_RELOADING;
    ErrText err;

    model->engine = NULL;
    log_notice(TOPIC_DAEMON, "model %s: unloaded", model->name);
    model_set_stage(model, model->stage == MODEL_FAILED ? MODEL_FAILED : MODEL_AVAILABLE);
    if (model->stage == MODEL_FAILED && model->failure == MODEL_FAILURE_CORRUPT)
        (void)load_otherwise(model);
    if (is_wanted && model->n_users)
        (void)model_load_with_room(model, &err);
    model_forget_unused(model); /* the client that asked for the model may have left */
}

void model_on_news(Model *model, Job *job, JobNews *news) {
    assert_on_loop(model->registry->loop);
    assert(model->job == job);
    if (news->engine)
        model->engine = steal(&news->engine);
    if (!news->done) {
        model->load.permille = news->permille;
        model_set_stage(model, MODEL_LOADING); /* requests need not wait for the weights */
        return;
    }
    model->job = NULL;
    if (job->kind == JOB_LOAD) {
        on_loaded(model, news);
    } else if (!news->result) { /* after an error the engine thread ends, and the model keeps its engine */
        on_unloaded(model);
    }
    free(job);
}
