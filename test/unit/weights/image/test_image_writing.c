// SPDX-License-Identifier: Apache-2.0
/* How an image of the weights is written: matrix by matrix during a load, never at the load's cost; whole under its
 * name or not at all; only if there is room for it; by one of several loads at a time. */
#undef NDEBUG
#define _GNU_SOURCE
#include <errno.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine_state.h"
#include "test/unit/weights/image/image_loads.h"
#include "weights/image/weights_image.h"

/* A load does not fail by its image, and nothing is left of an image that was not finished. */
static void test_image_writing_not_written(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    const struct rlimit little = { .rlim_cur = 64 << 10, .rlim_max = RLIM_INFINITY };
    struct rlimit before;
    Loaded loaded = { 0 };
    Logits logits;
    ErrText err = { 0 };

    loaded_make_package(fixture, 8, false, false, package);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    loaded.image_path = image;
    loaded_init(&loaded, package, 0); /* given up at once, or just done */
    loaded_deinit(&loaded);
    unlink(image);
    assert_int_equal(image_files(image), 0);

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    loaded_init(&loaded, package, 0);
    assert_int_equal(loaded_forward(&loaded, logits, &err), 0);
    assert_int_equal(weights_wait_image(engine_weights(loaded.engine), &err), -EFBIG);
    assert_non_null(strstr(err.text, image));
    assert_int_equal(image_files(image), 0); /* the part that was written takes no room while the model goes on */
    loaded_deinit(&loaded);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);

    /* A folder that cannot be made. */
    assert_int_equal(weights_image_path(image, sizeof(image), package, package), 0);
    loaded_init(&loaded, package, 0);
    assert_int_equal(weights_wait_image(engine_weights(loaded.engine), &err), -ENOTDIR);
    loaded_deinit(&loaded);
}

/* An image that nobody has asked for is made as well, but not in a folder in memory; the decision is told. */
static void test_image_writing_optional(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX], folder[] = "/dev/shm/coordgen-image-XXXXXX";
    Loaded loaded = { .image_path = image };
    Logits logits;
    struct statfs fs;
    ErrText err = { 0 };

    loaded_make_package(fixture, 8, false, false, package);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    if (!statfs(fixture->cache, &fs) && fs.f_type == TMPFS_MAGIC) {
        print_message("left out: the folder of tests is in memory\n");
        skip();
    }
    loaded_init(&loaded, package, LOADED_OPTIONAL_IMAGE);
    assert_int_equal(weights_wait_image(engine_weights(loaded.engine), &err), 0);
    assert_int_equal(weights_image_report(engine_weights(loaded.engine)).state, IMAGE_WRITTEN);
    assert_int_equal(weights_image_report(engine_weights(loaded.engine)).len_bytes, image_file_bytes(image));
    loaded_deinit(&loaded);
    loaded_init(&loaded, package, LOADED_OPTIONAL_IMAGE);
    assert_int_equal(weights_image_report(engine_weights(loaded.engine)).state, IMAGE_MAPPED);
    assert_int_equal(weights_image_report(engine_weights(loaded.engine)).len_bytes, image_file_bytes(image));
    loaded_deinit(&loaded);

    if (statfs("/dev/shm", &fs) || fs.f_type != TMPFS_MAGIC || !mkdtemp(folder)) {
        print_message("left out: no file system in memory at /dev/shm\n");
        skip();
    }
    assert_int_equal(weights_image_path(image, sizeof(image), folder, package), 0);
    loaded_init(&loaded, package, LOADED_OPTIONAL_IMAGE);
    assert_int_equal(weights_wait_image(engine_weights(loaded.engine), &err), -ENOSPC);
    assert_non_null(strstr(err.text, "in memory"));
    assert_int_equal(weights_image_report(engine_weights(loaded.engine)).state, IMAGE_NO_ROOM);
    assert_true(weights_image_report(engine_weights(loaded.engine)).room.is_memory);
    loaded_deinit(&loaded);
    assert_int_equal(image_files(image), 0);
    assert_false(image_run(&loaded, package, 0, logits)); /* an image that was asked for */
    assert_true(image_run(&loaded, package, 0, logits));
    assert_int_equal(unlink(image), 0);
    *strrchr(image, '/') = 0;
    assert_int_equal(rmdir(image), 0);
    assert_int_equal(rmdir(folder), 0);
}

static uint64_t arrive_half(Engine *engine) {
    uint64_t end_bytes = 0;
    ErrText err;

    while (weights_permille(engine_weights(engine)) < 500)
        assert_int_equal(engine_arrive(engine, &err), 0);
    end_bytes = weights_image_report(engine_weights(engine)).len_bytes / 4;
    assert_true(end_bytes > 0);
    return end_bytes;
}

