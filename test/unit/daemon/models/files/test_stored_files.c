// SPDX-License-Identifier: Apache-2.0
/* Files of the service: their kinds by name, their owners, and which are removed with a model. test_disk tests packages
 * and images. */
#define _GNU_SOURCE
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/models/files/stored_files.h"
#include "test/unit/fixtures/model_maker.h"

typedef struct Fixture {
    char folder[256], models[300], cache[300], imported[350];
    char none[1];
    Config config;
    Loop loop;
    ModelRegistry registry;
    StoredFiles files;
} Fixture;

static void on_change(void *arg, Model *model) {
}

static int setup(void **state) {
    Fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    test_folder_make(fixture->folder);
    snprintf(fixture->models, sizeof(fixture->models), "%s/models", fixture->folder);
    snprintf(fixture->cache, sizeof(fixture->cache), "%s/cache", fixture->folder);
    snprintf(fixture->imported, sizeof(fixture->imported), "%s/models", fixture->cache);
    assert_int_equal(mkdir(fixture->models, 0700) | mkdir(fixture->cache, 0700) | mkdir(fixture->imported, 0700), 0);
    fixture->config = (Config){ .models.dir = fixture->models,
                                .cache_dir = fixture->cache,
                                .state_dir = fixture->none,
                                .draft_db.dir = fixture->none,
                                .load = { .device = ENGINE_DEVICE_CPU } };
    fixture->loop.thread = pthread_self();
    model_registry_init(&fixture->registry, &fixture->loop, &fixture->config, NULL, on_change, NULL);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    Fixture *fixture = *state;

    stored_files_deinit(&fixture->files);
    model_registry_deinit(&fixture->registry);
    test_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

static void collect(Fixture *fixture) {
    stored_files_deinit(&fixture->files);
    assert_int_equal(stored_files_collect(&fixture->files, &fixture->registry), 0);
}

static const StoredFile *find(const Fixture *fixture, const char *name) {
    for (size_t i = 0; i < fixture->files.n; i++)
        if (!strcmp(strrchr(fixture->files.files[i].path, '/') + 1, name))
            return &fixture->files.files[i];
    fail_msg("%s is not among the files", name);
    return NULL;
}

static Model *add_model(Fixture *fixture, const char *name) {
    char path[400];
    Model *model;
    ErrText err = { 0 };

    test_write_file(fixture->models, name, "x", 1);
    snprintf(path, sizeof(path), "%s/%s", fixture->models, name);
    assert_int_equal(model_registry_add(&fixture->registry, path, &model, &err), 0);
    return model;
}

/* A file is removed with its own model only, however similar the names of other models are. */
static void test_stored_files_of_a_model(void **state) {
    static const struct {
        const char *name;
        bool of_big, of_split;
    } expected[] = {
        { "big.cgm", true, false },
        { "big.cgm.exit", false, false }, /* the laboratory's, not the service's */
        { "big.gguf", false, false },     /* a source whose name is taken by the listed package */
        { "big.cgm.part", true, false },
        { "big-2.cgm", false, false },
        { "split-00001-of-00002.gguf", false, true },
        { "split-00002-of-00002.gguf", false, true },
        { "split-00002-of-00003.gguf", false, false },
        { "notes.txt", false, false },
        { "split-0123456789ab.cgm", false, true },
        { "big-0123456789ab.cgm", false, false }, /* made from a source elsewhere */
    };
    Fixture *fixture = *state;
    const Model *big = add_model(fixture, "big.cgm"), *split = add_model(fixture, "split-00001-of-00002.gguf");

    assert_string_equal(split->name, "split");
    for (size_t i = 0; i < ARRAY_LEN(expected); i++)
        test_write_file(strstr(expected[i].name, "0123456789ab") ? fixture->imported : fixture->models,
                        expected[i].name, "x", 1);
    collect(fixture);
    assert_int_equal(fixture->files.n, ARRAY_LEN(expected));
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        const StoredFile *file = find(fixture, expected[i].name);

        assert_int_equal(stored_file_goes_with(&fixture->files, file, big), expected[i].of_big);
        assert_int_equal(stored_file_goes_with(&fixture->files, file, split), expected[i].of_split);
    }
}

static void test_stored_files_of_imports(void **state) {
    Fixture *fixture = *state;
    ErrText err = { 0 };

    test_write_file(fixture->imported, "a.cgm.part", "x", 1);
    test_write_file(fixture->imported, "a.cgm.part.journal", "x", 1);
    test_write_file(fixture->imported, "b.cgm.part", "", 0);
    test_write_file(fixture->imported, "c.cgm.part.journal", "x", 1);
    collect(fixture);
    assert_int_equal(find(fixture, "a.cgm.part")->fate, STORED_RESUMABLE);
    assert_int_equal(find(fixture, "a.cgm.part.journal")->fate, STORED_RESUMABLE);
    assert_int_equal(find(fixture, "b.cgm.part")->fate, STORED_USELESS);
    assert_int_equal(find(fixture, "c.cgm.part.journal")->fate, STORED_USELESS);
    for (size_t i = 0; i < fixture->files.n; i++)
        assert_int_equal(stored_file_remove(&fixture->files.files[i], &err), 0);
    collect(fixture);
    assert_int_equal(fixture->files.n, 0);
}

/* Removal deletes a link, and leaves the link's target. */
static void test_stored_files_links(void **state) {
    Fixture *fixture = *state;
    char target[400], link[400];
    ErrText err = { 0 };

    test_write_file(fixture->folder, "target.cgm", "x", 1);
    snprintf(target, sizeof(target), "%s/target.cgm", fixture->folder);
    snprintf(link, sizeof(link), "%s/link.cgm", fixture->models);
    assert_int_equal(symlink(target, link), 0);
    collect(fixture);
    assert_string_equal(find(fixture, "link.cgm")->note, "a link");
    assert_int_equal(stored_file_remove(find(fixture, "link.cgm"), &err), 0);
    assert_int_equal(access(target, F_OK), 0);
    assert_int_equal(access(link, F_OK), -1);
    assert_int_equal(stored_file_remove(find(fixture, "link.cgm"), &err), 0); /* the file was removed meanwhile */
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(test_stored_files_of_a_model),
        WITH(test_stored_files_of_imports),
        WITH(test_stored_files_links),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
