// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/config/config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file_io.h"
#include "base/files/paths.h"
#include "base/files/user_dirs.h"
#include "base/log.h"
#include "base/strings/nearest_word.h"
#include "base/strings/options.h"
#include "base/strings/printable.h"
#include "base/strings/str_buf.h"
#include "base/system/machine_limits.h"
#include "daemon/config/config_model.h"
#include "daemon/config/config_table.h"
#include "model/model_dir.h"

#define CONFIG_FILE_MAX_BYTES (1u << 20)

enum {
    HELP_COLUMN = 37,
    MEMORY_PERCENT = 80, /* of what the service may use, memory-limit where it is not set */
};

Config *config_free(Config *config) {
    if (!config)
        return NULL;
    for (size_t i = 0; i < n_config_settings; i++)
        setting_free(&config_settings[i], config);
    config_models_free(config->sections);
    free(config);
    return NULL;
}

/* $CACHE_DIRECTORY is systemd's (CacheDirectory=), the rest is for a daemon that a user starts. */
static void default_cache_dir(bool is_users, char *path, size_t room_bytes) {
    const char *given = getenv("CACHE_DIRECTORY");

    if (given && *given == '/') {
        snprintf(path, room_bytes, "%.*s", (int)strcspn(given, ":"), given);
        return;
    }
    if (geteuid() == 0 && !is_users)
        snprintf(path, room_bytes, PATH_CACHE_DIR);
    else if (user_dir(USER_DIR_CACHE, "", path, room_bytes))
        *path = 0; /* none: a place that everybody can write to may be somebody else's already */
}

/* $STATE_DIRECTORY is systemd's (StateDirectory=). "": none. */
static void default_state_dir(bool is_users, char *path, size_t room_bytes) {
    const char *given = getenv("STATE_DIRECTORY");

    if (given && *given == '/')
        snprintf(path, room_bytes, "%.*s", (int)strcspn(given, ":"), given);
    else if (geteuid() == 0 && !is_users)
        snprintf(path, room_bytes, PATH_STATE_DIR);
    else if (user_dir(USER_DIR_STATE, "", path, room_bytes))
        *path = 0;
}

/* 0, no limit, where nobody knows how much memory there is. */
static uint64_t memory_share(const MachineLimits *limits, unsigned int percent) {
    static const uint64_t unit = UINT64_C(1) << 20;
    const uint64_t bytes = limits->memory_bytes / 100 * percent;

    if (limits->memory_bytes == UINT64_MAX)
        return 0;
    return bytes < unit ? unit : bytes - bytes % unit;
}

void config_memory_limit_source(const Config *config, char *text, size_t room_bytes) {
    MachineLimits limits;

    machine_limits_read(&limits);
    if (!config->memory.limit_bytes)
        snprintf(text, room_bytes, "none");
    else if (config->memory.limit_bytes != memory_share(&limits, MEMORY_PERCENT))
        snprintf(text, room_bytes, "set");
    else if (*limits.memory_file)
        snprintf(text, room_bytes, "%d %% of %.*s", MEMORY_PERCENT, 128, limits.memory_file);
    else
        snprintf(text, room_bytes, "%d %% of the machine's memory", MEMORY_PERCENT);
}

/**
 * config_new() - make a configuration with the built-in values
 * @is_users: whether the service is a user's own (--user), whose folders are the user's even where that is root
 *
 * COORDGEN_ISA is the one setting that the environment may give: tests of every program use it to force a level.
 * Return: 0, CONFIG_E_FLAG when COORDGEN_ISA is wrong, or -ENOMEM.
 */
