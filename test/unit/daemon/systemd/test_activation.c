// SPDX-License-Identifier: Apache-2.0
/* Sockets that systemd or Android's init hands over by environment variables, and which of them are refused. */
#undef NDEBUG
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/min_max.h"
#include "daemon/systemd/activation.h"

enum {
    KEPT_FROM = 100
}; /* first number for the process's own descriptors while sockets take their numbers */

/* Makes a Unix socket that is bound to an address of the kernel's choice. */
static int bound_socket(int type) {
    const struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, type, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address.sun_family)), 0);
    return fd;
}

static bool listens(int fd) {
    int value = 0;
    socklen_t len_bytes = sizeof(value);

    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &len_bytes), 0);
    return value;
}

static void set(const char *name, const char *format, int value) {
    char text[64];

    snprintf(text, sizeof(text), format, value);
    assert_int_equal(setenv(name, text, 1), 0);
}

static int setup(void **state) {
    activation_forget();
    for (int fd = 3; fd < 6; fd++)
        (void)fcntl(fd, F_DUPFD_CLOEXEC, KEPT_FROM + fd);
    return 0;
}

static int teardown(void **state) {
    activation_forget();
    return 0;
}

/* Puts new sockets at the descriptor numbers that systemd uses. */
static void hand_over(int n, int type, bool listening) {
    for (int i = 0; i < n; i++) {
        int fd = bound_socket(type);

        if (listening)
            assert_int_equal(listen(fd, 1), 0);
        if (fd != 3 + i) {
            assert_int_equal(dup2(fd, 3 + i), 3 + i);
            close(fd);
        }
    }
    set("LISTEN_PID", "%d", (int)getpid());
    set("LISTEN_FDS", "%d", n);
}

static void test_activation_nothing(void **state) {
    ActivationSet given;
    ErrText err = { 0 };

    assert_int_equal(activation_look(&given, &err), 0);
    assert_int_equal(given.n, 0);
    assert_int_equal(given.fds_end, 0);
}

static void test_activation_systemd(void **state) {
    ActivationSet given;
    ErrText err = { 0 };

    hand_over(2, SOCK_STREAM, true);
    setenv("LISTEN_FDNAMES", "coordgend-admin.socket:api", 1);
    for (int again = 0; again < 2; again++) { /* a look leaves the sockets in place */
        assert_int_equal(activation_look(&given, &err), 0);
        assert_int_equal(given.n, 2);
        assert_int_equal(given.sockets[0].fd, 3);
        assert_true(given.sockets[0].is_admin);
        assert_int_equal(given.sockets[1].fd, 4);
        assert_false(given.sockets[1].is_admin);
        assert_int_equal(given.fds_end, 5);
        assert_int_equal(fcntl(3, F_GETFD), FD_CLOEXEC);
    }
    activation_forget();
    assert_null(getenv("LISTEN_FDS"));
    assert_int_equal(activation_look(&given, &err), 0);
    assert_int_equal(given.n, 0);
}

static void test_activation_systemd_one_without_a_name(void **state) {
    ActivationSet given;

    hand_over(1, SOCK_STREAM, true);
    assert_int_equal(activation_look(&given, NULL), 0);
    assert_int_equal(given.n, 1);
    assert_false(given.sockets[0].is_admin);
    set("LISTEN_PID", "%d", (int)getpid() + 1); /* the variables are for another process */
    assert_int_equal(activation_look(&given, NULL), 0);
    assert_int_equal(given.n, 0);
}

static void test_activation_systemd_refused(void **state) {
    ActivationSet given;
    ErrText err = { 0 };

    hand_over(2, SOCK_STREAM, true);
    setenv("LISTEN_FDNAMES", "api:metrics", 1);
    assert_int_equal(activation_look(&given, &err), -EINVAL);
    assert_non_null(strstr(err.text, "descriptor 4 from systemd is named 'metrics'"));
    assert_non_null(strstr(err.text, "FileDescriptorName="));
    assert_int_equal(given.n, 1); /* the sockets' clients are told that the service cannot start */
    set("LISTEN_FDS", "%d", ACTIVATION_SOCKETS_MAX + 1);
    assert_int_equal(activation_look(&given, &err), -E2BIG);
    setenv("LISTEN_FDS", "two", 1);
    assert_int_equal(activation_look(&given, &err), -EINVAL);
    assert_non_null(strstr(err.text, "LISTEN_FDS=two"));
    setenv("LISTEN_PID", "-1", 1);
    assert_int_equal(activation_look(&given, &err), -EINVAL);
    hand_over(1, SOCK_STREAM, false); /* bound, but not listening */
    assert_int_equal(activation_look(&given, &err), -EINVAL);
    hand_over(1, SOCK_DGRAM, false);
    assert_int_equal(activation_look(&given, &err), -EINVAL);
    assert_non_null(strstr(err.text, "is not a listening Unix stream socket"));
}

/* Android's init binds the socket, and listens only with "+listen". */
static void test_activation_android(void **state) {
    int api = bound_socket(SOCK_STREAM), admin = bound_socket(SOCK_STREAM);
    ActivationSet given;
    ErrText err = { 0 };

    assert_int_equal(listen(admin, 1), 0);
    set("ANDROID_SOCKET_coordgend", "%d", api);
    set("ANDROID_SOCKET_coordgend_admin", "%d", admin);
    assert_int_equal(activation_look(&given, &err), 0);
    assert_int_equal(given.n, 2);
    assert_int_equal(given.sockets[0].fd, api);
    assert_false(given.sockets[0].is_admin);
    assert_int_equal(given.sockets[1].fd, admin);
    assert_true(given.sockets[1].is_admin);
    assert_true(listens(api) && listens(admin));
    assert_int_equal(fcntl(api, F_GETFD), FD_CLOEXEC);
    assert_int_equal(given.fds_end, MAX(api, admin) + 1);
    activation_forget();
    assert_null(getenv("ANDROID_SOCKET_coordgend"));
    close(api);
    close(admin);
}

static void test_activation_android_refused(void **state) {
    static const char *const bad[] = { "", "x", "-1", "0x3", "99999", "99999999999999999999" };
    ActivationSet given;
    ErrText err = { 0 };
    int fd;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        setenv("ANDROID_SOCKET_coordgend", bad[i], 1);
        assert_int_equal(activation_look(&given, &err), -EINVAL);
        assert_non_null(strstr(err.text, "ANDROID_SOCKET_coordgend="));
        assert_non_null(strstr(err.text, "stream+listen")); /* the remedy */
        assert_int_equal(given.n, 0);
    }
    fd = bound_socket(SOCK_SEQPACKET);
    set("ANDROID_SOCKET_coordgend", "%d", fd);
    assert_int_equal(activation_look(&given, &err), -EINVAL);
    close(fd);
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    set("ANDROID_SOCKET_coordgend", "%d", fd);
    assert_int_equal(activation_look(&given, &err), -EINVAL);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_activation_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_activation_systemd, setup, teardown),
        cmocka_unit_test_setup_teardown(test_activation_systemd_one_without_a_name, setup, teardown),
        cmocka_unit_test_setup_teardown(test_activation_systemd_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_activation_android, setup, teardown),
        cmocka_unit_test_setup_teardown(test_activation_android_refused, setup, teardown),
    };

    return cmocka_run_group_tests_name("activation", tests, NULL, NULL);
}
