// SPDX-License-Identifier: Apache-2.0
/* Tests of a file that is written in the background. The bytes equal those that were put, in pieces of any size. Most
 * of them never stay in the page cache. Errors reach the next caller of put. Without an end, nothing waits. */
#define _GNU_SOURCE
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/behind_writer.h"
#include "base/files/file_io.h"
#include "base/files/page_cache.h"
#include "base/min_max.h"

#define MIB ((size_t)1 << 20)

/* Opens a file without a name, in the build folder, which is on a disk, or in memory. */
static int open_file(const char *folder) {
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "%s/test-behind-writer-XXXXXX", folder);
    fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

static uint8_t *make_bytes(size_t len_bytes) {
    uint8_t *bytes = malloc(len_bytes + 1);
    uint32_t x = 1;

    assert_non_null(bytes);
    for (size_t i = 0; i < len_bytes; i++) {
        x = x * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(x >> 24);
    }
    return bytes;
}

static void check_bytes(int fd, uint64_t at_bytes, const uint8_t *expected, size_t len_bytes) {
    uint8_t *found = malloc(len_bytes + 1);

    assert_non_null(found);
    assert_int_equal(file_read_exact(fd, found, len_bytes, at_bytes), 0);
    assert_memory_equal(found, expected, len_bytes);
    free(found);
}

/* Writes pieces of 1, 3, 9, ... bytes and of odd megabytes; then checks that the file ends with its last byte. */
static void write_in_pieces(int fd, uint64_t at_bytes, const uint8_t *bytes, size_t len_bytes) {
    BehindWriter *writer = NULL;
    size_t piece_bytes = 1;

    assert_int_equal(behind_writer_new(&writer, fd, at_bytes), 0);
    for (size_t done = 0, n; done < len_bytes; done += n) {
        n = MIN(len_bytes - done, piece_bytes);
        assert_int_equal(behind_writer_put(writer, bytes + done, n), 0);
        piece_bytes = piece_bytes > 5 * MIB ? 1 : piece_bytes * 3;
    }
    assert_int_equal(behind_writer_end(writer), 0);
    behind_writer_free(writer);
    assert_int_equal(ftruncate(fd, (off_t)(at_bytes + len_bytes)), 0);
}

static void test_behind_writer_bytes(void **state) {
    static const size_t lens_bytes[] = { 0,           1,       4095,        4096,    4097,
                                         2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 4 * MIB, 37 * MIB + 5 };
    static const char *const folders[] = { "build", "/dev/shm" };
    uint8_t *bytes = make_bytes(38 * MIB);

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(lens_bytes) / sizeof(lens_bytes[0]); i++) {
        const size_t len_bytes = lens_bytes[i / 2];
        const uint64_t at_bytes = i % 3 * BEHIND_WRITER_ALIGNMENT;
        const int fd = open_file(folders[i % 2]);

        write_in_pieces(fd, at_bytes, bytes, len_bytes);
        check_bytes(fd, at_bytes, bytes, len_bytes);
        /* The file belongs to the caller again, who may write any bytes anywhere in it. */
        assert_int_equal(fcntl(fd, F_GETFL) & O_DIRECT, 0);
        assert_int_equal(file_write_at(fd, "head", 4, 1), 0);
        close(fd);
    }
    free(bytes);
}

static void test_behind_writer_leaves_the_page_cache(void **state) {
    const size_t len_bytes = 96 * MIB;
    const int fd = open_file("build");
    uint8_t *bytes = make_bytes(len_bytes);
    uint64_t resident, pages;

    (void)state;
    write_in_pieces(fd, 0, bytes, len_bytes);
    assert_int_equal(page_cache_count(fd, "file", &resident, &pages, NULL), 0);
    assert_int_equal(pages, len_bytes / (size_t)sysconf(_SC_PAGESIZE));
    assert_true(resident < pages / 2); /* none, or the last 32 MiB if the file system has no direct writes */
    check_bytes(fd, 0, bytes, len_bytes);
    free(bytes);
    close(fd);
}

/* The disk is full, simulated by a limit of the file size: put soon reports the error, and so does end. */
static void test_behind_writer_full(void **state) {
    const struct rlimit small = { .rlim_cur = 8 * MIB, .rlim_max = RLIM_INFINITY };
    const size_t len_bytes = 2 * MIB;
    const int fd = open_file("build");
    uint8_t *bytes = make_bytes(len_bytes);
    struct rlimit before;
    BehindWriter *writer = NULL;
    size_t n_put = 0;
    int r = 0;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(behind_writer_new(&writer, fd, 0), 0);
    for (; !r && n_put < 100; n_put++)
        r = behind_writer_put(writer, bytes, len_bytes);
    assert_int_equal(r, -EFBIG);
    assert_in_range(n_put, 5, 7); /* four had room, and at most two more are under way */
    assert_int_equal(behind_writer_put(writer, bytes, len_bytes), -EFBIG);
    assert_int_equal(behind_writer_end(writer), -EFBIG);
    behind_writer_free(writer);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    check_bytes(fd, 6 * MIB, bytes, len_bytes);
    free(bytes);
    close(fd);
}

static void test_behind_writer_not_writable(void **state) {
    const int fd = open("/dev/null", O_RDONLY);
    BehindWriter *writer = NULL;

    (void)state;
    assert_int_equal(behind_writer_new(&writer, fd, 0), 0);
    assert_int_equal(behind_writer_put(writer, "x", 1), 0);
    assert_int_equal(behind_writer_end(writer), -EBADF);
    behind_writer_free(writer);
    close(fd);
    assert_int_equal(behind_writer_new(&writer, -1, 0), -EBADF);
}

/* Freed with bytes in both buffers, or before any bytes came. */
static void test_behind_writer_given_up(void **state) {
    uint8_t *bytes = make_bytes(3 * MIB);

    (void)state;
    for (size_t i = 0; i < 50; i++) {
        const int fd = open_file("build");
        BehindWriter *writer = NULL;

        assert_int_equal(behind_writer_new(&writer, fd, 0), 0);
        for (size_t k = 0; k < i % 4; k++)
            assert_int_equal(behind_writer_put(writer, bytes, 3 * MIB), 0);
        behind_writer_free(writer);
        close(fd);
    }
    behind_writer_free(NULL);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_behind_writer_bytes),    cmocka_unit_test(test_behind_writer_leaves_the_page_cache),
        cmocka_unit_test(test_behind_writer_full),     cmocka_unit_test(test_behind_writer_not_writable),
        cmocka_unit_test(test_behind_writer_given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
