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

#include "base/log.h"
#include "base/strings/printable.h"
#include "base/system/cpu.h"
#include "daemon/config/config_setting.h"
#include "daemon/systemd/journal.h"
#include "daemon/models/model_options.h"
#include "daemon/models/model_registry.h"
#include "daemon/net/listener.h"
#include "daemon/server.h"
#include "daemon/service.h"
#include "model/model_dir.h"
#include "spec/db/draft_db_file.h"

/* Puts the setting's name before a module's text, which begins with the value. */
static int named(ErrText *err, const char *name) {
    err_prefix(err, "%s", name);
    return CONFIG_E_SETTING;
}

/* Whether model-dir may be missing: the first import makes the default folder, but a named folder must exist. */
static bool may_be_absent(const Config *config) {
    char usual[PATH_MAX];

    return !model_dir_default(config->is_users, usual, sizeof(usual)) && !strcmp(config->models.dir, usual) &&
           access(usual, F_OK) < 0 && errno == ENOENT;
}

static int check_model_dir(const Config *config, ErrText *err) {
    struct stat info;

    if (!*config->models.dir || may_be_absent(config))
        return 0;
    if (!stat(config->models.dir, &info) && !S_ISDIR(info.st_mode))
        return err_set(err, CONFIG_E_SETTING, "model-dir: %.256s: is not a folder", config->models.dir);
    if (access(config->models.dir, R_OK | X_OK) < 0)
        return err_set(err, CONFIG_E_SETTING, "model-dir: %.256s: %s", config->models.dir, strerror(errno));
    return 0;
}

/* Checks a folder that is made when needed, by the first folder on its path that exists. */
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

/* Warns of folders that the service would run without, in the service's words; the check succeeds. */
static void warn_of_folders(const Config *config) {
    const bool is_wanted = config->draft_db.is_on && *config->draft_db.dir;
    ErrText err;

    if (*config->state_dir && check_made_folder("state-dir", config->state_dir, &err))
        log_warn(TOPIC_DAEMON, "%s: which model drafts for which cannot be stored", err.text);
    if (is_wanted && check_made_folder("draftdb-dir", config->draft_db.dir, &err))
        log_warn(TOPIC_DAEMON, "%s: nothing is stored for later drafts", err.text);
    else if (is_wanted && !access(config->draft_db.dir, F_OK) && draft_db_file_check_folder(config->draft_db.dir, &err))
        log_warn(TOPIC_DAEMON, "draftdb-dir: %s: nothing is stored for later drafts", err.text);
}

/* Refuses weights-memory for devices without streamed layers: the reference device computes in the mapped file, and
 * the npu device loads layers as graphs. */
static int check_weights_memory_of(const LoadOptions *load, ErrText *err) {
    const BackendDevice *device = engine_device(load->device);

    if (!load->weights.memory.is_set || (device->reads_packages && !device->has_graphs))
        return 0;
    if (device->has_graphs)
        return err_set(err, CONFIG_E_SETTING,
                       "weights-memory: only with device = cpu: with device = %s say graphs-memory", device->name);
    return err_set(err, CONFIG_E_SETTING, "weights-memory: only with device = cpu: leave one of the two out");
}

static int check_weights_memory(const Config *config, ErrText *err) {
    const char *name = NULL;
    int r = check_weights_memory_of(&config->load, err);

    while (!r && (name = config_next_section(config, name))) {
        const LoadOptions load = config_load_options(config, name);

        r = check_weights_memory_of(&load, err);
        if (r)
            err_prefix(err, "[model %.*s]", UTF8_PREFIX(name, 64));
    }
    return r;
}

/* Whether a file in model-dir has this name without its ending. */
static bool is_in_folder(const Config *config, const char *name) {
    static const char *const endings[] = { ".cgm", ".gguf" };
    char path[PATH_MAX + 512];

    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        snprintf(path, sizeof(path), "%s/%s%s", config->models.dir, name, endings[i]);
        if (*config->models.dir && !access(path, R_OK))
            return true;
    }
    return false;
}

/* Warns of sections whose model does not exist; the model may come later. */
static void check_sections(const Config *config) {
    const char *name = NULL, *file;

    while ((name = config_next_section(config, name))) {
        file = strrchr(config->models.default_model, '/');
        if (is_in_folder(config, name) ||
            (file && !strncmp(file + 1, name, strlen(name)) && file[1 + strlen(name)] == '.'))
            continue;
        log_warn(TOPIC_DAEMON, "[model %s]: there is no model of this name in model-dir (%s)", name,
                 *config->models.dir ? config->models.dir : "none");
    }
}

/* Checks a model that a setting names, by its path or its name. */
static int check_model(const char *setting, const Config *config, const char *model, ErrText *err) {
    struct stat info;

    if (!*model)
        return 0;
    if (!setting_is_path(model))
        return is_in_folder(config, model)
                   ? 0
                   : err_set(err, CONFIG_E_SETTING, "%s: there is no model '%.*s' in model-dir (%.256s)", setting,
                             UTF8_PREFIX(model, 255), *config->models.dir ? config->models.dir : "none");
    if (!model_suits_device(config, model, err))
        return named(err, setting);
    if (stat(model, &info) < 0 || access(model, R_OK) < 0)
        return err_set(err, CONFIG_E_SETTING, "%s: %.256s: %s", setting, model, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return err_set(err, CONFIG_E_SETTING, "%s: %.256s: is not a file", setting, model);
    return 0;
}

static int check_preload(const Config *config, ErrText *err) {
    const char *rest = config->models.preload;
    char model[PATH_MAX];
    int r = 0;

    while (!r && (rest = setting_next_model(rest, model, sizeof(model))))
        r = check_model("preload", config, model, err);
    return r;
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
    if (isa_select(config->load.isa, &features, err))
        return named(err, "isa");
    if (journal_check(config->log_target, err))
        return named(err, "log-target");
    if (server_check_descriptors(config, err))
        return named(err, "max-connections");
    r = config_check_settings(config, err);
    if (!r)
        r = check_model("model", config, config->models.default_model, err);
    if (!r)
        r = check_preload(config, err);
    if (!r)
        r = check_model_dir(config, err);
    if (!r && model_check_chat_template(config, err))
        r = CONFIG_E_SETTING;
    if (!r)
        r = check_made_folder("cache-dir", config->cache_dir, err);
    if (!r) {
        check_sections(config);
        warn_of_folders(config);
    }
    return r;
}
