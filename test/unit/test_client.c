/* The library against a peer thread that speaks real frames over a real socket. */
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

#include "base/clock.h"
#include "test/unit/client_peer.h"

/* ---- collecting events ------------------------------------------------------------------------------------------- */

typedef struct Seen {
    CoordgenClient *client;
    char text[256];
    size_t text_bytes;
    unsigned n_deltas;
    unsigned n_tokens;
    unsigned n_progress;
    unsigned n_ends;
    int error;
    int end_reason;
    char message[128];
    bool cancel; /* by the return value */
} Seen;

static int see(void *arg, const CoordgenEvent *event) {
    Seen *seen = arg;

    switch (event->kind) {
    case COORDGEN_EVENT_PROGRESS:
        seen->n_progress++;
        break;
    case COORDGEN_EVENT_DELTA:
        assert_true(seen->text_bytes + event->text_bytes < sizeof(seen->text));
        assert_int_equal(event->text[event->text_bytes], 0);
        memcpy(seen->text + seen->text_bytes, event->text, event->text_bytes);
        seen->text_bytes += event->text_bytes;
        assert_int_equal(event->tokens[0], 40 + seen->n_deltas);
        seen->n_deltas++;
        seen->n_tokens += (unsigned)event->n_tokens;
        break;
    case COORDGEN_EVENT_END:
        seen->n_ends++;
        seen->error = coordgen_reply_error(event->reply);
        snprintf(seen->message, sizeof(seen->message), "%s", coordgen_reply_message(event->reply));
        if (coordgen_reply_generate(event->reply))
            seen->end_reason = coordgen_reply_generate(event->reply)->end_reason;
        break;
    }
    return seen->cancel;
}

static void options_of(CoordgenGenerateOptions *options, const char *prompt) {
    coordgen_generate_options_init(options);
    options->prompt = prompt;
}

/* ---- scripts and their tests ------------------------------------------------------------------------------------- */

static void script_stream(Peer *peer) {
    Coordgen__V1__GenerateProgress progress = COORDGEN__V1__GENERATE_PROGRESS__INIT;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;

    if (!peer_hello(peer) || !(request = peer_next(peer)) || request->op_case != COORDGEN__V1__REQUEST__OP_GENERATE)
        return;
    if (!request->generate->prompt || strcmp(request->generate->prompt, "Gr\xc3\xbc\xc3\x9f") ||
        request->generate->sampling->repetition_window != 64 || request->generate->n_stop != 1)
        return;
    progress.has_prompt_tokens = true;
    progress.prompt_tokens = 11;
    RESPONSE(response, GENERATE_PROGRESS, generate_progress, &progress);
    peer_send(peer, &response, request->request_id);
    peer_delta(peer, request->request_id, 0, "Hel", 3);
    peer_delta(peer, request->request_id, 1, "lo\0!", 4);
    peer_delta(peer, request->request_id, 2, "", 0);
    peer_done(peer, request->request_id, COORDGEN__V1__END_REASON__END_REASON_STOP_STRING, 3);
}

static void test_client_generate_streams(void **state) {
    static const char *const stops[] = { "END" };
    CoordgenGenerateOptions options;
    CoordgenReply *reply = NULL;
    const CoordgenGenerateResult *result;
    Seen seen = { 0 };
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_stream);

    options_of(&options, "Gr\xc3\xbc\xc3\x9f");
    options.stops = stops;
    options.n_stops = 1;
    assert_int_equal(coordgen_generate(client, &options, see, &seen, &reply), 0);
    assert_int_equal(seen.n_progress, 1);
    assert_int_equal(seen.n_deltas, 3);
    assert_int_equal(seen.n_tokens, 3);
    assert_int_equal(seen.n_ends, 0); /* the call that waits is the end */
    assert_int_equal(seen.text_bytes, 7);
    assert_memory_equal(seen.text, "Hello\0!", 7);
    result = coordgen_reply_generate(reply);
    assert_int_equal(result->text_bytes, 7);
    assert_memory_equal(result->text, "Hello\0!", 8);
    assert_int_equal(result->end_reason, COORDGEN_END_STOP);
    assert_int_equal(result->prompt_tokens, 11);
    assert_int_equal(result->cached_tokens, 3);
    assert_int_equal(result->decode_us, 2000);
    assert_true(result->seed == UINT64_MAX);
    assert_string_equal(result->model, "tiny");
    assert_null(coordgen_reply_status(reply));
    peer_end(&peer, client);
    assert_string_equal(result->model, "tiny"); /* a reply outlives its client */
    coordgen_reply_unref(reply);
}

