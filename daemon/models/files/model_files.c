// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/models/files/model_files.h"

#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf/gguf_parts.h"

static ModelFile *model_file_free(ModelFile *file) {
    if (!file)
        return NULL;
    free(file->name);
    free(file->why_not);
    free(file);
    return NULL;
}
DEFINE_CLEANUP(ModelFile, model_file_free)

static int compare_names(const void *a, const void *b) {
    return strcmp(((const ModelFile *)a)->name, ((const ModelFile *)b)->name);
}

void model_files_init(ModelFiles *files) {
    *files = (ModelFiles){ .n = 0 };
    TAILQ_INIT(&files->list);
}

static void forget(ModelFiles *files, ModelFile *file) {
    tdelete(file, &files->by_name, compare_names);
    TAILQ_REMOVE(&files->list, file, link);
    files->n--;
    model_file_free(file);
}

void model_files_deinit(ModelFiles *files) {
    while (!TAILQ_EMPTY(&files->list))
        forget(files, TAILQ_FIRST(&files->list));
    files->reader = gguf_kind_reader_free(files->reader);
    files->reading = model_file_free(files->reading);
}

static ModelFile *find(const ModelFiles *files, const char *name) {
    const ModelFile key = { .name = (char *)(uintptr_t)name };
    ModelFile *const *node = tfind(&key, &files->by_name, compare_names);

    return node ? *node : NULL;
}

/* Compares ctime too: a download program may set the modification time to that of the source. */
static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           !memcmp(&a->st_mtim, &b->st_mtim, sizeof(a->st_mtim)) &&
           !memcmp(&a->st_ctim, &b->st_ctim, sizeof(a->st_ctim));
}

/* Puts a file whose kind is known into the list, which owns it then. Return: the file; NULL: there is no room. */
static ModelFile *enter(ModelFiles *files, ModelFile *file) {
    ModelFile *before = find(files, file->name);

    if (before)
        forget(files, before);
    if (files->n >= MODEL_FILES_MAX || !tsearch(file, &files->by_name, compare_names))
        return model_file_free(file);
    TAILQ_INSERT_TAIL(&files->list, file, link);
    files->n++;
    return file;
}

/* Opens a file for the steps that read it. Return: false if no read is needed, with the file's kind in its info. */
static bool begin(ModelFiles *files, ModelFile *file, const char *path) {
    int fd, r;

    if (gguf_kind_of_name(&file->info, file->name) && file->info.kind != GGUF_KIND_PART)
        return false;
    fd = S_ISREG(file->seen.st_mode) ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    r = fd >= 0 ? gguf_kind_reader_new(&files->reader, fd) : S_ISREG(file->seen.st_mode) ? -errno : -EINVAL;
    if (!r)
        return true;
    file->info.kind = GGUF_KIND_LOST;
    file->info.error = -r;
    return false;
}

ModelFile *model_files_look(ModelFiles *files, uint64_t scan, const char *path, bool *pendingp) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    _cleanup_(model_file_freep) ModelFile *file = NULL;
    ModelFile *known = find(files, name);
    struct stat st;

    *pendingp = false;
    if (known && known->scan == scan)
        return known;
    if (stat(path, &st) < 0)
        return NULL; /* removed meanwhile, or a dangling link */
    if (known && is_same(&known->seen, &st)) {
        known->scan = scan;
        return known;
    }
    file = known || files->n < MODEL_FILES_MAX ? calloc(1, sizeof(*file)) : NULL;
    if (!file || !(file->name = strdup(name)))
        return NULL;
    file->seen = st;
    file->scan = scan;
    if (!begin(files, file, path))
        return enter(files, steal(&file));
    files->reading = steal(&file);
    *pendingp = true;
    return NULL;
}

bool model_files_step(ModelFiles *files) {
    GgufKindInfo info;

    if (!files->reader)
        return false;
    if (!gguf_kind_reader_step(files->reader, MODEL_FILES_STEP_BYTES))
        return true;
    info = *gguf_kind_reader_info(files->reader);
    /* A file that is a later part by its name is no model, whatever its content says. */
    if (files->reading->info.kind != GGUF_KIND_PART || info.kind == GGUF_KIND_CUT)
        files->reading->info = info;
    files->reader = gguf_kind_reader_free(files->reader);
    enter(files, files->reading);
    files->reading = NULL;
    return false;
}

void model_files_forget_gone(ModelFiles *files, uint64_t scan) {
    ModelFile *file, *next;

    for (file = TAILQ_FIRST(&files->list); file; file = next) {
        next = TAILQ_NEXT(file, link);
        if (file->scan != scan)
            forget(files, file);
    }
}

void model_file_explain(ModelFile *file, const char *why_not) {
    free(file->why_not);
    file->why_not = why_not ? strdup(why_not) : NULL;
}

/* Tells whether the file belongs to the model's name: the file name without its extension and without a part number. */
static bool is_named(const ModelFile *file, const char *model) {
    const size_t n = strlen(model);
    const char *dot = strrchr(file->name, '.');

    return !strncmp(file->name, model, n) && (!file->name[n] || file->name + n == dot ||
                                              (file->info.part == 1 && gguf_parts_stem_bytes(file->name) == n));
}

const char *model_files_why_not(const ModelFiles *files, const char *model) {
    const ModelFile *file;

    TAILQ_FOREACH (file, &files->list, link)
        if (file->why_not && is_named(file, model))
            return file->why_not;
    return NULL;
}
