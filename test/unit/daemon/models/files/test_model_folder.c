// SPDX-License-Identifier: Apache-2.0
/* The models' folder: what a scan finds, when a scan is due, and how much of a scan one step does. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/models/files/model_folder.h"

enum {
    MANY = 1000,
};

typedef struct Fixture {
    char path[64];
    Config config;
    Loop loop;
    ModelRegistry registry;
    ModelFolder folder;
} Fixture;

static void on_change(void *arg, Model *model) {
}

static int setup(void **state) {
    Fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    snprintf(fixture->path, sizeof(fixture->path), "/tmp/coordgen-folder-XXXXXX");
    assert_non_null(mkdtemp(fixture->path));
    fixture->config.models.dir = fixture->path;
    fixture->config.load.device = ENGINE_DEVICE_CPU;
    fixture->loop.thread = pthread_self();
    model_registry_init(&fixture->registry, &fixture->loop, &fixture->config, NULL, on_change, NULL);
    model_folder_init(&fixture->folder, &fixture->registry);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    Fixture *fixture = *state;
    char command[160];

    model_folder_deinit(&fixture->folder);
    model_registry_deinit(&fixture->registry);
    snprintf(command, sizeof(command), "rm -rf %s", fixture->path);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

enum {
    MODEL_BYTES = 68,
};

/* The smallest file that counts as a model: a tensor of one number, behind its description. */
static const char whole_model[MODEL_BYTES] = "GGUF\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                             "\1\0\0\0\0\0\0\0t\1\0\0\0\1\0\0\0\0\0\0\0";

/* Makes a file of the first @n bytes of a model, then zeros up to @len_bytes. */
static void make_part_of_file(const Fixture *fixture, const char *name, size_t n, size_t len_bytes) {
    static const char zeros[MODEL_BYTES];
    char path[PATH_MAX];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", fixture->path, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(whole_model, 1, n, file), n);
    assert_int_equal(fwrite(zeros, 1, len_bytes - n, file), len_bytes - n);
    assert_int_equal(fclose(file), 0);
}

static void make_file(const Fixture *fixture, const char *name) {
    make_part_of_file(fixture, name, MODEL_BYTES, MODEL_BYTES);
}

static void remove_file(const Fixture *fixture, const char *name) {
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", fixture->path, name);
    assert_int_equal(unlink(path), 0);
}

/* Sets the folder's time to so many seconds ago, so that only the test's own changes count as news. */
static void age(const Fixture *fixture, long seconds) {
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };

    clock_gettime(CLOCK_REALTIME, &times[1]);
    times[1].tv_sec -= seconds;
    assert_int_equal(utimensat(AT_FDCWD, fixture->path, times, 0), 0);
}

static void scan(Fixture *fixture) {
    uint64_t wanted = model_folder_want(&fixture->folder);

    if (wanted)
        while (model_folder_step(&fixture->folder))
            ;
    assert_true(model_folder_has(&fixture->folder, wanted));
}

static void make_many(const Fixture *fixture) {
    for (int i = 0; i < MANY; i++) {
        char name[32];

        snprintf(name, sizeof(name), "m%03d.gguf", i);
        make_file(fixture, name);
    }
    age(fixture, 3600);
}

static void test_model_folder_finds_and_forgets(void **state) {
    Fixture *fixture = *state;
    Model *model;

    make_file(fixture, "a.gguf");
    make_file(fixture, "b.cgm");
    make_file(fixture, "notes.txt");
    make_file(fixture, ".hidden.gguf");
    scan(fixture);
    assert_int_equal(fixture->registry.n_models, 2);
    model = model_registry_find(&fixture->registry, "a");
    assert_non_null(model);
    assert_int_equal(model->source.origin, MODEL_FROM_FOLDER);
    assert_int_equal(model->source.bytes, MODEL_BYTES);
    assert_ptr_equal(model_registry_find_path(&fixture->registry, model->source.path), model);
    assert_null(model_registry_find(&fixture->registry, "notes"));

    remove_file(fixture, "a.gguf");
    make_file(fixture, "c.gguf");
    scan(fixture);
    assert_null(model_registry_find(&fixture->registry, "a"));
    assert_non_null(model_registry_find(&fixture->registry, "b"));
    assert_non_null(model_registry_find(&fixture->registry, "c"));
    assert_int_equal(fixture->registry.n_models, 2);
}