static void script_error(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *first = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *second = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *third = NULL;

    if (!peer_hello(peer) || !(first = peer_next(peer)))
        return;
    peer_error(peer, first->request_id, 5, "the queue is full", NULL, 250);
    if (!(second = peer_next(peer)))
        return;
    peer_error(peer, second->request_id, 4711, NULL, "generate.model", 0);
    if (!(third = peer_next(peer)))
        return;
    peer_error(peer, third->request_id, 101, "a code of the library's own must not come from outside", NULL, 0);
}

static void test_client_errors_have_code_text_field_and_retry(void **state) {
    CoordgenGenerateOptions options;
    CoordgenReply *reply = NULL;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_error);

    options_of(&options, "x");
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, &reply), COORDGEN_E_BUSY);
    assert_int_equal(coordgen_reply_retry_after_ms(reply), 250);
    assert_string_equal(coordgen_client_message(client), "the queue is full");
    assert_int_equal(coordgen_client_retry_after_ms(client), 250);
    assert_int_equal(coordgen_reply_generate(reply)->end_reason, COORDGEN_END_NONE);
    reply = coordgen_reply_unref(reply);
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, &reply), COORDGEN_E_INTERNAL);
    assert_string_equal(coordgen_reply_field(reply), "generate.model");
    assert_string_equal(coordgen_reply_message(reply), "internal");
    reply = coordgen_reply_unref(reply);
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_INTERNAL);
    peer_end(&peer, client);
}

static void script_hang_up_mid_stream(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;

    if (!peer_hello(peer) || !(request = peer_next(peer)))
        return;
    peer_delta(peer, request->request_id, 0, "partial", 7);
    peer_write(peer, "\x20\0\0\0half a frame", 16);
}

static void test_client_disconnect_mid_stream(void **state) {
    CoordgenGenerateOptions options;
    CoordgenReply *reply = NULL;
    Seen seen = { 0 };
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_hang_up_mid_stream);

    options_of(&options, "x");
    assert_int_equal(coordgen_generate(client, &options, see, &seen, &reply), COORDGEN_E_DISCONNECTED);
    assert_string_equal(coordgen_reply_generate(reply)->text, "partial");
    assert_string_equal(seen.text, "partial");
    coordgen_reply_unref(reply);
    assert_int_equal(coordgen_generate(client, &options, see, &seen, NULL), COORDGEN_E_DISCONNECTED);
    assert_int_equal(coordgen_client_dispatch(client), COORDGEN_E_DISCONNECTED);
    assert_int_equal(coordgen_client_n_in_flight(client), 0);
    peer_end(&peer, client);
}

/* Streams until the cancel comes; answers both. */
static void script_until_cancelled(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *cancel = NULL;

    if (!peer_hello(peer) || !(request = peer_next(peer)))
        return;
    peer_delta(peer, request->request_id, 0, "a", 1);
    if (!(cancel = peer_next(peer)) || cancel->op_case != COORDGEN__V1__REQUEST__OP_CANCEL ||
        cancel->cancel->target_request_id != request->request_id)
        return;
    peer_cancel_reply(peer, cancel->request_id);
    peer_delta(peer, request->request_id, 1, "b", 1);
    peer_done(peer, request->request_id, COORDGEN__V1__END_REASON__END_REASON_CANCELLED, 2);
}

typedef struct Canceller {
    CoordgenClient *client;
    Peer peer;
} Canceller;

