// SPDX-License-Identifier: Apache-2.0
/* A whole server in this process with failing allocations: a connection may be lost, but the service goes on. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/min_max.h"
#include "daemon/server.h"
#include "proto/frame.h"

enum {
    ROUNDS = 2000, /* rounds of the loop without waiting; an answer that has not come after them never comes */
    MANY = 250,    /* number of requests whose answers fit into the socket's buffer unread */
};

/* ---- allocations that fail --------------------------------------------------------------------------------------- */

static __thread long n_until_failure = -1; /* allocations of this thread until one fails; -1: none fails */
static __thread bool fails_on;             /* whether all later allocations fail, too */
static __thread unsigned int n_failed;

void *__real_malloc(size_t len_bytes);
void *__real_calloc(size_t n, size_t len_bytes);
void *__real_realloc(void *data, size_t len_bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t len_bytes);
void *__wrap_calloc(size_t n, size_t len_bytes);
void *__wrap_realloc(void *data, size_t len_bytes);
char *__wrap_strdup(const char *text);

static bool fails(void) {
    if (n_until_failure < 0)
        return false;
    if (n_until_failure > 0) {
        n_until_failure--;
        return false;
    }
    if (!fails_on)
        n_until_failure = -1;
    n_failed++;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t len_bytes) {
    return fails() ? NULL : __real_malloc(len_bytes);
}

void *__wrap_calloc(size_t n, size_t len_bytes) {
    return fails() ? NULL : __real_calloc(n, len_bytes);
}

void *__wrap_realloc(void *data, size_t len_bytes) {
    return fails() ? NULL : __real_realloc(data, len_bytes);
}

char *__wrap_strdup(const char *text) {
    return fails() ? NULL : __real_strdup(text);
}

/* ---- a server and a client of it --------------------------------------------------------------------------------- */

typedef struct Fixture {
    char folder[64];
    char path[96];
    Server *server;
} Fixture;

static void no_log(LogLevel level, const char *topic, const char *line) {
}

