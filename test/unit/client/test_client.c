// SPDX-License-Identifier: Apache-2.0
/* Tests of the library's requests against a peer thread that speaks real frames over a real socket.
 * test_client_connection.c tests the connection. */
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

#include <cmocka.h>

#include "base/clock.h"
#include "test/unit/client/client_peer.h"

/* Checks that temperature 0 and a window are present, because they were set, and nothing else. */
static bool sends_what_is_set(const Coordgen__V1__GenerateRequest *generate) {
    const Coordgen__V1__SamplingOptions *sampling = generate->sampling;

    return sampling->has_temperature && sampling->temperature == 0 && sampling->has_repetition_window &&
           sampling->repetition_window == 32 && !sampling->has_top_k && !sampling->has_top_p && !sampling->has_min_p &&
           !sampling->has_repetition_penalty && !sampling->has_seed && generate->has_end_repetition &&
           !generate->end_repetition;
}

static void script_stream(Peer *peer) {
    Coordgen__V1__GenerateProgress progress = COORDGEN__V1__GENERATE_PROGRESS__INIT;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;

    if (!peer_hello(peer) || !(request = peer_next(peer)) || request->op_case != COORDGEN__V1__REQUEST__OP_GENERATE)
        return;
    if (!request->generate->prompt || strcmp(request->generate->prompt, "Gr\xc3\xbc\xc3\x9f") ||
        !sends_what_is_set(request->generate) || request->generate->n_stop != 1)
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

    peer_options(&options, "Gr\xc3\xbc\xc3\x9f");
    options.stops = stops;
    options.n_stops = 1;
    options.temperature = 0;
    options.repetition_window = 32;
    options.repetition = COORDGEN_REPETITION_ALLOW;
    assert_int_equal(coordgen_generate(client, &options, seen_add, &seen, &reply), 0);
    assert_int_equal(seen.n_progress, 1);
    assert_int_equal(seen.n_deltas, 3);
    assert_int_equal(seen.n_tokens, 3);
    assert_int_equal(seen.n_ends, 0); /* the return of the waiting call is the end */
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

static void test_client_errors_have_code_text_field_and_retry(void **state) {
    CoordgenGenerateOptions options;
    CoordgenReply *reply = NULL;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, peer_play_errors);

    peer_options(&options, "x");
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
    peer_options(&options, "x");
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

    peer_options(&options, "x");
    assert_int_equal(coordgen_generate(client, &options, seen_add, &seen, &reply), 0);
    assert_int_equal(seen.n_deltas, 2); /* the script reads no second cancel */
    assert_int_equal(coordgen_reply_generate(reply)->end_reason, COORDGEN_END_CANCELLED);
    coordgen_reply_unref(reply);
    peer_end(&peer, client);
}

/* A cancel is delivered even if the socket can't take its frame at once: the waiting thread is woken by its own
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
    peer_options(&options, prompt);
    assert_int_equal(coordgen_generate_start(client, &options, seen_add, &seen, &id), 0);
    assert_int_equal(coordgen_cancel(client, id), 0);
    assert_int_equal(coordgen_cancel(client, id), 0); /* a second cancel changes nothing */
    assert_int_equal(poll(&wait, 1, 20), 0);          /* nothing can be sent yet, and poll reports that */
    atomic_store(&peer.done, true);
    while (!seen.n_ends) {
        assert_int_equal(poll(&wait, 1, 5000), 1);
        assert_int_equal(coordgen_client_dispatch(client), 0);
    }
    assert_int_equal(seen.error, 0);
    assert_int_equal(seen.end_reason, COORDGEN_END_CANCELLED);
    peer_end(&peer, client);
}

static void test_client_timeout_cancels_and_the_connection_lives(void **state) {
    CoordgenGenerateOptions options;
    CoordgenReply *reply = NULL;
    uint64_t start_ns;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, peer_play_silence);

    peer_options(&options, "x");
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

/* Three requests at once, answered out of order. */
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
    return seen_add(arg, event);
}

static void test_client_many_in_flight(void **state) {
    CoordgenGenerateOptions options;
    Seen one = { 0 }, two = { 0 }, three = { 0 };
    uint64_t first_id, second_id;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_many);

    peer_options(&options, "x");
    two.client = client;
    assert_int_equal(coordgen_generate_start(client, &options, seen_add, &one, &first_id), 0);
    assert_int_equal(coordgen_generate_start(client, &options, see_and_call_wrongly, &two, &second_id), 0);
    assert_int_equal(coordgen_status_start(client, 5000, seen_add, &three, NULL), 0);
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
        peer_play_nothing(peer);
}

/* Refusals before anything is sent; errors name the field. */
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

    peer_options(&options, "x");
    options.top_p = 1.5f;
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "generate.sampling.top_p");
    assert_non_null(strstr(coordgen_client_message(client), "1.5"));
    peer_options(&options, "x");
    options.temperature = -0.5f;
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "generate.sampling.temperature");
    options.temperature = (float)(0.0 / 0.0 * -1);
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    peer_options(&options, "x");
    options.repetition = (CoordgenRepetition)3;
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "generate.end_repetition");
    peer_options(&options, "\xff");
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "generate.prompt");
    peer_options(&options, "x");
    options.stops = stops;
    options.n_stops = 9;
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "generate.stop");
    peer_options(&options, NULL);
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
            out.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_LOAD; /* has no model in it */
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
    CoordgenMessage messages[] = { { .role = COORDGEN_ROLE_USER, .text = "hi" } };
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
    assert_int_equal(coordgen_model_load(client, "tiny", 5000, seen_add, &seen, &reply), 0);
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

