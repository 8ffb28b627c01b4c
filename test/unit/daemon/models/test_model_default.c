// SPDX-License-Identifier: Apache-2.0
/* The stored default model: what survives a restart, which files are set aside, and the order of precedence. */
#define _GNU_SOURCE
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/file_io.h"
#include "daemon/models/model_default.h"

typedef struct Place {
    char dir[64]; /* a folder that does not exist at first */
    char path[128];
    ModelDefault def;
} Place;

static int setup(void **state) {
    Place *place = calloc(1, sizeof(*place));
    char folder[] = "/tmp/coordgen-default-XXXXXX";

    assert_non_null(place);
    assert_non_null(mkdtemp(folder));
    snprintf(place->dir, sizeof(place->dir), "%s/state", folder);
    snprintf(place->path, sizeof(place->path), "%s/" MODEL_DEFAULT_FILE, place->dir);
    assert_int_equal(model_default_init(&place->def, place->dir), 0);
    *state = place;
    return 0;
}

static int teardown(void **state) {
    Place *place = *state;
    char command[128];

    model_default_deinit(&place->def);
    *strrchr(place->dir, '/') = 0;
    snprintf(command, sizeof(command), "rm -rf %s", place->dir);
    assert_int_equal(system(command), 0);
    free(place);
    return 0;
}

/* Reads the file again, as after a restart. */
static void reopen(Place *place) {
    model_default_deinit(&place->def);
    assert_int_equal(model_default_init(&place->def, place->dir), 0);
}

static void expect(const Place *place, ModelDefaultBy by, const char *name) {
    assert_int_equal(model_default_by(&place->def), by);
    if (name)
        assert_string_equal(model_default_name(&place->def), name);
    else
        assert_null(model_default_name(&place->def));
}

static void set(Place *place, const char *name) {
    ErrText err = { 0 };

    if (model_default_set(&place->def, name, &err))
        fail_msg("%s: %s", name, err.text);
}

static void test_model_default_is_kept(void **state) {
    Place *place = *state;

    expect(place, MODEL_DEFAULT_NONE, NULL);
    model_default_note_first(&place->def, "one", true);
    reopen(place);
    expect(place, MODEL_DEFAULT_BY_FIRST, "one");
    set(place, "größe =,1");
    reopen(place);
    expect(place, MODEL_DEFAULT_BY_COMMAND, "größe =,1");
    model_default_note_first(&place->def, "passing", false);
    expect(place, MODEL_DEFAULT_BY_FIRST, "passing");
    reopen(place);
    expect(place, MODEL_DEFAULT_BY_COMMAND, "größe =,1");
}

/* The setting overrides the default that a command stored; without the setting the stored default holds again. */
static void test_model_default_setting(void **state) {
    Place *place = *state;
    ErrText err;

    set(place, "said");
    assert_int_equal(model_default_take_setting(&place->def, "set"), 0);
    expect(place, MODEL_DEFAULT_BY_SETTING, "set");
    assert_int_equal(model_default_set(&place->def, "other", &err), MODEL_DEFAULT_E_SETTING);
    assert_non_null(strstr(err.text, "the setting model makes set the default"));
    reopen(place);
    assert_int_equal(model_default_take_setting(&place->def, ""), 0);
    expect(place, MODEL_DEFAULT_BY_COMMAND, "said");
}

/* A file with damage at any byte, or with content that cannot be valid, is set aside. */
static void test_model_default_damage(void **state) {
    static const char *const bodies[] = {
        "",
        "command\n",
        "command\t\n",
        "somebody\tname\n",
        "command\tname",
        "command\tname\nfirst\tother\n",
        "command\tna\tme\n",
        "command\tna\x7fme\n",
    };
    Place *place = *state;
    _cleanup_(freep) char *text = NULL;
    size_t len_bytes;
    ErrText err;

    set(place, "name");
    assert_int_equal(file_slurp(place->path, 4096, &text, &len_bytes, &err), 0);
    for (size_t i = 0; i < len_bytes; i++) {
        FILE *file = fopen(place->path, "w");

        assert_non_null(file);
        text[i] ^= 1;
        assert_int_equal(fwrite(text, 1, len_bytes, file), len_bytes);
        assert_int_equal(fclose(file), 0);
        text[i] ^= 1;
        reopen(place);
        expect(place, MODEL_DEFAULT_NONE, NULL);
        assert_int_equal(access(place->path, F_OK), -1);
    }
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        StateFile file;

        assert_int_equal(state_file_init(&file, place->dir, MODEL_DEFAULT_FILE, "coordgen-default-model 1\n"), 0);
        assert_int_equal(state_file_write(&file, bodies[i], "it", &err), 0);
        state_file_deinit(&file);
        reopen(place);
        expect(place, MODEL_DEFAULT_NONE, NULL);
        assert_int_equal(access(place->path, F_OK), -1);
    }
    set(place, "again");
    reopen(place);
    expect(place, MODEL_DEFAULT_BY_COMMAND, "again");
}

/* A killed writer leaves either the old file or the new one. */
static void test_model_default_killed(void **state) {
    static const char *const names[] = { "one", "other" };
    Place *place = *state;

    set(place, "one");
    for (unsigned int i = 0; i < 20; i++) {
        const pid_t pid = fork();
        const char *name;

        assert_true(pid >= 0);
        if (!pid)
            for (unsigned int n = 0;; n++) {
                ErrText err;

                (void)model_default_set(&place->def, names[n % 2], &err);
            }
        usleep(1000 + 700 * i);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        reopen(place);
        name = model_default_name(&place->def);
        assert_non_null(name);
        assert_true(!strcmp(name, names[0]) || !strcmp(name, names[1]));
    }
}

/* If the default cannot be stored, a command changes nothing, and the first model is the default until the service
 * ends. */
static void test_model_default_nowhere(void **state) {
    Place *place = *state;
    ModelDefault nowhere;
    ErrText err;

    assert_int_equal(model_default_init(&nowhere, ""), 0);
    assert_int_equal(model_default_set(&nowhere, "name", &err), MODEL_DEFAULT_E_STORE);
    assert_non_null(strstr(err.text, "set state-dir"));
    assert_null(model_default_name(&nowhere));
    model_default_note_first(&nowhere, "name", true);
    assert_string_equal(model_default_name(&nowhere), "name");
    model_default_deinit(&nowhere);

    assert_int_equal(mkdir(place->dir, 0700), 0);
    assert_int_equal(mkdir(place->path, 0700), 0); /* a folder of the file's name cannot be read */
    reopen(place);
    assert_int_equal(model_default_set(&place->def, "name", &err), MODEL_DEFAULT_E_STORE);
    assert_non_null(strstr(err.text, "could not be read"));
    expect(place, MODEL_DEFAULT_NONE, NULL);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_model_default_is_kept), TEST(test_model_default_setting), TEST(test_model_default_damage),
        TEST(test_model_default_killed),  TEST(test_model_default_nowhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
