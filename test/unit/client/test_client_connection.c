// SPDX-License-Identifier: Apache-2.0
/* Tests of the client's connection: greeting, refusals, garbage, a service that goes away and comes back, fork. */
#undef NDEBUG
#define _GNU_SOURCE
#include "client/coordgen-client.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "client/client_internal.h"
#include "test/unit/client/client_peer.h"

static void script_hang_up_mid_stream(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;

    if (!peer_hello(peer) || !(request = peer_next(peer)))
        return;
    peer_delta(peer, request->request_id, 0, "partial", 7);
    peer_write(peer, "\x20\0\0\0half a frame", 16);
}

static void test_client_connection_ends_mid_stream(void **state) {
    CoordgenGenerateOptions options;
    CoordgenReply *reply = NULL;
    Seen seen = { 0 };
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_hang_up_mid_stream);

    peer_options(&options, "x");
    assert_int_equal(coordgen_generate(client, &options, seen_add, &seen, &reply), COORDGEN_E_DISCONNECTED);
    assert_string_equal(coordgen_reply_generate(reply)->text, "partial");
    assert_string_equal(seen.text, "partial");
    coordgen_reply_unref(reply);
    assert_int_equal(coordgen_generate(client, &options, seen_add, &seen, NULL), COORDGEN_E_DISCONNECTED);
    assert_int_equal(coordgen_client_dispatch(client), COORDGEN_E_DISCONNECTED);
    assert_int_equal(coordgen_client_n_in_flight(client), 0);
    peer_end(&peer, client);
}

static void test_client_connection_timeout(void **state) {
    CoordgenClient *client = NULL;
    Peer peer;

    peer_start(&peer, peer_play_nothing);
    assert_int_equal(coordgen_client_new(&client), 0);
    assert_int_equal(coordgen_client_connect_fd(client, steal_fd(&peer.client_fd), 50), COORDGEN_E_TIMEOUT);
    assert_int_equal(coordgen_client_error(client), COORDGEN_E_TIMEOUT);
    peer_end(&peer, client);
}

/* Each answer breaks the protocol in its own way; the request ends with one clear error. */
static const struct {
    const char *what;
    const char *bytes;
    size_t len_bytes;
} garbage[] = {
    { "too large", "\xff\xff\xff\x7f", 4 },
    { "empty", "\0\0\0\0", 4 },
    { "not protobuf", "\x04\0\0\0\xff\xff\xff\xff", 8 },
    { "no operation", "\x02\0\0\0\x08\x02", 6 },
    { "another kind", "\x04\0\0\0\x08\x02\x72\x00", 8 },             /* model_unload for request 2 */
    { "never sent", "\x04\0\0\0\x08\x63\x72\x00", 8 },               /* request 99 */
    { "sequence", "\x06\0\0\0\x08\x02\x22\x02\x08\x07", 10 },        /* delta 7 */
    { "UTF-8", "\x09\0\0\0\x08\x02\x22\x05\x08\0\x12\x01\xff", 13 }, /* delta 0 with 0xff */
    { "count", "\x06\0\0\0\x08\x02\x2a\x02\x40\x05", 10 },           /* done: 5 deltas were sent */
};
static _Atomic size_t garbage_at;

static void script_garbage(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;

    if (!peer_hello(peer) || !(request = peer_next(peer)) || request->request_id != 2)
        return;
    peer_write(peer, garbage[garbage_at].bytes, garbage[garbage_at].len_bytes);
    while (!atomic_load(&peer->done))
        poll(NULL, 0, 1);
}

static void test_client_connection_garbage(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(garbage); i++) {
        CoordgenGenerateOptions options;
        Peer peer;
        CoordgenClient *client;
        int r;

        garbage_at = i;
        client = peer_connect(&peer, script_garbage);
        peer_options(&options, "x");
        options.timeout_ms = 5000;
        r = coordgen_generate(client, &options, NULL, NULL, NULL);
        if (r != COORDGEN_E_BAD_REPLY)
            fail_msg("%s: %d %s", garbage[i].what, r, coordgen_client_message(client));
        assert_true(coordgen_client_message(client)[0]);
        peer_end(&peer, client);
    }
}

static void script_refused(Peer *peer) {
    frame_request_free(peer_next(peer)); /* the greeting */
    peer_error(peer, 0, 5, "too many connections: at most 64", NULL, 1000);
}

static void test_client_connection_refused(void **state) {
    CoordgenClient *client = NULL;
    Peer peer;

    peer_start(&peer, script_refused);
    assert_int_equal(coordgen_client_new(&client), 0);
    assert_int_equal(coordgen_client_connect_fd(client, steal_fd(&peer.client_fd), 5000), COORDGEN_E_BUSY);
    assert_int_equal(coordgen_client_retry_after_ms(client), 1000);
    peer_end(&peer, client);
}

static void test_client_connection_unreachable(void **state) {
    CoordgenClient *client = NULL;
    char longer[200];

    memset(longer, 'a', sizeof(longer));
    longer[0] = '/';
    longer[199] = 0;
    assert_int_equal(coordgen_client_new(&client), 0);
    assert_int_equal(coordgen_status(client, 1000, NULL), COORDGEN_E_WRONG_STATE);
    assert_int_equal(coordgen_client_connect(client, "/nonexistent/api.sock", 1000), COORDGEN_E_UNREACHABLE);
    assert_non_null(strstr(coordgen_client_message(client), "/nonexistent/api.sock"));
    assert_int_equal(coordgen_client_connect(client, longer, 1000), COORDGEN_E_INVALID_ARGUMENT);
    assert_int_equal(setenv("COORDGEN_SOCKET", "/nonexistent/env.sock", 1), 0);
    assert_int_equal(coordgen_client_connect(client, NULL, 1000), COORDGEN_E_UNREACHABLE);
    assert_string_equal(coordgen_client_socket_path(client), "/nonexistent/env.sock");
    assert_int_equal(unsetenv("COORDGEN_SOCKET"), 0);
    coordgen_client_free(client);
    coordgen_client_free(NULL);
}

