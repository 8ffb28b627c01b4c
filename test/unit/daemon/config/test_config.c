// SPDX-License-Identifier: Apache-2.0
/* Settings of the daemon: files, drop-ins, flags, and the messages about wrong settings. */
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
#include "daemon/config/config.h"
#include "daemon/config/config_table.h"
#include "engine/engine.h"
#include "test/unit/daemon/config/config_fixture.h"

static void test_config_defaults(void **state) {
    ErrText err;
    Config *config = CONFIG_LOAD(*state, 0, &err);

    assert_int_equal(config->turns.max_active, 4);
    assert_int_equal(config->turns.max_queue, 128);
    assert_int_equal(config->limits.max_connections, 256);
    assert_int_equal(config->limits.max_requests_per_connection, 64);
    assert_int_equal(config->generations.context_tokens, 4096);
    assert_int_equal(config->limits.frame_max_bytes, 4 << 20);
    assert_int_equal(config->timeouts.frame_ms, 10000);
    assert_int_equal(config->timeouts.drain_ms, 10000);
    assert_int_equal(config->load.device, ENGINE_DEVICE_CPU);
    assert_false(config->models.api_may_load);
    assert_string_equal(config->listen, "");
    assert_true(config->memory.kv_limit_bytes > 0);
    assert_true(config->memory.kv_limit_bytes < config->memory.limit_bytes);
    config_free(config);
}

/* Later places win: /usr/lib, /etc, drop-ins by name, flags. */
static void test_config_order(void **state) {
    ErrText err;
    Config *config;

    config_root_write(*state, "/usr/lib/coordgen/coordgend.conf",
                      "max-queue = 1\nmax-active = 1\nthreads = 1\nchunk-tokens = 1\n");
    config_root_write(*state, "/etc/coordgen/coordgend.conf", "max-active = 2\nthreads = 2\nchunk-tokens = 2\n");
    config_root_write(*state, "/usr/lib/coordgen/coordgend.conf.d/50-a.conf", "threads = 3\nchunk-tokens = 3\n");
    config_root_write(*state, "/etc/coordgen/coordgend.conf.d/10-early.conf", "threads = 9\n");
    config = CONFIG_LOAD(*state, 0, &err, "--chunk-tokens=4");
    assert_int_equal(config->turns.max_queue, 1);
    assert_int_equal(config->turns.max_active, 2);
    assert_int_equal(config->load.threads, 3);
    assert_int_equal(config->load.chunk_tokens, 4);
    config_free(config);

    /* A file in /etc replaces the vendor's file of that name, also when it is empty. */
    config_root_write(*state, "/run/coordgen/coordgend.conf.d/50-a.conf", "threads = 8\n");
    config = CONFIG_LOAD(*state, 0, &err);
    assert_int_equal(config->load.threads, 8);
    config_free(config);
    config_root_write(*state, "/etc/coordgen/coordgend.conf.d/50-a.conf", "");
    config = CONFIG_LOAD(*state, 0, &err);
    assert_int_equal(config->load.threads, 9);
    config_free(config);

    /* Files with other names are not read. */
    config_root_write(*state, "/etc/coordgen/coordgend.conf.d/99.conf.bak", "no such line\n");
    config_root_write(*state, "/etc/coordgen/coordgend.conf.d/.hidden.conf", "no such line\n");
    config_free(CONFIG_LOAD(*state, 0, &err));
}

