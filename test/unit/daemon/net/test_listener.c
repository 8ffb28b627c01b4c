// SPDX-License-Identifier: Apache-2.0
/* Listening sockets at a path: file modes, stale sockets, served sockets, and which socket file is removed at the end.
 * */
#undef NDEBUG
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/net/listener.h"

typedef struct Folder {
    char path[64];
    char socket[80];
} Folder;

static int setup(void **state) {
    Folder *folder = calloc(1, sizeof(*folder));

    assert_non_null(folder);
    snprintf(folder->path, sizeof(folder->path), "/tmp/coordgen-listen-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    snprintf(folder->socket, sizeof(folder->socket), "%s/api.sock", folder->path);
    *state = folder;
    return 0;
}

static int teardown(void **state) {
    Folder *folder = *state;

    unlink(folder->socket);
    assert_int_equal(rmdir(folder->path), 0); /* the folder is empty */
    free(folder);
    return 0;
}

static int mode_of(const char *path) {
    struct stat info;

    return lstat(path, &info) ? -1 : (int)(info.st_mode & 0777);
}

static int connect_to(const char *path) {
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), r;

    assert_true(fd >= 0);
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
    r = connect(fd, (struct sockaddr *)&to, sizeof(to)) ? -errno : 0;
    close(fd);
    return r;
}

static void test_listener_modes_and_forms(void **state) {
    const Folder *folder = *state;
    mode_t before = umask(022);
    char address[128];
    Listener listener;
    ErrText err;

    assert_int_equal(listener_open(&listener, folder->socket, false, &err), 0);
    assert_int_equal(mode_of(folder->socket), 0660);
    assert_int_equal(connect_to(folder->socket), 0);
    listener_close(&listener);
    assert_int_equal(mode_of(folder->socket), -1);

    snprintf(address, sizeof(address), "unix:%s", folder->socket);
    assert_int_equal(listener_open(&listener, address, true, &err), 0);
    assert_int_equal(mode_of(folder->socket), 0600);
    listener_close(&listener);
    assert_int_equal(umask(before), 022); /* the umask is restored */
}

static void test_listener_replaces_a_stale_socket(void **state) {
    const Folder *folder = *state;
    Listener dead, listener;
    ErrText err;

    assert_int_equal(listener_open(&dead, folder->socket, false, &err), 0);
    close(dead.fd); /* as after a killed process, the file stays */
    free(dead.path);
    assert_int_equal(connect_to(folder->socket), -ECONNREFUSED);
    assert_int_equal(listener_open(&listener, folder->socket, false, &err), 0);
    assert_int_equal(connect_to(folder->socket), 0);
    listener_close(&listener);
}

static void test_listener_leaves_what_is_not_its_own(void **state) {
    const Folder *folder = *state;
    Listener first, second;
    ErrText err;

    assert_int_equal(listener_open(&first, folder->socket, false, &err), 0);
    assert_int_equal(unlink(folder->socket), 0);
    assert_int_equal(listener_open(&second, folder->socket, false, &err), 0);
    listener_close(&first);
    assert_int_equal(connect_to(folder->socket), 0);
    listener_close(&second);
    assert_int_equal(mode_of(folder->socket), -1);
}

static void test_listener_refuses_a_served_socket(void **state) {
    const Folder *folder = *state;
    Listener first, second;
    ErrText err;

    assert_int_equal(listener_open(&first, folder->socket, false, &err), 0);
    assert_int_equal(listener_open(&second, folder->socket, false, &err), LISTENER_E_SERVED);
    assert_non_null(strstr(err.text, folder->socket));
    assert_int_equal(connect_to(folder->socket), 0);
    listener_close(&first);
}

static void *open_it(void *arg) {
    const Folder *folder = arg;
    Listener listener;
    ErrText err;
    int r = listener_open(&listener, folder->socket, false, &err);

    listener_close(&listener);
    return (void *)(intptr_t)r;
}

/* A socket that is bound but does not listen yet is not stale. */
static void test_listener_waits_for_one_that_starts(void **state) {
    Folder *folder = *state;
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int lock = open(folder->path, O_RDONLY | O_DIRECTORY), fd = socket(AF_UNIX, SOCK_STREAM, 0);
    pthread_t thread;
    void *r;

    assert_int_equal(flock(lock, LOCK_EX), 0);
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", folder->socket);
    assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(pthread_create(&thread, NULL, open_it, folder), 0);
    nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(flock(lock, LOCK_UN), 0);
    assert_int_equal(pthread_join(thread, &r), 0);
    assert_int_equal((intptr_t)r, LISTENER_E_SERVED);
    close(fd);

    assert_int_equal(flock(lock, LOCK_EX), 0); /* a lock that is never released does not block others */
    assert_null(open_it(folder));
    close(lock);
}

static void test_listener_refuses_paths(void **state) {
    const Folder *folder = *state;
    char longer[200];
    Listener listener;
    ErrText err;
    FILE *file = fopen(folder->socket, "w");

    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(listener_open(&listener, folder->socket, false, &err), LISTENER_E_PATH);
    assert_non_null(strstr(err.text, "not a socket"));
    assert_int_equal(access(folder->socket, F_OK), 0); /* a file of somebody else stays */

    memset(longer, 'x', sizeof(longer));
    longer[0] = '/';
    longer[sizeof(longer) - 1] = 0;
    assert_int_equal(listener_open(&listener, longer, false, &err), LISTENER_E_PATH);
    assert_int_equal(listener_open(&listener, "", false, &err), LISTENER_E_PATH);
    assert_int_equal(listener_open(&listener, "unix:", false, &err), LISTENER_E_PATH);
    assert_int_equal(listener_open(&listener, "@abstract", false, &err), LISTENER_E_PATH);
    assert_int_equal(listener_open(&listener, "/nonexistent/folder/api.sock", false, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/folder/api.sock"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_listener_modes_and_forms),
        TEST(test_listener_replaces_a_stale_socket),
        TEST(test_listener_leaves_what_is_not_its_own),
        TEST(test_listener_refuses_a_served_socket),
        TEST(test_listener_waits_for_one_that_starts),
        TEST(test_listener_refuses_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
