// SPDX-License-Identifier: Apache-2.0
/* The memory of a folder's files: each file is read once as long as it is unchanged, and the number of files is
 * bounded. */
#define _GNU_SOURCE
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/models/files/model_files.h"
#include "test/unit/fixtures/model_maker.h"

typedef struct Fixture {
    char folder[256];
    char path[300];
    ModelFiles files;
} Fixture;

static int setup(void **state) {
    Fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    test_folder_make(fixture->folder);
    snprintf(fixture->path, sizeof(fixture->path), "%s/a.gguf", fixture->folder);
    model_files_init(&fixture->files);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    Fixture *fixture = *state;

    model_files_deinit(&fixture->files);
    test_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

static void test_model_files_reads_once(void **state) {
    Fixture *fixture = *state;
    bool is_pending;

    test_write_file(fixture->folder, "a.gguf", "GGUF", 4);
    assert_null(model_files_look(&fixture->files, 1, fixture->path, &is_pending));
    assert_true(is_pending);
    while (model_files_step(&fixture->files))
        ;
    for (uint64_t scan = 1; scan < 3; scan++) {
        const ModelFile *file = model_files_look(&fixture->files, scan, fixture->path, &is_pending);

        assert_false(is_pending);
        assert_int_equal(file->info.kind, GGUF_KIND_CUT);
    }
    test_write_file(fixture->folder, "a.gguf", "none!", 5);
    assert_non_null(model_files_look(&fixture->files, 2, fixture->path, &is_pending)); /* known in scan 2 */
    assert_null(model_files_look(&fixture->files, 3, fixture->path, &is_pending));
    assert_true(is_pending);
    while (model_files_step(&fixture->files))
        ;
    assert_int_equal(model_files_look(&fixture->files, 3, fixture->path, &is_pending)->info.kind, GGUF_KIND_OTHER);
    assert_int_equal(fixture->files.n, 1);
    assert_int_equal(unlink(fixture->path), 0);
    assert_null(model_files_look(&fixture->files, 4, fixture->path, &is_pending));
    assert_false(is_pending);
    model_files_forget_gone(&fixture->files, 4);
    assert_int_equal(fixture->files.n, 0);
}

/* A file whose name tells its kind is not read, and an abandoned read leaves nothing behind. */
static void test_model_files_by_name(void **state) {
    Fixture *fixture = *state;
    bool is_pending;

    test_write_file(fixture->folder, "mmproj-a.gguf", "GGUF", 4);
    test_write_file(fixture->folder, "a.gguf", "GGUF", 4);
    snprintf(fixture->path, sizeof(fixture->path), "%s/mmproj-a.gguf", fixture->folder);
    assert_int_equal(model_files_look(&fixture->files, 1, fixture->path, &is_pending)->info.kind, GGUF_KIND_PROJECTOR);
    snprintf(fixture->path, sizeof(fixture->path), "%s/a.gguf", fixture->folder);
    assert_null(model_files_look(&fixture->files, 1, fixture->path, &is_pending));
    assert_true(is_pending);
}

static void test_model_files_are_bounded(void **state) {
    Fixture *fixture = *state;
    bool is_pending;

    test_write_file(fixture->folder, "a.gguf", "GGUF", 4);
    fixture->files.n = MODEL_FILES_MAX;
    assert_null(model_files_look(&fixture->files, 1, fixture->path, &is_pending));
    assert_false(is_pending);
    fixture->files.n = 0;
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(test_model_files_reads_once),
        WITH(test_model_files_by_name),
        WITH(test_model_files_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
