// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/config/config_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings/nearest_word.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "daemon/config/config_table.h"

#define SECTIONS_MAX 1024
#define SECTION_NAME_BYTES_MAX 255 /* PROTO_MODEL_NAME_BYTES_MAX */

/* Settings that a section may have: rows of the table, none of them a text. */
enum {
    OF_CONTEXT_TOKENS,
    OF_WEIGHTS_MEMORY,
    OF_DEVICE,
    _OF_N,
};
static const char *const names[_OF_N] = {
    [OF_CONTEXT_TOKENS] = "context-tokens",
    [OF_WEIGHTS_MEMORY] = "weights-memory",
    [OF_DEVICE] = "device",
};

struct ConfigModel {
    char *name;
    bool is_set[_OF_N];
    Config values; /* of these settings alone */
    ConfigModel *next;
};

/* ---- sections ---------------------------------------------------------------------------------------------------- */

void config_models_free(ConfigModel *models) {
    while (models) {
        ConfigModel *next = models->next;

        free(models->name);
        free(models);
        models = next;
    }
}

static ConfigModel *find(const Config *config, const char *name) {
    ConfigModel *model = config->sections;

    while (model && strcmp(model->name, name))
        model = model->next;
    return model;
}

/* Finds the section of a model, or adds an empty one behind the others. 0, CONFIG_E_SETTING, -ENOMEM. */
static int find_or_add(Config *config, const char *name, ConfigModel **modelp, ErrText *err) {
    ConfigModel **linkp = &config->sections, *model;
    size_t n = 0;

    for (; *linkp; linkp = &(*linkp)->next, n++)
        if (!strcmp((*linkp)->name, name)) {
            *modelp = *linkp;
            return 0;
        }
    if (n >= SECTIONS_MAX)
        return err_set(err, CONFIG_E_SETTING, "more than %d sections of models", SECTIONS_MAX);
    model = calloc(1, sizeof(*model));
    if (!model || !(model->name = strdup(name))) {
        free(model);
        return err_no_memory(err);
    }
    *modelp = *linkp = model;
    return 0;
}

int config_model_begin(Config *config, char *line, ConfigModel **modelp, ErrText *err) {
    static const char word[] = "model";
    const size_t len_bytes = strlen(line);
    char *name;

    if (line[len_bytes - 1] != ']' || strncmp(line + 1, word, strlen(word)) ||
        (line[1 + strlen(word)] != ' ' && line[1 + strlen(word)] != '\t'))
        return err_set(err, CONFIG_E_SETTING, "'%.*s' is no section: the sections are [model NAME]",
                       UTF8_PREFIX(line, 64));
    line[len_bytes - 1] = 0;
    name = line + 1 + strlen(word);
    name += strspn(name, " \t");
    for (size_t n = strlen(name); n && (name[n - 1] == ' ' || name[n - 1] == '\t'); n--)
        name[n - 1] = 0;
    if (!*name || strlen(name) > SECTION_NAME_BYTES_MAX || !utf8_is_valid(name, strlen(name)))
        return err_set(err, CONFIG_E_SETTING, "[model NAME]: '%.*s' is no name of a model: 1 to %d bytes of UTF-8",
                       UTF8_PREFIX(name, 64), SECTION_NAME_BYTES_MAX);
    if (setting_is_path(name))
        return err_set(
            err, CONFIG_E_SETTING,
            "[model %.*s]: a section names its model by the name that coordgenctl model list shows, not by a "
            "path",
            UTF8_PREFIX(name, 256));
    return find_or_add(config, name, modelp, err);
}

int config_model_set(ConfigModel *model, const char *name, const char *value, ErrText *err) {
    const char *near;
    int r;

    for (size_t i = 0; i < _OF_N; i++) {
        if (strcmp(names[i], name))
            continue;
        r = setting_parse(config_table_find(name), &model->values, value, err);
        model->is_set[i] = model->is_set[i] || !r;
        return r;
    }
    if (config_table_find(name))
        return err_set(err, CONFIG_E_SETTING,
                       "%s holds for all models: it stands before the sections; [model %.*s] may have context-tokens, "
                       "weights-memory and device",
                       name, UTF8_PREFIX(model->name, 64));
    near = nearest_word(name, names, _OF_N);
    if (near)
        return err_set(err, CONFIG_E_SETTING, "unknown setting '%.*s' of [model %.*s]: did you mean '%s'?",
                       UTF8_PREFIX(name, 64), UTF8_PREFIX(model->name, 64), near);
    return err_set(err, CONFIG_E_SETTING,
                   "unknown setting '%.*s' of [model %.*s]: it may have context-tokens, weights-memory and device",
                   UTF8_PREFIX(name, 64), UTF8_PREFIX(model->name, 64));
}

