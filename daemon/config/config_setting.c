// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/config/config_setting.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/strings/decimal.h"
#include "base/strings/printable.h"
#include "daemon/models/pair_list.h"
#include "spec/speculator.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define TIB (UINT64_C(1) << 40)
#define MB UINT64_C(1000000)
#define DAY_S (UINT64_C(24) * 3600)

/* ---- names of models --------------------------------------------------------------------------------------------- */

bool setting_is_path(const char *model) {
    const char *ending = strrchr(model, '.');

    return strchr(model, '/') || (ending && (!strcmp(ending, ".gguf") || !strcmp(ending, ".cgm")));
}

const char *setting_next_model(const char *list, char *room, size_t room_bytes) {
    const char *end;
    int len_bytes;

    list += strspn(list, ", \t");
    if (!*list)
        return NULL;
    end = list + strcspn(list, ",");
    for (len_bytes = (int)(end - list); list[len_bytes - 1] == ' ' || list[len_bytes - 1] == '\t';)
        len_bytes--;
    snprintf(room, room_bytes, "%.*s", len_bytes, list);
    return end;
}

/* ---- numbers with units ------------------------------------------------------------------------------------------ */

static void *field_of(const Setting *setting, Config *config) {
    return (char *)config + setting->offset;
}

static const void *field_of_const(const Setting *setting, const Config *config) {
    return (const char *)config + setting->offset;
}

static bool scale_of(SettingType type, const char *suffix, uint64_t *scalep) {
    static const struct {
        SettingType type;
        const char *suffix;
        uint64_t scale;
    } scales[] = {
        { SETTING_U32, "", 1 },
        { SETTING_RATE, "", 1 },
        { SETTING_BYTES, "", 1 },
        { SETTING_BYTES, "K", KIB },
        { SETTING_BYTES, "M", MIB },
        { SETTING_BYTES, "G", KIB * MIB },
        { SETTING_BYTES, "T", TIB },
        { SETTING_DURATION, "", 1000 },
        { SETTING_DURATION, "s", 1000 },
        { SETTING_DURATION, "ms", 1 },
        { SETTING_DURATION, "min", 60000 },
        { SETTING_DURATION, "h", 3600000 },
        { SETTING_AGE, "", 1 },
        { SETTING_AGE, "s", 1 },
        { SETTING_AGE, "min", 60 },
        { SETTING_AGE, "h", 3600 },
        { SETTING_AGE, "d", DAY_S },
    };

    for (size_t i = 0; i < ARRAY_LEN(scales); i++)
        if (scales[i].type == type && !strcmp(scales[i].suffix, suffix)) {
            *scalep = scales[i].scale;
            return true;
        }
    return false;
}

static void format_number(const Setting *setting, uint64_t number, char *text, size_t room_bytes) {
    static const struct {
        uint64_t scale;
        const char *suffix;
    } bytes[] = { { TIB, "T" }, { KIB * MIB, "G" }, { MIB, "M" }, { KIB, "K" } },
      ages[] = { { DAY_S, "d" }, { 3600, "h" }, { 60, "min" }, { 1, "s" } };

    if (setting->type == SETTING_DURATION) {
        if (number % 60000 == 0 && number)
            snprintf(text, room_bytes, "%" PRIu64 "min", number / 60000);
        else if (number % 1000 == 0)
            snprintf(text, room_bytes, "%" PRIu64 "s", number / 1000);
        else
            snprintf(text, room_bytes, "%" PRIu64 "ms", number);
        return;
    }
    if (setting->type == SETTING_BYTES && number)
        for (size_t i = 0; i < ARRAY_LEN(bytes); i++)
            if (number % bytes[i].scale == 0) {
                snprintf(text, room_bytes, "%" PRIu64 "%s", number / bytes[i].scale, bytes[i].suffix);
                return;
            }
    if (setting->type == SETTING_AGE && number)
        for (size_t i = 0; i < ARRAY_LEN(ages); i++)
            if (number % ages[i].scale == 0) {
                snprintf(text, room_bytes, "%" PRIu64 "%s", number / ages[i].scale, ages[i].suffix);
                return;
            }
    snprintf(text, room_bytes, "%" PRIu64, number);
}

