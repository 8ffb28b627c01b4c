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
#include "daemon/journal.h"
#include "daemon/listener.h"
#include "daemon/model_registry.h"
#include "model/model_dir.h"

/* Texts of modules begin with the value; the setting's name comes before. */
static int named(ErrText *err, const char *name) {
    err_prefix(err, "%s", name);
    return CONFIG_E_SETTING;
}

static int check_listen(const char *name, const char *address, ErrText *err) {
    return *address && listener_check(address, err) ? named(err, name) : 0;
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
static bool may_be_absent(const char *model_dir) {
    char usual[PATH_MAX];

    return !model_dir_default(usual, sizeof(usual)) && !strcmp(model_dir, usual) && access(usual, F_OK) < 0 &&
           errno == ENOENT;
}

static int check_model_dir(const Config *config, ErrText *err) {
    struct stat info;

    if (!*config->model_dir || may_be_absent(config->model_dir))
        return 0;
    if (!stat(config->model_dir, &info) && !S_ISDIR(info.st_mode))
        return err_set(err, CONFIG_E_SETTING, "model-dir: %.256s: is not a folder", config->model_dir);
    if (access(config->model_dir, R_OK | X_OK) < 0)
        return err_set(err, CONFIG_E_SETTING, "model-dir: %.256s: %s", config->model_dir, strerror(errno));
    return 0;
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

/* It is made when it is needed: the first folder on the way to it that is there decides. */
static int check_cache_dir(const Config *config, ErrText *err) {
    char path[PATH_MAX], *slash;
    struct stat info;

    if ((size_t)snprintf(path, sizeof(path), "%s", config->cache_dir) >= sizeof(path))
        return err_set(err, CONFIG_E_SETTING, "cache-dir: the path is too long");
    while (stat(path, &info) < 0) {
        slash = errno == ENOENT ? strrchr(path, '/') : NULL;
        if (!slash)
            return err_set(err, CONFIG_E_SETTING, "cache-dir: %.256s: %s", path, strerror(errno));
        slash[slash == path] = 0;
    }
    if (!S_ISDIR(info.st_mode))
        return err_set(err, CONFIG_E_SETTING, "cache-dir: %.256s: is not a folder", path);
    if (access(path, W_OK | X_OK) < 0)
        return err_set(err, CONFIG_E_SETTING, "cache-dir: %.256s: %s: let the service's user write there", path,
                       strerror(errno));
    return 0;
}

int config_check(const Config *config, ErrText *err) {
    uint32_t features;
    int r = check_listen("listen", config->listen, err);

    if (!r)
        r = check_listen("admin-listen", config->admin_listen, err);
    if (!r && *config->listen && !strcmp(config->listen, config->admin_listen))
        r = err_set(err, CONFIG_E_SETTING, "admin-listen: '%.256s' is that of listen: choose another path",
                    config->admin_listen);
    if (!r && isa_select((Isa)config->isa, &features, err))
        r = named(err, "isa");
    if (!r && journal_check((LogTarget)config->log_target, err))
        r = named(err, "log-target");
    if (!r)
        r = check_weights_memory(config, err);
    if (!r)
        r = check_model(config, err);
    if (!r)
        r = check_model_dir(config, err);
    if (!r && model_check_chat_template(config, err))
        r = CONFIG_E_SETTING;
    return r ? r : check_cache_dir(config, err);
}
