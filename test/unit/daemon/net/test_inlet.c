// SPDX-License-Identifier: Apache-2.0
/* Input through a socket: bytes, and the bytes that an open file came with. */
#define _GNU_SOURCE
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/net/inlet.h"

typedef struct Fixture {
    Inlet inlet;
    int sockets[2];
} Fixture;

static int setup(void **state) {
    static Fixture fixture;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fixture.sockets), 0);
    assert_int_equal(inlet_init(&fixture.inlet), 0);
    *state = &fixture;
    return 0;
}

static int teardown(void **state) {
    Fixture *fixture = *state;

    inlet_deinit(&fixture->inlet);
    close(fixture->sockets[0]);
    if (fixture->sockets[1] >= 0)
        close(fixture->sockets[1]);
    return 0;
}

static void give(Fixture *fixture, const char *text, size_t n_fds) {
    char control[CMSG_SPACE(4 * sizeof(int))] = { 0 };
    struct iovec iov = { .iov_base = (char *)text, .iov_len = strlen(text) };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (n_fds) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        CMSG_FIRSTHDR(&message)->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        CMSG_FIRSTHDR(&message)->cmsg_level = SOL_SOCKET;
        CMSG_FIRSTHDR(&message)->cmsg_type = SCM_RIGHTS;
        for (size_t i = 0; i < n_fds; i++)
            ((int *)CMSG_DATA(CMSG_FIRSTHDR(&message)))[i] = STDERR_FILENO;
    }
    assert_int_equal(sendmsg(fixture->sockets[1], &message, 0), strlen(text));
}

static int take(Fixture *fixture, size_t max_bytes) {
    return inlet_read(&fixture->inlet, fixture->sockets[0], max_bytes, true);
}

static void test_inlet_bytes(void **state) {
    Fixture *fixture = *state;

    assert_int_equal(take(fixture, 10), 0); /* nothing has arrived */
    give(fixture, "abcdef", 0);
    assert_int_equal(take(fixture, 4), 0);
    assert_int_equal(evbuffer_get_length(fixture->inlet.bytes), 4);
    assert_int_equal(inlet_take_fd(&fixture->inlet, 4), -1);
    assert_int_equal(take(fixture, 4), 0);
    assert_int_equal(evbuffer_get_length(fixture->inlet.bytes), 6);
    close(fixture->sockets[1]);
    fixture->sockets[1] = -1;
    assert_int_equal(take(fixture, 4), INLET_E_END);
}

/* A read may begin with frames that were sent before the file; the file does not belong to them. */
static void test_inlet_file_of_its_frame(void **state) {
    Fixture *fixture = *state;
    int fd;

    give(fixture, "aaaa", 0);
    give(fixture, "bb", 1);
    give(fixture, "bbcc", 0);
    assert_int_equal(take(fixture, 100), 0);
    assert_int_equal(take(fixture, 100), 0);
    assert_int_equal(evbuffer_get_length(fixture->inlet.bytes), 10);
    assert_int_equal(inlet_take_fd(&fixture->inlet, 4), -1);
    evbuffer_drain(fixture->inlet.bytes, 4);
    fd = inlet_take_fd(&fixture->inlet, 4);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    evbuffer_drain(fixture->inlet.bytes, 4);
    assert_int_equal(inlet_take_fd(&fixture->inlet, 2), -1);
}

static void test_inlet_too_many_files(void **state) {
    Fixture *fixture = *state;

    give(fixture, "a", 2);
    assert_int_equal(take(fixture, 100), INLET_E_DESCRIPTORS);
    close(inlet_take_fd(&fixture->inlet, 1));
    give(fixture, "a", 4); /* more descriptors than fit */
    assert_int_equal(take(fixture, 100), INLET_E_DESCRIPTORS);
    give(fixture, "a", 1); /* a descriptor is already waiting */
    assert_int_equal(take(fixture, 100), INLET_E_DESCRIPTORS);
}

static void test_inlet_of_the_untrusted(void **state) {
    Fixture *fixture = *state;

    give(fixture, "a", 4);
    assert_int_equal(inlet_read(&fixture->inlet, fixture->sockets[0], 100, false), 0);
    assert_int_equal(inlet_take_fd(&fixture->inlet, 1), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_inlet_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_inlet_file_of_its_frame, setup, teardown),
        cmocka_unit_test_setup_teardown(test_inlet_too_many_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_inlet_of_the_untrusted, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