/* A real listening socket, found through XDG_RUNTIME_DIR. The service goes away and comes back for the same client. */
static void test_client_connection_again_over_a_unix_socket(void **state) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char folder[] = "/tmp/coordgen-test-XXXXXX", inner[64];
    CoordgenClient *client = NULL;
    int listener;

    assert_non_null(mkdtemp(folder));
    snprintf(inner, sizeof(inner), "%s/coordgen", folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/api.sock", inner);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 4), 0);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
    assert_int_equal(coordgen_client_new(&client), 0);
    for (unsigned i = 0; i < 2; i++) {
        Peer peer = { .script = peer_play_errors };
        CoordgenGenerateOptions options;

        assert_int_equal(coordgen_client_connect_start(client, NULL), 0);
        assert_string_equal(coordgen_client_socket_path(client), address.sun_path);
        peer.fd = accept(listener, NULL, NULL);
        assert_true(peer.fd >= 0);
        assert_int_equal(pthread_create(&peer.thread, NULL, peer_main, &peer), 0);
        peer_options(&options, "x");
        for (unsigned n = 0; n < 3; n++) /* without waiting for the greeting */
            assert_int_not_equal(coordgen_generate(client, &options, NULL, NULL, NULL), 0);
        assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_DISCONNECTED);
        atomic_store(&peer.done, true);
        assert_int_equal(pthread_join(peer.thread, NULL), 0);
    }
    close(listener);
    assert_int_equal(coordgen_client_connect(client, NULL, 100), COORDGEN_E_UNREACHABLE);
    coordgen_client_free(client);
    unlink(address.sun_path);
    rmdir(inner);
    rmdir(folder);
}

static void test_client_connection_fork(void **state) {
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, peer_play_silence);
    CoordgenGenerateOptions options;
    int status;
    pid_t child;

    peer_options(&options, "x");
    options.timeout_ms = 50;
    child = fork();
    assert_true(child >= 0);
    if (!child) {
        int r = coordgen_client_dispatch(client);

        coordgen_client_free(client);
        _exit(r == COORDGEN_E_WRONG_STATE ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_TIMEOUT);
    assert_int_equal(coordgen_ping(client, 5000, NULL), 0); /* the parent's connection is untouched */
    peer_end(&peer, client);
}

enum {
    LONG_BYTES = 200000,
    LONG_N = 160,        /* 32 MB in all */
    LONG_IN_FLIGHT = 16, /* 3.2 MB, more than a socket holds */
};
static _Atomic unsigned n_long;

/* Answers prompts, but leaves the last half of those in flight unread until more arrive. */
static void script_behind(Peer *peer) {
    bool goes_on = peer_hello(peer);

    for (unsigned i = 0; goes_on && i < LONG_N; i++) {
        _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;

        while (atomic_load(&n_long) < LONG_N && atomic_load(&n_long) < i + LONG_IN_FLIGHT / 2)
            (void)poll(NULL, 0, 1);
        request = peer_next(peer);
        goes_on = request != NULL;
        if (goes_on)
            peer_done(peer, request->request_id, COORDGEN__V1__END_REASON__END_REASON_MAX_TOKENS, 0);
    }
    frame_request_free(peer_next(peer)); /* until the client hangs up */
}

/* A client that always has something to send buffers no more than twice that. */
static void test_client_connection_drops_what_is_sent(void **state) {
    _cleanup_(freep) char *text = calloc(LONG_BYTES + 1, 1);
    CoordgenGenerateOptions options;
    size_t out_bytes = 0;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_behind);

    assert_non_null(text);
    memset(text, 'a', LONG_BYTES);
    peer_options(&options, text);
    while (n_long < LONG_N || coordgen_client_n_in_flight(client)) {
        struct pollfd wait = { .fd = coordgen_client_fd(client), .events = coordgen_client_events(client) };

        while (n_long < LONG_N && coordgen_client_n_in_flight(client) < LONG_IN_FLIGHT) {
            assert_int_equal(coordgen_generate_start(client, &options, NULL, NULL, NULL), 0);
            atomic_fetch_add(&n_long, 1);
            out_bytes = MAX(client->out.bytes.len_bytes, out_bytes);
        }
        assert_int_equal(poll(&wait, 1, 5000), 1);
        assert_int_equal(coordgen_client_dispatch(client), 0);
    }
    assert_in_range(out_bytes, LONG_BYTES, 2 * (LONG_BYTES + 100) * LONG_IN_FLIGHT);
    peer_end(&peer, client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_connection_ends_mid_stream),
        cmocka_unit_test(test_client_connection_timeout),
        cmocka_unit_test(test_client_connection_garbage),
        cmocka_unit_test(test_client_connection_refused),
        cmocka_unit_test(test_client_connection_unreachable),
        cmocka_unit_test(test_client_connection_again_over_a_unix_socket),
        cmocka_unit_test(test_client_connection_fork),
        cmocka_unit_test(test_client_connection_drops_what_is_sent),
    };

    return cmocka_run_group_tests_name("client_connection", tests, NULL, NULL);
}