static void test_model_folder_keeps_what_is_used(void **state) {
    Fixture *fixture = *state;
    Model *model;

    make_file(fixture, "a.gguf");
    scan(fixture);
    model = model_registry_find(&fixture->registry, "a");
    model->n_users = 1;
    remove_file(fixture, "a.gguf");
    scan(fixture);
    assert_ptr_equal(model_registry_find(&fixture->registry, "a"), model);
    model->n_users = 0;
    age(fixture, 7200);
    scan(fixture);
    assert_null(model_registry_find(&fixture->registry, "a"));
}

/* A file that went while its model was in use: the last user's end forgets the model, without another scan. */
static void test_model_folder_forgets_after_use(void **state) {
    Fixture *fixture = *state;
    Model *model;

    make_file(fixture, "a.gguf");
    make_file(fixture, "b.gguf");
    scan(fixture);
    model = model_registry_find(&fixture->registry, "a");
    model->n_users = 1;
    remove_file(fixture, "a.gguf");
    scan(fixture);
    model_forget_unused(model);
    assert_ptr_equal(model_registry_find(&fixture->registry, "a"), model);
    model->n_users = 0;
    model_forget_unused(model);
    assert_null(model_registry_find(&fixture->registry, "a"));
    model = model_registry_find(&fixture->registry, "b");
    model_forget_unused(model);
    assert_ptr_equal(model_registry_find(&fixture->registry, "b"), model);
}

/* Clients cause no scan of an unchanged folder, however often they ask. */
static void test_model_folder_is_read_once(void **state) {
    Fixture *fixture = *state;

    make_many(fixture);
    scan(fixture);
    assert_int_equal(fixture->registry.n_models, MANY);
    assert_int_equal(fixture->folder.n_begun, 1);
    fixture->folder.began_ns = UINT64_MAX / 2; /* the last scan stays recent, however slow the machine is */
    for (int i = 0; i < 10000; i++)
        assert_int_equal(model_folder_want(&fixture->folder), 0);
    assert_int_equal(fixture->folder.n_begun, 1);
    fixture->folder.began_ns = 0; /* the last scan is over a second old */
    assert_int_equal(model_folder_want(&fixture->folder), 2);
}

/* No step handles more entries than its limit, and callers during a scan wait for that scan. */
static void test_model_folder_goes_in_steps(void **state) {
    Fixture *fixture = *state;
    size_t n_before = 0;

    make_many(fixture);
    assert_int_equal(model_folder_want(&fixture->folder), 1);
    while (model_folder_step(&fixture->folder)) {
        assert_true(fixture->registry.n_models <= n_before + MODEL_FOLDER_STEP_ENTRIES);
        n_before = fixture->registry.n_models;
        assert_int_equal(model_folder_want(&fixture->folder), 1);
        assert_false(model_folder_has(&fixture->folder, 1));
    }
    assert_true(model_folder_has(&fixture->folder, 1));
    assert_int_equal(fixture->registry.n_models, MANY);
}

/* A caller after a change gets a scan that began after the change; earlier callers do not wait for that scan. */
static void test_model_folder_changed_meanwhile(void **state) {
    Fixture *fixture = *state;

    make_many(fixture);
    assert_int_equal(model_folder_want(&fixture->folder), 1);
    assert_true(model_folder_step(&fixture->folder));
    make_file(fixture, "new.gguf");
    remove_file(fixture, "m000.gguf");
    assert_int_equal(model_folder_want(&fixture->folder), 2);
    while (!model_folder_has(&fixture->folder, 1))
        assert_true(model_folder_step(&fixture->folder));
    assert_false(model_folder_has(&fixture->folder, 2));
    while (model_folder_step(&fixture->folder))
        ;
    assert_true(model_folder_has(&fixture->folder, 2));
    assert_non_null(model_registry_find(&fixture->registry, "new"));
    assert_null(model_registry_find(&fixture->registry, "m000"));
}

