// SPDX-License-Identifier: Apache-2.0
/* An image of the weights: an engine that maps one gives the same bits as an engine loaded from the package, on every
 * instruction set. An image that is stale, damaged or another package's is not used and is made anew. Nothing is left
 * of an image that was given up, and images are removed when their package is gone. */
#undef NDEBUG
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/file_io.h"
#include "engine/core/engine_state.h"
#include "test/unit/fixtures/no_threads.h"
#include "test/unit/weights/image/image_loads.h"
#include "weights/image/image_format.h"

typedef struct PackageCase {
    double bits;
    bool static_activations, tied;
} PackageCase;

static void test_weights_image_bits(void **state) {
    static const PackageCase packages[] = { { 8, false, false }, { 4.5, false, true }, { 8, true, false } };
    static const LoadedFlags all_flags[] = { 0, LOADED_ARRIVING };
    ImportFixture *fixture = *state;

    for (size_t i = 0; i < ARRAY_LEN(packages); i++) {
        Logits expected, logits;
        char package[PATH_MAX], image[PATH_MAX];
        Loaded loaded = { 0 };

        loaded_make_package(fixture, packages[i].bits, packages[i].static_activations, packages[i].tied, package);
        assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
        assert_false(image_run(&loaded, package, 0, expected));
        assert_false(image_file_exists(image));
        loaded.image_path = image;
        assert_false(image_run(&loaded, package, LOADED_ARRIVING, logits));
        assert_memory_equal(logits, expected, sizeof(logits));
        assert_true(image_file_exists(image));
        for (size_t j = 0; j < ARRAY_LEN(all_flags); j++)
            for (int level = 0; level < 2; level++) {
                loaded.isa = level ? ISA_SCALAR : ISA_BEST;
                assert_true(image_run(&loaded, package, all_flags[j], logits));
                assert_memory_equal(logits, expected, sizeof(logits));
            }
    }
}

/* The account of the weights has the same bytes, and its limit is kept. */
static void test_weights_image_account(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    Loaded loaded = { 0 };
    EngineOptions options;
    uint64_t weights_bytes;
    Logits logits;
    ErrText err = { 0 };

    loaded_make_package(fixture, 4.5, false, false, package);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    loaded.image_path = image;
    assert_false(image_run(&loaded, package, 0, logits));
    weights_bytes = atomic_load(&loaded.accounts.peak_bytes[ACCOUNT_WEIGHTS]);
    assert_true(image_run(&loaded, package, 0, logits));
    assert_int_equal(atomic_load(&loaded.accounts.peak_bytes[ACCOUNT_WEIGHTS]), weights_bytes);

    account_table_init(&loaded.accounts);
    loaded.accounts.limit_bytes[ACCOUNT_WEIGHTS] = weights_bytes - 1;
    assert_int_equal(worker_pool_new(&loaded.pool, 2), 0);
    options = loaded_options(&loaded, package, 0);
    assert_int_equal(engine_new(&loaded.engine, &options, &err), ENGINE_E_MEMORY);
    worker_pool_free(loaded.pool);
    loaded_accounts_are_empty(&loaded.accounts);
}

/* --- images that are of no use ------------------------------------------------------------------------------------ */

static void flip_byte(const char *path, uint64_t offset) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

static void read_head(const char *path, void *data, size_t len_bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(file_read_exact(fd, data, len_bytes, 0), 0);
    close(fd);
}

static uint64_t head_bytes_of(const char *path) {
    ImageHead head;

    read_head(path, &head, sizeof(head));
    return head.head_bytes;
}

static void rewrite_head(const char *path, void (*change)(ImageHead *head, ImagePlace *places)) {
    ImageHead head;
    uint8_t *all;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    read_head(path, &head, sizeof(head));
    all = malloc((size_t)head.head_bytes);
    assert_non_null(all);
    read_head(path, all, (size_t)head.head_bytes);
    change((ImageHead *)all, (ImagePlace *)(all + sizeof(head)));
    image_digest(all, (size_t)head.head_bytes, ((ImageHead *)all)->sha256);
    assert_int_equal(file_write_at(fd, all, (size_t)head.head_bytes, 0), 0);
    close(fd);
    free(all);
}

static void change_program(ImageHead *head, ImagePlace *places) {
    head->program[0]++;
}

static void change_layout(ImageHead *head, ImagePlace *places) {
    head->layout[0]++;
}

static void change_count(ImageHead *head, ImagePlace *places) {
    head->n_parts--;
}