/* ---- what they say ----------------------------------------------------------------------------------------------- */

/* Finds the configuration that a setting of a model stands in. */
static const Config *config_of(const Config *config, const char *name, int setting) {
    const ConfigModel *model = find(config, name);

    return model && model->is_set[setting] ? &model->values : config;
}

uint32_t config_context_tokens(const Config *config, const char *model) {
    return config_of(config, model, OF_CONTEXT_TOKENS)->generations.context_tokens;
}

LoadOptions config_load_options(const Config *config, const char *model) {
    LoadOptions load = config->load;

    load.device = config_of(config, model, OF_DEVICE)->load.device;
    load.weights.memory = config_of(config, model, OF_WEIGHTS_MEMORY)->load.weights.memory;
    return load;
}

const char *config_next_section(const Config *config, const char *after) {
    const ConfigModel *model = after ? find(config, after)->next : config->sections;

    return model ? model->name : NULL;
}

void config_models_print(const Config *config, FILE *to) {
    char value[256];

    for (const ConfigModel *model = config->sections; model; model = model->next) {
        fprintf(to, "\n[model %s]\n", model->name);
        for (size_t i = 0; i < _OF_N; i++) {
            if (!model->is_set[i])
                continue;
            setting_format(config_table_find(names[i]), &model->values, value, sizeof(value));
            fprintf(to, "%s = %s\n", names[i], value);
        }
    }
}

/* ---- reloads ----------------------------------------------------------------------------------------------------- */

/* Compares the settings of one model. */
static void compare(const char *name, const Config *from, const Config *to, ConfigChangeFn *fn, void *arg) {
    char old_value[256], new_value[256], title[SECTION_NAME_BYTES_MAX + 64];

    for (int i = 0; i < _OF_N; i++) {
        const Setting *setting = config_table_find(names[i]);
        const Config *before = config_of(from, name, i), *now = config_of(to, name, i);

        if (before == from && now == to) /* neither has its own: config_compare() tells */
            continue;
        setting_format(setting, before, old_value, sizeof(old_value));
        setting_format(setting, now, new_value, sizeof(new_value));
        snprintf(title, sizeof(title), "[model %s] %s", name, names[i]);
        if (strcmp(old_value, new_value))
            fn(arg, title, old_value, new_value, setting->is_live);
    }
}

void config_models_compare(const Config *from, const Config *to, ConfigChangeFn *fn, void *arg) {
    for (const ConfigModel *model = from->sections; model; model = model->next)
        compare(model->name, from, to, fn, arg);
    for (const ConfigModel *model = to->sections; model; model = model->next)
        if (!find(from, model->name))
            compare(model->name, from, to, fn, arg);
}

/* Takes the live settings over of a section that both have. */
static void take_live(ConfigModel *model, const ConfigModel *from) {
    char value[256];

    for (int i = 0; i < _OF_N; i++) {
        const Setting *setting = config_table_find(names[i]);

        if (!setting->is_live)
            continue;
        model->is_set[i] = from && from->is_set[i];
        if (!model->is_set[i])
            continue;
        setting_format(setting, &from->values, value, sizeof(value));
        (void)setting_parse(setting, &model->values, value, NULL); /* it was parsed before, and is no text */
    }
}

int config_models_take_live(Config *config, const Config *from) {
    ConfigModel *model;
    ErrText err;
    int r;

    for (const ConfigModel *other = from->sections; other; other = other->next) {
        r = find_or_add(config, other->name, &model, &err);
        if (r)
            return err_fold(r);
    }
    for (model = config->sections; model; model = model->next)
        take_live(model, find(from, model->name));
    return 0;
}