int config_new(Config **configp, bool is_users, ErrText *err) {
    _cleanup_(config_freep) Config *config = calloc(1, sizeof(*config));
    const char *isa = getenv("COORDGEN_ISA");
    char cache_dir[PATH_MAX], model_dir[PATH_MAX], state_dir[PATH_MAX], draft_db_dir[PATH_MAX + 16];
    MachineLimits limits;
    int r;

    if (!config)
        return err_no_memory(err);
    config->is_users = is_users;
    for (size_t i = 0; i < n_config_settings; i++) {
        if (!config_settings[i].initial)
            continue;
        r = setting_parse(&config_settings[i], config, config_settings[i].initial, err);
        if (r)
            return err_fold(r);
    }
    default_cache_dir(is_users, cache_dir, sizeof(cache_dir));
    default_state_dir(is_users, state_dir, sizeof(state_dir));
    snprintf(draft_db_dir, sizeof(draft_db_dir), "%s%s", state_dir, *state_dir ? "/draftdb" : "");
    r = config_set(config, "cache-dir", cache_dir, err);
    if (!r)
        r = config_set(config, "state-dir", state_dir, err);
    if (!r)
        r = config_set(config, "draftdb-dir", draft_db_dir, err);
    if (!r && !model_dir_default(is_users, model_dir, sizeof(model_dir)))
        r = config_set(config, "model-dir", model_dir, err);
    if (r)
        return err_fold(r);
    machine_limits_read(&limits);
    config->memory.limit_bytes = memory_share(&limits, MEMORY_PERCENT);
    config->memory.kv_limit_bytes = memory_share(&limits, 25);
    config->memory.prefix_cache_max_bytes = memory_share(&limits, 10);
    r = config_set(config, "isa", isa && *isa ? isa : "best", err);
    if (r) {
        err_prefix(err, "environment variable COORDGEN_ISA");
        return r == CONFIG_E_SETTING ? CONFIG_E_FLAG : r;
    }
    *configp = steal(&config);
    return 0;
}

int config_set(Config *config, const char *name, const char *value, ErrText *err) {
    const Setting *setting = config_table_find(name);

    if (!setting)
        return config_table_unknown(name, err);
    return setting_parse(setting, config, value, err);
}

static char *trim(char *text) {
    char *end;

    while (isspace((unsigned char)*text))
        text++;
    end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    *end = 0;
    return text;
}

/* A comment starts with # at the front of a line or after a space, so that a path may hold one. */
static void cut_comment(char *line) {
    for (char *at = line; *at; at++)
        if (*at == '#' && (at == line || isspace((unsigned char)at[-1]))) {
            *at = 0;
            return;
        }
}

static void warn_gone(const char *where, const GoneSetting *gone) {
    log_warn(TOPIC_DAEMON, "%s%s has no effect any more: %s", where, gone->name, gone->instead);
}

/* Tells whether the value is a path that depends on the current folder. */
static bool is_relative(const Setting *setting, const char *value) {
    if (setting->type == SETTING_MODEL)
        return setting_is_path(value) && *value != '/';
    return setting->type == SETTING_PATH && *value && *value != '/';
}

/* Takes one line of a file. modelp: whose section it is in, NULL at the beginning; where: "path:line: ". */
static int read_line(Config *config, ConfigModel **modelp, char *line, const char *where, ErrText *err) {
    char *name, *value, *equals;
    const GoneSetting *gone;
    const Setting *setting;

    cut_comment(line);
    line = trim(line);
    if (!*line)
        return 0;
    if (*line == '[')
        return config_model_begin(config, line, modelp, err);
    equals = strchr(line, '=');
    if (!equals)
        return err_set(err, CONFIG_E_SETTING, "'%.*s' is not 'name = value'", UTF8_PREFIX(line, 64));
    *equals = 0;
    name = trim(line);
    value = trim(equals + 1);
    if (*modelp)
        return config_model_set(*modelp, name, value, err);
    gone = config_table_find_gone(name);
    if (gone) {
        warn_gone(where, gone);
        return 0;
    }
    setting = config_table_find(name);
    if (setting && is_relative(setting, value))
        return err_set(err, CONFIG_E_SETTING, "%s: '%.*s' is not an absolute path%s", name, UTF8_PREFIX(value, 256),
                       setting->type == SETTING_MODEL ? ", nor the name of a model" : "");
    return config_set(config, name, value, err);
}

/**
 * config_read_file() - `name = value` lines over what config holds
 *
 * Return: 0, CONFIG_E_FILE with a text that begins "path:line: ", or -ENOMEM. A file that is not there is fine unless
 * must_exist.
 */
int config_read_file(Config *config, const char *path, bool must_exist, ErrText *err) {
    _cleanup_(freep) char *text = NULL;
    size_t len_bytes;
    unsigned int line_number = 0;
    ConfigModel *model = NULL;
    char *line, *rest, where[PATH_MAX + 16];
    int r;

    r = file_slurp(path, CONFIG_FILE_MAX_BYTES, &text, &len_bytes, err);
    if (r == -ENOENT && !must_exist)
        return 0;
    if (r == -ENOMEM)
        return r;
    if (r)
        return CONFIG_E_FILE;
    if (strlen(text) != len_bytes)
        return err_set(err, CONFIG_E_FILE, "%s: holds a NUL byte", path);
    for (rest = text + file_byte_order_mark(text, len_bytes); (line = strsep(&rest, "\n"));) {
        snprintf(where, sizeof(where), "%s:%u: ", path, ++line_number);
        r = read_line(config, &model, line, where, err);
        if (r) {
            err_prefix(err, "%s:%u", path, line_number);
            return r == CONFIG_E_SETTING ? CONFIG_E_FILE : r;
        }
    }
    return 0;
}