static void change_place_outside(ImageHead *head, ImagePlace *places) {
    places[1].len_bytes = UINT64_MAX - 64;
}

static void change_place_unaligned(ImageHead *head, ImagePlace *places) {
    places[1].offset_bytes += 4;
}

static void change_place_overlap(ImageHead *head, ImagePlace *places) {
    places[1].offset_bytes = places[0].offset_bytes;
}

static void change_length_of_part(ImageHead *head, ImagePlace *places) {
    places[0].len_bytes -= 64;
}

static void test_weights_image_of_no_use(void **state) {
    static void (*const changes[])(ImageHead *, ImagePlace *) = {
        change_program,         change_layout,        change_count,          change_place_outside,
        change_place_unaligned, change_place_overlap, change_length_of_part,
    };
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    Loaded loaded = { 0 };
    Logits expected, logits;

    loaded_make_package(fixture, 4.5, false, false, package);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    assert_false(image_run(&loaded, package, 0, expected));
    loaded.image_path = image;
    assert_false(image_run(&loaded, package, 0, logits));
    /* Each time the image is not used, the results are right, and the next image is of use again. */
    for (size_t i = 0; i < ARRAY_LEN(changes) + 5; i++) {
        assert_true(image_run(&loaded, package, 0, logits));
        if (i < ARRAY_LEN(changes))
            rewrite_head(image, changes[i]);
        else if (i == ARRAY_LEN(changes)) /* the head without a new digest: a letter of the package's path */
            flip_byte(image, head_bytes_of(image) - 2);
        else if (i == ARRAY_LEN(changes) + 1)
            assert_int_equal(truncate(image, (off_t)image_file_bytes(image) - 1), 0);
        else if (i == ARRAY_LEN(changes) + 2)
            assert_int_equal(truncate(image, 0), 0);
        else if (i == ARRAY_LEN(changes) + 3) /* others may write to the image */
            assert_int_equal(chmod(image, 0620), 0);
        else /* the package's ctime */
            assert_int_equal(chmod(package, 0600 + (mode_t)(i % 2) * 040), 0);
        assert_false(image_run(&loaded, package, LOADED_ARRIVING, logits));
        assert_memory_equal(logits, expected, sizeof(logits));
    }
    assert_true(image_run(&loaded, package, 0, logits));
}

/* Changed integers of an image give wrong numbers and nothing worse. */
static void test_weights_image_other_integers(void **state) {
    static const double bits[] = { 8, 4.5, 2 };
    ImportFixture *fixture = *state;

    for (size_t i = 0; i < ARRAY_LEN(bits); i++) {
        char package[PATH_MAX], image[PATH_MAX];
        Loaded loaded = { 0 };
        Logits expected, logits;
        ImageHead head;

        loaded_make_package(fixture, bits[i], false, false, package);
        assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
        loaded.image_path = image;
        assert_false(image_run(&loaded, package, 0, expected));
        read_head(image, &head, sizeof(head));
        for (uint64_t at = head.head_bytes + IMAGE_PAGE; at < head.len_bytes; at += 97)
            flip_byte(image, at);
        assert_true(image_run(&loaded, package, 0, logits));
        assert_memory_not_equal(logits, expected, sizeof(logits));
    }
}

/* Opens the image that a load makes, with nothing read ahead; fills its head, and what the load computed. */
static WeightsImage *open_made(Loaded *loaded, const char *package, ImageHead *head, Logits logits) {
    _cleanup_(closep) int fd = open(package, O_RDONLY | O_CLOEXEC);
    WeightsImageKey key;
    WeightsImage *opened;
    ErrText err = { 0 };

    assert_false(image_run(loaded, package, 0, logits));
    read_head(loaded->image_path, head, sizeof(*head));
    assert_int_equal(weights_image_key(&key, fd, package, "another"), 0);
    assert_int_equal(weights_image_open(&opened, loaded->image_path, &key, head->n_parts, &err), WEIGHTS_IMAGE_E_OTHER);
    key.layout = head->layout;
    assert_int_equal(weights_image_open(&opened, loaded->image_path, &key, head->n_parts, &err), 0);
    return opened;
}

/* An image that is cut short while it is read ahead gives an error with its name, and the next load does not find it.
 * */
