// SPDX-License-Identifier: Apache-2.0
/* Tests of the page cache of a file: dropped pages are gone, read pages are there, and both ways of asking agree. */
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
#include "base/files/page_cache.h"
#include "base/memory/page_size.h"
#include "test/unit/base/files/sandbox.h"
#include "test/unit/fixtures/model_maker.h"

enum {
    FILE_BYTES = (3 << 20) + 17,
};

static uint64_t n_pages(void) {
    return FILE_BYTES / page_size() + 1;
}

static char folder[256], path[300];
static int fd;

static int set_up(void **state) {
    _cleanup_(freep) uint8_t *bytes = calloc(1, FILE_BYTES);

    assert_non_null(bytes);
    test_folder_make(folder);
    snprintf(path, sizeof(path), "%s/pages", folder);
    test_write_file(folder, "pages", bytes, FILE_BYTES);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return 0;
}

static int tear_down(void **state) {
    close(fd);
    test_folder_remove(folder);
    return 0;
}

static bool drops(void) {
    uint64_t resident, pages;
    ErrText err = { 0 };
    int r = page_cache_drop(fd, path, &err);

    assert_true(r == 0 || r == PAGE_CACHE_E_KEPT);
    if (r) {
        print_message("left out: %s\n", err.text);
        return false;
    }
    assert_int_equal(page_cache_count(fd, path, &resident, &pages, NULL), 0);
    assert_int_equal(resident, 0);
    assert_int_equal(pages, n_pages());
    return true;
}

static void test_page_cache_drop_and_read(void **state) {
    _cleanup_(freep) uint8_t *bytes = NULL;
    uint64_t resident, pages;

    if (!drops())
        skip();
    bytes = malloc(FILE_BYTES);
    assert_non_null(bytes);
    assert_false(page_cache_holds(fd, 0, FILE_BYTES));
    assert_false(page_cache_holds(fd, FILE_BYTES - 1, 1));
    assert_true(page_cache_holds(fd, 5, 0));
    assert_int_equal(file_read_exact(fd, bytes, FILE_BYTES, 0), 0);
    assert_true(page_cache_holds(fd, 0, FILE_BYTES));
    assert_false(page_cache_holds(fd, 0, FILE_BYTES + page_size())); /* past the end */
    assert_int_equal(page_cache_count(fd, path, &resident, &pages, NULL), 0);
    assert_int_equal(resident, n_pages());
    assert_int_equal(pages, n_pages());
}

/* Runs in a process of its own: mincore() is refused, as by systemd's @system-service. */
static int ask_sandboxed(void) {
    _cleanup_(closep) int random_fd = open(path, O_RDONLY | O_CLOEXEC);
    _cleanup_(freep) uint8_t *bytes = malloc(FILE_BYTES);
    uint64_t resident, pages;

    if (!bytes || random_fd < 0 || posix_fadvise(random_fd, 0, 0, POSIX_FADV_RANDOM) || !drops())
        return 77;
    if (sandbox_refuse(SYS_mincore, EPERM))
        return 77;
    if (page_cache_count(random_fd, path, &resident, &pages, NULL) != -EPERM)
        return 1;
    /* Asking starts reads. On a busy virtual machine the reads are mostly done before the check, which then answers
     * yes, but not every time. */
    for (int turn = 0; page_cache_holds(random_fd, 0, FILE_BYTES); turn++)
        if (turn == 999 || posix_fadvise(random_fd, 0, 0, POSIX_FADV_DONTNEED))
            return 2;
    if (file_read_exact(random_fd, bytes, FILE_BYTES, 0))
        return 3;
    return page_cache_holds(random_fd, 0, FILE_BYTES) ? 0 : 4;
}

static void test_page_cache_sandboxed(void **state) {
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (!child)
        _exit(ask_sandboxed());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        print_message("left out: no seccomp here, or pages that stay\n");
    else
        assert_int_equal(WEXITSTATUS(status), 0);
}

/* Pages that another map of the file holds stay, and the error counts them. */
static void test_page_cache_kept(void **state) {
    const volatile uint8_t *map = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    ErrText err = { 0 };

    assert_true(map != MAP_FAILED);
    (void)map[4096];
    assert_int_equal(page_cache_drop(fd, path, &err), PAGE_CACHE_E_KEPT);
    assert_non_null(strstr(err.text, path));
    munmap((void *)map, FILE_BYTES);
}

/* Direct reads bring nothing into the cache; the speed is a positive number on any machine. */
static void test_page_cache_disk_speed(void **state) {
    uint64_t resident, pages;
    ErrText err = { 0 };
    double bytes_per_s = 0;
    int r;

    if (!drops())
        skip();
    for (uint64_t max_bytes = 0; max_bytes <= (2 << 20) + 1; max_bytes += (2 << 20) + 1) {
        r = page_cache_disk_speed(path, max_bytes, &bytes_per_s, &err);
        if (r == EXTENT_E_REFUSED) {
            print_message("left out: %s\n", err.text);
            skip();
        }
        assert_int_equal(r, 0);
        assert_true(bytes_per_s > 0);
    }
    assert_int_equal(page_cache_count(fd, path, &resident, &pages, NULL), 0);
    assert_true(resident <= 1); /* the unit in which the file ends */
    assert_int_equal(page_cache_disk_speed("/nonexistent", 0, &bytes_per_s, &err), -ENOENT);
    assert_int_equal(page_cache_disk_speed(folder, 0, &bytes_per_s, &err), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_cache_drop_and_read),
        cmocka_unit_test(test_page_cache_sandboxed),
        cmocka_unit_test(test_page_cache_kept),
        cmocka_unit_test(test_page_cache_disk_speed),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
