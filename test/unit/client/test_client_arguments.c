// SPDX-License-Identifier: Apache-2.0
/* Tests of every function of the library with NULL arguments, and of structures with a size field. */
#undef NDEBUG
#define _GNU_SOURCE
#include "client/coordgen-client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/client/client_peer.h"

#define INVALID COORDGEN_E_INVALID_ARGUMENT

/* Errors of a client that could not be made, read as in the header's example. */
static void test_client_arguments_no_client(void **state) {
    CoordgenGenerateOptions options;
    uint64_t session;
    int fd = dup(STDERR_FILENO);

    coordgen_generate_options_init(&options);
    assert_int_equal(coordgen_client_new(NULL), INVALID);
    assert_null(coordgen_client_free(NULL));
    assert_int_equal(coordgen_client_set_name(NULL, "x"), INVALID);
    assert_int_equal(coordgen_client_connect(NULL, NULL, 1), INVALID);
    assert_int_equal(coordgen_client_connect_start(NULL, NULL), INVALID);
    assert_int_equal(coordgen_client_connect_fd(NULL, fd, 1), INVALID);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* the library owned it */
    assert_string_equal(coordgen_client_socket_path(NULL), "");
    assert_string_equal(coordgen_client_service_version(NULL), "");
    assert_int_equal(coordgen_client_error(NULL), COORDGEN_E_NO_MEMORY);
    assert_non_null(strstr(coordgen_client_message(NULL), "memory"));
    assert_string_equal(coordgen_client_field(NULL), "");
    assert_int_equal(coordgen_client_retry_after_ms(NULL), 0);
    assert_int_equal(coordgen_client_fd(NULL), -1);
    assert_int_equal(coordgen_client_events(NULL), POLLIN);
    assert_int_equal(coordgen_client_timeout_ms(NULL), -1);
    assert_int_equal(coordgen_client_dispatch(NULL), INVALID);
    assert_int_equal(coordgen_client_n_in_flight(NULL), 0);
    assert_int_equal(coordgen_cancel(NULL, 0), INVALID);
    assert_int_equal(coordgen_generate_start(NULL, &options, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_generate(NULL, &options, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_session_open_start(NULL, NULL, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_session_fork_start(NULL, 1, 1, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_session_close_start(NULL, 1, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_session_open(NULL, NULL, &session), INVALID);
    assert_int_equal(coordgen_session_fork(NULL, 1, 1, 1, &session), INVALID);
    assert_int_equal(coordgen_session_close(NULL, 1, 1), INVALID);
    assert_int_equal(coordgen_tokenize_start(NULL, NULL, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_tokenize(NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_detokenize_start(NULL, NULL, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_detokenize(NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_status_start(NULL, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_status(NULL, 1, NULL), INVALID);
    assert_int_equal(coordgen_request_list_start(NULL, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_request_list(NULL, 1, NULL), INVALID);
    assert_int_equal(coordgen_explain_start(NULL, 1, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_explain(NULL, 1, 1, NULL), INVALID);
    assert_int_equal(coordgen_request_cancel_start(NULL, 1, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_request_cancel(NULL, 1, 1, NULL), INVALID);
    assert_int_equal(coordgen_model_remove_start(NULL, NULL, false, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_model_remove(NULL, NULL, false, 1, NULL), INVALID);
    assert_int_equal(coordgen_disk_start(NULL, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_disk(NULL, 1, NULL), INVALID);
    assert_int_equal(coordgen_prune_start(NULL, 0, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_prune(NULL, 0, 1, NULL), INVALID);
    assert_int_equal(coordgen_ping(NULL, 1, NULL), INVALID);
    assert_int_equal(coordgen_model_list_start(NULL, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_model_list(NULL, 1, NULL), INVALID);
    assert_int_equal(coordgen_model_show_start(NULL, NULL, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_model_show(NULL, NULL, 1, NULL), INVALID);
    assert_int_equal(coordgen_model_load_start(NULL, NULL, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_model_load(NULL, NULL, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_model_load_file_start(NULL, NULL, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_model_load_file(NULL, NULL, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_model_unload_start(NULL, NULL, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_model_unload(NULL, NULL, 1, NULL), INVALID);
    assert_int_equal(coordgen_model_pair_start(NULL, NULL, NULL, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_model_pair(NULL, NULL, NULL, 1, NULL), INVALID);
    assert_int_equal(coordgen_model_pair_list_start(NULL, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_model_pair_list(NULL, 1, NULL), INVALID);
    assert_int_equal(coordgen_model_default_start(NULL, NULL, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_model_default(NULL, NULL, 1, NULL), INVALID);
    assert_int_equal(coordgen_model_want_start(NULL, NULL, 1, NULL, NULL, NULL), INVALID);
    assert_int_equal(coordgen_model_want(NULL, NULL, 1, NULL), INVALID);
}

static void test_client_arguments_no_reply(void **state) {
    size_t n = 7;

    assert_null(coordgen_reply_ref(NULL));
    assert_null(coordgen_reply_unref(NULL));
    assert_int_equal(coordgen_reply_error(NULL), COORDGEN_E_NO_MEMORY);
    assert_string_not_equal(coordgen_reply_message(NULL), "");
    assert_string_equal(coordgen_reply_field(NULL), "");
    assert_int_equal(coordgen_reply_retry_after_ms(NULL), 0);
    assert_int_equal(coordgen_reply_too_long(NULL, NULL), 0);
    assert_null(coordgen_reply_generate(NULL));
    assert_int_equal(coordgen_reply_session(NULL), 0);
    assert_null(coordgen_reply_tokens(NULL, &n));
    assert_int_equal(n, 0);
    assert_null(coordgen_reply_tokens(NULL, NULL));
    assert_int_equal(coordgen_reply_n_tokens(NULL), 0);
    assert_null(coordgen_reply_piece(NULL, 0, NULL));
    assert_null(coordgen_reply_text(NULL, NULL));
    assert_null(coordgen_reply_status(NULL));
    assert_int_equal(coordgen_reply_n_files(NULL), 0);
    assert_null(coordgen_reply_file(NULL, 0));
    assert_int_equal(coordgen_reply_files_bytes(NULL, NULL), 0);
    assert_int_equal(coordgen_reply_n_file_systems(NULL), 0);
    assert_null(coordgen_reply_file_system(NULL, 0));
    assert_int_equal(coordgen_reply_n_memory(NULL), 0);
    assert_null(coordgen_reply_memory(NULL, 0));
    assert_null(coordgen_reply_explanation(NULL));
    assert_int_equal(coordgen_reply_n_requests(NULL), 0);
    assert_null(coordgen_reply_request(NULL, 0));
    assert_int_equal(coordgen_reply_more_requests(NULL), 0);
    assert_int_equal(coordgen_reply_n_models(NULL), 0);
    assert_null(coordgen_reply_model(NULL, 0));
    assert_int_equal(coordgen_reply_n_model_pairs(NULL), 0);
    assert_null(coordgen_reply_model_pair(NULL, 0));
    assert_string_equal(coordgen_reply_warning(NULL), "");
}

static void script_greeting(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;

    if (peer_hello(peer))
        request = peer_next(peer); /* every request is refused before it is sent */
}

static void refused(CoordgenClient *client, int code, const char *field) {
    assert_int_equal(code, INVALID);
    assert_int_equal(coordgen_client_error(client), INVALID);
    assert_string_equal(coordgen_client_field(client), field);
    assert_string_not_equal(coordgen_client_message(client), "");
}

static void test_client_arguments_within_options(void **state) {
    const CoordgenMessage no_text[] = { { .role = COORDGEN_ROLE_USER, .text = "a" },
                                        { .role = COORDGEN_ROLE_USER, .text = NULL } };
    const char *const stops[] = { "a", NULL };
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_greeting);
    CoordgenGenerateOptions generate;
    CoordgenSessionOptions session;
    CoordgenTokenizeOptions tokenize;
    CoordgenDetokenizeOptions detokenize;

    coordgen_generate_options_init_sized(NULL, sizeof(generate));
    coordgen_session_options_init_sized(NULL, sizeof(session));
    coordgen_tokenize_options_init_sized(NULL, sizeof(tokenize));
    coordgen_detokenize_options_init_sized(NULL, sizeof(detokenize));
    refused(client, coordgen_client_set_name(client, NULL), "hello.client_name");
    refused(client, coordgen_generate(client, NULL, NULL, NULL, NULL), "options");
    refused(client, coordgen_tokenize(client, NULL, NULL), "options");
    refused(client, coordgen_detokenize(client, NULL, NULL), "options");
    refused(client, coordgen_session_open(client, NULL, &(uint64_t){ 0 }), "options");
    refused(client, coordgen_session_open(client, NULL, NULL), "sessionp");
    refused(client, coordgen_session_fork(client, 1, 1, -1, NULL), "sessionp");
    refused(client, coordgen_model_load(client, NULL, -1, NULL, NULL, NULL), "model_load.model");
    refused(client, coordgen_model_load_file(client, NULL, -1, NULL, NULL, NULL), "model_load.model");
    refused(client, coordgen_model_unload(client, NULL, -1, NULL), "model_unload.model");

    memset(&generate, 0x5a, sizeof(generate)); /* never filled in */
    refused(client, coordgen_generate(client, &generate, NULL, NULL, NULL), "struct_bytes");
    coordgen_generate_options_init(&generate);
    refused(client, coordgen_generate(client, &generate, NULL, NULL, NULL), "generate.messages");
    generate.n_messages = 2;
    refused(client, coordgen_generate(client, &generate, NULL, NULL, NULL), "messages");
    generate.messages = no_text;
    refused(client, coordgen_generate(client, &generate, NULL, NULL, NULL), "messages");
    generate.n_messages = 1;
    generate.n_stops = 2;
    refused(client, coordgen_generate(client, &generate, NULL, NULL, NULL), "generate.stop");
    generate.stops = stops;
    refused(client, coordgen_generate(client, &generate, NULL, NULL, NULL), "generate.stop");

    coordgen_session_options_init(&session);
    session.n_messages = 2;
    refused(client, coordgen_session_open(client, &session, &(uint64_t){ 0 }), "messages");
    coordgen_tokenize_options_init(&tokenize);
    refused(client, coordgen_tokenize(client, &tokenize, NULL), "tokenize.text");
    tokenize.n_messages = 1;
    refused(client, coordgen_tokenize(client, &tokenize, NULL), "messages");
    coordgen_detokenize_options_init(&detokenize);
    detokenize.n_tokens = 1;
    refused(client, coordgen_detokenize(client, &detokenize, NULL), "detokenize.tokens");
    assert_int_equal(coordgen_client_n_in_flight(client), 0);
    peer_end(&peer, client);
}

static int event_size(void *arg, const CoordgenEvent *event) {
    assert_int_equal(event->struct_bytes, sizeof(*event));
    ++*(int *)arg;
    return 0;
}

static void script_results(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *generate = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *status = NULL;

    if (!peer_hello(peer) || !(generate = peer_next(peer)))
        return;
    peer_delta(peer, generate->request_id, 0, "a", 1);
    peer_done(peer, generate->request_id, COORDGEN__V1__END_REASON__END_REASON_END_TOKEN, 1);
    if ((status = peer_next(peer)))
        peer_status(peer, status->request_id);
}

static void test_client_arguments_results_tell_their_size(void **state) {
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_results);
    CoordgenGenerateOptions options;
    const CoordgenGenerateResult *result;
    CoordgenGenerateResult older;
    CoordgenReply *reply = NULL;
    int n_events = 0;

    peer_options(&options, "x");
    assert_int_equal(coordgen_generate(client, &options, event_size, &n_events, &reply), 0);
    assert_int_equal(n_events, 1);
    result = coordgen_reply_generate(reply);
    assert_int_equal(result->struct_bytes, sizeof(*result));
    assert_true(COORDGEN_HAS(result, text));
    assert_true(COORDGEN_HAS(result, incomplete_bytes));
    older = *result;
    older.struct_bytes = offsetof(CoordgenGenerateResult, incomplete_bytes);
    assert_true(COORDGEN_HAS(&older, reuse));
    assert_false(COORDGEN_HAS(&older, incomplete_bytes));
    coordgen_reply_unref(reply);

    assert_int_equal(coordgen_status(client, -1, &reply), 0);
    assert_int_equal(coordgen_reply_status(reply)->struct_bytes, sizeof(CoordgenStatus));
    for (size_t i = 0; i < coordgen_reply_n_memory(reply); i++)
        assert_int_equal(coordgen_reply_memory(reply, i)->struct_bytes, sizeof(CoordgenMemory));
    for (size_t i = 0; i < coordgen_reply_n_models(reply); i++)
        assert_int_equal(coordgen_reply_model(reply, i)->struct_bytes, sizeof(CoordgenModel));
    coordgen_reply_unref(reply);
    peer_end(&peer, client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_arguments_no_client),
        cmocka_unit_test(test_client_arguments_no_reply),
        cmocka_unit_test(test_client_arguments_within_options),
        cmocka_unit_test(test_client_arguments_results_tell_their_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