static int parse_quantity(const Setting *setting, Config *config, const char *value, ErrText *err) {
    static const char *const forms[] = {
        [SETTING_U32] = "a whole number",
        [SETTING_RATE] = "a whole number",
        [SETTING_BYTES] = "bytes, with or without K, M, G or T",
        [SETTING_DURATION] = "a time such as 500ms, 10s or 5min",
        [SETTING_AGE] = "an age such as 12h or 90d",
    };
    uint64_t number, scale;
    const char *suffix = decimal_read_u64(value, &number);
    char low[32], high[32];

    if (!suffix || !scale_of(setting->type, suffix, &scale) || __builtin_mul_overflow(number, scale, &number))
        return err_set(err, CONFIG_E_SETTING, "%s: '%.*s' is not %s", setting->name, UTF8_PREFIX(value, 64),
                       forms[setting->type]);
    if ((number < setting->min || number > setting->max) && !(number == 0 && setting->zero_is_off)) {
        format_number(setting, setting->min, low, sizeof(low));
        format_number(setting, setting->max, high, sizeof(high));
        return err_set(err, CONFIG_E_SETTING, "%s: '%.*s' is out of range: %s%s to %s", setting->name,
                       UTF8_PREFIX(value, 64), setting->zero_is_off ? "0, or " : "", low, high);
    }
    if (setting->type == SETTING_RATE)
        *(uint64_t *)field_of(setting, config) = number * MB;
    else if (setting->type == SETTING_BYTES || setting->type == SETTING_AGE)
        *(uint64_t *)field_of(setting, config) = number;
    else
        *(uint32_t *)field_of(setting, config) = (uint32_t)number;
    return 0;
}

/* Parses bytes, a percentage, or nothing. */
static int parse_memory(const Setting *setting, Config *config, const char *value, ErrText *err) {
    WeightsMemory memory = { 0 };
    const int r = *value ? weights_memory_parse(&memory, value, NULL) : 0;

    if (r == WEIGHTS_MEMORY_E_TEXT)
        return err_set(err, CONFIG_E_SETTING,
                       "%s: '%.*s' is not bytes, with or without K, M, G or T, or a percentage such as 50%%",
                       setting->name, UTF8_PREFIX(value, 64));
    if (r || memory.bytes > setting->max)
        return err_set(err, CONFIG_E_SETTING, "%s: '%.*s' is out of range: %s", setting->name, UTF8_PREFIX(value, 64),
                       r ? "0% to 100%" : "at most 1024T");
    memory.is_percent = memory.is_set && !memory.bytes; /* 0 bytes are 0 % of the layers */
    *(WeightsMemory *)field_of(setting, config) = memory;
    return 0;
}

static void format_memory(const Setting *setting, const WeightsMemory *memory, char *text, size_t room_bytes) {
    const Setting bytes = { .name = setting->name, .type = SETTING_BYTES };

    if (!memory->is_set)
        snprintf(text, room_bytes, "%s", "");
    else if (memory->percent)
        snprintf(text, room_bytes, "%" PRIu32 "%%", memory->percent);
    else
        format_number(&bytes, memory->bytes, text, room_bytes);
}

static int parse_choice(const Setting *setting, Config *config, const char *value, ErrText *err) {
    char names[256];

    if (choice_set(setting->choices, value, field_of(setting, config)))
        return 0;
    choice_list(setting->choices, ", ", names, sizeof(names));
    return err_set(err, CONFIG_E_SETTING, "%s: '%.*s' is not one of %s", setting->name, UTF8_PREFIX(value, 64), names);
}

/* Returns 1 for a word that means yes, 0 for no, -1 for any other. */
static int switch_word(const char *value) {
    static const char *const words[2][4] = { { "no", "false", "off", "0" }, { "yes", "true", "on", "1" } };

    for (int i = 0; i < 2; i++)
        for (size_t j = 0; j < ARRAY_LEN(words[i]); j++)
            if (!strcmp(words[i][j], value))
                return i;
    return -1;
}

static int parse_bool(const Setting *setting, Config *config, const char *value, ErrText *err) {
    const int word = switch_word(value);

    if (word < 0)
        return err_set(err, CONFIG_E_SETTING, "%s: '%.*s' is not yes or no", setting->name, UTF8_PREFIX(value, 64));
    *(bool *)field_of(setting, config) = setting->type == SETTING_BOOL_NOT ? !word : word;
    return 0;
}

static int parse_switch(const Setting *setting, Config *config, const char *value, ErrText *err) {
    const int word = switch_word(value);

    return parse_choice(setting, config, word < 0 ? value : word ? "on" : "off", err);
}