static void test_config_file_replaces_defaults(void **state) {
    const ConfigRoot *root = *state;
    char flag[128];
    ErrText err;
    Config *config;

    config_root_write(root, "/etc/coordgen/coordgend.conf", "max-active = 2\n");
    config_root_write(root, "/mine.conf", "max-queue = 7 # a comment\n\n# another\nmodel = /models/a#b.gguf\n");
    snprintf(flag, sizeof(flag), "--config=%s/mine.conf", root->path);
    config = CONFIG_LOAD(root, 0, &err, flag);
    assert_int_equal(config->turns.max_active, 4);
    assert_int_equal(config->turns.max_queue, 7);
    assert_string_equal(config->models.default_model, "/models/a#b.gguf");
    config_free(config);
    CONFIG_LOAD(root, CONFIG_E_FILE, &err, "--config=/nonexistent/x.conf");
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
    const ConfigRoot *root = *state;
    ErrText err;

    snprintf(place, sizeof(place), "%s/etc/coordgen/coordgend.conf:3: ", root->path);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        snprintf(text, sizeof(text), "# one\nlog-level = info\n%s\n", cases[i].line);
        config_root_write(root, "/etc/coordgen/coordgend.conf", text);
        CONFIG_LOAD(root, CONFIG_E_FILE, &err);
        assert_ptr_equal(strstr(err.text, place), err.text);
        for (size_t j = 0; j < 2; j++)
            if (!strstr(err.text, cases[i].words[j]))
                fail_msg("'%s' is not in: %s", cases[i].words[j], err.text);
    }
}

static void test_config_file_with_nul(void **state) {
    const ConfigRoot *root = *state;
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
    const ConfigRoot *root = *state;
    char path[128];
    ErrText err;
    Config *config;

    snprintf(path, sizeof(path), "%s/mark.conf", root->path);
    config_root_write(root, "/mark.conf",
                      "\xef\xbb\xbf"
                      "max-queue = 7\r\n# end\r\n");
    assert_int_equal(config_new(&config, false, &err), 0);
    assert_int_equal(config_read_file(config, path, true, &err), 0);
    assert_int_equal(config->turns.max_queue, 7);
    config_free(config);
}

static void test_config_wrong_flags(void **state) {
    ErrText err;

    CONFIG_LOAD(*state, CONFIG_E_FLAG, &err, "--no-such-flag");
    assert_non_null(strstr(err.text, "--no-such-flag"));
    CONFIG_LOAD(*state, CONFIG_E_FLAG, &err, "--max-queue=many");
    assert_non_null(strstr(err.text, "--max-queue"));
    assert_non_null(strstr(err.text, "many"));
    CONFIG_LOAD(*state, CONFIG_E_FLAG, &err, "--max-queue");
    CONFIG_LOAD(*state, CONFIG_E_FLAG, &err, "stray");
    assert_non_null(strstr(err.text, "stray"));
}

static void test_config_flags(void **state) {
    char cwd[PATH_MAX], expected[PATH_MAX + 16];
    ErrText err;
    Config *config = CONFIG_LOAD(*state, 0, &err, "--model", "m.gguf", "--api-may-load", "--frame-timeout=1500ms",
                                 "--kv-memory-limit=0", "--output-buffer=8K");

    assert_non_null(getcwd(cwd, sizeof(cwd)));
    snprintf(expected, sizeof(expected), "%s/m.gguf", cwd);
    assert_string_equal(config->models.default_model,
                        expected); /* made absolute, so that a reload finds the same file */
    assert_true(config->models.api_may_load);
    assert_int_equal(config->timeouts.frame_ms, 1500);
    assert_int_equal(config->memory.kv_limit_bytes, 0);
    assert_int_equal(config->limits.output_buffer_bytes, 8192);
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
    const ConfigRoot *root = *state;

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

/* A user's own service, also root's, reads the user's files and uses the user's folders, and none of the system's. */
static void test_config_of_a_user(void **state) {
    static const char *const names[] = { "HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
                                         "XDG_CACHE_HOME" };
    const ConfigRoot *root = *state;
    char *before[ARRAY_LEN(names)], home[sizeof(root->path) + 16], expected[sizeof(root->path) + 64];
    Config *config;
    ErrText err;

    config_root_write(root, "/etc/coordgen/coordgend.conf", "no such line\n");
    config_root_write(root, "/ada/.config/coordgen/coordgend.conf", "max-active = 3\nmax-queue = 7\n");
    config_root_write(root, "/ada/.config/coordgen/coordgend.conf.d/50-a.conf", "max-queue = 9\n");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        before[i] = getenv(names[i]) ? strdup(getenv(names[i])) : NULL;
        unsetenv(names[i]);
    }
    snprintf(home, sizeof(home), "%s/ada", root->path);
    setenv("HOME", home, 1);
    assert_null(CONFIG_LOAD(root, CONFIG_E_FILE, &err));
    config = CONFIG_LOAD(root, 0, &err, "--user", "--threads=2");
    assert_true(config->is_users);
    assert_int_equal(config->turns.max_active, 3);
    assert_int_equal(config->turns.max_queue, 9);
    assert_int_equal(config->load.threads, 2);
    snprintf(expected, sizeof(expected), "%s/.local/share/coordgen/models", home);
    assert_string_equal(config->models.dir, expected);
    snprintf(expected, sizeof(expected), "%s/.local/state/coordgen/draftdb", home);
    assert_string_equal(config->draft_db.dir, expected);
    snprintf(expected, sizeof(expected), "%s/.cache/coordgen", home);
    assert_string_equal(config->cache_dir, expected);
    config_free(config);
    config_root_write(root, "/ada/.config/coordgen/coordgend.conf", "max-activ = 3\n");
    assert_null(CONFIG_LOAD(root, CONFIG_E_FILE, &err, "--user"));
    assert_non_null(strstr(err.text, "/ada/.config/coordgen/coordgend.conf:1: unknown setting 'max-activ'"));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (before[i])
            setenv(names[i], before[i], 1);
        else
            unsetenv(names[i]);
        free(before[i]);
    }
}

