// SPDX-License-Identifier: Apache-2.0
/* Tests of kernel calls that some C libraries lack. */
#undef NDEBUG
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/kernel_call.h"

#define FAR ((uint64_t)5 << 30) /* more than 32 bits hold */

static void test_kernel_call_read_cached(void **state) {
    char path[] = "/tmp/coordgen-kernel-XXXXXX", got[4] = { 0 };
    int fd = mkstemp(path);
    ssize_t n;

    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(pwrite(fd, "near", 4, 0), 4);
    assert_int_equal(pwrite(fd, "afar", 4, (off_t)FAR), 4);
    n = kernel_read_cached(fd, got, sizeof(got), FAR);
    if (n == -EOPNOTSUPP)
        skip(); /* the file system has no such reads */
    assert_int_equal(n, 4);
    assert_memory_equal(got, "afar", 4);
    assert_int_equal(kernel_read_cached(fd, got, sizeof(got), FAR + 4), 0);
    assert_int_equal(kernel_read_cached(-1, got, sizeof(got), 0), -EBADF);
    close(fd);
}

static void test_kernel_call_direct_alignment(void **state) {
    char path[] = "/tmp/coordgen-kernel-XXXXXX";
    int fd = mkstemp(path), r;
    DirectAlignment alignment = { 1, 1 };

    assert_true(fd >= 0);
    unlink(path);
    r = kernel_direct_alignment(fd, &alignment);
    assert_true(r == 0 || r == -EOPNOTSUPP);
    /* Both are zero or neither is, and both are powers of two. */
    assert_int_equal(!alignment.memory_bytes, !alignment.offset_bytes);
    assert_int_equal(alignment.offset_bytes & (alignment.offset_bytes - 1), 0);
    assert_int_equal(kernel_direct_alignment(-1, &alignment), -EBADF);
    close(fd);
}

static void test_kernel_call_pidfd(void **state) {
    pid_t pid = fork();
    struct pollfd ended = { .events = POLLIN };

    if (!pid)
        _exit(3);
    ended.fd = kernel_pidfd_open(pid);
    assert_true(ended.fd >= 0);
    assert_int_equal(poll(&ended, 1, 60000), 1);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(ended.fd);
    assert_int_equal(kernel_pidfd_open(-1), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel_call_read_cached),
        cmocka_unit_test(test_kernel_call_direct_alignment),
        cmocka_unit_test(test_kernel_call_pidfd),
    };

    return cmocka_run_group_tests_name("kernel_call", tests, NULL, NULL);
}
