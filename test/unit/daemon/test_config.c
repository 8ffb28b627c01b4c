// SPDX-License-Identifier: Apache-2.0
/* Settings of the daemon: files, drop-ins, flags, and what a wrong one says. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file_io.h"
#include "daemon/config.h"
#include "daemon/config_table.h"
#include "engine/engine.h"

typedef struct Root { /* a folder that stands for / */
    char path[64];
} Root;

static int setup_root(void **state) {
    Root *root = calloc(1, sizeof(*root));

    assert_non_null(root);
    snprintf(root->path, sizeof(root->path), "/tmp/coordgen-config-XXXXXX");
    assert_non_null(mkdtemp(root->path));
    *state = root;
    return 0;
}

static int teardown_root(void **state) {
    Root *root = *state;
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", root->path);
    assert_int_equal(system(command), 0);
    free(root);
    return 0;
}

static void write_file(const Root *root, const char *path, const char *text) {
    char full[PATH_MAX], *slash;
    FILE *file;

    snprintf(full, sizeof(full), "%s%s", root->path, path);
    slash = strrchr(full, '/');
    *slash = 0;
    assert_int_equal(file_make_dirs(full, NULL), 0);
    *slash = '/';
    file = fopen(full, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static Config *load(const Root *root, int expected, ErrText *err, int argc, const char *const argv[]) {
    ConfigAction action;
    Config *config = NULL;

    assert_int_equal(config_load(&config, root->path, argc, (char *const *)argv, &action, err), expected);
    assert_int_equal(config == NULL, expected != 0);
    return config;
}

#define LOAD(root, expected, err, ...)                                                                                 \
    ({                                                                                                                 \
        const char *const argv_[] = { "coordgend", ##__VA_ARGS__, NULL };                                              \
        load((root), (expected), (err), (int)ARRAY_LEN(argv_) - 1, argv_);                                             \
    })

static void test_config_defaults(void **state) {
    ErrText err;
    Config *config = LOAD(*state, 0, &err);

    assert_int_equal(config->max_active, 4);
    assert_int_equal(config->max_queue, 128);
    assert_int_equal(config->max_connections, 256);
    assert_int_equal(config->max_requests_per_connection, 64);
    assert_int_equal(config->context_tokens, 4096);
    assert_int_equal(config->frame_max_bytes, 4 << 20);
    assert_int_equal(config->frame_timeout_ms, 10000);
    assert_int_equal(config->drain_timeout_ms, 10000);
    assert_int_equal(config->device, ENGINE_DEVICE_CPU);
    assert_false(config->api_may_load);
    assert_string_equal(config->listen, "");
    assert_true(config->kv_memory_limit_bytes > 0);
    assert_true(config->kv_memory_limit_bytes < config->memory_limit_bytes);
    config_free(config);
}

/* Later places win: /usr/lib, /etc, drop-ins by name, flags. */
static void test_config_order(void **state) {
    ErrText err;
    Config *config;

    write_file(*state, "/usr/lib/coordgen/coordgend.conf",
               "max-queue = 1\nmax-active = 1\nthreads = 1\nchunk-tokens = 1\n");
    write_file(*state, "/etc/coordgen/coordgend.conf", "max-active = 2\nthreads = 2\nchunk-tokens = 2\n");
    write_file(*state, "/usr/lib/coordgen/coordgend.conf.d/50-a.conf", "threads = 3\nchunk-tokens = 3\n");
    write_file(*state, "/etc/coordgen/coordgend.conf.d/10-early.conf", "threads = 9\n");
    config = LOAD(*state, 0, &err, "--chunk-tokens=4");
    assert_int_equal(config->max_queue, 1);
    assert_int_equal(config->max_active, 2);
    assert_int_equal(config->threads, 3);
    assert_int_equal(config->chunk_tokens, 4);
    config_free(config);

    /* The same name in /etc takes the vendor's place, also when it is empty. */
    write_file(*state, "/run/coordgen/coordgend.conf.d/50-a.conf", "threads = 8\n");
    config = LOAD(*state, 0, &err);
    assert_int_equal(config->threads, 8);
    config_free(config);
    write_file(*state, "/etc/coordgen/coordgend.conf.d/50-a.conf", "");
    config = LOAD(*state, 0, &err);
    assert_int_equal(config->threads, 9);
    config_free(config);

    /* Other names are not read. */
    write_file(*state, "/etc/coordgen/coordgend.conf.d/99.conf.bak", "no such line\n");
    write_file(*state, "/etc/coordgen/coordgend.conf.d/.hidden.conf", "no such line\n");
    config_free(LOAD(*state, 0, &err));
}

static void test_config_file_replaces_defaults(void **state) {
    const Root *root = *state;
    char flag[128];
    ErrText err;
    Config *config;

    write_file(root, "/etc/coordgen/coordgend.conf", "max-active = 2\n");
    write_file(root, "/mine.conf", "max-queue = 7 # a comment\n\n# another\nmodel = /models/a#b.gguf\n");
    snprintf(flag, sizeof(flag), "--config=%s/mine.conf", root->path);
    config = LOAD(root, 0, &err, flag);
    assert_int_equal(config->max_active, 4);
    assert_int_equal(config->max_queue, 7);
    assert_string_equal(config->model, "/models/a#b.gguf");
    config_free(config);
    LOAD(root, CONFIG_E_FILE, &err, "--config=/nonexistent/x.conf");
    assert_non_null(strstr(err.text, "/nonexistent/x.conf"));
}

static void test_config_wrong_lines(void **state) {
    static const struct {
        const char *line;
        const char *words[2];
    } cases[] = {
        { "max-queue = many", { "max-queue", "many" } },
        { "max-queue = -1", { "max-queue", "-1" } },
        { "max-queue = 1 2", { "max-queue", "1 2" } },
        { "max-queue = 99999999999999999999", { "max-queue", "99999999999999999999" } },
        { "max-queue = 65537", { "max-queue", "65536" } },
        { "max-queue =", { "max-queue", "''" } },
        { "max-active = 0", { "max-active", "1 to 64" } },
        { "max-queue", { "max-queue", "name = value" } },
        { "no-such-setting = 1", { "no-such-setting", "--help" } },
        { "context-token = 1", { "context-token'", "did you mean 'context-tokens'?" } },
        { "load-on-demand = some", { "load-on-demand", "all, admins, default-only, no" } },
        { "model = a.gguf", { "model", "nor the name of a model" } },
        { "preload = a, b.cgm", { "preload", "'b.cgm' is not an absolute path" } },
        { "[models x]", { "[models x]", "[model NAME]" } },
        { "[model x", { "[model x", "[model NAME]" } },
        { "[model]", { "[model]", "[model NAME]" } },
        { "[model ]", { "[model NAME]", "''" } },
        { "[model /a/x.cgm]", { "/a/x.cgm", "not by a path" } },
        { "device = toaster", { "toaster", "reference, cpu" } },
        { "api-may-load = maybe", { "api-may-load", "maybe" } },
        { "frame-max = 1K", { "frame-max", "4K to 4M" } },
        { "frame-max = 1Q", { "frame-max", "1Q" } },
        { "memory-limit = 99999999999999T", { "memory-limit", "99999999999999T" } },
        { "memory-limit = 5", { "memory-limit", "0, or 1M" } },
        { "frame-timeout = 5 parsecs", { "frame-timeout", "parsecs" } },
        { "frame-timeout = 1ms", { "frame-timeout", "10ms" } },
        { "model = models/a.gguf", { "model", "absolute" } },
    };
    char text[256], place[128];
    const Root *root = *state;
    ErrText err;

    snprintf(place, sizeof(place), "%s/etc/coordgen/coordgend.conf:3: ", root->path);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        snprintf(text, sizeof(text), "# one\nlog-level = info\n%s\n", cases[i].line);
        write_file(root, "/etc/coordgen/coordgend.conf", text);
        LOAD(root, CONFIG_E_FILE, &err);
        assert_ptr_equal(strstr(err.text, place), err.text);
        for (size_t j = 0; j < 2; j++)
            if (!strstr(err.text, cases[i].words[j]))
                fail_msg("'%s' is not in: %s", cases[i].words[j], err.text);
    }
}

static void test_config_file_with_nul(void **state) {
    const Root *root = *state;
    char path[128];
    ErrText err;
    Config *config;

    snprintf(path, sizeof(path), "%s/nul.conf", root->path);
    {
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        assert_int_equal(fwrite("max-queue = 1\0\n", 1, 15, file), 15);
        assert_int_equal(fclose(file), 0);
    }
    assert_int_equal(config_new(&config, false, &err), 0);
    assert_int_equal(config_read_file(config, path, true, &err), CONFIG_E_FILE);
    assert_non_null(strstr(err.text, "NUL"));
    config_free(config);
}

static void test_config_file_with_byte_order_mark(void **state) {
    const Root *root = *state;
    char path[128];
    ErrText err;
    Config *config;

    snprintf(path, sizeof(path), "%s/mark.conf", root->path);
    write_file(root, "/mark.conf",
               "\xef\xbb\xbf"
               "max-queue = 7\r\n# end\r\n");
    assert_int_equal(config_new(&config, false, &err), 0);
    assert_int_equal(config_read_file(config, path, true, &err), 0);
    assert_int_equal(config->max_queue, 7);
    config_free(config);
}

static void test_config_wrong_flags(void **state) {
    ErrText err;

    LOAD(*state, CONFIG_E_FLAG, &err, "--no-such-flag");
    assert_non_null(strstr(err.text, "--no-such-flag"));
    LOAD(*state, CONFIG_E_FLAG, &err, "--max-queue=many");
    assert_non_null(strstr(err.text, "--max-queue"));
    assert_non_null(strstr(err.text, "many"));
    LOAD(*state, CONFIG_E_FLAG, &err, "--max-queue");
    LOAD(*state, CONFIG_E_FLAG, &err, "stray");
    assert_non_null(strstr(err.text, "stray"));
}

static void test_config_flags(void **state) {
    char cwd[PATH_MAX], expected[PATH_MAX + 16];
    ErrText err;
    Config *config = LOAD(*state, 0, &err, "--model", "m.gguf", "--api-may-load", "--frame-timeout=1500ms",
                          "--kv-memory-limit=0", "--output-buffer=8K");

    assert_non_null(getcwd(cwd, sizeof(cwd)));
    snprintf(expected, sizeof(expected), "%s/m.gguf", cwd);
    assert_string_equal(config->model, expected); /* a relative path means the same after a reload */
    assert_true(config->api_may_load);
    assert_int_equal(config->frame_timeout_ms, 1500);
    assert_int_equal(config->kv_memory_limit_bytes, 0);
    assert_int_equal(config->output_buffer_bytes, 8192);
    config_free(config);
}

static void test_config_actions(void **state) {
    static const struct {
        const char *flag;
        ConfigAction action;
    } cases[] = { { "--check-config", CONFIG_CHECK },
                  { "--print-config", CONFIG_PRINT },
                  { "--help", CONFIG_HELP },
                  { "--version", CONFIG_VERSION } };
    const Root *root = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *const argv[] = { (char *)"coordgend", (char *)cases[i].flag, NULL };
        ConfigAction action = CONFIG_RUN;
        Config *config;
        ErrText err;

        assert_int_equal(config_load(&config, root->path, 2, argv, &action, &err), 0);
        assert_int_equal(action, cases[i].action);
        config_free(config);
    }
}

/* A user's own service reads the user's files and has the user's folders, for root too, and nothing of the system's. */
static void test_config_of_a_user(void **state) {
    static const char *const names[] = { "HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
                                         "XDG_CACHE_HOME" };
    const Root *root = *state;
    char *before[ARRAY_LEN(names)], home[sizeof(root->path) + 16], expected[sizeof(root->path) + 64];
    Config *config;
    ErrText err;

    write_file(root, "/etc/coordgen/coordgend.conf", "no such line\n");
    write_file(root, "/ada/.config/coordgen/coordgend.conf", "max-active = 3\nmax-queue = 7\n");
    write_file(root, "/ada/.config/coordgen/coordgend.conf.d/50-a.conf", "max-queue = 9\n");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        before[i] = getenv(names[i]) ? strdup(getenv(names[i])) : NULL;
        unsetenv(names[i]);
    }
    snprintf(home, sizeof(home), "%s/ada", root->path);
    setenv("HOME", home, 1);
    assert_null(LOAD(root, CONFIG_E_FILE, &err));
    config = LOAD(root, 0, &err, "--user", "--threads=2");
    assert_true(config->is_users);
    assert_int_equal(config->max_active, 3);
    assert_int_equal(config->max_queue, 9);
    assert_int_equal(config->threads, 2);
    snprintf(expected, sizeof(expected), "%s/.local/share/coordgen/models", home);
    assert_string_equal(config->model_dir, expected);
    snprintf(expected, sizeof(expected), "%s/.local/state/coordgen/draftdb", home);
    assert_string_equal(config->draft_db_dir, expected);
    snprintf(expected, sizeof(expected), "%s/.cache/coordgen", home);
    assert_string_equal(config->cache_dir, expected);
    config_free(config);
    write_file(root, "/ada/.config/coordgen/coordgend.conf", "max-activ = 3\n");
    assert_null(LOAD(root, CONFIG_E_FILE, &err, "--user"));
    assert_non_null(strstr(err.text, "/ada/.config/coordgen/coordgend.conf:1: unknown setting 'max-activ'"));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (before[i])
            setenv(names[i], before[i], 1);
        else
            unsetenv(names[i]);
        free(before[i]);
    }
}