#define DROP_INS_MAX 256

typedef struct DropIn {
    char name[NAME_MAX + 1];
    const char *folder; /* the last place that has one of this name */
} DropIn;

static int drop_in_compare(const void *a, const void *b) {
    return strcmp(((const DropIn *)a)->name, ((const DropIn *)b)->name);
}

/* Adds the *.conf of one folder; one with a name that is known takes its place. */
static int drop_ins_add(DropIn *drop_ins, size_t *n, const char *place, const char *path, ErrText *err) {
    DIR *folder = opendir(path);
    const struct dirent *entry;
    int r = 0;

    if (!folder && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (!folder)
        return err_set(err, CONFIG_E_FILE, "%s: %s", path, strerror(errno));
    while (!r && (entry = readdir(folder))) {
        size_t len_bytes = strlen(entry->d_name), at = 0;

        if (entry->d_name[0] == '.' || len_bytes < 6 || strcmp(entry->d_name + len_bytes - 5, ".conf"))
            continue;
        while (at < *n && strcmp(drop_ins[at].name, entry->d_name))
            at++;
        if (at == DROP_INS_MAX) {
            r = err_set(err, CONFIG_E_FILE, "%s: more than %d drop-in files", path, DROP_INS_MAX);
            break;
        }
        snprintf(drop_ins[at].name, sizeof(drop_ins[at].name), "%s", entry->d_name);
        drop_ins[at].folder = place;
        *n += at == *n;
    }
    closedir(folder);
    return r;
}

typedef struct ConfigPlace { /* a folder "coordgen" with coordgend.conf and coordgend.conf.d */
    char path[PATH_MAX];
    bool has_file; /* false: drop-ins alone count */
} ConfigPlace;

static int read_places(Config *config, const ConfigPlace *places, size_t n_places, ErrText *err) {
    _cleanup_(freep) DropIn *drop_ins = calloc(DROP_INS_MAX, sizeof(*drop_ins));
    char path[PATH_MAX + NAME_MAX + 32];
    size_t n = 0;
    int r = 0;

    if (!drop_ins)
        return err_no_memory(err);
    for (size_t i = 0; !r && i < n_places; i++) {
        snprintf(path, sizeof(path), "%s/coordgend.conf", places[i].path);
        r = places[i].has_file ? config_read_file(config, path, false, err) : 0;
    }
    for (size_t i = 0; !r && i < n_places; i++) {
        snprintf(path, sizeof(path), "%s/coordgend.conf.d", places[i].path);
        r = drop_ins_add(drop_ins, &n, places[i].path, path, err);
    }
    qsort(drop_ins, n, sizeof(*drop_ins), drop_in_compare);
    for (size_t i = 0; !r && i < n; i++) {
        snprintf(path, sizeof(path), "%s/coordgend.conf.d/%s", drop_ins[i].folder, drop_ins[i].name);
        r = config_read_file(config, path, false, err);
    }
    return r;
}

/**
 * config_read_files() - read the default files and drop-ins, in their order
 * @root: "" or a folder that stands for / (tests)
 *
 * The system's: /usr/lib/coordgen/coordgend.conf, /etc/coordgen/coordgend.conf, then every coordgend.conf.d/X.conf of
 * /usr/lib, /run and /etc by name; of two with one name that of the later folder counts (a link to /dev/null takes one
 * away). A user's own service reads the same names in $XDG_CONFIG_HOME/coordgen, and nothing of the system's.
 */
static int config_read_files(Config *config, const char *root, ErrText *err) {
    static const char *const roots[] = { PATH_CONFIG_VENDOR, PATH_CONFIG_RUNTIME, PATH_CONFIG_SYSTEM };
    ConfigPlace places[ARRAY_LEN(roots)];
    int r;

    if (config->is_users) {
        places[0].has_file = true;
        r = user_dir(USER_DIR_CONFIG, "", places[0].path, sizeof(places[0].path));
        return r == -ENAMETOOLONG ? err_set(err, CONFIG_E_FILE, "the path of the user's configuration is too long")
               : r                ? 0 /* there is no place where a file could be */
                                  : read_places(config, places, 1, err);
    }
    for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
        places[i].has_file = i != 1; /* drop-ins alone at run time */
        snprintf(places[i].path, sizeof(places[i].path), "%s%s/coordgen", root, roots[i]);
    }
    return read_places(config, places, ARRAY_LEN(roots), err);
}

