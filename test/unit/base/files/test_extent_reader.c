// SPDX-License-Identifier: Apache-2.0
/* Tests of the reader of extents on real files. Every way and caching gives the file's bytes, at sizes and offsets
 * around the alignment. Errors name truncated and unreadable files. A freed reader touches nothing more. If a sandbox
 * refuses io_uring, before or after the ring was made, the bytes still arrive. */
#define _GNU_SOURCE
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/extent_reader.h"
#include "base/files/file_io.h"
#include "base/min_max.h"
#include "test/unit/base/files/sandbox.h"
#include "test/unit/fixtures/model_maker.h"

enum {
    FILE_BYTES = (24 << 20) + 1234, /* ends inside a unit */
};

typedef struct Fixture {
    char folder[256];
    char path[300];
    uint8_t *bytes; /* [FILE_BYTES]: content of the file */
    int fd;
} Fixture;

static Fixture fixture;

static int set_up(void **state) {
    uint64_t seed = 7;

    test_folder_make(fixture.folder);
    snprintf(fixture.path, sizeof(fixture.path), "%s/extents", fixture.folder);
    fixture.bytes = malloc(FILE_BYTES);
    assert_non_null(fixture.bytes);
    for (size_t i = 0; i < FILE_BYTES; i += 8) {
        uint64_t word = test_random(&seed);

        memcpy(fixture.bytes + i, &word, MIN(FILE_BYTES - i, 8));
    }
    test_write_file(fixture.folder, "extents", fixture.bytes, FILE_BYTES);
    fixture.fd = open(fixture.path, O_RDONLY | O_CLOEXEC);
    assert_true(fixture.fd >= 0);
    return 0;
}

static int tear_down(void **state) {
    close(fixture.fd);
    free(fixture.bytes);
    test_folder_remove(fixture.folder);
    return 0;
}

/* Makes a reader of every way and caching that this machine has, and prints those it lacks. Returns NULL if there is
 * none of that kind. */
static ExtentReader *reader_of(size_t kind, ExtentReaderOptions options, int fd) {
    static bool told[4];
    static const char *const ways[] = { "threads", "io_uring", "threads, direct", "io_uring, direct" };
    ExtentReader *reader = NULL;
    ErrText err = { 0 };
    int r;

    options.way = kind & 1 ? EXTENT_WAY_URING : EXTENT_WAY_THREADS;
    options.caching = kind & 2 ? EXTENT_CACHING_DIRECT : EXTENT_CACHING_BUFFERED;
    r = extent_reader_new(&reader, fd, fixture.path, &options, &err);
    if (r == EXTENT_E_REFUSED) {
        if (!told[kind])
            print_message("left out: %s\n", err.text);
        told[kind] = true;
        assert_true(kind); /* threads through the page cache always work */
        return NULL;
    }
    assert_int_equal(r, 0);
    assert_string_equal(extent_reader_way(reader), ways[kind]);
    assert_int_equal(extent_reader_is_direct(reader), !!(kind & 2));
    return reader;
}

enum {
    N_KINDS = 4
};

static void extent_make(Extent *extent, uint64_t offset_bytes, size_t len_bytes) {
    const size_t room_bytes = extent_room_bytes(offset_bytes, len_bytes);

    *extent = (Extent){ .offset_bytes = offset_bytes, .len_bytes = len_bytes };
    extent->buffer = aligned_alloc(EXTENT_ALIGNMENT, room_bytes ? room_bytes : EXTENT_ALIGNMENT);
    assert_non_null(extent->buffer);
    memset(extent->buffer, 0xee, room_bytes);
}

static void assert_holds(const Extent *extent) {
    assert_memory_equal(extent->data, fixture.bytes + extent->offset_bytes, extent->len_bytes);
}