/* A folder that everybody can write to may be somebody else's already: without a place of its own there is none. */
static void test_config_no_cache_folder(void **state) {
    static const char *const names[] = { "HOME", "XDG_CACHE_HOME", "CACHE_DIRECTORY" };
    char *before[ARRAY_LEN(names)] = { NULL };
    const Root *root = *state;
    const bool is_root = geteuid() == 0;
    Config *config;
    ErrText err;

    assert_int_equal(chmod(root->path, 0755), 0);
    if (is_root) /* has one in any case */
        assert_int_equal(seteuid(65534), 0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        before[i] = getenv(names[i]) ? strdup(getenv(names[i])) : NULL;
        unsetenv(names[i]);
    }
    assert_null(LOAD(root, CONFIG_E_FILE, &err, "--check-config"));
    assert_non_null(strstr(err.text, "set cache-dir, or XDG_CACHE_HOME or HOME"));
    setenv("HOME", "relative", 1);
    assert_null(LOAD(root, CONFIG_E_FILE, &err, "--check-config"));
    config = LOAD(root, 0, &err, "--cache-dir=/srv/cache");
    assert_string_equal(config->cache_dir, "/srv/cache");
    config_free(config);
    setenv("HOME", "/home/somebody", 1);
    config = LOAD(root, 0, &err, "--check-config");
    assert_string_equal(config->cache_dir, "/home/somebody/.cache/coordgen");
    config_free(config);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (before[i])
            setenv(names[i], before[i], 1);
        else
            unsetenv(names[i]);
        free(before[i]);
    }
    if (is_root)
        assert_int_equal(seteuid(0), 0);
}

