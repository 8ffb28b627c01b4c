// SPDX-License-Identifier: Apache-2.0
/* A setting: its type, and the conversion between its value and text. */
#ifndef COORDGEN_DAEMON_CONFIG_SETTING_H
#define COORDGEN_DAEMON_CONFIG_SETTING_H

#include <stddef.h>

#include "base/err.h"
#include "base/strings/choice.h"
#include "daemon/config/config_values.h"

#define SETTING_MODELS_MAX 64 /* models of a list */

typedef enum SettingType {
    SETTING_TEXT,
    SETTING_MODEL,   /* a path, as below, or the name of a model; "" allowed */
    SETTING_MODELS,  /* a list of models, with commas between */
    SETTING_PATH,    /* absolute when it stands in a file; "" allowed */
    SETTING_SOURCES, /* a text that speculation_parse() takes */
    SETTING_PAIRS,   /* a text that pair_list_parse() takes; the last type whose value is a text */
    SETTING_U32,
    SETTING_BYTES,    /* uint64_t; suffix K, M, G (binary) */
    SETTING_DURATION, /* uint32_t of milliseconds; suffix ms, s (default), min */
    SETTING_AGE,      /* uint64_t of seconds; suffix s (default), min, h, d */
    SETTING_RATE,     /* uint64_t of bytes a second, as MB/s (10^6 bytes) */
    SETTING_BOOL,
    SETTING_BOOL_NOT, /* yes is stored as false */
    SETTING_CHOICE,   /* an enumeration; one of .choices */
    SETTING_SWITCH,   /* a CHOICE with on and off, which also takes the words of a BOOL */
    SETTING_MEMORY,   /* WeightsMemory: as BYTES, or 0% to 100%; "": not set */
} SettingType;

typedef struct Setting {
    const char *name;
    SettingType type;
    size_t offset; /* in Config */
    uint64_t min;  /* U32, BYTES, DURATION in ms; inclusive */
    uint64_t max;
    bool zero_is_off;    /* 0 is allowed beside min..max */
    bool is_live;        /* takes effect on SIGHUP */
    const char *initial; /* as it would stand in a file; NULL: found out at run time */
    const Choice *choices;
    const char *help;
} Setting;

/* Parses a value into its field of config. 0, CONFIG_E_SETTING with a text that names setting and value, -ENOMEM. */
int setting_parse(const Setting *setting, Config *config, const char *value, ErrText *err);
/* Writes the value as it would stand in a file. */
void setting_format(const Setting *setting, const Config *config, char *text, size_t room_bytes);

/* Frees the value, where the setting is one that owns memory. */
void setting_free(const Setting *setting, Config *config);

/* Tells whether a value that stands for a model is the path of its file; else it is a name. */
bool setting_is_path(const char *model);
/* Copies the next model of a list into room, without blanks around it and cut short where it is too long. Return: where
 * the rest begins; NULL: there was none. */
const char *setting_next_model(const char *list, char *room, size_t room_bytes);

#endif