/* Reads extents one after another. */
static void test_extent_reader_sizes_and_offsets(void **state) {
    static const size_t sizes[] = { 0, 1, 511, 512, 4095, 4096, 4097, 65536, (2 << 20) - 1, 2 << 20, (9 << 20) + 77 };
    static const uint64_t offsets[] = { 0, 1, 4095, 4096, 4097, 1000000, (1 << 20) - 1 };

    for (size_t kind = 0; kind < N_KINDS; kind++) {
        ExtentReader *reader = reader_of(kind, (ExtentReaderOptions){ 0 }, fixture.fd);

        for (size_t s = 0; reader && s < ARRAY_LEN(sizes); s++)
            for (size_t o = 0; o < ARRAY_LEN(offsets); o++) {
                Extent extent;
                ErrText err = { 0 };

                extent_make(&extent, offsets[o], sizes[s]);
                assert_int_equal(extent_reader_submit(reader, &extent, &err), 0);
                if (extent_reader_wait(reader, &extent, &err))
                    fail_msg("%s", err.text);
                assert_holds(&extent);
                free(extent.buffer);
            }
        extent_reader_free(reader);
    }
}

/* The end of the file inside a unit, and an extent of nothing there. */
static void test_extent_reader_end_of_file(void **state) {
    static const size_t sizes[] = { 0, 1, 1233, 1234, 1235, 5000, 3 << 20 };

    for (size_t kind = 0; kind < N_KINDS; kind++) {
        ExtentReader *reader = reader_of(kind, (ExtentReaderOptions){ 0 }, fixture.fd);

        for (size_t s = 0; reader && s < ARRAY_LEN(sizes); s++) {
            Extent extent;

            extent_make(&extent, FILE_BYTES - sizes[s], sizes[s]);
            assert_int_equal(extent_reader_submit(reader, &extent, NULL), 0);
            assert_int_equal(extent_reader_wait(reader, &extent, NULL), 0);
            assert_holds(&extent);
            free(extent.buffer);
        }
        extent_reader_free(reader);
    }
}

/* The whole file in extents of uneven length, all requested at once, waited for in any order, with reused buffers. */
static void test_extent_reader_many(void **state) {
    static const struct {
        unsigned int depth;
        size_t piece_bytes;
    } settings[] = { { 1, 4096 * 33 }, { 3, 1 << 20 }, { 0, 0 }, { EXTENT_DEPTH_MAX, 65536 } };

    for (size_t kind = 0; kind < N_KINDS; kind++)
        for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
            ExtentReader *reader = reader_of(
                kind, (ExtentReaderOptions){ .depth = settings[i].depth, .piece_bytes = settings[i].piece_bytes },
                fixture.fd);
            Extent extents[40];
            uint64_t offset_bytes = 0, seed = i;
            size_t n = 0;

            if (!reader)
                continue;
            while (offset_bytes < FILE_BYTES) {
                size_t len_bytes = (size_t)(test_random(&seed) % (2 << 20));

                if (n == ARRAY_LEN(extents) - 1 || len_bytes > FILE_BYTES - offset_bytes)
                    len_bytes = (size_t)(FILE_BYTES - offset_bytes);
                extent_make(&extents[n], offset_bytes, len_bytes);
                assert_int_equal(extent_reader_submit(reader, &extents[n++], NULL), 0);
                offset_bytes += len_bytes;
            }
            for (size_t j = 0; j < n; j++) {
                Extent *extent = &extents[(j * 7 + 3) % n];

                if (n % 7 == 0)
                    extent = &extents[j];
                assert_int_equal(extent_reader_wait(reader, extent, NULL), 0);
                assert_holds(extent);
                assert_int_equal(extent_reader_wait(reader, extent, NULL), 0); /* waiting again changes nothing */
            }
            for (size_t j = 0; j < n; j++)
                assert_holds(&extents[j]);
            extents[0].offset_bytes = 4096 * 5;
            memset(extents[0].buffer, 0, extent_room_bytes(0, extents[0].len_bytes));
            assert_int_equal(extent_reader_submit(reader, &extents[0], NULL), 0);
            assert_int_equal(extent_reader_wait(reader, &extents[0], NULL), 0);
            assert_holds(&extents[0]);
            extent_reader_free(reader);
            for (size_t j = 0; j < n; j++)
                free(extents[j].buffer);
        }
}