/* What --print-config shows can be read back and gives the same configuration. */
static void test_config_print_round_trip(void **state) {
    const Root *root = *state;
    char path[128], flag[160];
    ErrText err;
    Config *config = LOAD(root, 0, &err, "--frame-timeout=1500ms", "--memory-limit=3G", "--isa=scalar"), *again;
    FILE *file;

    snprintf(path, sizeof(path), "%s/printed.conf", root->path);
    file = fopen(path, "w");
    assert_non_null(file);
    config_print(config, file);
    assert_int_equal(fclose(file), 0);
    snprintf(flag, sizeof(flag), "--config=%s", path);
    again = LOAD(root, 0, &err, flag);
    for (size_t i = 0; i < n_config_settings; i++) {
        char from[4096], to[4096];

        setting_format(&config_settings[i], config, from, sizeof(from));
        setting_format(&config_settings[i], again, to, sizeof(to));
        assert_string_equal(from, to);
    }
    config_free(config);
    config_free(again);
}

typedef struct Changes {
    size_t n_live;
    size_t n_restart;
} Changes;

static void count_change(void *arg, const char *name, const char *from, const char *to, bool is_live) {
    Changes *changes = arg;

    assert_string_not_equal(from, to);
    if (is_live)
        changes->n_live++;
    else
        changes->n_restart++;
}

