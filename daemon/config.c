// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/machine_limits.h"
#include "base/options.h"
#include "base/printable.h"
#include "base/str_buf.h"
#include "daemon/config_table.h"
#include "model/model_dir.h"

#define CONFIG_FILE_MAX_BYTES (1u << 20)

enum {
    HELP_COLUMN = 37
};

Config *config_free(Config *config) {
    if (!config)
        return NULL;
    free(config->listen);
    free(config->admin_listen);
    free(config->model);
    free(config->model_dir);
    free(config->cache_dir);
    free(config->speculation);
    free(config->draft_model);
    free(config->chat_template);
    free(config->state_dir);
    free(config->draft_db_dir);
    free(config->no_history);
    free(config);
    return NULL;
}

/* $CACHE_DIRECTORY is systemd's (CacheDirectory=), the rest is for a daemon that a user starts. */
static void default_cache_dir(char *path, size_t room_bytes) {
    const char *given = getenv("CACHE_DIRECTORY");
    const char *home;

    if (given && *given == '/') {
        snprintf(path, room_bytes, "%.*s", (int)strcspn(given, ":"), given);
        return;
    }
    if (geteuid() == 0) {
        snprintf(path, room_bytes, PATH_CACHE_DIR);
        return;
    }
    given = getenv("XDG_CACHE_HOME");
    home = getenv("HOME");
    if (given && *given == '/')
        snprintf(path, room_bytes, "%s/coordgen", given);
    else if (home && *home == '/')
        snprintf(path, room_bytes, "%s/.cache/coordgen", home);
    else
        *path = 0; /* none: a place that everybody can write to may be somebody else's already */
}

/* $STATE_DIRECTORY is systemd's (StateDirectory=). "": none. */
static void default_state_dir(char *path, size_t room_bytes) {
    const char *given = getenv("STATE_DIRECTORY"), *home = getenv("HOME");

    if (given && *given == '/')
        snprintf(path, room_bytes, "%.*s", (int)strcspn(given, ":"), given);
    else if (geteuid() == 0)
        snprintf(path, room_bytes, PATH_STATE_DIR);
    else if ((given = getenv("XDG_STATE_HOME")) && *given == '/')
        snprintf(path, room_bytes, "%s/coordgen", given);
    else if (home && *home == '/')
        snprintf(path, room_bytes, "%s/.local/state/coordgen", home);
    else
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

/**
 * config_new() - a configuration with the built-in values
 *
 * COORDGEN_ISA is the one setting that the environment may give: tests of every program use it to force a level.
 * Return: 0, CONFIG_E_FLAG when COORDGEN_ISA is wrong, or -ENOMEM.
 */
int config_new(Config **configp, ErrText *err) {
    _cleanup_(config_freep) Config *config = calloc(1, sizeof(*config));
    const char *isa = getenv("COORDGEN_ISA");
    char cache_dir[PATH_MAX], model_dir[PATH_MAX], state_dir[PATH_MAX], draft_db_dir[PATH_MAX + 16];
    MachineLimits limits;
    int r;

    if (!config)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < n_config_settings; i++) {
        if (!config_settings[i].initial)
            continue;
        r = setting_parse(&config_settings[i], config, config_settings[i].initial, err);
        if (r)
            return err_fold(r);
    }
    default_cache_dir(cache_dir, sizeof(cache_dir));
    default_state_dir(state_dir, sizeof(state_dir));
    snprintf(draft_db_dir, sizeof(draft_db_dir), "%s%s", state_dir, *state_dir ? "/draftdb" : "");
    r = config_set(config, "cache-dir", cache_dir, err);
    if (!r)
        r = config_set(config, "state-dir", state_dir, err);
    if (!r)
        r = config_set(config, "draftdb-dir", draft_db_dir, err);
    if (!r && !model_dir_default(model_dir, sizeof(model_dir)))
        r = config_set(config, "model-dir", model_dir, err);
    if (r)
        return err_fold(r);
    machine_limits_read(&limits);
    config->memory_limit_bytes = memory_share(&limits, 80);
    config->kv_memory_limit_bytes = memory_share(&limits, 25);
    config->prefix_cache_max_bytes = memory_share(&limits, 10);
    r = config_set(config, "isa", isa && *isa ? isa : "best", err);
    if (r) {
        err_prefix(err, "environment variable COORDGEN_ISA");
        return r == CONFIG_E_SETTING ? CONFIG_E_FLAG : r;
    }
    *configp = steal(&config);
    return 0;
}

