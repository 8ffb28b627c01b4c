// SPDX-License-Identifier: Apache-2.0
/* The table of settings: name, type, range, help. Parser, flags, --help, --print-config and reload read it. */
#ifndef COORDGEN_DAEMON_CONFIG_TABLE_H
#define COORDGEN_DAEMON_CONFIG_TABLE_H

#include <stddef.h>

#include "daemon/config.h"

#define CONFIG_PRELOAD_MAX 64 /* models of a list */

typedef enum SettingType {
    SETTING_TEXT,
    SETTING_MODEL,  /* a path, as below, or the name of a model; "" allowed */
    SETTING_MODELS, /* some of them, with commas between */
    SETTING_PATH,   /* absolute when it stands in a file; "" allowed */
    SETTING_U32,
    SETTING_BYTES,    /* uint64_t; suffix K, M, G (binary) */
    SETTING_DURATION, /* uint32_t of milliseconds; suffix ms, s (default), min */
    SETTING_AGE,      /* uint64_t of seconds; suffix s (default), min, h, d */
    SETTING_BOOL,
    SETTING_CHOICE,  /* uint32_t; one of .choices */
    SETTING_SWITCH,  /* the same, with on and off among them: takes the words of a BOOL, which it was before */
    SETTING_SOURCES, /* a text that speculation_parse() takes */
    SETTING_PAIRS,   /* one that pair_list_parse() takes */
    SETTING_MEMORY,  /* ConfigMemory: as BYTES, or 0% to 100%; "": not set */
} SettingType;

typedef struct SettingChoice {
    const char *name; /* NULL ends a list */
    uint32_t value;
} SettingChoice;

typedef struct Setting {
    const char *name;
    SettingType type;
    size_t offset; /* in Config */
    uint64_t min;  /* U32, BYTES, DURATION in ms; inclusive */
    uint64_t max;
    bool zero_is_off;    /* 0 is allowed beside min..max */
    bool is_live;        /* takes effect on SIGHUP */
    const char *initial; /* as it would stand in a file; NULL: found out at run time */
    const SettingChoice *choices;
    const char *help;
} Setting;

/* Settings of before, which must not keep the service from its start: files and flags that have them get a warning. */
typedef struct GoneSetting {
    const char *name;
    const char *instead; /* what holds now */
} GoneSetting;

extern const GoneSetting gone_settings[];
extern const size_t n_gone_settings;
const GoneSetting *gone_setting_find(const char *name); /* NULL: there was none of this name */

extern const Setting config_settings[];
extern const size_t n_config_settings;

const Setting *setting_find(const char *name);
int setting_unknown(const char *name, ErrText *err); /* says so, and what may be meant: CONFIG_E_SETTING */
/* NULL-terminated value to the field. Return: 0, CONFIG_E_SETTING with a text that names setting and value, -ENOMEM. */
int setting_parse(const Setting *setting, Config *config, const char *value, ErrText *err);
/* As it would stand in a file. */
void setting_format(const Setting *setting, const Config *config, char *text, size_t room_bytes);

/* config_model.c: sections of single models, for config.c. */
void config_models_free(ConfigModel *models);
/* A line "[model NAME]": the section, which may be there already. 0, CONFIG_E_SETTING, -ENOMEM. */
int config_model_begin(Config *config, char *line, ConfigModel **modelp, ErrText *err);
int config_model_set(ConfigModel *model, const char *name, const char *value, ErrText *err);
void config_models_print(const Config *config, FILE *to);
void config_models_compare(const Config *from, const Config *to, ConfigChangeFn *fn, void *arg);
int config_models_take_live(Config *config, const Config *from);

#endif