/* A file of another length than the caller assumes: whole extents arrive, the others' errors name the file. */
static void test_extent_reader_truncated(void **state) {
    char path[320];

    snprintf(path, sizeof(path), "%s/short", fixture.folder);
    for (size_t kind = 0; kind < N_KINDS; kind++) {
        _cleanup_(closep) int fd = -1;
        ExtentReader *reader;
        Extent extents[3];
        ErrText err = { 0 };

        test_write_file(fixture.folder, "short", fixture.bytes, 3 << 20);
        fd = open(path, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        reader = reader_of(kind, (ExtentReaderOptions){ 0 }, fd);
        if (!reader)
            continue;
        assert_int_equal(ftruncate(fd, (1 << 20) + 100), 0);
        extent_make(&extents[0], 0, (1 << 20) + 100);
        extent_make(&extents[1], 1 << 20, 101);
        extent_make(&extents[2], 2 << 20, 1);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(extent_reader_submit(reader, &extents[i], &err), 0);
        assert_int_equal(extent_reader_wait(reader, &extents[0], &err), 0);
        assert_holds(&extents[0]);
        assert_int_equal(extent_reader_wait(reader, &extents[1], &err), EXTENT_E_SHORT);
        assert_non_null(strstr(err.text, fixture.path));
        assert_non_null(strstr(err.text, "cut short"));
        assert_int_equal(extent_reader_wait(reader, &extents[2], &err), EXTENT_E_SHORT);
        extent_reader_free(reader);
        for (size_t i = 0; i < 3; i++)
            free(extents[i].buffer);
    }
}

static void test_extent_reader_unreadable(void **state) {
    for (size_t kind = 0; kind < 2; kind++) {
        _cleanup_(closep) int fd = open(fixture.path, O_WRONLY | O_CLOEXEC);
        ExtentReader *reader = reader_of(kind, (ExtentReaderOptions){ 0 }, fd);
        Extent extent;
        ErrText err = { 0 };

        if (!reader)
            continue;
        extent_make(&extent, 0, 10000);
        assert_int_equal(extent_reader_submit(reader, &extent, &err), 0);
        assert_int_equal(extent_reader_wait(reader, &extent, &err), -EBADF);
        assert_non_null(strstr(err.text, fixture.path));
        extent_reader_free(reader);
        free(extent.buffer);
    }
}

/* Frees a reader with reads under way: its buffers may be freed at once (sanitizers check). */
static void test_extent_reader_given_up(void **state) {
    for (size_t kind = 0; kind < N_KINDS; kind++) {
        ExtentReader *reader = reader_of(kind, (ExtentReaderOptions){ .depth = 2, .piece_bytes = 65536 }, fixture.fd);
        Extent extents[8];

        if (!reader)
            continue;
        for (size_t i = 0; i < ARRAY_LEN(extents); i++) {
            extent_make(&extents[i], i * 3000001, 3000001);
            assert_int_equal(extent_reader_submit(reader, &extents[i], NULL), 0);
        }
        assert_int_equal(extent_reader_wait(reader, &extents[0], NULL), 0);
        assert_holds(&extents[0]);
        extent_reader_free(reader);
        for (size_t i = 0; i < ARRAY_LEN(extents); i++)
            free(extents[i].buffer);
    }
}

static void test_extent_reader_bad_arguments(void **state) {
    const ExtentReaderOptions bad[] = { { .depth = EXTENT_DEPTH_MAX + 1 }, { .piece_bytes = 4095 } };
    _Alignas(EXTENT_ALIGNMENT) static uint8_t buffer[2 * EXTENT_ALIGNMENT];
    Extent extent = { .offset_bytes = 0, .len_bytes = 1, .buffer = buffer + 1 };
    ExtentReader *reader = NULL;
    ErrText err = { 0 };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(extent_reader_new(&reader, fixture.fd, fixture.path, &bad[i], &err), -EINVAL);
    assert_null(reader);
    assert_int_equal(extent_reader_new(&reader, fixture.fd, fixture.path, &(ExtentReaderOptions){ 0 }, &err), 0);
    assert_int_equal(extent_reader_submit(reader, &extent, &err), -EINVAL);
    extent.buffer = buffer;
    extent.offset_bytes = INT64_MAX - 100;
    extent.len_bytes = 100;
    assert_int_equal(extent_reader_submit(reader, &extent, &err), -EINVAL);
    extent_reader_free(reader);
}

/* A file system in memory, possibly without direct reads: if the reader may choose, the bytes arrive. */
static void test_extent_reader_in_memory(void **state) {
    char path[64];
    _cleanup_(closep) int fd = -1;
    ExtentReader *reader = NULL;
    Extent extent;

    snprintf(path, sizeof(path), "extents-%d", (int)getpid());
    fd = memfd_create(path, MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, fixture.bytes, 5 << 20), 0);
    assert_int_equal(extent_reader_new(&reader, fd, path, &(ExtentReaderOptions){ 0 }, NULL), 0);
    extent_make(&extent, 4097, 4 << 20);
    assert_int_equal(extent_reader_submit(reader, &extent, NULL), 0);
    assert_int_equal(extent_reader_wait(reader, &extent, NULL), 0);
    assert_holds(&extent);
    extent_reader_free(reader);
    free(extent.buffer);
}