static void *canceller_main(void *arg) {
    Canceller *both = arg;

    while (atomic_load(&both->peer.n_requests) < 2)
        poll(NULL, 0, 1);
    return (void *)(intptr_t)coordgen_cancel(both->client, 0);
}

static void test_client_cancel_from_another_thread(void **state) {
    Canceller both;
    CoordgenGenerateOptions options;
    CoordgenReply *reply = NULL;
    pthread_t canceller;
    void *result;

    both.client = peer_connect(&both.peer, script_until_cancelled);
    assert_int_equal(pthread_create(&canceller, NULL, canceller_main, &both), 0);
    options_of(&options, "x");
    assert_int_equal(coordgen_generate(both.client, &options, NULL, NULL, &reply), 0);
    assert_int_equal(pthread_join(canceller, &result), 0);
    assert_int_equal((intptr_t)result, 0);
    assert_int_equal(coordgen_reply_generate(reply)->end_reason, COORDGEN_END_CANCELLED);
    assert_string_equal(coordgen_reply_generate(reply)->text, "ab");
    coordgen_reply_unref(reply);
    peer_end(&both.peer, both.client);
}

static void test_client_cancel_by_return_value(void **state) {
    CoordgenGenerateOptions options;
    CoordgenReply *reply = NULL;
    Seen seen = { .cancel = true };
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_until_cancelled);

    options_of(&options, "x");
    assert_int_equal(coordgen_generate(client, &options, see, &seen, &reply), 0);
    assert_int_equal(seen.n_deltas, 2); /* and one cancel only: the script reads no second */
    assert_int_equal(coordgen_reply_generate(reply)->end_reason, COORDGEN_END_CANCELLED);
    coordgen_reply_unref(reply);
    peer_end(&peer, client);
}

/* A cancel whose frame the socket cannot take at once still gets out: the waiting thread is woken by its own
 * descriptor. */
static void script_slow_reader(Peer *peer) {
    if (!peer_hello(peer))
        return;
    while (!atomic_load(&peer->done))
        poll(NULL, 0, 1);
    for (;;) {
        _cleanup_(frame_request_freep) Coordgen__V1__Request *request = peer_next(peer);

        if (!request)
            return;
        if (request->op_case == COORDGEN__V1__REQUEST__OP_CANCEL) {
            peer_done(peer, request->cancel->target_request_id, COORDGEN__V1__END_REASON__END_REASON_CANCELLED, 0);
            peer_cancel_reply(peer, request->request_id);
        }
    }
}

static void test_client_cancel_past_a_full_socket(void **state) {
    _cleanup_(freep) char *prompt = malloc(1500001);
    CoordgenGenerateOptions options;
    Seen seen = { 0 };
    uint64_t id;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_slow_reader);
    struct pollfd wait = { .fd = coordgen_client_fd(client), .events = coordgen_client_events(client) };

    memset(prompt, 'x', 1500000);
    prompt[1500000] = 0;
    options_of(&options, prompt);
    assert_int_equal(coordgen_generate_start(client, &options, see, &seen, &id), 0);
    assert_int_equal(coordgen_cancel(client, id), 0);
    assert_int_equal(coordgen_cancel(client, id), 0); /* once is enough */
    assert_int_equal(poll(&wait, 1, 20), 0);          /* nothing can be done yet, and it says so */
    atomic_store(&peer.done, true);
    while (!seen.n_ends) {
        assert_int_equal(poll(&wait, 1, 5000), 1);
        assert_int_equal(coordgen_client_dispatch(client), 0);
    }
    assert_int_equal(seen.error, 0);
    assert_int_equal(seen.end_reason, COORDGEN_END_CANCELLED);
    peer_end(&peer, client);
}

