// SPDX-License-Identifier: Apache-2.0
/* Tests of standard descriptors that a caller has closed, and of output that can't be written. */
#undef NDEBUG
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/standard_io.h"

/* Runs fn in a process of its own, whose descriptors it may close; returns its exit status. */
static int in_child(int (*fn)(int), int arg) {
    pid_t pid = fork();
    int status;

    if (!pid)
        _exit(fn(arg));
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Tests closed descriptors, one per bit of `closed`. Returns the number of the first failed check; 0: none. */
static int secured(int closed) {
    char byte = 0;
    int fd;

    for (fd = 0; fd < 3; fd++)
        if (closed & 1 << fd)
            close(fd);
    if (standard_io_secure())
        return 1;
    for (fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) != 0)
            return 2;
    if (open("/dev/null", O_RDONLY) < 3)
        return 3;
    errno = 0;
    if (closed & 1 && (read(0, &byte, 1) != -1 || errno != EBADF))
        return 4;
    errno = 0;
    if (closed & 2 && (write(1, &byte, 1) != -1 || errno != EBADF))
        return 5;
    return closed & 4 && write(2, &byte, 1) != 1 ? 6 : 0;
}

static void test_standard_io_secure(void **state) {
    for (int closed = 0; closed < 8; closed++)
        assert_int_equal(in_child(secured, closed), 0);
}

static int flushed(int lose_it) {
    static const char far_more_than_a_buffer[1 << 20];
    ErrText err = { 0 };
    int fd = open("/dev/full", O_WRONLY);

    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
        return 1;
    if (standard_output_flush(&err)) /* unwritten output is not lost */
        return 2;
    if (lose_it) {
        fwrite(far_more_than_a_buffer, 1, sizeof(far_more_than_a_buffer), stdout);
        fflush(stdout);
        return !standard_output_flush(&err) || !strstr(err.text, "standard output") ? 3 : 0;
    }
    fputs("text", stdout);
    if (standard_output_flush(&err) != -ENOSPC || !strstr(err.text, strerror(ENOSPC)))
        return 4;
    return standard_output_end("test", 0, 7) == 7 && standard_output_end("test", 3, 7) == 3 ? 0 : 5;
}

static void test_standard_output_flush(void **state) {
    assert_int_equal(in_child(flushed, 0), 0);
    assert_int_equal(in_child(flushed, 1), 0);
}

/* The status alone reports that the reader has gone, also if the failed write is long past. */
static int unread(int is_past) {
    int ends[2];

    if (standard_io_secure() || pipe(ends) || dup2(ends[1], STDOUT_FILENO) < 0)
        return 1;
    close(ends[0]);
    close(ends[1]);
    close(STDERR_FILENO); /* a message would fail and thus show */
    if (open("/dev/null", O_RDONLY) != STDERR_FILENO)
        return 2;
    if (standard_output_end("test", 3, 7) != 3) /* nothing was printed */
        return 3;
    fputs("text", stdout);
    if (is_past && !fflush(stdout))
        return 4;
    if (standard_output_end("test", 0, 7) != STANDARD_OUTPUT_EXIT_UNREAD)
        return 5;
    return ferror(stderr) ? 6 : 0;
}

static void test_standard_output_unread(void **state) {
    assert_int_equal(in_child(unread, 0), 0);
    assert_int_equal(in_child(unread, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standard_io_secure),
        cmocka_unit_test(test_standard_output_flush),
        cmocka_unit_test(test_standard_output_unread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