/* --- sandboxes ---------------------------------------------------------------------------------------------------- */

enum {
    CHILD_OK = 0,
    CHILD_NO_FILTER = 77,
    CHILD_NO_RING = 78,
    CHILD_WRONG = 1
};

/* Runs in a process of its own. n_before: extents that are requested before the call is refused. */
static int read_refused(unsigned int number, unsigned int code, size_t n_before) {
    const ExtentReaderOptions options = { .depth = 4, .piece_bytes = 256 << 10 };
    ExtentReader *reader = NULL;
    Extent extents[4];
    bool refused = false;

    if (number == SYS_io_uring_setup) {
        if (sandbox_refuse(number, code))
            return CHILD_NO_FILTER;
        refused = true;
    }
    if (extent_reader_new(&reader, fixture.fd, fixture.path, &options, NULL))
        return CHILD_WRONG;
    if (!strncmp(extent_reader_way(reader), refused ? "io_uring" : "threads", strlen("threads")))
        return refused ? CHILD_WRONG : CHILD_NO_RING;
    for (size_t i = 0; i < ARRAY_LEN(extents); i++) {
        if (!refused && i == n_before && sandbox_refuse(number, code))
            return CHILD_NO_FILTER;
        extents[i] = (Extent){ .offset_bytes = i * 5000001, .len_bytes = 3000001 };
        extents[i].buffer = aligned_alloc(EXTENT_ALIGNMENT, extent_room_bytes(i * 5000001, 3000001));
        if (!extents[i].buffer || extent_reader_submit(reader, &extents[i], NULL))
            return CHILD_WRONG;
    }
    for (size_t i = 0; i < ARRAY_LEN(extents); i++) {
        if (extent_reader_wait(reader, &extents[i], NULL) ||
            memcmp(extents[i].data, fixture.bytes + extents[i].offset_bytes, extents[i].len_bytes))
            return CHILD_WRONG;
        if (i != 1)
            free(extents[i].buffer);
    }
    if (extent_reader_submit(reader, &extents[1], NULL)) /* ended with something under way */
        return CHILD_WRONG;
    extent_reader_free(reader);
    free(extents[1].buffer);
    return CHILD_OK;
}

static void check_refused(unsigned int number, unsigned int code, size_t n_before) {
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (!child)
        _exit(read_refused(number, code, n_before));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CHILD_NO_FILTER || WEXITSTATUS(status) == CHILD_NO_RING)
        print_message("left out: %s\n", WEXITSTATUS(status) == CHILD_NO_RING ? "no io_uring here" : "no seccomp here");
    else
        assert_int_equal(WEXITSTATUS(status), CHILD_OK);
}

static void test_extent_reader_sandboxed(void **state) {
    check_refused(SYS_io_uring_setup, EPERM, 0);
    check_refused(SYS_io_uring_setup, ENOSYS, 0);
    check_refused(SYS_io_uring_enter, EPERM, 0);
    check_refused(SYS_io_uring_enter, EPERM, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extent_reader_sizes_and_offsets),
        cmocka_unit_test(test_extent_reader_end_of_file),
        cmocka_unit_test(test_extent_reader_many),
        cmocka_unit_test(test_extent_reader_truncated),
        cmocka_unit_test(test_extent_reader_unreadable),
        cmocka_unit_test(test_extent_reader_given_up),
        cmocka_unit_test(test_extent_reader_bad_arguments),
        cmocka_unit_test(test_extent_reader_in_memory),
        cmocka_unit_test(test_extent_reader_sandboxed),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