static void script_silent(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *cancel = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *status = NULL;

    if (!peer_hello(peer) || !(request = peer_next(peer)) || !(cancel = peer_next(peer)) ||
        cancel->op_case != COORDGEN__V1__REQUEST__OP_CANCEL)
        return;
    peer_delta(peer, request->request_id, 0, "late", 4); /* of a request that is over for the client */
    peer_done(peer, request->request_id, COORDGEN__V1__END_REASON__END_REASON_CANCELLED, 1);
    peer_cancel_reply(peer, cancel->request_id);
    if ((status = peer_next(peer)) && status->op_case == COORDGEN__V1__REQUEST__OP_STATUS)
        peer_status(peer, status->request_id);
}

static void test_client_timeout_cancels_and_the_connection_lives(void **state) {
    CoordgenGenerateOptions options;
    CoordgenReply *reply = NULL;
    uint64_t start_ns;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_silent);

    options_of(&options, "x");
    options.timeout_ms = 60;
    start_ns = clock_now_ns();
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, &reply), COORDGEN_E_TIMEOUT);
    assert_true(clock_now_ns() - start_ns >= 60000000u);
    coordgen_reply_unref(reply);
    assert_int_equal(coordgen_status(client, 5000, &reply), 0);
    assert_int_equal(coordgen_reply_status(reply)->pid, 77);
    assert_string_equal(coordgen_reply_status(reply)->isa, "scalar");
    assert_int_equal(coordgen_reply_n_memory(reply), 1);
    assert_true(coordgen_reply_memory(reply, 0)->used_bytes == UINT64_C(1) << 40);
    assert_null(coordgen_reply_memory(reply, 1));
    coordgen_reply_unref(reply);
    peer_end(&peer, client);
}

static void script_mute(Peer *peer) {
    while (!atomic_load(&peer->done))
        poll(NULL, 0, 1);
}

static void test_client_connect_timeout(void **state) {
    CoordgenClient *client = NULL;
    Peer peer;

    peer_start(&peer, script_mute);
    assert_int_equal(coordgen_client_new(&client), 0);
    assert_int_equal(coordgen_client_connect_fd(client, steal_fd(&peer.client_fd), 50), COORDGEN_E_TIMEOUT);
    assert_int_equal(coordgen_client_error(client), COORDGEN_E_TIMEOUT);
    peer_end(&peer, client);
}

/* Each of these breaks the protocol in its own way; the request ends with one clear error. */
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

static void test_client_garbage_from_the_service(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(garbage); i++) {
        CoordgenGenerateOptions options;
        Peer peer;
        CoordgenClient *client;
        int r;

        garbage_at = i;
        client = peer_connect(&peer, script_garbage);
        options_of(&options, "x");
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

static void test_client_refused_at_connect(void **state) {
    CoordgenClient *client = NULL;
    Peer peer;

    peer_start(&peer, script_refused);
    assert_int_equal(coordgen_client_new(&client), 0);
    assert_int_equal(coordgen_client_connect_fd(client, steal_fd(&peer.client_fd), 5000), COORDGEN_E_BUSY);
    assert_int_equal(coordgen_client_retry_after_ms(client), 1000);
    peer_end(&peer, client);
}

/* Three at once, answered out of order. */
static void script_many(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *one = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *two = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *three = NULL;

    if (!peer_hello(peer) || !(one = peer_next(peer)) || !(two = peer_next(peer)) || !(three = peer_next(peer)))
        return;
    peer_delta(peer, two->request_id, 0, "2", 1);
    peer_status(peer, three->request_id);
    peer_delta(peer, one->request_id, 0, "1", 1);
    peer_done(peer, two->request_id, COORDGEN__V1__END_REASON__END_REASON_END_TOKEN, 1);
    peer_delta(peer, one->request_id, 1, "1", 1);
    peer_done(peer, one->request_id, COORDGEN__V1__END_REASON__END_REASON_MAX_TOKENS, 2);
    frame_request_free(peer_next(peer)); /* until the client hangs up */
}

static int see_and_call_wrongly(void *arg, const CoordgenEvent *event) {
    Seen *seen = arg;

    if (event->kind == COORDGEN_EVENT_DELTA) {
        assert_int_equal(coordgen_status(seen->client, 1000, NULL), COORDGEN_E_WRONG_STATE);
        assert_int_equal(coordgen_client_dispatch(seen->client), COORDGEN_E_WRONG_STATE);
    }
    return see(arg, event);
}

static void test_client_many_in_flight(void **state) {
    CoordgenGenerateOptions options;
    Seen one = { 0 }, two = { 0 }, three = { 0 };
    uint64_t first_id, second_id;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_many);

    options_of(&options, "x");
    two.client = client;
    assert_int_equal(coordgen_generate_start(client, &options, see, &one, &first_id), 0);
    assert_int_equal(coordgen_generate_start(client, &options, see_and_call_wrongly, &two, &second_id), 0);
    assert_int_equal(coordgen_status_start(client, 5000, see, &three, NULL), 0);
    assert_int_not_equal(first_id, second_id);
    assert_int_equal(coordgen_client_n_in_flight(client), 3);
    assert_in_range(coordgen_client_timeout_ms(client), 4000, 5001);
    while (coordgen_client_n_in_flight(client)) {
        struct pollfd wait = { .fd = coordgen_client_fd(client), .events = coordgen_client_events(client) };

        assert_int_equal(poll(&wait, 1, 5000), 1);
        assert_int_equal(coordgen_client_dispatch(client), 0);
    }
    assert_int_equal(one.n_ends + two.n_ends + three.n_ends, 3);
    assert_string_equal(one.text, "11");
    assert_string_equal(two.text, "2");
    assert_int_equal(one.end_reason, COORDGEN_END_MAX_TOKENS);
    assert_int_equal(two.end_reason, COORDGEN_END_TOKEN);
    assert_int_equal(coordgen_client_timeout_ms(client), -1);
    peer_end(&peer, client);
}

