// SPDX-License-Identifier: Apache-2.0
/* Calls of a connection to its owner about bytes and frames of one client. The owner only records the calls. */
#define _GNU_SOURCE
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/net/connection.h"
#include "daemon/net/reply.h"
#include "proto/frame.h"

enum {
    ROUNDS = 200, /* rounds of the loop, without waiting */
    RETRY_MS = 1234,
    OUTPUT_BYTES = 64 << 10,
    FRAME_BYTES = 64 << 10,
    ANSWERS_MAX = 4096,
};

typedef struct Owner {
    Loop loop;
    Config config;
    AccountTable accounts;
    UserTable users;
    User *user;
    Connection *connection; /* NULL: closed */
    int fd;                 /* the client's end of the socket */
    bool puts_off;          /* whether the owner postpones the next frame */
    char bodies[512];       /* the bodies of all frames, one after the other */
    unsigned int n_frames, n_chokes, n_unchokes, n_ends, n_closed;
} Owner;

static void on_frame(void *arg, const uint8_t *body, size_t len_bytes) {
    Owner *owner = arg;
    const size_t before = strlen(owner->bodies);

    assert_true(before + len_bytes < sizeof(owner->bodies));
    memcpy(owner->bodies + before, body, len_bytes);
    owner->n_frames++;
    if (owner->puts_off)
        connection_put_off(owner->connection);
}

static void on_choke(void *arg, bool choked) {
    Owner *owner = arg;

    owner->n_chokes += choked;
    owner->n_unchokes += !choked;
}

static void on_end(void *arg) {
    Owner *owner = arg;

    owner->n_ends++;
}

static void on_closed(void *arg) {
    Owner *owner = arg;

    owner->n_closed++;
    owner->connection = connection_free(owner->connection);
}

static uint32_t retry_ms(void *arg) {
    return RETRY_MS;
}

static const ConnectionOps ops = {
    .on_frame = on_frame,
    .on_choke = on_choke,
    .on_end = on_end,
    .on_closed = on_closed,
    .retry_ms = retry_ms,
};

static int setup(void **state) {
    Owner *owner = calloc(1, sizeof(*owner));
    int fds[2];

    assert_non_null(owner);
    owner->config = (Config){
        .limits.frame_max_bytes = FRAME_BYTES,
        .limits.output_buffer_bytes = OUTPUT_BYTES,
        .timeouts.frame_ms = 60000,
        .timeouts.hello_ms = 60000,
        .timeouts.stall_ms = 60000,
    };
    owner->loop = (Loop){ .base = event_base_new(), .thread = pthread_self() };
    assert_non_null(owner->loop.base);
    account_table_init(&owner->accounts);
    user_table_init(&owner->users, &owner->loop, &owner->config, &owner->accounts);
    owner->user = user_get(&owner->users, 1000);
    assert_non_null(owner->user);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    owner->fd = fds[0];
    assert_int_equal(connection_new(&owner->connection, owner->user, false, fds[1], &ops, owner), 0);
    *state = owner;
    return 0;
}

static int teardown(void **state) {
    Owner *owner = *state;

    connection_free(owner->connection);
    assert_int_equal(owner->user->client_bytes, 0);
    user_unref(owner->user);
    event_base_free(owner->loop.base);
    closep(&owner->fd);
    free(owner);
    return 0;
}

