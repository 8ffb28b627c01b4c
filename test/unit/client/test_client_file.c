// SPDX-License-Identifier: Apache-2.0
/* Tests of a file that accompanies a request: it arrives with that request and no other, however full the socket is. */
#define _GNU_SOURCE
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/net/inlet.h"
#include "test/unit/client/client_peer.h"

enum {
    PROMPT_BYTES = 200 << 10,
    N_BEFORE = 4,
};

static _Atomic int n_with_file, n_without; /* requests that the peer has read */
static struct stat expected;

/* Returns whether the frame is as expected. */
static bool take(const uint8_t *body, size_t len_bytes, int fd) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;
    FrameFault fault;
    struct stat file;

    if (frame_decode_request(body, len_bytes, &request, &fault))
        return false;
    if (request->op_case != COORDGEN__V1__REQUEST__OP_MODEL_LOAD) {
        atomic_fetch_add(&n_without, 1);
        return fd < 0;
    }
    atomic_fetch_add(&n_with_file, 1);
    return fd >= 0 && request->model_load->with_file && *request->model_load->model == '/' && !fstat(fd, &file) &&
           file.st_ino == expected.st_ino;
}

static void script(Peer *peer) {
    Inlet inlet;
    bool good = true;

    if (!peer_hello(peer))
        return;
    while (!atomic_load(&peer->done))
        (void)poll(NULL, 0, 1);
    if (inlet_init(&inlet))
        return;
    while (good && atomic_load(&n_with_file) + atomic_load(&n_without) < 2 * N_BEFORE + 1) {
        struct pollfd wait = { .fd = peer->fd, .events = POLLIN };
        size_t have_bytes, body_bytes, needed_bytes;
        uint8_t *data;

        (void)poll(&wait, 1, -1);
        good = !inlet_read(&inlet, peer->fd, 30000, true);
        have_bytes = evbuffer_get_length(inlet.bytes);
        data = evbuffer_pullup(inlet.bytes, -1);
        while (good && data && !frame_peek(data, have_bytes, FRAME_MAX_BYTES, &body_bytes, &needed_bytes, NULL)) {
            int fd = inlet_take_fd(&inlet, FRAME_HEADER_BYTES + body_bytes);

            good = take(data + FRAME_HEADER_BYTES, body_bytes, fd);
            closep(&fd);
            evbuffer_drain(inlet.bytes, FRAME_HEADER_BYTES + body_bytes);
            have_bytes = evbuffer_get_length(inlet.bytes);
            data = evbuffer_pullup(inlet.bytes, -1);
        }
    }
    inlet_deinit(&inlet);
}

static void script_greeting(Peer *peer) {
    if (peer_hello(peer))
        peer_play_nothing(peer);
}

static void start_generations(CoordgenClient *client, size_t n, const char *prompt) {
    CoordgenGenerateOptions options;

    for (size_t i = 0; i < n; i++) {
        peer_options(&options, prompt);
        assert_int_equal(coordgen_generate_start(client, &options, NULL, NULL, NULL), 0);
    }
}

static void test_client_file_past_a_full_socket(void **state) {
    char path[] = "/tmp/coordgen-file-XXXXXX";
    _cleanup_(closep) int fd = mkstemp(path);
    char *prompt = calloc(1, PROMPT_BYTES + 1);
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script);

    assert_non_null(prompt);
    memset(prompt, 'a', PROMPT_BYTES);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &expected), 0);
    start_generations(client, N_BEFORE, prompt);
    assert_int_equal(coordgen_model_load_file_start(client, path, -1, NULL, NULL, NULL), 0);
    /* Only a single request with a file waits at a time: the socket took less than the bytes before it. */
    assert_int_equal(coordgen_model_load_file_start(client, path, -1, NULL, NULL, NULL), COORDGEN_E_BUSY);
    assert_int_equal(unlink(path), 0); /* the file is open and no longer needs its name */
    start_generations(client, N_BEFORE, prompt);
    atomic_store(&peer.done, true);
    while (!coordgen_client_dispatch(client)) {
        struct pollfd wait = { .fd = coordgen_client_fd(client), .events = coordgen_client_events(client) };

        (void)poll(&wait, 1, 1000);
    }
    assert_int_equal(atomic_load(&n_with_file), 1);
    assert_int_equal(atomic_load(&n_without), 2 * N_BEFORE);
    free(prompt);
    peer_end(&peer, client);
}

static void test_client_file_that_cannot_be_opened(void **state) {
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_greeting);

    assert_int_equal(coordgen_model_load_file_start(client, "/nowhere/m.gguf", -1, NULL, NULL, NULL),
                     COORDGEN_E_MODEL_NOT_FOUND);
    assert_non_null(strstr(coordgen_client_message(client), "/nowhere/m.gguf"));
    assert_int_equal(coordgen_model_load_file_start(client, "/tmp", -1, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    atomic_store(&peer.done, true);
    peer_end(&peer, client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_file_past_a_full_socket),
        cmocka_unit_test(test_client_file_that_cannot_be_opened),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
