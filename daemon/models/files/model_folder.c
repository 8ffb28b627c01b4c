// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/models/files/model_folder.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/min_max.h"
#include "model/gguf/gguf_parts.h"

#define MAX_AGE_NS (UINT64_C(1000) * 1000 * 1000) /* targets of links change without a change of the folder */
#define TICK_NS (UINT64_C(50) * 1000 * 1000)      /* more than the resolution of a file system's timestamps */

void model_folder_init(ModelFolder *folder, ModelRegistry *registry) {
    *folder = (ModelFolder){ .registry = registry };
    model_files_init(&folder->files);
}

static void close_stream(ModelFolder *folder) {
    if (folder->stream)
        closedir(folder->stream);
    folder->stream = NULL;
}

void model_folder_deinit(ModelFolder *folder) {
    close_stream(folder);
    free(folder->pending);
    folder->pending = NULL;
    model_files_deinit(&folder->files);
}

static const char *path_of(const ModelFolder *folder) {
    return folder->registry->config->models.dir;
}

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Tells whether the folder has changed since the last scan began. */
static bool is_changed(const ModelFolder *folder) {
    struct stat now;

    if (stat(path_of(folder), &now) < 0)
        return errno != folder->error;
    return folder->error || folder->too_soon || !is_same(&now, &folder->seen);
}

static bool is_just_changed(const struct stat *info) {
    struct timespec now;
    int64_t age_ns;

    clock_gettime(CLOCK_REALTIME, &now);
    age_ns = (int64_t)(now.tv_sec - info->st_mtim.tv_sec) * 1000000000 + (now.tv_nsec - info->st_mtim.tv_nsec);
    return age_ns < (int64_t)TICK_NS && age_ns > -(int64_t)TICK_NS;
}

static void note_error(ModelFolder *folder, int error) {
    if (error != folder->error && error == ENOENT) /* the first model may create the folder */
        log_debug(TOPIC_DAEMON, "model-dir %s: %s", path_of(folder), strerror(error));
    else if (error != folder->error && error)
        log_warn(TOPIC_DAEMON, "model-dir %s: %s", path_of(folder), strerror(error));
    folder->has_news |= error != folder->error;
    folder->error = error;
}

static void model_folder_begin(ModelFolder *folder) {
    struct stat info;

    folder->n_begun++;
    folder->began_ns = clock_now_ns();
    folder->stream = opendir(path_of(folder));
    if (!folder->stream || fstat(dirfd(folder->stream), &info) < 0) {
        note_error(folder, errno);
        return;
    }
    note_error(folder, 0);
    folder->has_news |= !is_same(&info, &folder->seen);
    folder->too_soon = is_just_changed(&info);
    folder->seen = info;
}

/**
 * model_folder_want() - request a scan that sees every file that is now in the folder
 *
 * A caller during a scan shares that scan, unless the folder has changed since the scan began: then another scan
 * follows. Clients therefore cause at most one scan a second, however often they ask; each change of the folder causes
 * one more scan.
 * Return: number of the scan to wait for, or 0 if the caller need not wait.
 */
uint64_t model_folder_want(ModelFolder *folder) {
    uint64_t wanted;

    assert_on_loop(folder->registry->loop);
    if (!*path_of(folder))
        return 0;
    if (folder->n_begun > folder->n_done) {
        wanted = folder->n_begun + is_changed(folder);
        folder->n_wanted = MAX(wanted, folder->n_wanted);
        return wanted;
    }
    if (folder->n_done && clock_now_ns() < folder->began_ns + MAX_AGE_NS && !is_changed(folder))
        return 0;
    model_folder_begin(folder);
    return folder->n_begun;
}

/* Notes why a file is not listed, and logs the reason once. */
static void leave_out(ModelFolder *folder, ModelFile *file, const char *why) {
    model_file_explain(file, why);
    if (folder->has_news && file->info.kind == GGUF_KIND_PART)
        log_debug(TOPIC_DAEMON, "not listed: %s", why);
    else if (folder->has_news)
        log_info(TOPIC_DAEMON, "not listed: %s", *why ? why : "out of memory");
}

/* Tells whether a file is of the expected kind and completely downloaded; if not, @err has the reason. */
static bool is_kind(const ModelFile *file, const char *path, GgufKind kind, ErrText *err) {
    GgufKindInfo info = file->info;

    if (kind == GGUF_KIND_MODEL && info.kind != kind && gguf_kind_of_name(&info, file->name)) {
        gguf_kind_tell(&info, file->name, err);
        return false;
    }
    info = file->info;
    if (info.kind == kind && gguf_kind_is_fetched(path))
        info.kind = GGUF_KIND_DOWNLOAD;
    if (info.kind == kind)
        return true;
    gguf_kind_tell(&info, file->name, err);
    return false;
}