/* A second change within the resolution of the file system's clock leaves no trace, so the folder counts as changed
 * right after any change. */
static void test_model_folder_two_changes_at_once(void **state) {
    Fixture *fixture = *state;

    make_file(fixture, "a.gguf");
    age(fixture, -5); /* a time in the future, as from a clock that is ahead, does not count as just changed */
    scan(fixture);
    assert_int_equal(model_folder_want(&fixture->folder), 0);
    age(fixture, 0);
    scan(fixture);
    fixture->folder.too_soon = true; /* set by the scan, unless this process was delayed */
    make_file(fixture, "b.gguf");
    scan(fixture);
    assert_non_null(model_registry_find(&fixture->registry, "b"));
}

static void test_model_folder_that_is_not_there(void **state) {
    Fixture *fixture = *state;
    char command[160];

    make_file(fixture, "a.gguf");
    scan(fixture);
    snprintf(command, sizeof(command), "mv %s %s-away", fixture->path, fixture->path);
    assert_int_equal(system(command), 0);
    scan(fixture);
    assert_int_equal(fixture->folder.error, ENOENT);
    assert_int_equal(fixture->registry.n_models, 0);
    fixture->folder.began_ns = UINT64_MAX / 2;
    assert_int_equal(model_folder_want(&fixture->folder), 0);
    snprintf(command, sizeof(command), "mv %s-away %s", fixture->path, fixture->path);
    assert_int_equal(system(command), 0);
    scan(fixture);
    assert_non_null(model_registry_find(&fixture->registry, "a"));
}

/* A file that is no model does not affect the default model, and a request that names the file is told its kind. */
static void test_model_folder_lists_models_only(void **state) {
    Fixture *fixture = *state;
    const char *why;

    make_file(fixture, "only.gguf");
    make_file(fixture, "mmproj-only.gguf");
    make_file(fixture, "imatrix.gguf");
    make_file(fixture, "aria.gguf");
    make_file(fixture, "aria.gguf.aria2");
    make_part_of_file(fixture, "cut.gguf", MODEL_BYTES - 1, MODEL_BYTES - 1);
    make_part_of_file(fixture, "begun.gguf", 0, 0);
    make_part_of_file(fixture, "reserved.gguf", 0, MODEL_BYTES);
    scan(fixture);
    assert_int_equal(fixture->registry.n_models, 1);
    assert_non_null(model_registry_find(&fixture->registry, "only"));
    assert_null(model_folder_why_not(&fixture->folder, "only"));
    assert_null(model_folder_why_not(&fixture->folder, "none"));
    why = model_folder_why_not(&fixture->folder, "mmproj-only");
    assert_non_null(strstr(why, "mmproj-only.gguf: is a vision projector"));
    assert_non_null(strstr(model_folder_why_not(&fixture->folder, "cut"), "cut short: 67 of 68 bytes"));
    assert_non_null(strstr(model_folder_why_not(&fixture->folder, "aria.gguf"), "being downloaded"));
    assert_non_null(strstr(model_folder_why_not(&fixture->folder, "begun"), "cut short"));
    assert_non_null(strstr(model_folder_why_not(&fixture->folder, "reserved"), "not a GGUF file"));
}

