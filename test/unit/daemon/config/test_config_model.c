// SPDX-License-Identifier: Apache-2.0
/* Settings of single models: sections [model NAME] of the files, and how settings name models. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/files/file_io.h"
#include "daemon/config/config_setting.h"
#include "engine/engine.h"
#include "test/unit/daemon/config/config_fixture.h"

/* Settings refer to models by names or by paths. */
static void test_config_model_names(void **state) {
    ErrText err;
    Config *config = CONFIG_LOAD(*state, 0, &err, "--model=small", "--preload= a ,/m/b.cgm,,größe");
    char model[64];
    const char *rest = config->models.preload;

    assert_string_equal(config->models.default_model, "small");
    assert_int_equal(config->models.on_demand, CONFIG_DEMAND_ALL);
    rest = setting_next_model(rest, model, sizeof(model));
    assert_string_equal(model, "a");
    rest = setting_next_model(rest, model, sizeof(model));
    assert_string_equal(model, "/m/b.cgm");
    rest = setting_next_model(rest, model, sizeof(model));
    assert_string_equal(model, "größe");
    assert_null(setting_next_model(rest, model, sizeof(model)));
    assert_null(setting_next_model("", model, sizeof(model)));
    assert_true(setting_is_path("a/b") && setting_is_path("b.cgm") && setting_is_path("b.gguf"));
    assert_false(setting_is_path("b") || setting_is_path("qwen2.5-coder") || setting_is_path(""));
    config_free(config);
}

/* A model's section overrides the settings for all models, and ends at the next section or at the file's end. */
static void test_config_model_sections(void **state) {
    const ConfigRoot *root = *state;
    char path[128], flag[160], *text;
    size_t len_bytes;
    ErrText err;
    Config *config, *again;
    FILE *file;

    config_root_write(
        root, "/etc/coordgen/coordgend.conf",
        "context-tokens = 100\n[model a b]\ncontext-tokens = 200 # more\n[model c]\ndevice = reference\n");
    config_root_write(root, "/etc/coordgen/coordgend.conf.d/50-a.conf",
                      "max-queue = 7\n[model  a b ]\nweights-memory = 50%\n");
    config = CONFIG_LOAD(root, 0, &err, "--context-tokens=300");
    assert_int_equal(config->turns.max_queue, 7); /* the previous file's section has ended with that file */
    assert_int_equal(config_context_tokens(config, "a b"), 200);
    assert_int_equal(config_context_tokens(config, "c"), 300);
    assert_int_equal(config_context_tokens(config, "other"), 300);
    assert_int_equal(config_load_options(config, "c").device, ENGINE_DEVICE_REFERENCE);
    assert_int_equal(config_load_options(config, "a b").device, ENGINE_DEVICE_CPU);
    assert_int_equal(config_load_options(config, "a b").weights.memory.percent, 50);
    assert_false(config_load_options(config, "c").weights.memory.is_set);
    assert_string_equal(config_next_section(config, NULL), "a b");
    assert_string_equal(config_next_section(config, "a b"), "c");
    assert_null(config_next_section(config, "c"));

    /* The printed configuration can be read back. */
    snprintf(path, sizeof(path), "%s/printed.conf", root->path);
    file = fopen(path, "w");
    assert_non_null(file);
    config_print(config, file);
    assert_int_equal(fclose(file), 0);
    snprintf(flag, sizeof(flag), "--config=%s", path);
    again = CONFIG_LOAD(root, 0, &err, flag);
    assert_int_equal(config_context_tokens(again, "a b"), 200);
    assert_int_equal(config_load_options(again, "a b").weights.memory.percent, 50);
    assert_int_equal(config_load_options(again, "c").device, ENGINE_DEVICE_REFERENCE);
    assert_int_equal(file_slurp(path, 1 << 20, &text, &len_bytes, &err), 0);
    assert_non_null(
        strstr(text, "\n\n[model a b]\ncontext-tokens = 200\nweights-memory = 50%\n\n[model c]\ndevice = ref"));
    free(text);
    config_free(config);
    config_free(again);
}

static void test_config_model_wrong_sections(void **state) {
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
        config_root_write(*state, "/etc/coordgen/coordgend.conf", text);
        CONFIG_LOAD(*state, CONFIG_E_FILE, &err);
        assert_non_null(strstr(err.text, "coordgend.conf:2: "));
        if (!strstr(err.text, cases[i].words))
            fail_msg("%s: %s", cases[i].line, err.text);
    }
}

/* A reload takes over the live settings of sections that stayed, were added or were removed. */
static void test_config_model_reload(void **state) {
    ConfigChanges changes = { 0 };
    Config *from, *to;
    ErrText err;

    config_root_write(*state, "/etc/coordgen/coordgend.conf",
                      "[model a]\ncontext-tokens = 100\nweights-memory = 10%\n[model gone]\ncontext-tokens = 50\n");
    from = CONFIG_LOAD(*state, 0, &err);
    config_root_write(*state, "/etc/coordgen/coordgend.conf",
                      "[model a]\ncontext-tokens = 200\nweights-memory = 20%\n[model new]\ncontext-tokens = 70\n");
    to = CONFIG_LOAD(*state, 0, &err);
    config_compare(from, to, config_count_change, &changes);
    assert_int_equal(changes.n_live, 3);
    assert_int_equal(changes.n_restart, 1);
    assert_int_equal(config_take_live(from, to), 0);
    assert_int_equal(config_context_tokens(from, "a"), 200);
    assert_int_equal(config_context_tokens(from, "new"), 70);
    assert_int_equal(config_context_tokens(from, "gone"), 4096);
    assert_int_equal(config_load_options(from, "a").weights.memory.percent, 10);
    changes = (ConfigChanges){ 0 };
    config_compare(from, to, config_count_change, &changes);
    assert_int_equal(changes.n_live, 0);
    config_free(from);
    config_free(to);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, config_root_setup, config_root_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_config_model_names),
        TEST(test_config_model_sections),
        TEST(test_config_model_wrong_sections),
        TEST(test_config_model_reload),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