/* Every matrix is written after its arrival, and the image gets its name when all have come. */
static void test_image_writing_behind_matrices(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    Loaded loaded = { .image_path = image };
    uint64_t end_bytes;
    ErrText err = { 0 };

    loaded_make_package(fixture, 8, false, false, package);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    loaded_init(&loaded, package, LOADED_ARRIVING);
    end_bytes = arrive_half(loaded.engine);
    for (int i = 0; weights_image_report(engine_weights(loaded.engine)).written_bytes < end_bytes; i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    assert_false(image_file_exists(image));
    while (engine_is_arriving(loaded.engine))
        assert_int_equal(engine_arrive(loaded.engine, &err), 0);
    assert_int_equal(weights_wait_image(engine_weights(loaded.engine), &err), 0);
    assert_true(image_file_exists(image));
    loaded_deinit(&loaded);
    unlink(image);

    /* A load that is given up in the middle leaves nothing. */
    loaded_init(&loaded, package, LOADED_ARRIVING);
    (void)arrive_half(loaded.engine);
    loaded_deinit(&loaded);
    assert_int_equal(image_files(image), 0);
}

/* The image is not written to the disk that a load waits for, as long as it waits. */
static void test_image_writing_behind_slow_load(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    Loaded loaded = { .image_path = image };
    EngineOptions options;
    uint64_t end_bytes;
    ErrText err = { 0 };

    loaded_make_package(fixture, 8, false, false, package);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    account_table_init(&loaded.accounts);
    assert_int_equal(worker_pool_new(&loaded.pool, 2), 0);
    options = loaded_options(&loaded, package, LOADED_ARRIVING);
    options.load.weights.reading = WEIGHT_READING_THREADS;
    options.load.weights.flash_limit.latency_us = 100000; /* much longer than laying out all reads that are under way */
    options.load.weights.limits_all = true;
    assert_int_equal(engine_new(&loaded.engine, &options, &err), 0);
    end_bytes = arrive_half(loaded.engine);
    nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
    assert_int_equal(weights_image_report(engine_weights(loaded.engine)).state, IMAGE_WRITING);
    assert_true(weights_image_report(engine_weights(loaded.engine)).written_bytes <
                end_bytes); /* written before the load was seen to wait */
    while (engine_is_arriving(loaded.engine))
        assert_int_equal(engine_arrive(loaded.engine, &err), 0);
    assert_int_equal(weights_wait_image(engine_weights(loaded.engine), &err), 0);
    assert_true(image_file_exists(image));
    engine_free(loaded.engine);
    worker_pool_free(loaded.pool);
}

/* Two loads without an image: the second one finds the image of the first and leaves it. */
static void test_image_writing_of_another_load(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    Loaded first = { .image_path = image }, second = { .image_path = image };
    struct stat before, after;
    EngineOptions options;
    ErrText err = { 0 };

    loaded_make_package(fixture, 8, false, false, package);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    loaded_init(&second, package, LOADED_ARRIVING); /* the weights of the second one have not come */
    loaded_init(&first, package, 0);
    assert_int_equal(weights_wait_image(engine_weights(first.engine), &err), 0);
    assert_int_equal(stat(image, &before), 0);
    while (engine_is_arriving(second.engine))
        assert_int_equal(engine_arrive(second.engine, &err), 0);
    assert_int_equal(weights_wait_image(engine_weights(second.engine), &err), 0);
    assert_int_equal(weights_image_report(engine_weights(second.engine)).state, IMAGE_WRITTEN);
    assert_int_equal(stat(image, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(image_files(image), 1);
    loaded_deinit(&first);
    loaded_deinit(&second);

    /* The image stays away if a load with it has failed. */
    assert_int_equal(worker_pool_new(&first.pool, 2), 0);
    account_table_init(&first.accounts);
    options = loaded_options(&first, package, 0);
    options.new_image = true;
    assert_int_equal(engine_new(&first.engine, &options, &err), 0);
    assert_int_equal(weights_wait_image(engine_weights(first.engine), &err), 0);
    assert_int_equal(stat(image, &after), 0);
    assert_true(after.st_ino != before.st_ino || after.st_mtim.tv_nsec != before.st_mtim.tv_nsec);
    engine_free(first.engine);
    worker_pool_free(first.pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_image_writing_not_written),      WITH_FOLDER(test_image_writing_optional),
        WITH_FOLDER(test_image_writing_of_another_load),  WITH_FOLDER(test_image_writing_behind_matrices),
        WITH_FOLDER(test_image_writing_behind_slow_load),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