int config_set(Config *config, const char *name, const char *value, ErrText *err) {
    const Setting *setting = setting_find(name);

    if (!setting)
        return err_set(err, CONFIG_E_SETTING, "unknown setting '%.*s': see coordgend --help", UTF8_PREFIX(name, 64));
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

/* where: "path:line: ". */
static int read_line(Config *config, char *line, const char *where, ErrText *err) {
    char *name, *value, *equals;
    const GoneSetting *gone;
    const Setting *setting;

    cut_comment(line);
    line = trim(line);
    if (!*line)
        return 0;
    equals = strchr(line, '=');
    if (!equals)
        return err_set(err, CONFIG_E_SETTING, "'%.*s' is not 'name = value'", UTF8_PREFIX(line, 64));
    *equals = 0;
    name = trim(line);
    value = trim(equals + 1);
    gone = gone_setting_find(name);
    if (gone) {
        warn_gone(where, gone);
        return 0;
    }
    setting = setting_find(name);
    if (setting && setting->type == SETTING_PATH && *value && *value != '/')
        return err_set(err, CONFIG_E_SETTING, "%s: '%.*s' is not an absolute path", name, UTF8_PREFIX(value, 256));
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
        r = read_line(config, line, where, err);
        if (r) {
            err_prefix(err, "%s:%u", path, line_number);
            return r == CONFIG_E_SETTING ? CONFIG_E_FILE : r;
        }
    }
    return 0;
}

static const char *const config_roots[] = { PATH_CONFIG_VENDOR, PATH_CONFIG_RUNTIME, PATH_CONFIG_SYSTEM };
#define DROP_INS_MAX 256

typedef struct DropIn {
    char name[NAME_MAX + 1];
    const char *root;
} DropIn;

static int drop_in_compare(const void *a, const void *b) {
    return strcmp(((const DropIn *)a)->name, ((const DropIn *)b)->name);
}

/* Adds the *.conf of one folder; one with a name that is known takes its place. */
static int drop_ins_add(DropIn *drop_ins, size_t *n, const char *root, const char *path, ErrText *err) {
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
        drop_ins[at].root = root;
        *n += at == *n;
    }
    closedir(folder);
    return r;
}

/**
 * config_read_files() - the default files and drop-ins, in their order
 *
 * /usr/lib/coordgen/coordgend.conf, /etc/coordgen/coordgend.conf, then every coordgend.conf.d/X.conf of /usr/lib, /run
 * and /etc by name; of two with one name that of the later folder counts (a link to /dev/null takes one away).
 */
int config_read_files(Config *config, const char *root, ErrText *err) {
    _cleanup_(freep) DropIn *drop_ins = calloc(DROP_INS_MAX, sizeof(*drop_ins));
    char path[PATH_MAX + NAME_MAX];
    size_t n = 0;
    int r;

    if (!drop_ins)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < ARRAY_LEN(config_roots); i++) {
        if (config_roots[i] == config_roots[1]) /* drop-ins alone */
            continue;
        snprintf(path, sizeof(path), "%s%s/coordgen/coordgend.conf", root, config_roots[i]);
        r = config_read_file(config, path, false, err);
        if (r)
            return r;
    }
    for (size_t i = 0; i < ARRAY_LEN(config_roots); i++) {
        snprintf(path, sizeof(path), "%s%s/coordgen/coordgend.conf.d", root, config_roots[i]);
        r = drop_ins_add(drop_ins, &n, config_roots[i], path, err);
        if (r)
            return r;
    }
    qsort(drop_ins, n, sizeof(*drop_ins), drop_in_compare);
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s%s/coordgen/coordgend.conf.d/%s", root, drop_ins[i].root, drop_ins[i].name);
        r = config_read_file(config, path, false, err);
        if (r)
            return r;
    }
    return 0;
}

enum { /* indices into plain_flags */
    FLAG_CONFIG,
    FLAG_CHECK,
    FLAG_PRINT,
    FLAG_HELP,
    FLAG_VERSION,
};