/* How models stand in settings: names, and paths. */
static void test_config_names_of_models(void **state) {
    ErrText err;
    Config *config = LOAD(*state, 0, &err, "--model=small", "--preload= a ,/m/b.cgm,,größe");
    char model[64];
    const char *rest = config->preload;

    assert_string_equal(config->model, "small");
    assert_int_equal(config->load_on_demand, CONFIG_DEMAND_ALL);
    rest = config_next_model(rest, model, sizeof(model));
    assert_string_equal(model, "a");
    rest = config_next_model(rest, model, sizeof(model));
    assert_string_equal(model, "/m/b.cgm");
    rest = config_next_model(rest, model, sizeof(model));
    assert_string_equal(model, "größe");
    assert_null(config_next_model(rest, model, sizeof(model)));
    assert_null(config_next_model("", model, sizeof(model)));
    assert_true(config_is_path("a/b") && config_is_path("b.cgm") && config_is_path("b.gguf"));
    assert_false(config_is_path("b") || config_is_path("qwen2.5-coder") || config_is_path(""));
    config_free(config);
}

/* Sections of models: what they say goes before what holds for all, and the next one or the file's end is theirs. */
static void test_config_sections(void **state) {
    const Root *root = *state;
    char path[128], flag[160], *text;
    size_t len_bytes;
    ErrText err;
    Config *config, *again;
    FILE *file;

    write_file(root, "/etc/coordgen/coordgend.conf",
               "context-tokens = 100\n[model a b]\ncontext-tokens = 200 # more\n[model c]\ndevice = reference\n");
    write_file(root, "/etc/coordgen/coordgend.conf.d/50-a.conf",
               "max-queue = 7\n[model  a b ]\nweights-memory = 50%\n");
    config = LOAD(root, 0, &err, "--context-tokens=300");
    assert_int_equal(config->max_queue, 7); /* the section of the file before has ended */
    assert_int_equal(config_context_tokens(config, "a b"), 200);
    assert_int_equal(config_context_tokens(config, "c"), 300);
    assert_int_equal(config_context_tokens(config, "other"), 300);
    assert_int_equal(config_device(config, "c"), ENGINE_DEVICE_REFERENCE);
    assert_int_equal(config_device(config, "a b"), ENGINE_DEVICE_CPU);
    assert_int_equal(config_weights_memory(config, "a b").percent, 50);
    assert_false(config_weights_memory(config, "c").is_set);
    assert_string_equal(config_next_section(config, NULL), "a b");
    assert_string_equal(config_next_section(config, "a b"), "c");
    assert_null(config_next_section(config, "c"));

    /* What is shown can be read back. */
    snprintf(path, sizeof(path), "%s/printed.conf", root->path);
    file = fopen(path, "w");
    assert_non_null(file);
    config_print(config, file);
    assert_int_equal(fclose(file), 0);
    snprintf(flag, sizeof(flag), "--config=%s", path);
    again = LOAD(root, 0, &err, flag);
    assert_int_equal(config_context_tokens(again, "a b"), 200);
    assert_int_equal(config_weights_memory(again, "a b").percent, 50);
    assert_int_equal(config_device(again, "c"), ENGINE_DEVICE_REFERENCE);
    assert_int_equal(file_slurp(path, 1 << 20, &text, &len_bytes, &err), 0);
    assert_non_null(
        strstr(text, "\n\n[model a b]\ncontext-tokens = 200\nweights-memory = 50%\n\n[model c]\ndevice = ref"));
    free(text);
    config_free(config);
    config_free(again);
}

