// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/models/model_registry.h"

#include <inttypes.h>
#include <limits.h>
#include <search.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings/printable.h"
#include "model/gguf/gguf_kind.h"
#include "model/gguf/gguf_parts.h"
#include "proto/proto_check.h"
#include "weights/image/weights_image.h"

#define EXTENSION_GGUF ".gguf"
#define EXTENSION_PACKAGE ".cgm"

static bool ends_with(const char *text, const char *end) {
    size_t text_bytes = strlen(text), end_bytes = strlen(end);

    return text_bytes > end_bytes && !strcmp(text + text_bytes - end_bytes, end);
}

static Model *model_free(Model *model) {
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
DEFINE_CLEANUP(Model, model_free)

void model_registry_init(ModelRegistry *registry, Loop *loop, const Config *config, AccountTable *accounts,
                         ModelChangeFn *on_change, void *arg) {
    *registry = (ModelRegistry){
        .loop = loop,
        .config = config,
        .accounts = accounts,
        .on_change = on_change,
        .on_change_arg = arg,
    };
    TAILQ_INIT(&registry->models);
    TAILQ_INIT(&registry->abandoned);
}

/* ---- lookup ------------------------------------------------------------------------------------------------------ */

static int compare_names(const void *a, const void *b) {
    return strcmp(((const Model *)a)->name, ((const Model *)b)->name);
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(((const Model *)a)->path, ((const Model *)b)->path);
}

static Model *found_in(void *const *tree, const Model *key, int (*compare)(const void *, const void *)) {
    Model *const *node = tfind(key, tree, compare);

    return node ? *node : NULL;
}

Model *model_registry_find(ModelRegistry *registry, const char *name) {
    const Model key = { .name = (char *)(uintptr_t)name };

    assert_on_loop(registry->loop);
    return *name ? found_in(&registry->by_name, &key, compare_names) : model_registry_default(registry);
}

Model *model_registry_find_path(ModelRegistry *registry, const char *path) {
    const Model key = { .path = (char *)(uintptr_t)path };

    assert_on_loop(registry->loop);
    return found_in(&registry->by_path, &key, compare_paths);
}

/* Neither its name nor its path is known. 0 or -ENOMEM. */
static int enter(ModelRegistry *registry, Model *model) {
    if (!tsearch(model, &registry->by_name, compare_names))
        return err_raise(-ENOMEM);
    if (!tsearch(model, &registry->by_path, compare_paths)) {
        tdelete(model, &registry->by_name, compare_names);
        return err_raise(-ENOMEM);
    }
    TAILQ_INSERT_TAIL(&registry->models, model, link);
    registry->n_models++;
    return 0;
}

static void forget(ModelRegistry *registry, Model *model) {
    tdelete(model, &registry->by_name, compare_names);
    tdelete(model, &registry->by_path, compare_paths);
    TAILQ_REMOVE(&registry->models, model, link);
    registry->n_models--;
    if (registry->default_model == model)
        registry->default_model = NULL;
    model_free(model);
}

void model_forget_unused(Model *model) {
    const bool is_idle = model->stage == MODEL_AVAILABLE || (model->stage == MODEL_FAILED && !model->engine);

    if (is_idle && !model->from_folder && !model->is_named && !model->n_users)
        forget(model->registry, model);
}

void model_registry_deinit(ModelRegistry *registry) {
    while (!TAILQ_EMPTY(&registry->models))
        forget(registry, TAILQ_FIRST(&registry->models));
    model_import_reap(&registry->abandoned);
    free(registry->chat_template);
    registry->chat_template = NULL;
}

const char *model_stage_name(ModelStage stage) {
    static const char *const names[] = {
        [MODEL_AVAILABLE] = "available", [MODEL_IMPORTING] = "importing", [MODEL_LOADING] = "loading",
        [MODEL_READY] = "ready",         [MODEL_UNLOADING] = "unloading", [MODEL_FAILED] = "failed",
    };

    return names[stage];
}

static void set_stage(Model *model, ModelStage stage) {
    model->stage = stage;
    model->registry->is_unsettled = true;
    if (stage == MODEL_AVAILABLE) { /* whoever wants it again hands over the file that there is then */
        closep(&model->fd);
        model->fd = -1;
    }
    model->registry->on_change(model->registry->on_change_arg, model);
}

bool model_is_coming(const Model *model) {
    return model->stage == MODEL_IMPORTING || model->stage == MODEL_LOADING;
}

bool model_will_come(const Model *model) {
    return model_is_coming(model) || (model->stage == MODEL_UNLOADING && model->is_wanted);
}

bool model_can_serve(const Model *model) {
    return model->stage == MODEL_READY || (model->stage == MODEL_LOADING && model->engine);
}

/* ---- what there is ----------------------------------------------------------------------------------------------- */

/* Makes a model's name of a path: a file's name may be any bytes, a model's is text, which is sent and typed. NULL: no
 * memory. */
static char *name_of_path(const char *path) {
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    _cleanup_(freep) char *stem = strndup(file, gguf_parts_stem_bytes(file));

    return stem ? printable_dup(stem, PROTO_MODEL_NAME_BYTES_MAX) : NULL;
}

bool model_suits_device(const Config *config, const char *path, ErrText *err) {
    const BackendDevice *device;
    _cleanup_(freep) char *name = NULL;
    GgufKindInfo info;

    if (gguf_kind_of_name(&info, path)) {
        gguf_kind_tell(&info, path, err);
        return false;
    }
    name = name_of_path(path);
    device = engine_device((EngineDevice)config_device(config, name ? name : ""));
    if (ends_with(path, EXTENSION_GGUF))
        return true;
    if (!ends_with(path, EXTENSION_PACKAGE)) {
        err_set(err, 0, "%.*s: the name of a model file ends in " EXTENSION_GGUF " or " EXTENSION_PACKAGE,
                UTF8_PREFIX(path, 512));
        return false;
    }
    if (!device->reads_packages) {
        err_set(err, 0, "%.*s: the %s device wants the " EXTENSION_GGUF " the package was made from",
                UTF8_PREFIX(path, 512), device->name);
        return false;
    }
    return true;
}

bool model_is_file_name(const char *name) {
    return ends_with(name, EXTENSION_GGUF) || ends_with(name, EXTENSION_PACKAGE);
}

/* Bytes of a regular file; 0: it is none. */
static uint64_t regular_bytes(const char *path, int fd) {
    struct stat info;

    return !(fd >= 0 ? fstat(fd, &info) : stat(path, &info)) && S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
}

void model_measure(Model *model) {
    uint32_t first, n = 1;

    model->file_bytes = regular_bytes(model->path, model->fd);
    if (gguf_parts_of_name(model->path, &first, &n) && n > GGUF_PARTS_MAX)
        return;
    for (uint32_t part = 1; part < n; part++) {
        _cleanup_(freep) char *path = gguf_parts_sibling(model->path, part);

        model->file_bytes += path ? regular_bytes(path, -1) : 0;
    }
}

static bool is_file_of(const Model *model, const struct stat *file) {
    struct stat own;

    return !(model->fd >= 0 ? fstat(model->fd, &own) : stat(model->path, &own)) && own.st_dev == file->st_dev &&
           own.st_ino == file->st_ino;
}

/* A file may have several paths, and names in the folder: of those the one that is loaded, or on its way. */
Model *model_registry_find_file(ModelRegistry *registry, const char *path, int fd) {
    Model *model, *found = NULL;
    struct stat file;

    model = model_registry_find_path(registry, path);
    if (model || (fd >= 0 ? fstat(fd, &file) : stat(path, &file)) < 0)
        return model;
    TAILQ_FOREACH(model, &registry->models, link)
    if ((!found || model->stage == MODEL_READY || model_is_coming(model)) && is_file_of(model, &file))
        found = model;
    return found;
}

void model_take_file(Model *model, int *fdp) {
    assert_on_loop(model->registry->loop);
    if (*fdp < 0 || model_is_coming(model) || model->engine)
        return;
    closep(&model->fd);
    model->fd = steal_fd(fdp);
}

int model_registry_add(ModelRegistry *registry, const char *path, Model **modelp, ErrText *err) {
    _cleanup_(model_freep) Model *model = NULL;
    struct stat info;
    Model *other = model_registry_find_path(registry, path);
    int r;

    if (other) {
        *modelp = other;
        return 0;
    }
    if (!model_suits_device(registry->config, path, err))
        return MODEL_E_KIND;
    if (registry->n_models >= MODELS_MAX)
        return err_set(err, MODEL_E_FULL, "more than %d models are known: unload some", MODELS_MAX);
    model = calloc(1, sizeof(*model));
    if (!model)
        return err_raise(-ENOMEM);
    model->registry = registry;
    model->fd = -1;
    model->path = strdup(path);
    model->shown_path = printable_dup(path, PROTO_PATH_BYTES_MAX);
    model->name = name_of_path(path);
    if (!model->path || !model->shown_path || !model->name)
        return err_raise(-ENOMEM);
    other = *model->name ? model_registry_find(registry, model->name) : NULL;
    if (other && !stat(path, &info) && is_file_of(other, &info)) {
        *modelp = other;
        return 0;
    }
    if (other)
        return err_set(err, MODEL_E_NAME_TAKEN, "%.*s: the name '%.*s' is that of %.*s already: rename one",
                       UTF8_PREFIX(path, 300), UTF8_PREFIX(model->name, 64), UTF8_PREFIX(other->path, 300));
    model_measure(model);
    r = enter(registry, model);
    if (r)
        return r;
    *modelp = steal(&model);
    return 0;
}

void model_registry_forget_gone(ModelRegistry *registry, uint64_t scan) {
    Model *model, *next;

    assert_on_loop(registry->loop);

    for (model = TAILQ_FIRST(&registry->models); model; model = next) {
        next = TAILQ_NEXT(model, link);
        if (model->from_folder && model->scan != scan && !model->n_users && !model->is_named && !model->engine &&
            (model->stage == MODEL_AVAILABLE || model->stage == MODEL_FAILED))
            forget(registry, model);
    }
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static void model_fail(Model *model, bool is_corrupt, const char *text) {
    model->is_corrupt = is_corrupt;
    err_set(&model->failure, 0, "%s", text);
    log_error(TOPIC_DAEMON, "model %s: %s: %s", model->name,
              model->stage == MODEL_READY ? "cannot be used any more" : "cannot be loaded", text);
    set_stage(model, MODEL_FAILED);
}

static void submit_load(Model *model) {
    model->job = calloc(1, sizeof(*model->job));
    if (!model->job) {
        model_fail(model, false, "out of memory");
        return;
    }
    model->permille = 0;
    model->job->kind = JOB_LOAD;
    model->job->owner = model;
    model_choose_options(model, &model->job->engine_options);
    set_stage(model, MODEL_LOADING);
    engine_thread_submit(model->registry->thread, model->job);
}

static void on_import_progress(void *arg, uint32_t permille) {
    Model *model = arg;

    if (permille == model->permille)
        return;
    model->permille = permille;
    model->registry->on_change(model->registry->on_change_arg, model);
}

static void on_import_done(void *arg, int result, const char *package_path, const ErrText *err) {
    Model *model = arg;
    ErrText text = *err;

    if (!result) {
        free(model->package_path);
        model->package_path = strdup(package_path);
    }
    model->import = model_import_free(model->import);
    if (result) {
        model_fail(model, result == MODEL_IMPORT_E_MODEL, text.text);
        return;
    }
    if (!model->package_path) {
        model_fail(model, false, "out of memory");
        return;
    }
    log_info(TOPIC_DAEMON, "model %s: imported as %s in %" PRIu64 " ms", model->name, model->package_path,
             (clock_now_ns() - model->load_began_ns) / 1000000);
    submit_load(model);
}

static void submit_import(Model *model) {
    ErrText failure = { "" };

    if (model_import_new(&model->import, model->registry->loop, model->path, model->fd,
                         model->registry->config->cache_dir, model->checks_package, on_import_progress, on_import_done,
                         model, &failure))
        model_fail(model, false, failure.text);
    else
        set_stage(model, MODEL_IMPORTING);
}

/**
 * model_load() - bring a model into memory
 *
 * A GGUF for the cpu device goes through an import first (a child process, which finds an earlier import of the same
 * file by itself); the engine thread then loads the package.
 * Thread: loop. Return: 0, or MODEL_E_STATE.
 */
int model_load(Model *model, ErrText *err) {
    assert_on_loop(model->registry->loop);
    if (model->stage == MODEL_UNLOADING || (model->stage == MODEL_FAILED && model->engine))
        return err_set(err, MODEL_E_STATE, "model %.*s is being unloaded: try again", UTF8_PREFIX(model->name, 64));
    if (model->stage == MODEL_READY || model_is_coming(model))
        return 0;
    model->was_unloaded = model->makes_room = model->is_wanted = model->lacked_memory = false;
    model->failure.text[0] = 0;
    model->is_corrupt = false;
    model->permille = 0;
    model->load_began_ns = clock_now_ns();
    model_measure(model);
    if (model_device(model)->reads_packages && ends_with(model->path, EXTENSION_GGUF)) {
        model->checks_package = false;
        submit_import(model);
        return 0;
    }
    free(model->package_path);
    model->package_path = strdup(model->path);
    if (!model->package_path)
        model_fail(model, false, "out of memory");
    else
        submit_load(model);
    return 0;
}

int model_load_with_room(Model *model, ErrText *err) {
    int r = 0;

    if (model->stage == MODEL_UNLOADING)
        model->is_wanted = true;
    else
        r = model_load(model, err);
    model->makes_room = model->makes_room || !r;
    return r;
}

void model_set_draft(Model *target, Model *draft) {
    Model *before = target->draft;

    assert_on_loop(target->registry->loop);
    assert(!target->n_drafted);
    target->draft_pair = draft_pair_free(target->draft_pair);
    target->draft = draft;
    target->draft_leaves = false;
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

/* An engine whose weights did not come goes with its last user. */
static void drop_failed(Model *model) {
    if (model->stage == MODEL_FAILED && model->engine && !model->job && !model->n_users && submit_unload(model))
        log_error(TOPIC_DAEMON, "model %s: out of memory: its engine stays", model->name);
}

/* Weights that it maps may be gone (engine_check_whole()): steps on it fail from then on. */
static void check_engine(Model *model) {
    ErrText why = { "" };

    if (model->stage == MODEL_READY && engine_check_whole(model->engine, &why))
        model_fail(model, true, why.text);
}

void model_leave(Model *model) {
    assert_on_loop(model->registry->loop);
    assert(model->n_users);
    model->n_users--;
    model->used_ns = clock_now_ns();
    if (model->draft_leaves || model->is_loaded_as_draft) {
        model->registry->is_unsettled = true;
        loop_pump(model->registry->loop);
    }
    check_engine(model);
    drop_failed(model);
    model_forget_unused(model);
}

int model_unload(Model *model, ErrText *err) {
    int r;

    assert_on_loop(model->registry->loop);
    assert(model->n_users == 1);
    model->was_unloaded = true;
    switch (model->stage) {
    case MODEL_IMPORTING:
        model_import_abandon(steal(&model->import), &model->registry->abandoned);
        set_stage(model, MODEL_AVAILABLE);
        return 0;
    case MODEL_FAILED:
        if (model->engine)
            return err_set(err, MODEL_E_STATE, "model %.*s is being unloaded: try again", UTF8_PREFIX(model->name, 64));
        set_stage(model, MODEL_AVAILABLE);
        return 0;
    case MODEL_AVAILABLE:
        return err_set(err, MODEL_E_STATE, "model %.*s is not loaded", UTF8_PREFIX(model->name, 64));
    case MODEL_LOADING:
    case MODEL_UNLOADING:
        return err_set(err, MODEL_E_STATE, "model %.*s is being %s: try again", UTF8_PREFIX(model->name, 64),
                       model->stage == MODEL_LOADING ? "loaded" : "unloaded");
    case MODEL_READY:
        break;
    }
    r = submit_unload(model);
    if (!r)
        set_stage(model, MODEL_UNLOADING);
    return r;
}

int model_unload_unused(Model *model, ErrText *err) {
    int r;

    model->n_users++; /* who asks */
    r = model_unload(model, err);
    model->was_unloaded = false;
    model->n_users--;
    return r;
}

/* A load that failed may have met a bad image, and one that served may have lost it: when the engine has gone the
 * package is tried by itself, once. */
static bool load_without_image(Model *model) {
    if (!model->may_have_image || model->engine || model->without_image)
        return false;
    log_warn(TOPIC_DAEMON, "model %s: once more without the image of its weights", model->name);
    model->without_image = true;
    model->load_began_ns = clock_now_ns();
    model->failure.text[0] = 0;
    model->is_corrupt = false;
    submit_load(model);
    return true;
}

/* The package that an import has found may be damaged: compared with its checksums, and made again, once. */
static bool import_again(Model *model) {
    if (!strcmp(model->path, model->package_path) || model->checks_package || model->engine)
        return false;
    log_warn(TOPIC_DAEMON, "model %s: its package is compared with its checksums, and made again if it is damaged",
             model->name);
    model->checks_package = true;
    model->load_began_ns = clock_now_ns();
    model->failure.text[0] = 0;
    model->is_corrupt = false;
    submit_import(model);
    return true;
}

static bool load_otherwise(Model *model) {
    return load_without_image(model) || import_again(model);
}

static void on_loaded(Model *model, JobNews *news) {
    const EngineInfo *info;

    if (news->result == JOB_E_MEMORY && !model->engine && model_make_room(model)) {
        submit_load(model); /* behind what makes room */
        return;
    }
    if (news->result) {
        if (!*news->err.text)
            err_set(&news->err, 0, "the load was given up");
        if (news->result == JOB_E_MEMORY)
            model_explain_memory(model->registry, &news->err);
        /* People know the file they named, not the package that was made of it. */
        if (strcmp(model->path, model->package_path))
            err_prefix(&news->err, "%.*s", UTF8_PREFIX(model->path, 200));
        if (news->result == JOB_E_MODEL && load_otherwise(model)) {
            log_warn(TOPIC_DAEMON, "model %s: it could not be loaded before: %s", model->name, news->err.text);
            return;
        }
        if (news->result == JOB_E_MEMORY)
            model_tell_room(model, &news->err);
        model->lacked_memory = news->result == JOB_E_MEMORY;
        model_fail(model, news->result == JOB_E_MODEL, news->err.text);
        drop_failed(model);
        return;
    }
    info = engine_info(model->engine);
    if (info->n_streamed_layers ||
        model_device(model)->has_graphs) /* its image is one that this load has made, or a good one */
        model->without_image = false;
    log_notice(TOPIC_DAEMON,
               "model %s: ready after %" PRIu64 " ms: %s, %" PRIu64 " parameters, %" PRIu64 " MiB of weights, %s",
               model->name, (clock_now_ns() - model->load_began_ns) / 1000000, info->architecture, info->n_parameters,
               info->weights_bytes >> 20, info->kernel);
    model->used_ns = clock_now_ns();
    set_stage(model, MODEL_READY);
}

/* Forgets the engine that has gone, and loads the model again for those who have come meanwhile. */
static void on_unloaded(Model *model) {
    ErrText err;

    model->engine = NULL;
    model->registry->n_making_way -= model->makes_way;
    model->makes_way = false;
    log_notice(TOPIC_DAEMON, "model %s: unloaded", model->name);
    set_stage(model, model->stage == MODEL_FAILED ? MODEL_FAILED : MODEL_AVAILABLE);
    if (model->stage == MODEL_FAILED && model->is_corrupt)
        (void)load_otherwise(model);
    if (model->stage == MODEL_AVAILABLE && model->is_wanted && model->n_users)
        (void)model_load_with_room(model, &err);
    model->is_wanted = false;
    model_forget_unused(model); /* who asked for it may have left */
}

void model_on_news(Model *model, Job *job, JobNews *news) {
    assert_on_loop(model->registry->loop);
    assert(model->job == job);
    if (news->engine)
        model->engine = steal(&news->engine);
    if (!news->done) {
        model->permille = news->permille;
        set_stage(model, MODEL_LOADING); /* requests need not wait for its weights */
        return;
    }
    model->job = NULL;
    if (job->kind == JOB_LOAD) {
        on_loaded(model, news);
    } else if (!news->result) { /* else the engine thread ends, and the engine stays ours */
        on_unloaded(model);
    }
    free(job);
}

const char *model_failure(const Model *model, bool with_paths) {
    return with_paths ? model->failure.text : model->lacked_memory ? model->no_room.text : "administrators see why";
}