/* A download becomes a model once complete, and a truncated file is no model any more. */
static void test_model_folder_follows_a_file(void **state) {
    Fixture *fixture = *state;
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/a.gguf", fixture->path);
    make_part_of_file(fixture, "a.gguf", MODEL_BYTES - 2, MODEL_BYTES - 2);
    scan(fixture);
    assert_null(model_registry_find(&fixture->registry, "a"));
    assert_int_equal(truncate(path, MODEL_BYTES), 0);
    fixture->folder.began_ns = 0; /* the last scan is over a second old; the folder itself is unchanged */
    scan(fixture);
    assert_non_null(model_registry_find(&fixture->registry, "a"));
    assert_null(model_folder_why_not(&fixture->folder, "a"));
    assert_int_equal(truncate(path, MODEL_BYTES - 1), 0);
    fixture->folder.began_ns = 0;
    scan(fixture);
    assert_null(model_registry_find(&fixture->registry, "a"));
    assert_non_null(model_folder_why_not(&fixture->folder, "a"));
}

/* Makes a part: keys that tell the part's number, then the tensor of whole_model. */
static void make_part(const Fixture *fixture, const char *name, char no, char count) {
    const char keys[] = { 8, 0, 0, 0, 0, 0, 0,   0,   's', 'p', 'l', 'i', 't', '.', 'n', 'o', 0,   0, 0, 0, no, 11,   0,
                          0, 0, 0, 0, 0, 0, 's', 'p', 'l', 'i', 't', '.', 'c', 'o', 'u', 'n', 't', 0, 0, 0, 0,  count };
    char path[PATH_MAX], data[128 + 4] = { 0 };
    FILE *file;

    memcpy(data, whole_model, 24);
    data[16] = 2;
    memcpy(data + 24, keys, sizeof(keys));
    memcpy(data + 24 + sizeof(keys), whole_model + 24, 33);
    snprintf(path, sizeof(path), "%s/%s", fixture->path, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, sizeof(data), file), sizeof(data));
    assert_int_equal(fclose(file), 0);
}

static void test_model_folder_joins_parts(void **state) {
    Fixture *fixture = *state;
    Model *model;

    make_part(fixture, "big-00001-of-00003.gguf", 0, 3);
    make_part(fixture, "big-00003-of-00003.gguf", 2, 3);
    scan(fixture);
    assert_int_equal(fixture->registry.n_models, 0);
    assert_non_null(strstr(model_folder_why_not(&fixture->folder, "big"),
                           "big-00002-of-00003.gguf: shard 2 of 3 of the model is missing: fetch it too"));
    make_part(fixture, "big-00002-of-00003.gguf", 1, 3);
    scan(fixture);
    assert_int_equal(fixture->registry.n_models, 1);
    model = model_registry_find(&fixture->registry, "big");
    assert_non_null(model);
    assert_int_equal(model->source.bytes, 3 * 132);
    model_measure(model);
    assert_int_equal(model->source.bytes, 3 * 132);
    assert_non_null(strstr(model_folder_why_not(&fixture->folder, "big-00002-of-00003"),
                           "is shard 2 of 3 of a model: load big-00001-of-00003.gguf"));
    make_part_of_file(fixture, "big-00003-of-00003.gguf", 40, 40);
    fixture->folder.began_ns = 0;
    scan(fixture);
    assert_int_equal(fixture->registry.n_models, 0);
    assert_non_null(strstr(model_folder_why_not(&fixture->folder, "big"), "big-00003-of-00003.gguf: is cut short"));
}

static void test_model_folder_none(void **state) {
    Fixture *fixture = *state;
    char none[] = "";

    fixture->config.models.dir = none;
    assert_int_equal(model_folder_want(&fixture->folder), 0);
    assert_false(model_folder_step(&fixture->folder));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_model_folder_finds_and_forgets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_model_folder_keeps_what_is_used, setup, teardown),
        cmocka_unit_test_setup_teardown(test_model_folder_forgets_after_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_model_folder_is_read_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_model_folder_goes_in_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_model_folder_changed_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_model_folder_two_changes_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_model_folder_that_is_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_model_folder_lists_models_only, setup, teardown),
        cmocka_unit_test_setup_teardown(test_model_folder_follows_a_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_model_folder_joins_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_model_folder_none, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