static void test_config_wrong_sections(void **state) {
    static const struct {
        const char *line, *words;
    } cases[] = {
        { "context-token = 9", "unknown setting 'context-token' of [model x]: did you mean 'context-tokens'?" },
        { "threads = 9", "threads holds for all models: it stands before the sections" },
        { "nothing = 9", "it may have context-tokens, weights-memory and device" },
        { "context-tokens = 9", "context-tokens: '9' is out of range" },
        { "device = toaster", "reference" },
    };
    char text[128];
    ErrText err;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        snprintf(text, sizeof(text), "[model x]\n%s\n", cases[i].line);
        write_file(*state, "/etc/coordgen/coordgend.conf", text);
        LOAD(*state, CONFIG_E_FILE, &err);
        assert_non_null(strstr(err.text, "coordgend.conf:2: "));
        if (!strstr(err.text, cases[i].words))
            fail_msg("%s: %s", cases[i].line, err.text);
    }
}

/* A reload takes over what holds live, of sections that were there, have come and have gone. */
static void test_config_reload_of_sections(void **state) {
    Changes changes = { 0 };
    Config *from, *to;
    ErrText err;

    write_file(*state, "/etc/coordgen/coordgend.conf",
               "[model a]\ncontext-tokens = 100\nweights-memory = 10%\n[model gone]\ncontext-tokens = 50\n");
    from = LOAD(*state, 0, &err);
    write_file(*state, "/etc/coordgen/coordgend.conf",
               "[model a]\ncontext-tokens = 200\nweights-memory = 20%\n[model new]\ncontext-tokens = 70\n");
    to = LOAD(*state, 0, &err);
    config_compare(from, to, count_change, &changes);
    assert_int_equal(changes.n_live, 3);
    assert_int_equal(changes.n_restart, 1);
    assert_int_equal(config_take_live(from, to), 0);
    assert_int_equal(config_context_tokens(from, "a"), 200);
    assert_int_equal(config_context_tokens(from, "new"), 70);
    assert_int_equal(config_context_tokens(from, "gone"), 4096);
    assert_int_equal(config_weights_memory(from, "a").percent, 10);
    changes = (Changes){ 0 };
    config_compare(from, to, count_change, &changes);
    assert_int_equal(changes.n_live, 0);
    config_free(from);
    config_free(to);
}

static void test_config_reload(void **state) {
    ErrText err;
    Config *from = LOAD(*state, 0, &err),
           *to = LOAD(*state, 0, &err, "--max-queue=5", "--log-level=debug", "--threads=7");
    Changes changes = { 0 };

    config_compare(from, to, count_change, &changes);
    assert_int_equal(changes.n_live, 2);
    assert_int_equal(changes.n_restart, 1);
    assert_int_equal(config_take_live(from, to), 0);
    assert_int_equal(from->max_queue, 5);
    assert_int_equal(from->threads, 0);
    config_free(from);
    config_free(to);
}

/* Sources of drafts are a text that is kept as it is given, when it names some; a reload takes it over. */
static void test_config_sources_of_drafts(void **state) {
    ErrText err;
    Config *from = LOAD(*state, 0, &err), *to = LOAD(*state, 0, &err, "--speculation=sam,table");

    assert_string_equal(to->speculation, "sam,table");
    assert_int_equal(config_set(to, "speculation", "sam,bogus", &err), CONFIG_E_SETTING);
    assert_string_equal(err.text, "speculation: no source \"bogus\"; say auto, off, or some of lookup, sam, "
                                  "history, calibration, table, reuse, model with commas between");
    assert_int_equal(config_set(to, "speculation", "opt-tree", &err), CONFIG_E_SETTING); /* the laboratory's */
    assert_int_equal(config_set(to, "speculation", "ours", &err), 0);
    assert_string_equal(to->speculation, "ours");
    assert_int_equal(config_set(to, "speculation", "sam,table", &err), 0);
    assert_int_equal(config_set(to, "speculation", "", &err), CONFIG_E_SETTING);
    assert_string_equal(to->speculation, "sam,table");
    assert_int_equal(config_take_live(from, to), 0);
    assert_string_equal(from->speculation, "sam,table");
    assert_ptr_not_equal(from->speculation, to->speculation);
    config_free(from);
    config_free(to);
}

