// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/models/model_registry.h"

#include <search.h>
#include <string.h>
#include <sys/stat.h>

#include "base/min_max.h"
#include "base/strings/printable.h"
#include "model/gguf/gguf_kind.h"
#include "model/gguf/gguf_parts.h"
#include "proto/proto_check.h"

#define EXTENSION_GGUF ".gguf"
#define EXTENSION_PACKAGE ".cgm"

static bool ends_with(const char *text, const char *end) {
    size_t text_bytes = strlen(text), end_bytes = strlen(end);

    return text_bytes > end_bytes && !strcmp(text + text_bytes - end_bytes, end);
}

void model_registry_init(ModelRegistry *registry, Loop *loop, const Config *config, AccountTable *accounts,
                         ModelChangeFn *on_change, void *arg) {
    *registry = (ModelRegistry){
        .loop = loop,
        .config = config,
        .accounts = accounts,
        .watch = { .on_change = on_change, .arg = arg },
    };
    TAILQ_INIT(&registry->models);
    TAILQ_INIT(&registry->abandoned);
}

/* ---- lookup ------------------------------------------------------------------------------------------------------ */

static int compare_names(const void *a, const void *b) {
    return strcmp(((const Model *)a)->name, ((const Model *)b)->name);
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(((const Model *)a)->source.path, ((const Model *)b)->source.path);
}

static Model *found_in(void *const *tree, const Model *key, int (*compare)(const void *, const void *)) {
    Model *const *node = tfind(key, tree, compare);

    return node ? *node : NULL;
}

Model *model_registry_find_name(ModelRegistry *registry, const char *name) {
    const Model key = { .name = (char *)(uintptr_t)name };

    assert_on_loop(registry->loop);
    return found_in(&registry->by_name, &key, compare_names);
}

Model *model_registry_find_path(ModelRegistry *registry, const char *path) {
    const Model key = { .source.path = (char *)(uintptr_t)path };

    assert_on_loop(registry->loop);
    return found_in(&registry->by_path, &key, compare_paths);
}

/* Enters a model whose name and path are both new. Return: 0 or -ENOMEM. */
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
    /* A scan keeps a loaded model whose file is gone. */
    const bool is_unknown =
        model->source.origin == MODEL_FROM_CLIENT ||
        (model->source.origin == MODEL_FROM_FOLDER && model->source.scan < model->registry->last_scan);

    if (is_idle && is_unknown && !model->n_users)
        forget(model->registry, model);
}

void model_registry_deinit(ModelRegistry *registry) {
    while (!TAILQ_EMPTY(&registry->models))
        forget(registry, TAILQ_FIRST(&registry->models));
    model_import_reap(&registry->abandoned);
    free(registry->chat_template);
    registry->chat_template = NULL;
}

/* ---- files and names of models ----------------------------------------------------------------------------------- */

/* Derives a model's name from a path. File names are arbitrary bytes, while model names are text that is sent and
 * typed. Return: the name, which the caller frees; NULL: out of memory. */
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
    device = engine_device(config_load_options(config, name ? name : "").device);
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

bool model_is_source(const char *name) {
    return ends_with(name, EXTENSION_GGUF);
}

bool model_is_file_name(const char *name) {
    return model_is_source(name) || ends_with(name, EXTENSION_PACKAGE);
}

/* Looks at a regular file. Returns its bytes; 0 if it is none. *time_sp: the time of its last change, or 0. */
static uint64_t regular_bytes(const char *path, int fd, uint64_t *time_sp) {
    struct stat info;

    *time_sp = 0;
    if ((fd >= 0 ? fstat(fd, &info) : stat(path, &info)) || !S_ISREG(info.st_mode))
        return 0;
    *time_sp = (uint64_t)MAX(info.st_mtim.tv_sec, 0);
    return (uint64_t)info.st_size;
}

void model_measure(Model *model) {
    uint32_t first, n = 1;
    uint64_t time_s;

    model->source.bytes = regular_bytes(model->source.path, model->source.fd, &model->source.time_s);
    if (gguf_parts_of_name(model->source.path, &first, &n) && n > GGUF_PARTS_MAX)
        return;
    for (uint32_t part = 1; part < n; part++) {
        _cleanup_(freep) char *path = gguf_parts_sibling(model->source.path, part);

        model->source.bytes += path ? regular_bytes(path, -1, &time_s) : 0;
    }
}

static bool is_file_of(const Model *model, const struct stat *file) {
    struct stat own;

    return !(model->source.fd >= 0 ? fstat(model->source.fd, &own) : stat(model->source.path, &own)) &&
           own.st_dev == file->st_dev && own.st_ino == file->st_ino;
}

/* Finds the model of a file. Of several models by different paths to the same file, a loaded or loading one wins. */
Model *model_registry_find_file(ModelRegistry *registry, const char *path, int fd) {
    Model *model, *found = NULL;
    struct stat file;

    model = model_registry_find_path(registry, path);
    if (model || (fd >= 0 ? fstat(fd, &file) : stat(path, &file)) < 0)
        return model;
    TAILQ_FOREACH (model, &registry->models, link)
        if ((!found || model_is_loaded(model)) && is_file_of(model, &file))
            found = model;
    return found;
}

void model_take_file(Model *model, int *fdp) {
    assert_on_loop(model->registry->loop);
    if (*fdp < 0 || model_is_coming(model) || model->engine)
        return;
    closep(&model->source.fd);
    model->source.fd = steal_fd(fdp);
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
    model->source.fd = -1;
    model->source.path = strdup(path);
    model->source.shown_path = printable_dup(path, PROTO_PATH_BYTES_MAX);
    model->name = name_of_path(path);
    if (!model->source.path || !model->source.shown_path || !model->name)
        return err_raise(-ENOMEM);
    other = *model->name ? model_registry_find_name(registry, model->name) : NULL;
    if (other && !stat(path, &info) && is_file_of(other, &info)) {
        *modelp = other;
        return 0;
    }
    if (other)
        return err_set(err, MODEL_E_NAME_TAKEN, "%.*s: the name '%.*s' is that of %.*s already: rename one",
                       UTF8_PREFIX(path, 300), UTF8_PREFIX(model->name, 64), UTF8_PREFIX(other->source.path, 300));
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
    registry->last_scan = scan;
    for (model = TAILQ_FIRST(&registry->models); model; model = next) {
        next = TAILQ_NEXT(model, link);
        if (model->source.origin == MODEL_FROM_FOLDER && model->source.scan != scan && !model->n_users &&
            !model->engine && (model->stage == MODEL_AVAILABLE || model->stage == MODEL_FAILED))
            forget(registry, model);
    }
}