static int setup(void **state) {
    Fixture *fixture = calloc(1, sizeof(*fixture));
    static char *argv[] = { (char *)"coordgend", NULL };
    ListenerSet listeners = { 0 };
    Config *config;
    ErrText err;

    assert_non_null(fixture);
    log_set_sink(no_log);
    snprintf(fixture->folder, sizeof(fixture->folder), "/tmp/coordgen-server-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    snprintf(fixture->path, sizeof(fixture->path), "%s/api", fixture->folder);
    assert_int_equal(config_new(&config, false, &err), 0);
    assert_int_equal(config_set(config, "threads", "1", &err), 0);
    assert_int_equal(config_set(config, "listen", fixture->path, &err), 0);
    assert_int_equal(config_set(config, "model-dir", fixture->folder, &err), 0);
    assert_int_equal(config_set(config, "draftdb", "no", &err), 0);
    assert_int_equal(listener_set_open(&listeners, config, &err), 0);
    assert_int_equal(server_new(&fixture->server, &config, &listeners, 1, argv, &err), 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    Fixture *fixture = *state;

    server_free(fixture->server);
    assert_int_equal(rmdir(fixture->folder), 0);
    free(fixture);
    log_set_sink(NULL);
    return 0;
}

static void turn(const Fixture *fixture) {
    assert_true(event_base_loop(fixture->server->service.loop.base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
}

static int connect_to(const Fixture *fixture) {
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", fixture->path);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void send_request(int fd, Coordgen__V1__Request *request) {
    uint8_t *frame;
    size_t len_bytes;

    request->has_request_id = true;
    request->request_id = 1;
    assert_int_equal(frame_encode(&request->base, &frame, &len_bytes, NULL), 0);
    (void)!send(fd, frame, len_bytes, MSG_NOSIGNAL); /* the service may have closed the connection already */
    free(frame);
}

/* Sends a Hello and some requests, like an app that does not wait for answers. */
static void send_all(int fd) {
    Coordgen__V1__Request request = COORDGEN__V1__REQUEST__INIT;
    Coordgen__V1__HelloRequest hello = COORDGEN__V1__HELLO_REQUEST__INIT;
    Coordgen__V1__StatusRequest status = COORDGEN__V1__STATUS_REQUEST__INIT;
    Coordgen__V1__ModelListRequest list = COORDGEN__V1__MODEL_LIST_REQUEST__INIT;

    hello.has_version_min = hello.has_version_max = true;
    hello.version_min = hello.version_max = 1;
    request.op_case = COORDGEN__V1__REQUEST__OP_HELLO;
    request.hello = &hello;
    send_request(fd, &request);
    request.op_case = COORDGEN__V1__REQUEST__OP_MODEL_LIST;
    request.model_list = &list;
    send_request(fd, &request);
    request.op_case = COORDGEN__V1__REQUEST__OP_STATUS;
    request.status = &status;
    send_request(fd, &request);
}

static unsigned int n_frames(const uint8_t *data, size_t len_bytes) {
    unsigned int n = 0;

    for (size_t at = 0; at + FRAME_HEADER_BYTES <= len_bytes; n++) {
        size_t body = data[at] | (size_t)data[at + 1] << 8 | (size_t)data[at + 2] << 16;

        if (at + FRAME_HEADER_BYTES + body > len_bytes)
            break;
        at += FRAME_HEADER_BYTES + body;
    }
    return n;
}

/* Serves one connection. Return: how many of three answers came before the service closed the connection; -1 if the
 * service neither answered nor closed. */
static int serve_one(const Fixture *fixture) {
    uint8_t data[16384];
    size_t len_bytes = 0;
    int fd = connect_to(fixture), result = -1;
    const long failure = n_until_failure;

    n_until_failure = -1; /* the client's own allocations do not fail */
    send_all(fd);
    n_until_failure = failure;
    for (int i = 0; i < ROUNDS && result < 0; i++) {
        ssize_t n;

        turn(fixture);
        n = recv(fd, data + len_bytes, sizeof(data) - len_bytes, 0);
        len_bytes += n > 0 ? (size_t)n : 0;
        if (!n || (n < 0 && errno != EAGAIN) || n_frames(data, len_bytes) == 3)
            result = (int)n_frames(data, len_bytes);
    }
    n_until_failure = -1;
    close(fd);
    for (int i = 0; i < 4; i++)
        turn(fixture);
    return result;
}

static void fail_each(Fixture *fixture, bool on) {
    for (long at = 0;; at++) {
        n_until_failure = at;
        fails_on = on;
        n_failed = 0;
        assert_in_range(serve_one(fixture), 0, 3);
        assert_null(user_next(&fixture->server->service.users, NULL));
        if (!n_failed) {
            assert_true(at > 10);
            return;
        }
        assert_int_equal(serve_one(fixture), 3); /* the next client is served */
    }
}

static void test_server_one_allocation_fails(void **state) {
    fail_each(*state, false);
}

static void test_server_no_memory_from_there_on(void **state) {
    fail_each(*state, true);
}

typedef struct Reader {
    int fd;
    uint8_t data[1 << 20];
    size_t len_bytes;
} Reader;

static unsigned int n_answers(Reader *reader) {
    ssize_t n = recv(reader->fd, reader->data + reader->len_bytes, sizeof(reader->data) - reader->len_bytes, 0);

    reader->len_bytes += n > 0 ? (size_t)n : 0;
    return n_frames(reader->data, reader->len_bytes);
}

/* Sends MANY requests in one piece, since a socket's buffer takes only few small pieces. */
static void send_many_shows(int fd) {
    Coordgen__V1__Request request = COORDGEN__V1__REQUEST__INIT;
    Coordgen__V1__ModelShowRequest show = COORDGEN__V1__MODEL_SHOW_REQUEST__INIT;
    static uint8_t data[1 << 16];
    size_t len_bytes = 0, frame_bytes;
    uint8_t *frame;

    request.has_request_id = true;
    request.request_id = 1;
    request.op_case = COORDGEN__V1__REQUEST__OP_MODEL_SHOW;
    request.model_show = &show;
    assert_int_equal(frame_encode(&request.base, &frame, &frame_bytes, NULL), 0);
    for (int i = 0; i < MANY; i++, len_bytes += frame_bytes) {
        assert_true(len_bytes + frame_bytes <= sizeof(data));
        memcpy(data + len_bytes, frame, frame_bytes);
    }
    free(frame);
    assert_int_equal(send(fd, data, len_bytes, MSG_NOSIGNAL), len_bytes);
}

/* Many requests that arrive at once are served in parts: a client behind them gets a turn in between. */
static void test_server_turns(void **state) {
    static Reader crowd, other;
    const Fixture *fixture = *state;
    unsigned int n, before, most = 0, n_between = 0;

    crowd.fd = connect_to(fixture);
    other.fd = connect_to(fixture);
    send_all(crowd.fd);
    for (int i = 0; i < ROUNDS && n_answers(&crowd) < 3; i++)
        turn(fixture);
    assert_int_equal(n_answers(&crowd), 3);
    send_many_shows(crowd.fd);
    send_all(other.fd);
    before = 3;
    for (int i = 0; i < ROUNDS && before < MANY + 3; i++, before = n) {
        turn(fixture);
        n = n_answers(&crowd);
        most = MAX(n - before, most);
        n_between += n < MANY + 3 && n_answers(&other) > 0;
    }
    assert_int_equal(before, MANY + 3);
    assert_in_range(most, 1, 100);
    assert_true(n_between > 1);
    close(crowd.fd);
    close(other.fd);
    for (int i = 0; i < 4; i++)
        turn(fixture);
    assert_null(user_next(&fixture->server->service.users, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_server_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_server_one_allocation_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_server_no_memory_from_there_on, setup, teardown),
    };

    event_set_mem_functions(__wrap_malloc, __wrap_realloc, free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