/* Ages: seconds, or a number with a unit; each comes back as it would stand in a file. */
static void test_config_age(void **state) {
    static const struct {
        const char *given, *shown;
        uint64_t seconds;
    } ages[] = {
        { "90d", "90d", 90 * 86400 },
        { "36h", "36h", 36 * 3600 },
        { "48h", "2d", 2 * 86400 },
        { "90min", "90min", 5400 },
        { "61", "61s", 61 },
        { "7s", "7s", 7 },
        { "0", "0", 0 },
    };
    const Setting *setting = setting_find("draftdb-age");
    ErrText err;
    Config *config = LOAD(*state, 0, &err);
    char shown[32];

    assert_int_equal(config->draft_db_age_s, 90 * 86400);
    for (size_t i = 0; i < ARRAY_LEN(ages); i++) {
        assert_int_equal(config_set(config, "draftdb-age", ages[i].given, &err), 0);
        assert_int_equal(config->draft_db_age_s, ages[i].seconds);
        setting_format(setting, config, shown, sizeof(shown));
        assert_string_equal(shown, ages[i].shown);
    }
    for (size_t i = 0; i < 5; i++) {
        const char *wrong = (const char *[]){ "", "d", "1w", "-1", "100000d" }[i];

        assert_int_equal(config_set(config, "draftdb-age", wrong, &err), CONFIG_E_SETTING);
        assert_non_null(strstr(err.text, "draftdb-age"));
    }
    config_free(config);
}

/* The folder of the draft database, where nobody says which. */
static void test_config_draftdb_dir(void **state) {
    ErrText err;
    Config *config;

    setenv("STATE_DIRECTORY", "/state/a:/state/b", 1);
    config = LOAD(*state, 0, &err);
    assert_string_equal(config->draft_db_dir, "/state/a/draftdb");
    assert_true(config->draft_db);
    config_free(config);
    unsetenv("STATE_DIRECTORY");
    config = LOAD(*state, 0, &err, "--draftdb=no", "--draftdb-dir=/mine");
    assert_string_equal(config->draft_db_dir, "/mine");
    assert_false(config->draft_db);
    config_free(config);
}

/* Bytes, a part, or nothing; what is printed is taken again. */
static void test_config_weights_memory(void **state) {
    static const struct {
        const char *flag, *printed;
        ConfigMemory memory;
    } right[] = {
        { "--weights-memory=", "", { .is_set = false } },
        { "--weights-memory=0", "0", { .is_set = true } },
        { "--weights-memory=0%", "0", { .is_set = true } },
        { "--weights-memory=50%", "50%", { .is_set = true, .percent = 50 } },
        { "--weights-memory=100%", "100%", { .is_set = true, .percent = 100 } },
        { "--weights-memory=4096", "4K", { .is_set = true, .bytes = 4096 } },
        { "--weights-memory=300M", "300M", { .is_set = true, .bytes = UINT64_C(300) << 20 } },
        { "--weights-memory=2G", "2G", { .is_set = true, .bytes = UINT64_C(2) << 30 } },
        { "--weights-memory=1024T", "1024T", { .is_set = true, .bytes = UINT64_C(1) << 50 } },
    };
    static const char *const wrong[] = {
        "--weights-memory=101%", "--weights-memory=1025T",     "--weights-memory=-1",
        "--weights-memory=50 %", "--weights-memory=1.5G",      "--weights-memory=half",
        "--weights-memory=%",    "--weights-memory=50%%",      "--weights-memory=99999999999999999999%",
        "--weights-memory=2g",   "--weights-memory=20000000T",
    };
    const Setting *setting = setting_find("weights-memory");
    char text[64];
    ErrText err;

    for (size_t i = 0; i < ARRAY_LEN(right); i++) {
        Config *config = LOAD(*state, 0, &err, right[i].flag);

        for (int again = 0; again < 2; again++) {
            assert_int_equal(config->weights_memory.is_set, right[i].memory.is_set);
            assert_int_equal(config->weights_memory.bytes, right[i].memory.bytes);
            assert_int_equal(config->weights_memory.percent, right[i].memory.percent);
            setting_format(setting, config, text, sizeof(text));
            assert_string_equal(text, right[i].printed);
            assert_int_equal(setting_parse(setting, config, text, &err), 0);
        }
        config_free(config);
    }
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        LOAD(*state, CONFIG_E_FLAG, &err, wrong[i]);
        if (!strstr(err.text, "weights-memory: '") ||
            !(strstr(err.text, "or a percentage") || strstr(err.text, "range")))
            fail_msg("%s says '%s'", wrong[i], err.text);
    }
}