static void test_weights_image_cut_short(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    Loaded loaded = { .image_path = image };
    WeightsImage *opened;
    ImageHead head;
    Logits expected, logits;
    ErrText err = { 0 };
    size_t n_parts = 0;
    int r;

    loaded_make_package(fixture, 8, false, false, package);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    opened = open_made(&loaded, package, &head, expected);
    assert_int_equal(truncate(image, IMAGE_PAGE), 0);
    weights_image_read_ahead(opened, 0, NULL);
    do
        r = weights_image_advance(opened, &n_parts, &err);
    while (!r && n_parts < head.n_parts);
    assert_int_equal(r, -EIO);
    assert_non_null(strstr(err.text, image));
    assert_non_null(strstr(err.text, "cut short"));
    assert_int_equal(weights_image_advance(opened, &n_parts, &err), -EIO);
    weights_image_free(opened);
    assert_false(image_file_exists(image));
    assert_false(image_run(&loaded, package, 0, logits));
    assert_memory_equal(logits, expected, sizeof(logits));
}

/* A part that is read after the others counts as there at once, and comes in the end. If parts are compared, it is
 * compared before it counts. */
static void test_weights_image_late(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    Loaded loaded = { .image_path = image };
    ImageHead head;
    Logits logits;
    ErrText err = { 0 };

    loaded_make_package(fixture, 8, false, false, package);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    for (int compares = 0; compares < 2; compares++) {
        WeightsImage *opened = open_made(&loaded, package, &head, logits);
        size_t n_parts = 0;

        assert_false(compares && weights_image_compare(opened, 0, head.n_parts, NULL, &err));
        assert_false(weights_image_is_late(opened));
        weights_image_read_ahead(opened, 1, NULL);
        for (int i = 0; n_parts < head.n_parts; i++) {
            assert_int_equal(weights_image_advance(opened, &n_parts, &err), 0);
            assert_true(i || compares || n_parts);
        }
        assert_false(compares && weights_image_is_late(opened));
        while (weights_image_is_late(opened))
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        assert_int_equal(weights_image_cached_bytes(opened) + weights_image_read_bytes(opened), head.len_bytes);
        weights_image_free(opened);
        assert_false(unlink(image));
    }
}

/* If the system has no thread left, the load itself reads the image. */
static void test_weights_image_no_thread(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    Loaded loaded = { .image_path = image };
    WeightsImage *opened;
    ImageHead head;
    Logits logits;
    ErrText err = { 0 };
    NoThreads before;
    size_t n_parts = 0;

    loaded_make_package(fixture, 8, false, false, package);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    opened = open_made(&loaded, package, &head, logits);
    no_threads_begin(&before);
    weights_image_read_ahead(opened, 1, NULL);
    no_threads_end(&before);
    assert_false(weights_image_is_late(opened));
    assert_int_equal(weights_image_cached_bytes(opened) + weights_image_read_bytes(opened), head.len_bytes);
    while (n_parts < head.n_parts)
        assert_int_equal(weights_image_advance(opened, &n_parts, &err), 0);
    weights_image_free(opened);
}

/* --- the folder --------------------------------------------------------------------------------------------------- */

