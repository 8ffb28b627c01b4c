// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/model_folder.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"

#define MAX_AGE_NS (UINT64_C(1000) * 1000 * 1000) /* files that links lead to change without the folder */
#define TICK_NS (UINT64_C(50) * 1000 * 1000)      /* longer than the step of a file system's clock */

void model_folder_init(ModelFolder *folder, ModelRegistry *registry) {
    *folder = (ModelFolder){ .registry = registry };
}

void model_folder_deinit(ModelFolder *folder) {
    if (folder->stream)
        closedir(folder->stream);
    folder->stream = NULL;
}

static const char *path_of(const ModelFolder *folder) {
    return folder->registry->config->model_dir;
}

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Since the last scan began. */
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
    if (error != folder->error && error == ENOENT) /* it may come with the first model */
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
 * model_folder_want() - the scan to wait for by who must not miss a file of the folder
 *
 * Who asks while a scan runs shares it, unless the folder has changed since that began: then another one follows. So
 * clients cause one scan a second at most, however often they ask; whoever changes the folder causes one more a change.
 * Return: its number, or 0.
 */
uint64_t model_folder_want(ModelFolder *folder) {
    uint64_t wanted;

    assert_on_loop(folder->registry->loop);
    if (!*path_of(folder))
        return 0;
    if (folder->n_begun > folder->n_done) {
        wanted = folder->n_begun + is_changed(folder);
        folder->n_wanted = wanted > folder->n_wanted ? wanted : folder->n_wanted;
        return wanted;
    }
    if (folder->n_done && clock_now_ns() < folder->began_ns + MAX_AGE_NS && !is_changed(folder))
        return 0;
    model_folder_begin(folder);
    return folder->n_begun;
}

/* What the scan leaves of a model: no file is opened. */
static void take_entry(ModelFolder *folder, const char *name) {
    ModelRegistry *registry = folder->registry;
    const char *slash = path_of(folder)[strlen(path_of(folder)) - 1] == '/' ? "" : "/";
    char path[PATH_MAX + NAME_MAX + 2];
    ErrText err = { "" };
    struct stat info;
    Model *model;
    int r;

    if (*name == '.' || !model_is_file_name(name))
        return;
    snprintf(path, sizeof(path), "%s%s%s", path_of(folder), slash, name);
    if (stat(path, &info) < 0)
        return; /* gone meanwhile, or a link to nothing */
    r = model_registry_add(registry, path, &model, &err);
    if (r) {
        if (folder->has_news)
            log_info(TOPIC_DAEMON, "not listed: %s", *err.text ? err.text : "out of memory");
        return;
    }
    if (strcmp(model->path, path))
        return; /* another name of a file that is known */
    model->file_bytes = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
    model->scan = folder->n_begun;
    model->from_folder |= model != registry->default_model;
}

static void model_folder_finish(ModelFolder *folder) {
    model_folder_deinit(folder);
    /* A folder that cannot be read at the moment says nothing about its files. */
    if (!folder->error || folder->error == ENOENT)
        model_registry_forget_gone(folder->registry, folder->n_begun);
    folder->n_done = folder->n_begun;
    folder->has_news = false;
    if (folder->n_wanted > folder->n_done)
        model_folder_begin(folder);
}

bool model_folder_step(ModelFolder *folder) {
    const struct dirent *entry = NULL;

    assert_on_loop(folder->registry->loop);
    if (folder->n_begun == folder->n_done)
        return false;
    for (unsigned int i = 0; folder->stream && i < MODEL_FOLDER_STEP_ENTRIES; i++) {
        entry = readdir(folder->stream);
        if (!entry)
            break;
        take_entry(folder, entry->d_name);
    }
    if (!entry)
        model_folder_finish(folder);
    return folder->n_begun > folder->n_done;
}

bool model_folder_has(const ModelFolder *folder, uint64_t scan) {
    return folder->n_done >= scan;
}