static void turn(Owner *owner) {
    for (int i = 0; i < ROUNDS; i++)
        assert_true(event_base_loop(owner->loop.base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
}

static void give(Owner *owner, const void *data, size_t len_bytes) {
    assert_int_equal(send(owner->fd, data, len_bytes, MSG_NOSIGNAL), len_bytes);
    turn(owner);
}

/* Reads all bytes that have arrived. Return: their number. */
static size_t take(Owner *owner, uint8_t *data, size_t room_bytes) {
    size_t len_bytes = 0;

    for (ssize_t n; (n = recv(owner->fd, data + len_bytes, room_bytes - len_bytes, 0)) > 0;) {
        len_bytes += (size_t)n;
        turn(owner);
    }
    return len_bytes;
}

/* Expects the given error as the client's last message, and the end of the stream behind it. */
static void expect_error(Owner *owner, Coordgen__V1__ErrorCode code, uint32_t wanted_retry_ms) {
    _cleanup_(frame_response_freep) Coordgen__V1__Response *response = NULL;
    uint8_t data[4096];
    size_t body_bytes, needed_bytes;
    FrameFault fault;
    ErrText err;
    size_t len_bytes = take(owner, data, sizeof(data));

    assert_int_equal(frame_peek(data, len_bytes, FRAME_BYTES, &body_bytes, &needed_bytes, &err), 0);
    assert_int_equal(len_bytes, FRAME_HEADER_BYTES + body_bytes);
    assert_int_equal(frame_decode_response(data + FRAME_HEADER_BYTES, body_bytes, &response, &fault), 0);
    assert_int_equal(response->op_case, COORDGEN__V1__RESPONSE__OP_ERROR);
    assert_int_equal(response->error->code, code);
    assert_int_equal(response->error->retry_after_ms, wanted_retry_ms);
    assert_int_equal(recv(owner->fd, data, sizeof(data), 0), 0);
    assert_null(owner->connection);
}

static void test_connection_gives_whole_frames(void **state) {
    Owner *owner = *state;

    give(owner, "\3\0", 2);
    give(owner, "\0\0ab", 4);
    assert_int_equal(owner->n_frames, 0);
    give(owner, "c\2\0\0\0de\1\0", 9);
    assert_int_equal(owner->n_frames, 2);
    assert_string_equal(owner->bodies, "abcde");
    give(owner, "\0\0f", 3);
    assert_string_equal(owner->bodies, "abcdef");
    assert_int_equal(owner->n_ends, 0);
}

static void test_connection_puts_off(void **state) {
    Owner *owner = *state;

    connection_open(owner->connection);
    owner->puts_off = true;
    give(owner, "\1\0\0\0a\1\0\0\0b", 10);
    assert_int_equal(owner->n_frames, 1);
    owner->puts_off = false;
    give(owner, "\1\0\0\0c", 5);
    assert_string_equal(owner->bodies, "a"); /* no later frame overtakes the postponed one */
    connection_go_on(owner->connection);
    turn(owner);
    assert_string_equal(owner->bodies, "aabc");
}

/* Once the output buffer is full, the owner is told, and nothing is read until the client has read. */
static void test_connection_chokes(void **state) {
    static uint8_t data[1 << 20];
    Owner *owner = *state;
    Coordgen__V1__Response response;
    Coordgen__V1__DetokenizeReply reply = COORDGEN__V1__DETOKENIZE_REPLY__INIT;
    static uint8_t text[1024];

    reply_init(&response, 1);
    reply.has_text = true;
    reply.text = (ProtobufCBinaryData){ sizeof(text), text };
    response.op_case = COORDGEN__V1__RESPONSE__OP_DETOKENIZE;
    response.detokenize = &reply;
    for (int i = 0; i < ANSWERS_MAX && !owner->n_chokes; i++) {
        connection_send(owner->connection, &response);
        turn(owner);
    }
    assert_int_equal(owner->n_chokes, 1);
    assert_true(owner->connection->output.is_choked);
    assert_true(connection_unsent_bytes(owner->connection) > OUTPUT_BYTES);
    give(owner, "\1\0\0\0a", 5);
    assert_int_equal(evbuffer_get_length(owner->connection->input.inlet.bytes), 0);
    assert_true(take(owner, data, sizeof(data)) > OUTPUT_BYTES);
    assert_int_equal(owner->n_unchokes, 1);
    assert_int_equal(connection_unsent_bytes(owner->connection), 0);
    assert_string_equal(owner->bodies, "a");
    assert_int_equal(owner->n_ends, 0);
}

static void test_connection_ends_with_its_client(void **state) {
    Owner *owner = *state;

    closep(&owner->fd);
    owner->fd = -1;
    turn(owner);
    assert_int_equal(owner->n_closed, 1);
    assert_true(owner->n_ends > 0);
    assert_null(owner->connection);
}

static void test_connection_refuses_long_frames(void **state) {
    Owner *owner = *state;

    give(owner, "\1\0\1\0", 4);
    assert_int_equal(owner->n_frames, 0);
    assert_true(owner->n_ends > 0);
    expect_error(owner, COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL, 0);
}

/* An arriving frame is charged before its bytes are there; a client without room is told when to retry. */
static void test_connection_pays(void **state) {
    Owner *owner = *state;

    give(owner, "\0\1\0\0", 4);
    assert_int_equal(owner->user->client_bytes, 256 + FRAME_HEADER_BYTES);
    give(owner, (uint8_t[256]){ 0 }, 256);
    assert_int_equal(owner->n_frames, 1);
    assert_int_equal(owner->user->client_bytes, 0);
    owner->accounts.limit_bytes[ACCOUNT_SESSIONS] = 100;
    give(owner, "\0\1\0\0", 4);
    assert_true(owner->n_ends > 0);
    expect_error(owner, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, RETRY_MS);
}

static void test_connection_dismissed(void **state) {
    Owner *owner = *state;

    connection_open(owner->connection);
    assert_true(connection_is_quiet(owner->connection));
    give(owner, "\1\0", 2);
    assert_false(connection_is_quiet(owner->connection));
    connection_dismiss(owner->connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, "others need the place");
    assert_int_equal(owner->n_closed, 1);
    expect_error(owner, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, RETRY_MS);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_connection_gives_whole_frames),
        TEST(test_connection_puts_off),
        TEST(test_connection_chokes),
        TEST(test_connection_ends_with_its_client),
        TEST(test_connection_refuses_long_frames),
        TEST(test_connection_pays),
        TEST(test_connection_dismissed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
