// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/config_check.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/log.h"
#include "daemon/listener.h"
#include "daemon/model_registry.h"
#include "daemon/server.h"
#include "daemon/service.h"
#include "model/model_dir.h"
#include "spec/draft_db.h"

/* Texts of modules begin with the value; the setting's name comes before. */
static int named(ErrText *err, const char *name) {
    err_prefix(err, "%s", name);
    return CONFIG_E_SETTING;
}

static int check_model(const Config *config, ErrText *err) {
    struct stat info;

    if (!*config->model)
        return 0;
    if (!model_suits_device(config, config->model, err))
        return named(err, "model");
    if (stat(config->model, &info) < 0 || access(config->model, R_OK) < 0)
        return err_set(err, CONFIG_E_SETTING, "model: %.256s: %s", config->model, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return err_set(err, CONFIG_E_SETTING, "model: %.256s: is not a file", config->model);
    return 0;
}

/* The default one comes with the first import; one that somebody named is there, or misspelt. */
static bool may_be_absent(const Config *config) {
    char usual[PATH_MAX];

    return !model_dir_default(config->is_users, usual, sizeof(usual)) && !strcmp(config->model_dir, usual) &&
           access(usual, F_OK) < 0 && errno == ENOENT;
}

static int check_model_dir(const Config *config, ErrText *err) {
    struct stat info;

    if (!*config->model_dir || may_be_absent(config))
        return 0;
    if (!stat(config->model_dir, &info) && !S_ISDIR(info.st_mode))
        return err_set(err, CONFIG_E_SETTING, "model-dir: %.256s: is not a folder", config->model_dir);
    if (access(config->model_dir, R_OK | X_OK) < 0)
        return err_set(err, CONFIG_E_SETTING, "model-dir: %.256s: %s", config->model_dir, strerror(errno));
    return 0;
}

/* A folder that is made when it is needed: the first one on the way to it that is there decides. */
static int check_made_folder(const char *name, const char *folder, ErrText *err) {
    char path[PATH_MAX], *slash;
    struct stat info;

    if ((size_t)snprintf(path, sizeof(path), "%s", folder) >= sizeof(path))
        return err_set(err, CONFIG_E_SETTING, "%s: the path is too long", name);
    while (stat(path, &info) < 0) {
        slash = errno == ENOENT ? strrchr(path, '/') : NULL;
        if (!slash)
            return err_set(err, CONFIG_E_SETTING, "%s: %.256s: %s", name, path, strerror(errno));
        slash[slash == path] = 0;
    }
    if (!S_ISDIR(info.st_mode))
        return err_set(err, CONFIG_E_SETTING, "%s: %.256s: is not a folder", name, path);
    if (access(path, W_OK | X_OK) < 0)
        return err_set(err, CONFIG_E_SETTING, "%s: %.256s: %s: let the service's user write there", name, path,
                       strerror(errno));
    return 0;
}

/* What the service goes on without: the check says it as the service does, and succeeds. */
static void warn_of_folders(const Config *config) {
    const bool is_wanted = config->draft_db && *config->draft_db_dir;
    ErrText err;

    if (*config->state_dir && check_made_folder("state-dir", config->state_dir, &err))
        log_warn(TOPIC_DAEMON, "%s: which model drafts for which cannot be stored", err.text);
    if (is_wanted && check_made_folder("draftdb-dir", config->draft_db_dir, &err))
        log_warn(TOPIC_DAEMON, "%s: nothing is stored for later drafts", err.text);
    else if (is_wanted && !access(config->draft_db_dir, F_OK) && draft_db_check_folder(config->draft_db_dir, &err))
        log_warn(TOPIC_DAEMON, "draftdb-dir: %s: nothing is stored for later drafts", err.text);
}

/* The reference device computes in the file as it is, and has no layers to take in one by one; the npu device takes
 * them in by its graphs. */
static int check_weights_memory(const Config *config, ErrText *err) {
    const BackendDevice *device = engine_device(config->device);

    if (!config->weights_memory.is_set || (device->reads_packages && !device->has_graphs))
        return 0;
    if (device->has_graphs)
        return err_set(err, CONFIG_E_SETTING,
                       "weights-memory: only with device = cpu: with device = %s say graphs-memory", device->name);
    return err_set(err, CONFIG_E_SETTING, "weights-memory: only with device = cpu: leave one of the two out");
}

int config_check_settings(const Config *config, ErrText *err) {
    int r = check_weights_memory(config, err);

    return !r && service_check_limits(config, err) ? CONFIG_E_SETTING : r;
}

int config_check(Config *config, ErrText *err) {
    uint32_t features;
    int r = 0;

    if (listener_set_check(config, err))
        return CONFIG_E_SETTING;
    if (isa_select((Isa)config->isa, &features, err))
        return named(err, "isa");
    if (server_check_descriptors(config, err))
        return named(err, "max-connections");
    r = config_check_settings(config, err);
    if (!r)
        r = check_model(config, err);
    if (!r)
        r = check_model_dir(config, err);
    if (!r && model_check_chat_template(config, err))
        r = CONFIG_E_SETTING;
    if (!r)
        r = check_made_folder("cache-dir", config->cache_dir, err);
    if (!r)
        warn_of_folders(config);
    return r;
}
