// SPDX-License-Identifier: Apache-2.0
/* Several answers in the client: the request that is sent, events and results of each answer, and answers that no
 * request has. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/client/client_peer.h"

static void send_delta(Peer *peer, uint64_t id, uint64_t sequence, uint32_t choice, const char *text) {
    Coordgen__V1__GenerateDelta delta = COORDGEN__V1__GENERATE_DELTA__INIT;

    delta.has_sequence = delta.has_text = delta.has_choice = true;
    delta.sequence = sequence;
    delta.choice = choice;
    delta.text = (ProtobufCBinaryData){ .data = (uint8_t *)(uintptr_t)text, .len = strlen(text) };
    RESPONSE(response, GENERATE_DELTA, generate_delta, &delta);
    peer_send(peer, &response, id);
}

static bool is_as_asked(const Coordgen__V1__GenerateRequest *generate) {
    return generate->input_case == COORDGEN__V1__GENERATE_REQUEST__INPUT_PROMPT_TOKENS &&
           generate->prompt_tokens->n_id == 2 && generate->prompt_tokens->id[1] == 9 && generate->has_n &&
           generate->n == 3 && generate->echo && !generate->suffix && !generate->answer_prefix;
}

/* Answers with text of three answers in turns; the second one says nothing. */
static void script_choices(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;
    Coordgen__V1__GenerateDone done = COORDGEN__V1__GENERATE_DONE__INIT;
    Coordgen__V1__ChoiceEnd ends[3], *list[3];

    if (!peer_hello(peer) || !(request = peer_next(peer)) || !is_as_asked(request->generate))
        return;
    send_delta(peer, request->request_id, 0, 2, "two ");
    send_delta(peer, request->request_id, 1, 0, "zero");
    send_delta(peer, request->request_id, 2, 2, "more");
    for (uint32_t i = 0; i < 3; i++) {
        ends[i] = (Coordgen__V1__ChoiceEnd)COORDGEN__V1__CHOICE_END__INIT;
        ends[i].has_choice = ends[i].has_end_reason = ends[i].has_seed = ends[i].has_output_tokens = true;
        ends[i].choice = i;
        ends[i].end_reason =
            i ? COORDGEN__V1__END_REASON__END_REASON_MAX_TOKENS : COORDGEN__V1__END_REASON__END_REASON_END_TOKEN;
        ends[i].seed = 40 + i;
        ends[i].output_tokens = i;
        list[i] = &ends[i];
    }
    done.has_deltas = true;
    done.deltas = 3;
    done.n_choices = 3;
    done.choices = list;
    RESPONSE(response, GENERATE_DONE, generate_done, &done);
    peer_send(peer, &response, request->request_id);
}

static void script_too_many(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;

    if (peer_hello(peer) && (request = peer_next(peer)))
        send_delta(peer, request->request_id, 0, 16, "text");
}

static void script_greets(Peer *peer) {
    if (peer_hello(peer))
        peer_play_nothing(peer);
}

static int add_choice(void *arg, const CoordgenEvent *event) {
    uint32_t *seen = arg;

    if (event->kind == COORDGEN_EVENT_DELTA)
        *seen = *seen * 10 + event->choice + 1;
    return 0;
}

static const uint32_t ids[] = { 7, 9 };

static void ids_options(CoordgenGenerateOptions *options) {
    coordgen_generate_options_init(options);
    options->prompt_tokens = ids;
    options->n_prompt_tokens = 2;
    options->n = 3;
    options->echo = true;
}

static void test_client_choices(void **state) {
    CoordgenReply *reply = NULL;
    const CoordgenGenerateResult *result;
    CoordgenGenerateOptions options;
    CoordgenClient *client;
    uint32_t seen = 0;
    Peer peer;

    client = peer_connect(&peer, script_choices);
    ids_options(&options);
    assert_int_equal(coordgen_generate(client, &options, add_choice, &seen, &reply), 0);
    assert_int_equal(seen, 313);
    result = coordgen_reply_generate(reply);
    assert_string_equal(result->text, "zero");
    assert_int_equal(result->n_choices, 3);
    assert_string_equal(result->choices[0].text, "zero");
    assert_string_equal(result->choices[1].text, "");
    assert_string_equal(result->choices[2].text, "two more");
    assert_int_equal(result->choices[2].text_bytes, 8);
    assert_string_equal(result->choices[2].reasoning, "");
    assert_int_equal(result->choices[0].end_reason, COORDGEN_END_TOKEN);
    assert_int_equal(result->choices[2].end_reason, COORDGEN_END_MAX_TOKENS);
    assert_int_equal(result->choices[2].seed, 42);
    assert_int_equal(result->choices[2].output_tokens, 2);
    coordgen_reply_unref(reply);
    peer_end(&peer, client);
}

static void test_client_choices_beyond_the_limit(void **state) {
    CoordgenGenerateOptions options;
    CoordgenClient *client;
    Peer peer;

    client = peer_connect(&peer, script_too_many);
    ids_options(&options);
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, NULL), COORDGEN_E_BAD_REPLY);
    assert_non_null(strstr(coordgen_client_message(client), "text of answer 16"));
    peer_end(&peer, client);
}

static void expect_refusal(CoordgenClient *client, const CoordgenGenerateOptions *options, const char *field) {
    assert_int_equal(coordgen_generate(client, options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), field);
}

/* The library itself refuses inputs that contradict each other. */
static void test_client_choices_of_inputs(void **state) {
    const CoordgenMessage message = { .role = COORDGEN_ROLE_USER, .text = "x" };
    CoordgenGenerateOptions options;
    CoordgenClient *client;
    Peer peer;

    client = peer_connect(&peer, script_greets);
    ids_options(&options);
    options.prompt = "x";
    expect_refusal(client, &options, "generate.prompt_tokens");
    options.prompt = NULL;
    options.messages = &message;
    options.n_messages = 1;
    expect_refusal(client, &options, "generate.prompt_tokens");
    options.n_prompt_tokens = 0;
    expect_refusal(client, &options, "generate.echo");
    options.echo = false;
    options.suffix = "x";
    expect_refusal(client, &options, "generate.suffix");
    ids_options(&options);
    options.prompt_tokens = NULL;
    expect_refusal(client, &options, "generate.prompt_tokens");
    peer_end(&peer, client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_choices),
        cmocka_unit_test(test_client_choices_beyond_the_limit),
        cmocka_unit_test(test_client_choices_of_inputs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