static void script_hello_only(Peer *peer) {
    if (peer_hello(peer))
        script_mute(peer);
}

/* Refused before anything is sent, naming the field. */
static void test_client_checks_arguments(void **state) {
    static const char *const stops[9] = { "1", "2", "3", "4", "5", "6", "7", "8", "9" };
    CoordgenGenerateOptions options;
    CoordgenTokenizeOptions tokenize;
    struct {
        CoordgenGenerateOptions known;
        uint64_t from_the_future;
    } newer;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_hello_only);

    options_of(&options, "x");
    options.top_p = 1.5f;
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "generate.sampling.top_p");
    assert_non_null(strstr(coordgen_client_message(client), "1.5"));
    options_of(&options, "x");
    options.temperature = -0.5f;
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "generate.sampling.temperature");
    options.temperature = (float)(0.0 / 0.0 * -1);
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    options_of(&options, "\xff");
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "generate.prompt");
    options_of(&options, "x");
    options.stops = stops;
    options.n_stops = 9;
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "generate.stop");
    options_of(&options, NULL);
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    memset(&options, 0, sizeof(options));
    options.prompt = "x";
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "struct_bytes");
    coordgen_generate_options_init_sized(&newer.known, sizeof(newer));
    assert_int_equal(newer.from_the_future, 0);
    newer.known.prompt = "x";
    newer.from_the_future = 1;
    assert_int_equal(coordgen_generate(client, &newer.known, NULL, NULL, NULL), COORDGEN_E_UNKNOWN_OPTION);
    coordgen_tokenize_options_init(&tokenize);
    assert_int_equal(coordgen_tokenize(client, &tokenize, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_int_equal(coordgen_model_load(client, "", 1000, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "model_load.model");
    assert_int_equal(atomic_load(&peer.n_requests), 1); /* hello */
    peer_end(&peer, client);
}

static void test_client_unreachable(void **state) {
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

/* A real listening socket, found through XDG_RUNTIME_DIR; the service goes away and comes back on the same client. */
static void test_client_reconnects_over_a_unix_socket(void **state) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char folder[] = "/tmp/coordgen-test-XXXXXX", inner[64];
    CoordgenClient *client = NULL;
    int listener;

    if (!access("/run/coordgen/api.sock", F_OK)) {
        print_message("skipped: a service is installed on this machine and comes before XDG_RUNTIME_DIR\n");
        skip();
    }
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
        Peer peer = { .script = script_error };
        CoordgenGenerateOptions options;

        assert_int_equal(coordgen_client_connect_start(client, NULL), 0);
        assert_string_equal(coordgen_client_socket_path(client), address.sun_path);
        peer.fd = accept(listener, NULL, NULL);
        assert_true(peer.fd >= 0);
        assert_int_equal(pthread_create(&peer.thread, NULL, peer_main, &peer), 0);
        options_of(&options, "x");
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

static void test_client_fork(void **state) {
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_silent);
    CoordgenGenerateOptions options;
    int status;
    pid_t child;

    options_of(&options, "x");
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

static void script_models(Peer *peer) {
    static char name[] = "tiny", detail[] = "importing 40 %";
    static uint8_t piece[] = { 0xe2, 0x82 };
    Coordgen__V1__Model model = COORDGEN__V1__MODEL__INIT;
    Coordgen__V1__Model *models[] = { &model, &model };
    Coordgen__V1__ModelListReply list = COORDGEN__V1__MODEL_LIST_REPLY__INIT;
    Coordgen__V1__ModelShowReply show = COORDGEN__V1__MODEL_SHOW_REPLY__INIT;
    Coordgen__V1__ModelLoadProgress progress = COORDGEN__V1__MODEL_LOAD_PROGRESS__INIT;
    Coordgen__V1__ModelLoadReply load = COORDGEN__V1__MODEL_LOAD_REPLY__INIT;
    Coordgen__V1__ModelUnloadReply unload = COORDGEN__V1__MODEL_UNLOAD_REPLY__INIT;
    Coordgen__V1__TokenizeReply tokenize = COORDGEN__V1__TOKENIZE_REPLY__INIT;
    Coordgen__V1__DetokenizeReply detokenize = COORDGEN__V1__DETOKENIZE_REPLY__INIT;
    uint32_t tokens[] = { 7, 4000000000u };
    ProtobufCBinaryData pieces[] = { { .data = piece, .len = 2 }, { .len = 0 } };

    model.name = name;
    model.detail = detail;
    model.has_state = true;
    model.state = COORDGEN__V1__MODEL_STATE__MODEL_STATE_IMPORTING;
    list.n_models = 2;
    list.models = models;
    show.model = &model;
    progress.has_permille = true;
    progress.permille = 400;
    tokenize.n_tokens = tokenize.n_pieces = 2;
    tokenize.tokens = tokens;
    tokenize.pieces = pieces;
    detokenize.has_text = true;
    detokenize.text = (ProtobufCBinaryData){ .data = (uint8_t *)name, .len = 4 };
    if (!peer_hello(peer))
        return;
    for (;;) {
        _cleanup_(frame_request_freep) Coordgen__V1__Request *request = peer_next(peer);
        Coordgen__V1__Response out = COORDGEN__V1__RESPONSE__INIT;

        if (!request)
            return;
        switch (request->op_case) {
        case COORDGEN__V1__REQUEST__OP_MODEL_LIST:
            out.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_LIST;
            out.model_list = &list;
            break;
        case COORDGEN__V1__REQUEST__OP_MODEL_SHOW:
            out.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_SHOW;
            out.model_show = &show;
            break;
        case COORDGEN__V1__REQUEST__OP_MODEL_LOAD:
            out.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_LOAD_PROGRESS;
            out.model_load_progress = &progress;
            peer_send(peer, &out, request->request_id);
            out.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_LOAD; /* without a model in it */
            out.model_load = &load;
            break;
        case COORDGEN__V1__REQUEST__OP_MODEL_UNLOAD:
            out.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_UNLOAD;
            out.model_unload = &unload;
            break;
        case COORDGEN__V1__REQUEST__OP_TOKENIZE:
            out.op_case = COORDGEN__V1__RESPONSE__OP_TOKENIZE;
            out.tokenize = &tokenize;
            break;
        case COORDGEN__V1__REQUEST__OP_DETOKENIZE:
            out.op_case = COORDGEN__V1__RESPONSE__OP_DETOKENIZE;
            out.detokenize = &detokenize;
            break;
        default:
            return;
        }
        peer_send(peer, &out, request->request_id);
    }
}

static void test_client_other_requests(void **state) {
    CoordgenMessage messages[] = { { COORDGEN_ROLE_USER, "hi" } };
    CoordgenTokenizeOptions tokenize;
    CoordgenDetokenizeOptions detokenize;
    CoordgenReply *reply = NULL;
    Seen seen = { 0 };
    size_t n;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_models);

    assert_int_equal(coordgen_model_list(client, 5000, &reply), 0);
    assert_int_equal(coordgen_reply_n_models(reply), 2);
    assert_string_equal(coordgen_reply_model(reply, 1)->name, "tiny");
    assert_string_equal(coordgen_reply_model(reply, 1)->architecture, "");
    assert_string_equal(coordgen_model_state_name(coordgen_reply_model(reply, 1)->state), "importing");
    assert_null(coordgen_reply_model(reply, 2));
    coordgen_reply_unref(reply);
    assert_int_equal(coordgen_model_show(client, "tiny", 5000, &reply), 0);
    assert_string_equal(coordgen_reply_model(reply, 0)->detail, "importing 40 %");
    coordgen_reply_unref(reply);
    assert_int_equal(coordgen_model_load(client, "tiny", 5000, see, &seen, &reply), 0);
    assert_int_equal(seen.n_progress, 1);
    assert_string_equal(coordgen_reply_model(reply, 0)->name, "");
    coordgen_reply_unref(reply);
    assert_int_equal(coordgen_model_unload(client, "tiny", 5000, NULL), 0);
    coordgen_tokenize_options_init(&tokenize);
    tokenize.messages = messages;
    tokenize.n_messages = 1;
    assert_int_equal(coordgen_tokenize(client, &tokenize, &reply), 0);
    assert_int_equal(coordgen_reply_tokens(reply, &n)[1], 4000000000u);
    assert_int_equal(n, 2);
    assert_memory_equal(coordgen_reply_piece(reply, 0, &n), "\xe2\x82", 2);
    assert_int_equal(n, 2);
    assert_string_equal(coordgen_reply_piece(reply, 1, &n), "");
    assert_null(coordgen_reply_piece(reply, 2, &n));
    coordgen_reply_unref(reply);
    coordgen_detokenize_options_init(&detokenize);
    detokenize.tokens = (uint32_t[]){ 1, 2 };
    detokenize.n_tokens = 2;
    assert_int_equal(coordgen_detokenize(client, &detokenize, &reply), 0);
    assert_memory_equal(coordgen_reply_text(reply, &n), "tiny", 4);
    assert_int_equal(n, 4);
    assert_null(coordgen_reply_tokens(reply, &n));
    coordgen_reply_unref(reply);
    peer_end(&peer, client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_generate_streams),
        cmocka_unit_test(test_client_errors_have_code_text_field_and_retry),
        cmocka_unit_test(test_client_disconnect_mid_stream),
        cmocka_unit_test(test_client_cancel_from_another_thread),
        cmocka_unit_test(test_client_cancel_by_return_value),
        cmocka_unit_test(test_client_cancel_past_a_full_socket),
        cmocka_unit_test(test_client_timeout_cancels_and_the_connection_lives),
        cmocka_unit_test(test_client_connect_timeout),
        cmocka_unit_test(test_client_garbage_from_the_service),
        cmocka_unit_test(test_client_refused_at_connect),
        cmocka_unit_test(test_client_many_in_flight),
        cmocka_unit_test(test_client_checks_arguments),
        cmocka_unit_test(test_client_unreachable),
        cmocka_unit_test(test_client_reconnects_over_a_unix_socket),
        cmocka_unit_test(test_client_fork),
        cmocka_unit_test(test_client_other_requests),
    };

    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