enum { /* indices into plain_flags */
    FLAG_CONFIG,
    FLAG_USER,
    FLAG_CHECK,
    FLAG_PRINT,
    FLAG_HELP,
    FLAG_VERSION,
};

/* Flags that are no settings. */
static const Option plain_flags[] = {
    [FLAG_CONFIG] = { "config", 0, "FILE", "read FILE instead of the default files" },
    [FLAG_USER] = { "user", 0, NULL, "be this user's own service: settings, sockets and files in the user's folders" },
    [FLAG_CHECK] = { "check-config", 0, NULL, "check files and flags, and exit" },
    [FLAG_PRINT] = { "print-config", 0, NULL, "show the settings that are in effect, and exit" },
    [FLAG_HELP] = { "help", 0, NULL, "show this, and exit" },
    [FLAG_VERSION] = { "version", 0, NULL, "show the version, and exit" },
};

static Option setting_flag(const Setting *setting) {
    const char *initial = setting->initial ? setting->initial : "";

    if (setting->type == SETTING_BOOL || setting->type == SETTING_BOOL_NOT)
        initial = !strcmp(initial, "yes") ? "[yes]" : "[no]"; /* the name alone is yes */
    if (setting->type == SETTING_SWITCH)
        initial = "[auto]"; /* the name alone is on */
    return (Option){ setting->name, 0, initial, setting->help };
}

/* Makes a flag for every setting, followed by the settings that are gone, which --help does not list. */
static Option *setting_flags_new(void) {
    Option *flags = calloc(n_config_settings + n_gone_settings, sizeof(*flags));

    for (size_t i = 0; flags && i < n_config_settings; i++)
        flags[i] = setting_flag(&config_settings[i]);
    for (size_t i = 0; flags && i < n_gone_settings; i++)
        flags[n_config_settings + i] = (Option){ gone_settings[i].name, 0, "", NULL };
    return flags;
}

/* Relative paths of flags are made absolute: the import runs elsewhere, and a reload must mean the same file. */
static int set_from_flag(Config *config, const Setting *setting, const char *value, ErrText *err) {
    char cwd[PATH_MAX];
    _cleanup_(freep) char *absolute = NULL;

    if (!value)
        value = "yes";
    if (is_relative(setting, value)) {
        if (!getcwd(cwd, sizeof(cwd)))
            return err_set(err, -errno, "cannot find the current folder: %s", strerror(errno));
        if (asprintf(&absolute, "%s/%s", cwd, value) < 0) {
            absolute = NULL;
            return err_no_memory(err);
        }
        value = absolute;
    }
    return setting_parse(setting, config, value, err);
}

typedef struct PlainWishes { /* what the flags that are no settings ask for */
    const char *file;        /* NULL: the default files */
    bool is_users;
    ConfigAction action;
} PlainWishes;

/* Takes a flag that is no setting. Return: whether the others no longer matter. */
static bool take_plain(const Option *flag, const char *value, PlainWishes *wishes) {
    static const ConfigAction actions[] = {
        [FLAG_CHECK] = CONFIG_CHECK,
        [FLAG_PRINT] = CONFIG_PRINT,
        [FLAG_HELP] = CONFIG_HELP,
        [FLAG_VERSION] = CONFIG_VERSION,
    };

    if (flag == &plain_flags[FLAG_CONFIG])
        wishes->file = value;
    else if (flag == &plain_flags[FLAG_USER])
        wishes->is_users = true;
    else
        wishes->action = actions[flag - plain_flags];
    return wishes->action == CONFIG_HELP || wishes->action == CONFIG_VERSION;
}

static int take_setting(Config *config, const Option *flag, const char *value, ErrText *err) {
    const GoneSetting *gone = config_table_find_gone(flag->name);
    int r;

    if (gone) {
        warn_gone("flag --", gone);
        return 0;
    }
    r = set_from_flag(config, config_table_find(flag->name), value, err);
    if (r != CONFIG_E_SETTING)
        return r;
    err_prefix(err, "flag --%s", flag->name);
    return CONFIG_E_FLAG;
}