/* A switch before it was a choice: its words are taken as before. */
static void test_config_weights_image(void **state) {
    static const struct {
        const char *value;
        ConfigImage image;
        const char *shown;
    } words[] = {
        { "auto", CONFIG_IMAGE_AUTO, "auto" }, { "on", CONFIG_IMAGE_ON, "on" },      { "off", CONFIG_IMAGE_OFF, "off" },
        { "yes", CONFIG_IMAGE_ON, "on" },      { "true", CONFIG_IMAGE_ON, "on" },    { "1", CONFIG_IMAGE_ON, "on" },
        { "no", CONFIG_IMAGE_OFF, "off" },     { "false", CONFIG_IMAGE_OFF, "off" }, { "0", CONFIG_IMAGE_OFF, "off" },
    };
    char *alone[] = { (char *)"coordgend", (char *)"--config=/dev/null", (char *)"--weights-image" };
    _cleanup_(config_freep) Config *config = NULL, *flagged = NULL;
    ConfigAction action;
    ErrText err = { "" };
    char text[32];

    assert_int_equal(config_new(&config, false, &err), 0);
    assert_int_equal(config->weights_image, CONFIG_IMAGE_AUTO);
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        assert_int_equal(config_set(config, "weights-image", words[i].value, &err), 0);
        assert_int_equal(config->weights_image, words[i].image);
        setting_format(setting_find("weights-image"), config, text, sizeof(text));
        assert_string_equal(text, words[i].shown);
    }
    assert_int_equal(config_set(config, "weights-image", "2", &err), CONFIG_E_SETTING);
    assert_string_equal(err.text, "weights-image: '2' is not one of auto, on, off");
    assert_int_equal(config_load(&flagged, "", ARRAY_LEN(alone), alone, &action, &err), 0);
    assert_int_equal(flagged->weights_image, CONFIG_IMAGE_ON);
}

static void test_config_flash(void **state) {
    ErrText err;
    Config *config = LOAD(*state, 0, &err);

    assert_false(config->weights_memory.is_set);
    assert_int_equal(config->flash_rate_mb, 0);
    assert_int_equal(config->flash_latency_us, 0);
    config_free(config);
    config = LOAD(*state, 0, &err, "--flash-rate=250", "--flash-latency=80");
    assert_int_equal(config->flash_rate_mb, 250);
    assert_int_equal(config->flash_latency_us, 80);
    config_free(config);
    LOAD(*state, CONFIG_E_FLAG, &err, "--flash-rate=1000001");
    assert_non_null(strstr(err.text, "out of range"));
    LOAD(*state, CONFIG_E_FLAG, &err, "--flash-rate=250MB");
    assert_non_null(strstr(err.text, "whole number"));
    LOAD(*state, CONFIG_E_FLAG, &err, "--flash-latency=1000001");
    assert_non_null(strstr(err.text, "flash-latency"));
}

static void test_config_draft_model(void **state) {
    ErrText err;
    Config *config, *other;

    write_file(*state, "/etc/coordgen/coordgend.conf", "draft-model = big = small, mid=small\n");
    config = LOAD(*state, 0, &err);
    assert_string_equal(config->draft_model, "big = small, mid=small");
    other = LOAD(*state, 0, &err, "--draft-model=");
    assert_string_equal(other->draft_model, "");
    assert_int_equal(config_take_live(config, other), 0);
    assert_string_equal(config->draft_model, "");
    config_free(other);
    config_free(config);
    LOAD(*state, CONFIG_E_FLAG, &err, "--draft-model=big");
    assert_non_null(strstr(err.text, "draft-model: 'big' is not TARGET=DRAFT"));
    LOAD(*state, CONFIG_E_FLAG, &err, "--draft-model=big=big");
    assert_non_null(strstr(err.text, "would draft for itself"));
    write_file(*state, "/etc/coordgen/coordgend.conf", "draft-model = a=b, b=a\n");
    LOAD(*state, CONFIG_E_FILE, &err);
    assert_non_null(strstr(err.text, "coordgend.conf:1: draft-model: 'b=a'"));
}

/* The folder of what administrators say. */
static void test_config_state_dir(void **state) {
    ErrText err;
    Config *config;

    setenv("STATE_DIRECTORY", "/state/a:/state/b", 1);
    config = LOAD(*state, 0, &err);
    assert_string_equal(config->state_dir, "/state/a");
    config_free(config);
    unsetenv("STATE_DIRECTORY");
    config = LOAD(*state, 0, &err, "--state-dir=/mine");
    assert_string_equal(config->state_dir, "/mine");
    config_free(config);
    config = LOAD(*state, 0, &err, "--state-dir=");
    assert_string_equal(config->state_dir, "");
    config_free(config);
}