static int parse_text(const Setting *setting, Config *config, const char *value, ErrText *err) {
    char **field = field_of(setting, config);
    char *copy;

    if (strlen(value) >= 4096)
        return err_set(err, CONFIG_E_SETTING, "%s: longer than 4095 bytes", setting->name);
    copy = strdup(value);
    if (!copy)
        return err_no_memory(err);
    free(*field);
    *field = copy;
    return 0;
}

/* Takes a list of names and absolute paths. */
static int parse_models(const Setting *setting, Config *config, const char *value, ErrText *err) {
    char model[PATH_MAX];
    const char *rest = value;
    size_t n = 0;

    while ((rest = setting_next_model(rest, model, sizeof(model)))) {
        if (setting_is_path(model) && *model != '/')
            return err_set(err, CONFIG_E_SETTING, "%s: '%.*s' is not an absolute path, nor the name of a model",
                           setting->name, UTF8_PREFIX(model, 256));
        if (++n > SETTING_MODELS_MAX)
            return err_set(err, CONFIG_E_SETTING, "%s: more than %d models", setting->name, SETTING_MODELS_MAX);
    }
    return parse_text(setting, config, value, err);
}

static int parse_sources(const Setting *setting, Config *config, const char *value, ErrText *err) {
    uint32_t sources;

    /* The texts of speculation_parse() begin with the setting's name. */
    return speculation_parse(value, &sources, err) ? CONFIG_E_SETTING : parse_text(setting, config, value, err);
}

static int parse_pairs(const Setting *setting, Config *config, const char *value, ErrText *err) {
    _cleanup_(pair_list_deinit) PairList list = { 0 };
    int r = pair_list_parse(&list, value, err);

    if (r <= 0)
        return r ? r : parse_text(setting, config, value, err);
    err_prefix(err, "%s", setting->name);
    return CONFIG_E_SETTING;
}

void setting_free(const Setting *setting, Config *config) {
    if (setting->type <= SETTING_PAIRS)
        free(*(char **)field_of(setting, config));
}

int setting_parse(const Setting *setting, Config *config, const char *value, ErrText *err) {
    switch (setting->type) {
    case SETTING_TEXT:
    case SETTING_PATH:
    case SETTING_MODEL:
        return parse_text(setting, config, value, err);
    case SETTING_MODELS:
        return parse_models(setting, config, value, err);
    case SETTING_SOURCES:
        return parse_sources(setting, config, value, err);
    case SETTING_PAIRS:
        return parse_pairs(setting, config, value, err);
    case SETTING_MEMORY:
        return parse_memory(setting, config, value, err);
    case SETTING_U32:
    case SETTING_BYTES:
    case SETTING_DURATION:
    case SETTING_AGE:
    case SETTING_RATE:
        return parse_quantity(setting, config, value, err);
    case SETTING_BOOL:
    case SETTING_BOOL_NOT:
        return parse_bool(setting, config, value, err);
    case SETTING_CHOICE:
        return parse_choice(setting, config, value, err);
    case SETTING_SWITCH:
        return parse_switch(setting, config, value, err);
    }
    return err_fold(-EINVAL);
}

void setting_format(const Setting *setting, const Config *config, char *text, size_t room_bytes) {
    const void *field = field_of_const(setting, config);

    switch (setting->type) {
    case SETTING_TEXT:
    case SETTING_PATH:
    case SETTING_MODEL:
    case SETTING_MODELS:
    case SETTING_SOURCES:
    case SETTING_PAIRS:
        snprintf(text, room_bytes, "%s", *(char *const *)field);
        return;
    case SETTING_MEMORY:
        format_memory(setting, field, text, room_bytes);
        return;
    case SETTING_BYTES:
    case SETTING_AGE:
        format_number(setting, *(const uint64_t *)field, text, room_bytes);
        return;
    case SETTING_RATE:
        format_number(setting, *(const uint64_t *)field / MB, text, room_bytes);
        return;
    case SETTING_U32:
    case SETTING_DURATION:
        format_number(setting, *(const uint32_t *)field, text, room_bytes);
        return;
    case SETTING_BOOL:
    case SETTING_BOOL_NOT:
        snprintf(text, room_bytes, "%s", *(const bool *)field == (setting->type == SETTING_BOOL) ? "yes" : "no");
        return;
    case SETTING_CHOICE:
    case SETTING_SWITCH:
        snprintf(text, room_bytes, "%s", choice_name(setting->choices, *(const uint32_t *)field));
        return;
    }
}