/* Those that are no settings. */
static const Option plain_flags[] = {
    [FLAG_CONFIG] = { "config", 0, "FILE", "read FILE instead of the default files" },
    [FLAG_CHECK] = { "check-config", 0, NULL, "check files and flags, and exit" },
    [FLAG_PRINT] = { "print-config", 0, NULL, "show the settings that are in effect, and exit" },
    [FLAG_HELP] = { "help", 0, NULL, "show this, and exit" },
    [FLAG_VERSION] = { "version", 0, NULL, "show the version, and exit" },
};

static Option setting_flag(const Setting *setting) {
    const char *initial = setting->initial ? setting->initial : "";

    if (setting->type == SETTING_BOOL)
        initial = !strcmp(initial, "yes") ? "[yes]" : "[no]"; /* the name alone is yes */
    if (setting->type == SETTING_SWITCH)
        initial = "[auto]"; /* the name alone is on */
    return (Option){ setting->name, 0, initial, setting->help };
}

/* Of all settings, and behind them of those that are gone, which --help does not list. */
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
    if (setting->type == SETTING_PATH && *value && *value != '/') {
        if (!getcwd(cwd, sizeof(cwd)))
            return err_set(err, -errno, "cannot find the current folder: %s", strerror(errno));
        if (asprintf(&absolute, "%s/%s", cwd, value) < 0) {
            absolute = NULL;
            return err_set(err, -ENOMEM, "out of memory");
        }
        value = absolute;
    }
    return setting_parse(setting, config, value, err);
}

/* A flag that is no setting; true: the others no longer matter. */
static bool take_plain(const Option *flag, const char *value, const char **filep, ConfigAction *actionp) {
    static const ConfigAction actions[] = {
        [FLAG_CHECK] = CONFIG_CHECK,
        [FLAG_PRINT] = CONFIG_PRINT,
        [FLAG_HELP] = CONFIG_HELP,
        [FLAG_VERSION] = CONFIG_VERSION,
    };

    if (flag == &plain_flags[FLAG_CONFIG])
        *filep = value;
    else
        *actionp = actions[flag - plain_flags];
    return *actionp == CONFIG_HELP || *actionp == CONFIG_VERSION;
}

static int take_setting(Config *config, const Option *flag, const char *value, ErrText *err) {
    const GoneSetting *gone = gone_setting_find(flag->name);
    int r;

    if (gone) {
        warn_gone("flag --", gone);
        return 0;
    }
    r = set_from_flag(config, setting_find(flag->name), value, err);
    if (r != CONFIG_E_SETTING)
        return r;
    err_prefix(err, "flag --%s", flag->name);
    return CONFIG_E_FLAG;
}

/* pass 0 finds --config and the actions, pass 1 applies the settings. */
static int read_flags(Config *config, const Option *settings, int argc, char *const argv[], int pass,
                      const char **filep, ConfigAction *actionp, ErrText *err) {
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
        if (word.option->help && !setting_find(word.option->name)) {
            if (take_plain(word.option, word.text, filep, actionp))
                return 0;
        } else if (pass) {
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
    const char *file = NULL;
    ConfigAction action = CONFIG_RUN;
    int r;

    if (!settings)
        return err_set(err, -ENOMEM, "out of memory");
    r = config_new(&config, err);
    if (r)
        return r;
    r = read_flags(config, settings, argc, argv, 0, &file, &action, err);
    if (r)
        return r;
    if (action != CONFIG_HELP && action != CONFIG_VERSION) {
        r = file ? config_read_file(config, file, true, err) : config_read_files(config, root, err);
        if (r)
            return r;
        r = read_flags(config, settings, argc, argv, 1, &file, &action, err);
        if (r)
            return r;
    }
    if ((action == CONFIG_RUN || action == CONFIG_CHECK) && !*config->cache_dir)
        return err_set(err, CONFIG_E_FILE, "cache-dir: no cache folder: set cache-dir, or XDG_CACHE_HOME or HOME");
    *actionp = action;
    *configp = steal(&config);
    return 0;
}

void config_print(const Config *config, FILE *to) {
    char value[4096];

    for (size_t i = 0; i < n_config_settings; i++) {
        setting_format(&config_settings[i], config, value, sizeof(value));
        fprintf(to, "%s = %s\n", config_settings[i].name, value);
    }
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
    return 0;
}