static void answer_session(Peer *peer, const Coordgen__V1__Request *request) {
    Coordgen__V1__SessionOpenReply open = COORDGEN__V1__SESSION_OPEN_REPLY__INIT;
    Coordgen__V1__SessionForkReply fork = COORDGEN__V1__SESSION_FORK_REPLY__INIT;
    Coordgen__V1__SessionCloseReply close = COORDGEN__V1__SESSION_CLOSE_REPLY__INIT;
    Coordgen__V1__Response out = COORDGEN__V1__RESPONSE__INIT;

    open.has_session = fork.has_session = true;
    /* The request's option is encoded in the number. */
    if (request->op_case == COORDGEN__V1__REQUEST__OP_SESSION_OPEN) {
        open.session = request->session_open->input_case == COORDGEN__V1__SESSION_OPEN_REQUEST__INPUT_PROMPT ? 100
                       : request->session_open->input_case == COORDGEN__V1__SESSION_OPEN_REQUEST__INPUT_MESSAGES
                           ? request->session_open->messages->n_message
                           : 200;
        out.op_case = COORDGEN__V1__RESPONSE__OP_SESSION_OPEN;
        out.session_open = &open;
    } else if (request->op_case == COORDGEN__V1__REQUEST__OP_SESSION_FORK) {
        fork.session = request->session_fork->session * 1000 +
                       (request->session_fork->has_keep_messages ? request->session_fork->keep_messages : 999);
        out.op_case = COORDGEN__V1__RESPONSE__OP_SESSION_FORK;
        out.session_fork = &fork;
    } else {
        out.op_case = COORDGEN__V1__RESPONSE__OP_SESSION_CLOSE;
        out.session_close = &close;
    }
    if (request->op_case == COORDGEN__V1__REQUEST__OP_SESSION_CLOSE && request->session_close->session != 2)
        peer_error(peer, request->request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_NOT_FOUND, "no such session",
                   "session_close.session", 0);
    else
        peer_send(peer, &out, request->request_id);
}

static void script_sessions(Peer *peer) {
    if (!peer_hello(peer))
        return;
    for (;;) {
        _cleanup_(frame_request_freep) Coordgen__V1__Request *request = peer_next(peer);

        if (!request)
            return;
        if (request->op_case != COORDGEN__V1__REQUEST__OP_GENERATE) {
            answer_session(peer, request);
            continue;
        }
        if (!request->generate->has_session || request->generate->session != 2 || !request->generate->no_reuse)
            return;
        peer_done(peer, request->request_id, COORDGEN__V1__END_REASON__END_REASON_MAX_TOKENS, 0);
    }
}

static void test_client_sessions(void **state) {
    CoordgenMessage messages[] = { { .role = COORDGEN_ROLE_SYSTEM, .text = "brief" },
                                   { .role = COORDGEN_ROLE_USER, .text = "hi" } };
    CoordgenSessionOptions session;
    CoordgenGenerateOptions options;
    uint64_t id = 0;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_sessions);

    coordgen_session_options_init(&session);
    assert_int_equal(coordgen_session_open(client, &session, &id), 0);
    assert_int_equal(id, 200);
    session.prompt = "raw";
    assert_int_equal(coordgen_session_open(client, &session, &id), 0);
    assert_int_equal(id, 100);
    session.messages = messages;
    session.n_messages = 2;
    assert_int_equal(coordgen_session_open(client, &session, &id), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "session_open.prompt");
    session.prompt = NULL;
    assert_int_equal(coordgen_session_open(client, &session, &id), 0);
    assert_int_equal(id, 2);
    peer_options(&options, "more");
    options.session = id;
    options.no_reuse = true;
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), 0);
    assert_int_equal(coordgen_session_fork(client, 2, COORDGEN_ALL_MESSAGES, 5000, &id), 0);
    assert_int_equal(id, 2999);
    assert_int_equal(coordgen_session_fork(client, 2, 0, 5000, &id), 0);
    assert_int_equal(id, 2000);
    assert_int_equal(coordgen_session_fork(client, 0, 0, 5000, &id), COORDGEN_E_INVALID_ARGUMENT);
    assert_int_equal(id, 2000);
    assert_int_equal(coordgen_session_close(client, 2, 5000), 0);
    assert_int_equal(coordgen_session_close(client, 3, 5000), COORDGEN_E_NOT_FOUND);
    assert_string_equal(coordgen_client_field(client), "session_close.session");
    assert_string_equal(coordgen_reuse_name(COORDGEN_REUSE_NEW_TEXT), "new-text");
    assert_string_equal(coordgen_reuse_name(99), "unknown");
    peer_end(&peer, client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_sessions),
        cmocka_unit_test(test_client_generate_streams),
        cmocka_unit_test(test_client_errors_have_code_text_field_and_retry),
        cmocka_unit_test(test_client_cancel_from_another_thread),
        cmocka_unit_test(test_client_cancel_by_return_value),
        cmocka_unit_test(test_client_cancel_past_a_full_socket),
        cmocka_unit_test(test_client_timeout_cancels_and_the_connection_lives),
        cmocka_unit_test(test_client_many_in_flight),
        cmocka_unit_test(test_client_checks_arguments),
        cmocka_unit_test(test_client_other_requests),
    };

    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