/* Checks all parts of the model after the first one, which is at @path, and adds their bytes to *bytesp. Return: false
 * if a part is incomplete, with the reason in @err, or if a part must be read first (*pendingp). */
static bool look_at_parts(ModelFolder *folder, const char *path, uint32_t n, uint64_t *bytesp, bool *pendingp,
                          ErrText *err) {
    for (uint32_t part = 1; part < n; part++) {
        _cleanup_(freep) char *other_path = gguf_parts_path(path, part, n);
        const ModelFile *other;

        if (!other_path) /* the name has no part number: the load reports missing parts */
            return true;
        other = model_files_look(&folder->files, folder->n_begun, other_path, pendingp);
        if (!other) {
            err_set(err, 0, "%.300s: shard %u of %u of the model is missing: fetch it too",
                    strrchr(other_path, '/') + 1, part + 1, n);
            return false;
        }
        if (!is_kind(other, other_path, GGUF_KIND_PART, err))
            return false;
        *bytesp += (uint64_t)other->seen.st_size;
    }
    return true;
}

/* Lists an entry of the folder if it is a model. Return: whether a file must be read before that can be decided. */
static bool take_entry(ModelFolder *folder, const char *name) {
    ModelRegistry *registry = folder->registry;
    const char *slash = path_of(folder)[strlen(path_of(folder)) - 1] == '/' ? "" : "/";
    char path[PATH_MAX + NAME_MAX + 2];
    ErrText err = { 0 };
    bool is_pending;
    ModelFile *file;
    uint64_t bytes;
    Model *model;

    if (*name == '.' || !model_is_file_name(name))
        return false;
    snprintf(path, sizeof(path), "%s%s%s", path_of(folder), slash, name);
    file = model_files_look(&folder->files, folder->n_begun, path, &is_pending);
    if (!file)
        return is_pending;
    bytes = (uint64_t)file->seen.st_size;
    if (!is_kind(file, path, GGUF_KIND_MODEL, &err) ||
        !look_at_parts(folder, path, file->info.n_parts, &bytes, &is_pending, &err)) {
        if (!is_pending)
            leave_out(folder, file, err.text);
        return is_pending;
    }
    if (model_registry_add(registry, path, &model, &err)) {
        leave_out(folder, file, err.text);
        return false;
    }
    model_file_explain(file, NULL);
    if (strcmp(model->source.path, path))
        return false; /* another path of a known file */
    model->source.bytes = bytes;
    model->source.time_s = (uint64_t)MAX(file->seen.st_mtim.tv_sec, 0);
    model->source.scan = folder->n_begun;
    model_note_origin(model, MODEL_FROM_FOLDER);
    return false;
}

const char *model_folder_why_not(const ModelFolder *folder, const char *name) {
    return model_files_why_not(&folder->files, name);
}

static void model_folder_finish(ModelFolder *folder) {
    close_stream(folder);
    /* A folder that cannot be read at the moment is no evidence that its files are gone. */
    if (!folder->error || folder->error == ENOENT) {
        model_registry_forget_gone(folder->registry, folder->n_begun);
        model_files_forget_gone(&folder->files, folder->n_begun);
    }
    folder->n_done = folder->n_begun;
    folder->has_news = false;
    if (folder->n_wanted > folder->n_done)
        model_folder_begin(folder);
}

/* Reads on in the files of the pending entry. Return: whether the entry is still pending. */
static bool go_on_with_pending(ModelFolder *folder) {
    if (!folder->pending || model_files_step(&folder->files) || take_entry(folder, folder->pending))
        return folder->pending;
    free(folder->pending);
    folder->pending = NULL;
    return false;
}

/* Handles the next entry of the folder. Return: false if there is none. */
static bool next_entry(ModelFolder *folder) {
    const struct dirent *entry = folder->stream ? readdir(folder->stream) : NULL;

    if (!entry)
        return false;
    if (take_entry(folder, entry->d_name))
        folder->pending = strdup(entry->d_name);
    return true;
}

bool model_folder_step(ModelFolder *folder) {
    bool has_more = true;

    assert_on_loop(folder->registry->loop);
    if (folder->n_begun == folder->n_done)
        return false;
    if (go_on_with_pending(folder))
        return true;
    for (unsigned int i = 0; has_more && !folder->pending && i < MODEL_FOLDER_STEP_ENTRIES; i++)
        has_more = next_entry(folder);
    if (!has_more)
        model_folder_finish(folder);
    return folder->n_begun > folder->n_done;
}

bool model_folder_has(const ModelFolder *folder, uint64_t scan) {
    return folder->n_done >= scan;
}