/* The table is right about itself: built-in values are in range, names are unique and have a help. */
static void test_config_table(void **state) {
    for (size_t i = 0; i < n_config_settings; i++) {
        const Setting *setting = &config_settings[i];

        assert_ptr_equal(setting_find(setting->name), setting);
        assert_true(strlen(setting->help) > 10);
        assert_true(setting->min <= setting->max);
        if (setting->type == SETTING_U32 || setting->type == SETTING_DURATION)
            assert_true(setting->max <= UINT32_MAX);
    }
    assert_null(setting_find("listen-"));
}

/* Every setting has an entry of its own in the manual page, and the page has no other ones in its lists. */
static void test_config_manual_page(void **state) {
    _cleanup_(freep) char *page = NULL;
    size_t len_bytes, n_entries = 0;
    ErrText err;

    assert_int_equal(file_slurp("packaging/man/coordgend.conf.5", 1 << 20, &page, &len_bytes, &err), 0);
    for (char *from = page, *to = page;; from++) { /* roff writes \\- for a hyphen that can be copied */
        while (*from == '\\')
            from++;
        *to++ = *from;
        if (!*from)
            break;
    }
    for (size_t i = 0; i < n_config_settings; i++) {
        char entry[96];

        snprintf(entry, sizeof(entry), "\n.TP\n.B %s\n", config_settings[i].name);
        if (!strstr(page, entry))
            fail_msg("coordgend.conf.5 has no entry for %s", config_settings[i].name);
    }
    for (const char *at = page; (at = strstr(at, "\n.TP\n")); at++)
        n_entries++;
    assert_int_equal(n_entries, n_config_settings);
}

static void test_config_isa_of_environment(void **state) {
    Config *config;
    ErrText err;

    assert_int_equal(setenv("COORDGEN_ISA", "avx2", 1), 0);
    config = LOAD(*state, 0, &err);
    assert_int_equal(config->isa, ISA_AVX2);
    config_free(config);
    config = LOAD(*state, 0, &err, "--isa=scalar");
    assert_int_equal(config->isa, ISA_SCALAR);
    config_free(config);
    assert_int_equal(setenv("COORDGEN_ISA", "mmx", 1), 0);
    LOAD(*state, CONFIG_E_FLAG, &err);
    assert_non_null(strstr(err.text, "COORDGEN_ISA"));
    assert_int_equal(unsetenv("COORDGEN_ISA"), 0);
}

/* A setting that there is not is told with the one that may be meant. */
static void test_config_unknown_settings(void **state) {
    _cleanup_(config_freep) Config *config = NULL;
    ErrText err = { "" };

    assert_int_equal(config_new(&config, false, &err), 0);
    assert_int_equal(config_set(config, "thread", "2", &err), CONFIG_E_SETTING);
    assert_string_equal(err.text, "unknown setting 'thread': did you mean 'threads'?");
    assert_int_equal(config_set(config, "max-qeue", "2", &err), CONFIG_E_SETTING);
    assert_string_equal(err.text, "unknown setting 'max-qeue': did you mean 'max-queue'?");
    assert_int_equal(config_set(config, "nonsense", "2", &err), CONFIG_E_SETTING);
    assert_string_equal(err.text, "unknown setting 'nonsense': see coordgend --help");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_root, teardown_root)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_unknown_settings),
        TEST(test_config_defaults),
        TEST(test_config_order),
        TEST(test_config_file_replaces_defaults),
        TEST(test_config_wrong_lines),
        TEST(test_config_file_with_nul),
        TEST(test_config_file_with_byte_order_mark),
        TEST(test_config_wrong_flags),
        TEST(test_config_flags),
        TEST(test_config_actions),
        TEST(test_config_of_a_user),
        TEST(test_config_no_cache_folder),
        TEST(test_config_print_round_trip),
        TEST(test_config_reload),
        TEST(test_config_names_of_models),
        TEST(test_config_sections),
        TEST(test_config_wrong_sections),
        TEST(test_config_reload_of_sections),
        TEST(test_config_sources_of_drafts),
        TEST(test_config_table),
        TEST(test_config_isa_of_environment),
        TEST(test_config_age),
        TEST(test_config_draftdb_dir),
        TEST(test_config_state_dir),
        TEST(test_config_weights_memory),
        TEST(test_config_flash),
        TEST(test_config_weights_image),
        TEST(test_config_draft_model),
        TEST(test_config_manual_page),
    };

    unsetenv("COORDGEN_ISA");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