/* The service has no cache folder without a private place: anybody can create a folder in a world-writable place. */
static void test_config_no_cache_folder(void **state) {
    static const char *const names[] = { "HOME", "XDG_CACHE_HOME", "CACHE_DIRECTORY" };
    char *before[ARRAY_LEN(names)] = { NULL };
    const ConfigRoot *root = *state;
    const bool is_root = geteuid() == 0;
    Config *config;
    ErrText err;

    assert_int_equal(chmod(root->path, 0755), 0);
    if (is_root) /* root always has a cache folder */
        assert_int_equal(seteuid(65534), 0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        before[i] = getenv(names[i]) ? strdup(getenv(names[i])) : NULL;
        unsetenv(names[i]);
    }
    assert_null(CONFIG_LOAD(root, CONFIG_E_FILE, &err, "--check-config"));
    assert_non_null(strstr(err.text, "set cache-dir, or XDG_CACHE_HOME or HOME"));
    setenv("HOME", "relative", 1);
    assert_null(CONFIG_LOAD(root, CONFIG_E_FILE, &err, "--check-config"));
    config = CONFIG_LOAD(root, 0, &err, "--cache-dir=/srv/cache");
    assert_string_equal(config->cache_dir, "/srv/cache");
    config_free(config);
    setenv("HOME", "/home/somebody", 1);
    config = CONFIG_LOAD(root, 0, &err, "--check-config");
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

/* The output of --print-config can be read back and gives the same configuration. */
static void test_config_print_round_trip(void **state) {
    const ConfigRoot *root = *state;
    char path[128], flag[160];
    ErrText err;
    Config *config = CONFIG_LOAD(root, 0, &err, "--frame-timeout=1500ms", "--memory-limit=3G", "--isa=scalar"), *again;
    FILE *file;

    snprintf(path, sizeof(path), "%s/printed.conf", root->path);
    file = fopen(path, "w");
    assert_non_null(file);
    config_print(config, file);
    assert_int_equal(fclose(file), 0);
    snprintf(flag, sizeof(flag), "--config=%s", path);
    again = CONFIG_LOAD(root, 0, &err, flag);
    for (size_t i = 0; i < n_config_settings; i++) {
        char from[4096], to[4096];

        setting_format(&config_settings[i], config, from, sizeof(from));
        setting_format(&config_settings[i], again, to, sizeof(to));
        assert_string_equal(from, to);
    }
    config_free(config);
    config_free(again);
}

static void test_config_reload(void **state) {
    ErrText err;
    Config *from = CONFIG_LOAD(*state, 0, &err),
           *to = CONFIG_LOAD(*state, 0, &err, "--max-queue=5", "--log-level=debug", "--threads=7");
    ConfigChanges changes = { 0 };

    config_compare(from, to, config_count_change, &changes);
    assert_int_equal(changes.n_live, 2);
    assert_int_equal(changes.n_restart, 1);
    assert_int_equal(config_take_live(from, to), 0);
    assert_int_equal(from->turns.max_queue, 5);
    assert_int_equal(from->load.threads, 0);
    config_free(from);
    config_free(to);
}

/* A valid list of draft sources is kept as given, and a reload takes it over. */
static void test_config_sources_of_drafts(void **state) {
    ErrText err;
    Config *from = CONFIG_LOAD(*state, 0, &err), *to = CONFIG_LOAD(*state, 0, &err, "--speculation=sam,table");

    assert_string_equal(to->generations.speculation, "sam,table");
    assert_int_equal(config_set(to, "speculation", "sam,bogus", &err), CONFIG_E_SETTING);
    assert_string_equal(err.text, "speculation: no source \"bogus\"; say auto, off, or some of lookup, sam, "
                                  "history, calibration, table, reuse, model, grammar with commas between");
    assert_int_equal(config_set(to, "speculation", "opt-tree", &err), CONFIG_E_SETTING); /* only in the laboratory */
    assert_int_equal(config_set(to, "speculation", "ours", &err), 0);
    assert_string_equal(to->generations.speculation, "ours");
    assert_int_equal(config_set(to, "speculation", "sam,table", &err), 0);
    assert_int_equal(config_set(to, "speculation", "", &err), CONFIG_E_SETTING);
    assert_string_equal(to->generations.speculation, "sam,table");
    assert_int_equal(config_take_live(from, to), 0);
    assert_string_equal(from->generations.speculation, "sam,table");
    assert_ptr_not_equal(from->generations.speculation, to->generations.speculation);
    config_free(from);
    config_free(to);
}

/* Ages are seconds or a number with a unit; each is printed as a file may contain it. */
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
    const Setting *setting = config_table_find("draftdb-age");
    ErrText err;
    Config *config = CONFIG_LOAD(*state, 0, &err);
    char shown[32];

    assert_int_equal(config->draft_db.limits.age_max_s, 90 * 86400);
    for (size_t i = 0; i < ARRAY_LEN(ages); i++) {
        assert_int_equal(config_set(config, "draftdb-age", ages[i].given, &err), 0);
        assert_int_equal(config->draft_db.limits.age_max_s, ages[i].seconds);
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

/* The default folder of the draft database. */
static void test_config_draftdb_dir(void **state) {
    ErrText err;
    Config *config;

    setenv("STATE_DIRECTORY", "/state/a:/state/b", 1);
    config = CONFIG_LOAD(*state, 0, &err);
    assert_string_equal(config->draft_db.dir, "/state/a/draftdb");
    assert_true(config->draft_db.is_on);
    config_free(config);
    unsetenv("STATE_DIRECTORY");
    config = CONFIG_LOAD(*state, 0, &err, "--draftdb=no", "--draftdb-dir=/mine");
    assert_string_equal(config->draft_db.dir, "/mine");
    assert_false(config->draft_db.is_on);
    config_free(config);
}

/* The setting takes bytes, a share of memory, or nothing; the printed value can be read back. */
static void test_config_weights_memory(void **state) {
    static const struct {
        const char *flag, *printed;
        WeightsMemory memory;
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
    const Setting *setting = config_table_find("weights-memory");
    char text[64];
    ErrText err;

    for (size_t i = 0; i < ARRAY_LEN(right); i++) {
        Config *config = CONFIG_LOAD(*state, 0, &err, right[i].flag);

        for (int again = 0; again < 2; again++) {
            assert_int_equal(config->load.weights.memory.is_set, right[i].memory.is_set);
            assert_int_equal(config->load.weights.memory.bytes, right[i].memory.bytes);
            assert_int_equal(config->load.weights.memory.percent, right[i].memory.percent);
            setting_format(setting, config, text, sizeof(text));
            assert_string_equal(text, right[i].printed);
            assert_int_equal(setting_parse(setting, config, text, &err), 0);
        }
        config_free(config);
    }
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        CONFIG_LOAD(*state, CONFIG_E_FLAG, &err, wrong[i]);
        if (!strstr(err.text, "weights-memory: '") ||
            !(strstr(err.text, "or a percentage") || strstr(err.text, "range")))
            fail_msg("%s says '%s'", wrong[i], err.text);
    }
}

/* The setting still accepts the words of a switch, which the setting was before it became a choice. */
static void test_config_weights_image(void **state) {
    static const struct {
        const char *value;
        WeightsImageMode image;
        const char *shown;
    } words[] = {
        { "auto", WEIGHTS_IMAGE_AUTO, "auto" }, { "on", WEIGHTS_IMAGE_ON, "on" },
        { "off", WEIGHTS_IMAGE_OFF, "off" },    { "yes", WEIGHTS_IMAGE_ON, "on" },
        { "true", WEIGHTS_IMAGE_ON, "on" },     { "1", WEIGHTS_IMAGE_ON, "on" },
        { "no", WEIGHTS_IMAGE_OFF, "off" },     { "false", WEIGHTS_IMAGE_OFF, "off" },
        { "0", WEIGHTS_IMAGE_OFF, "off" },
    };
    char *alone[] = { (char *)"coordgend", (char *)"--config=/dev/null", (char *)"--weights-image" };
    _cleanup_(config_freep) Config *config = NULL, *flagged = NULL;
    ConfigAction action;
    ErrText err = { 0 };
    char text[32];

    assert_int_equal(config_new(&config, false, &err), 0);
    assert_int_equal(config->load.weights.image, WEIGHTS_IMAGE_AUTO);
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        assert_int_equal(config_set(config, "weights-image", words[i].value, &err), 0);
        assert_int_equal(config->load.weights.image, words[i].image);
        setting_format(config_table_find("weights-image"), config, text, sizeof(text));
        assert_string_equal(text, words[i].shown);
    }
    assert_int_equal(config_set(config, "weights-image", "2", &err), CONFIG_E_SETTING);
    assert_string_equal(err.text, "weights-image: '2' is not one of auto, on, off");
    assert_int_equal(config_load(&flagged, "", ARRAY_LEN(alone), alone, &action, &err), 0);
    assert_int_equal(flagged->load.weights.image, WEIGHTS_IMAGE_ON);
}

static void test_config_flash(void **state) {
    ErrText err;
    Config *config = CONFIG_LOAD(*state, 0, &err);

    assert_false(config->load.weights.memory.is_set);
    assert_int_equal(config->load.weights.flash_limit.bytes_per_s, 0);
    assert_int_equal(config->load.weights.flash_limit.latency_us, 0);
    config_free(config);
    config = CONFIG_LOAD(*state, 0, &err, "--flash-rate=250", "--flash-latency=80");
    assert_int_equal(config->load.weights.flash_limit.bytes_per_s, 250000000);
    assert_int_equal(config->load.weights.flash_limit.latency_us, 80);
    config_free(config);
    CONFIG_LOAD(*state, CONFIG_E_FLAG, &err, "--flash-rate=1000001");
    assert_non_null(strstr(err.text, "out of range"));
    CONFIG_LOAD(*state, CONFIG_E_FLAG, &err, "--flash-rate=250MB");
    assert_non_null(strstr(err.text, "whole number"));
    CONFIG_LOAD(*state, CONFIG_E_FLAG, &err, "--flash-latency=1000001");
    assert_non_null(strstr(err.text, "flash-latency"));
}

static void test_config_draft_model(void **state) {
    ErrText err;
    Config *config, *other;

    config_root_write(*state, "/etc/coordgen/coordgend.conf", "draft-model = big = small, mid=small\n");
    config = CONFIG_LOAD(*state, 0, &err);
    assert_string_equal(config->models.draft_model, "big = small, mid=small");
    other = CONFIG_LOAD(*state, 0, &err, "--draft-model=");
    assert_string_equal(other->models.draft_model, "");
    assert_int_equal(config_take_live(config, other), 0);
    assert_string_equal(config->models.draft_model, "");
    config_free(other);
    config_free(config);
    CONFIG_LOAD(*state, CONFIG_E_FLAG, &err, "--draft-model=big");
    assert_non_null(strstr(err.text, "draft-model: 'big' is not TARGET=DRAFT"));
    CONFIG_LOAD(*state, CONFIG_E_FLAG, &err, "--draft-model=big=big");
    assert_non_null(strstr(err.text, "would draft for itself"));
    config_root_write(*state, "/etc/coordgen/coordgend.conf", "draft-model = a=b, b=a\n");
    CONFIG_LOAD(*state, CONFIG_E_FILE, &err);
    assert_non_null(strstr(err.text, "coordgend.conf:1: draft-model: 'b=a'"));
}

/* The folder that keeps the administrators' choices. */
static void test_config_state_dir(void **state) {
    ErrText err;
    Config *config;

    setenv("STATE_DIRECTORY", "/state/a:/state/b", 1);
    config = CONFIG_LOAD(*state, 0, &err);
    assert_string_equal(config->state_dir, "/state/a");
    config_free(config);
    unsetenv("STATE_DIRECTORY");
    config = CONFIG_LOAD(*state, 0, &err, "--state-dir=/mine");
    assert_string_equal(config->state_dir, "/mine");
    config_free(config);
    config = CONFIG_LOAD(*state, 0, &err, "--state-dir=");
    assert_string_equal(config->state_dir, "");
    config_free(config);
}

/* The table is consistent: built-in values are in range, names are unique, and each has a help text. */
static void test_config_table(void **state) {
    for (size_t i = 0; i < n_config_settings; i++) {
        const Setting *setting = &config_settings[i];

        assert_ptr_equal(config_table_find(setting->name), setting);
        assert_true(strlen(setting->help) > 10);
        assert_true(setting->min <= setting->max);
        if (setting->type == SETTING_U32 || setting->type == SETTING_DURATION)
            assert_true(setting->max <= UINT32_MAX);
    }
    assert_null(config_table_find("listen-"));
}

/* Every setting has an entry of its own in the manual page, and the page lists no other settings. */
static void test_config_manual_page(void **state) {
    _cleanup_(freep) char *page = NULL;
    size_t len_bytes, n_entries = 0;
    ErrText err;

    assert_int_equal(file_slurp("packaging/man/coordgend.conf.5", 1 << 20, &page, &len_bytes, &err), 0);
    for (char *from = page, *to = page;; from++) { /* roff source has \\- for a hyphen that can be copied */
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
    config = CONFIG_LOAD(*state, 0, &err);
    assert_int_equal(config->load.isa, ISA_AVX2);
    config_free(config);
    config = CONFIG_LOAD(*state, 0, &err, "--isa=scalar");
    assert_int_equal(config->load.isa, ISA_SCALAR);
    config_free(config);
    assert_int_equal(setenv("COORDGEN_ISA", "mmx", 1), 0);
    CONFIG_LOAD(*state, CONFIG_E_FLAG, &err);
    assert_non_null(strstr(err.text, "COORDGEN_ISA"));
    assert_int_equal(unsetenv("COORDGEN_ISA"), 0);
}

/* The message about an unknown setting suggests the setting that may be meant. */
static void test_config_unknown_settings(void **state) {
    _cleanup_(config_freep) Config *config = NULL;
    ErrText err = { 0 };

    assert_int_equal(config_new(&config, false, &err), 0);
    assert_int_equal(config_set(config, "thread", "2", &err), CONFIG_E_SETTING);
    assert_string_equal(err.text, "unknown setting 'thread': did you mean 'threads'?");
    assert_int_equal(config_set(config, "max-qeue", "2", &err), CONFIG_E_SETTING);
    assert_string_equal(err.text, "unknown setting 'max-qeue': did you mean 'max-queue'?");
    assert_int_equal(config_set(config, "nonsense", "2", &err), CONFIG_E_SETTING);
    assert_string_equal(err.text, "unknown setting 'nonsense': see coordgend --help");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, config_root_setup, config_root_teardown)
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