/* Reads the plain flags where @config is NULL, and applies those that are settings to @config otherwise. */
static int read_flags(Config *config, const Option *settings, int argc, char *const argv[], PlainWishes *wishes,
                      ErrText *err) {
    OptionReader reader;
    OptionWord word;
    int r;

    option_reader_init(&reader, argc, argv);
    option_reader_add(&reader, plain_flags, ARRAY_LEN(plain_flags));
    option_reader_add(&reader, settings, n_config_settings + n_gone_settings);
    while (!(r = option_reader_next(&reader, &word, err))) {
        if (!word.option)
            return err_set(err, CONFIG_E_FLAG, "'%.*s' is not a flag: see coordgend --help",
                           UTF8_PREFIX(word.text, 64));
        if (word.option->help && !config_table_find(word.option->name)) {
            if (take_plain(word.option, word.text, wishes))
                return 0;
        } else if (config) {
            r = take_setting(config, word.option, word.text, err);
            if (r)
                return r;
        }
    }
    return r == OPTIONS_E_USAGE ? CONFIG_E_FLAG : 0;
}

/**
 * config_load() - the configuration that files and flags give
 * @actionp: what the flags ask for; with CONFIG_HELP and CONFIG_VERSION nothing was read
 *
 * Thread: loop (getopt has global state).
 * Return: 0, CONFIG_E_FLAG, CONFIG_E_FILE, or -errno; nothing is given out then.
 */
int config_load(Config **configp, const char *root, int argc, char *const argv[], ConfigAction *actionp, ErrText *err) {
    _cleanup_(config_freep) Config *config = NULL;
    _cleanup_(freep) Option *settings = setting_flags_new();
    PlainWishes wishes = { .action = CONFIG_RUN };
    int r;

    if (!settings)
        return err_no_memory(err);
    r = read_flags(NULL, settings, argc, argv, &wishes, err);
    if (r)
        return r;
    r = config_new(&config, wishes.is_users, err);
    if (r)
        return r;
    if (wishes.action != CONFIG_HELP && wishes.action != CONFIG_VERSION) {
        r = wishes.file ? config_read_file(config, wishes.file, true, err) : config_read_files(config, root, err);
        if (r)
            return r;
        r = read_flags(config, settings, argc, argv, &wishes, err);
        if (r)
            return r;
    }
    if ((wishes.action == CONFIG_RUN || wishes.action == CONFIG_CHECK) && !*config->cache_dir)
        return err_set(err, CONFIG_E_FILE, "cache-dir: no cache folder: set cache-dir, or XDG_CACHE_HOME or HOME");
    *actionp = wishes.action;
    *configp = steal(&config);
    return 0;
}

void config_print(const Config *config, FILE *to) {
    char value[4096];

    for (size_t i = 0; i < n_config_settings; i++) {
        setting_format(&config_settings[i], config, value, sizeof(value));
        fprintf(to, "%s = %s\n", config_settings[i].name, value);
    }
    config_models_print(config, to);
}

void config_print_help(FILE *to) {
    fputs("Usage: coordgend [FLAG...]\n"
          "Serves a language model to the apps of this machine over a Unix socket.\n\n",
          to);
    options_print(to, plain_flags, ARRAY_LEN(plain_flags), HELP_COLUMN);
    fputs("\nSettings, each also a `name = value` line of coordgend.conf(5):\n", to);
    for (size_t i = 0; i < n_config_settings; i++) {
        const Option flag = setting_flag(&config_settings[i]);

        options_print(to, &flag, 1, HELP_COLUMN);
    }
}

void config_compare(const Config *from, const Config *to, ConfigChangeFn *fn, void *arg) {
    char old_value[4096], new_value[4096];

    for (size_t i = 0; i < n_config_settings; i++) {
        setting_format(&config_settings[i], from, old_value, sizeof(old_value));
        setting_format(&config_settings[i], to, new_value, sizeof(new_value));
        if (strcmp(old_value, new_value))
            fn(arg, config_settings[i].name, old_value, new_value, config_settings[i].is_live);
    }
    config_models_compare(from, to, fn, arg);
}

int config_take_live(Config *config, const Config *from) {
    char value[4096];

    for (size_t i = 0; i < n_config_settings; i++) {
        int r;

        if (!config_settings[i].is_live)
            continue;
        setting_format(&config_settings[i], from, value, sizeof(value));
        r = setting_parse(&config_settings[i], config, value, NULL);
        if (r)
            return err_fold(r);
    }
    return config_models_take_live(config, from);
}