static void test_weights_image_folder(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], other[PATH_MAX], image[PATH_MAX], other_image[PATH_MAX], left[PATH_MAX + 32];
    Loaded loaded = { 0 };
    Logits logits;
    int locked;

    loaded_make_package(fixture, 8, false, false, package);
    snprintf(other, sizeof(other), "%s/other.cgm", fixture->folder);
    assert_int_equal(link(package, other), 0);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    assert_int_equal(weights_image_path(other_image, sizeof(other_image), fixture->cache, other), 0);
    assert_string_not_equal(image, other_image);
    loaded.image_path = other_image;
    assert_false(image_run(&loaded, other, 0, logits));
    /* Files of writers: of one that was killed, of one that holds its lock, of one that has just begun; and what is
     * none. */
    snprintf(left, sizeof(left), "%s" ATOMIC_FILE_INFIX "00000000", other_image);
    assert_int_equal(link(other_image, left), 0);
    left[strlen(left) - 1] = '1';
    locked = open(left, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_int_equal(file_write_all(locked, IMAGE_MAGIC, 8), 0);
    assert_int_equal(flock(locked, LOCK_EX), 0);
    left[strlen(left) - 1] = '2';
    close(open(left, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    snprintf(left, sizeof(left), "%s" ATOMIC_FILE_INFIX "mine", other_image);
    assert_int_equal(link(other_image, left), 0);
    assert_int_equal(image_files(image), 5);
    loaded.image_path = image;
    assert_false(image_run(&loaded, package, 0, logits));
    assert_int_equal(image_files(image), 5); /* the killed writer's file is gone, and the new image is there */
    assert_true(image_file_exists(other_image));
    assert_int_equal(unlink(other), 0);
    assert_int_equal(unlink(image), 0);
    assert_false(image_run(&loaded, package, 0, logits));
    assert_false(image_file_exists(other_image));
    assert_int_equal(image_files(image), 4);
    /* A load that maps an image tidies the folder, too. */
    close(locked);
    assert_true(image_run(&loaded, package, 0, logits));
    assert_int_equal(image_files(image), 3);
    /* An image of another version. */
    assert_int_equal(rename(image, other_image), 0);
    rewrite_head(other_image, change_program);
    assert_false(image_run(&loaded, package, 0, logits));
    assert_false(image_file_exists(other_image));
}

static uint32_t chunk_of_load(Loaded *loaded, const char *package, uint64_t *used_bytesp) {
    EngineOptions options;
    ErrText err = { 0 };
    uint32_t chunk;

    assert_int_equal(worker_pool_new(&loaded->pool, 2), 0);
    options = loaded_options(loaded, package, 0);
    options.load.chunk_tokens = 0; /* the device's best chunk */
    if (engine_new(&loaded->engine, &options, &err))
        fail_msg("%s", err.text);
    assert_int_equal(weights_image_report(engine_weights(loaded->engine)).state, IMAGE_MAPPED);
    *used_bytesp = 0;
    for (size_t i = 0; i < _ACCOUNT_N; i++)
        *used_bytesp += atomic_load(&loaded->accounts.used_bytes[i]);
    chunk = engine_chunk_tokens(loaded->engine);
    engine_free(loaded->engine);
    worker_pool_free(loaded->pool);
    return chunk;
}

/* Mapped weights need no staging memory. Rows for longer steps could take that memory, but leave the part of keys and
 * values. */
static void test_weights_image_leaves_room(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    Loaded loaded = { .image_path = image, .isa = ISA_BEST };
    uint64_t all_bytes, used_bytes;
    Logits logits;
    uint32_t chunk;

    loaded_make_package(fixture, 8, false, false, package);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    assert_false(image_run(&loaded, package, 0, logits));
    account_table_init(&loaded.accounts);
    chunk = chunk_of_load(&loaded, package, &all_bytes);
    if (chunk <= ENGINE_CHUNK_DEFAULT) {
        print_message("left out: longer steps are not faster on this machine\n");
        skip();
    }
    account_table_init(&loaded.accounts);
    loaded.accounts.total_limit_bytes = loaded.accounts.others_limit_bytes = all_bytes + (64 << 10);
    assert_true(chunk_of_load(&loaded, package, &used_bytes) < chunk);
    assert_true(used_bytes < all_bytes);
    loaded.accounts.limit_bytes[ACCOUNT_KV] = 1; /* a small account of its own needs no more room kept for it */
    assert_int_equal(chunk_of_load(&loaded, package, &used_bytes), chunk);
    loaded_accounts_are_empty(&loaded.accounts);
}

/* An image that others may write to is not used: they could put other weights in. */
static void test_weights_image_of_others(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    Loaded loaded = { .image_path = image };
    Logits expected, logits;

    loaded_make_package(fixture, 8, false, false, package);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    assert_false(image_run(&loaded, package, 0, expected));
    assert_int_equal(chmod(image, 0660), 0);
    assert_false(image_run(&loaded, package, 0, logits)); /* the image is made anew */
    assert_true(image_run(&loaded, package, 0, logits));
    assert_memory_equal(logits, expected, sizeof(logits));
    if (geteuid()) {
        print_message("left out: only root can give a file away\n");
        skip();
    }
    assert_int_equal(chown(image, 65534, (gid_t)-1), 0);
    assert_false(image_run(&loaded, package, 0, logits));
    assert_true(image_run(&loaded, package, 0, logits));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_weights_image_bits),      WITH_FOLDER(test_weights_image_account),
        WITH_FOLDER(test_weights_image_of_no_use), WITH_FOLDER(test_weights_image_other_integers),
        WITH_FOLDER(test_weights_image_cut_short), WITH_FOLDER(test_weights_image_late),
        WITH_FOLDER(test_weights_image_no_thread), WITH_FOLDER(test_weights_image_folder),
        WITH_FOLDER(test_weights_image_of_others), WITH_FOLDER(test_weights_image_leaves_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
