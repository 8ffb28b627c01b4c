// SPDX-License-Identifier: Apache-2.0
/* Tests of the client's lists of requests and of what drafts brought: the messages sent, and the content of replies,
 * also of incomplete ones. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/client/client_peer.h"

static char model[] = "m", sam[] = "sam", outcome[] = "max-tokens";
static uint64_t lengths[] = { 5, 0, 2 };

static Coordgen__V1__Explanation explanation_with(Coordgen__V1__DraftSource *source, Coordgen__V1__DraftSource **list) {
    Coordgen__V1__Explanation explanation = COORDGEN__V1__EXPLANATION__INIT;

    *source = (Coordgen__V1__DraftSource)COORDGEN__V1__DRAFT_SOURCE__INIT;
    source->name = sam;
    source->has_is_on = source->is_on = true;
    source->has_drafted_tokens = source->has_accepted_tokens = true;
    source->drafted_tokens = UINT64_C(1) << 40;
    source->accepted_tokens = 9;
    *list = source;
    explanation.n_sources = 1;
    explanation.sources = list;
    explanation.n_accept_lengths = ARRAY_LEN(lengths);
    explanation.accept_lengths = lengths;
    explanation.has_off = explanation.has_valid_rows = true;
    explanation.off = COORDGEN__V1__SPECULATION_OFF__SPECULATION_OFF_NO_SOURCE;
    explanation.valid_rows = 16;
    explanation.has_model_passes = explanation.has_model_rows = explanation.has_model_us = true;
    explanation.model_passes = 21;
    explanation.model_rows = 22;
    explanation.model_us = 23;
    explanation.has_read_bytes = explanation.has_read_wait_us = true;
    explanation.read_bytes = UINT64_C(24) << 32;
    explanation.read_wait_us = 25;
    return explanation;
}

/* Answers with a list of two, the second nearly empty; then with one that is asked for by number, and one without a
 * number. */
static void script_requests(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *list = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *one = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *none = NULL;
    Coordgen__V1__RequestInfo info = COORDGEN__V1__REQUEST_INFO__INIT, bare = COORDGEN__V1__REQUEST_INFO__INIT;
    Coordgen__V1__RequestInfo *infos[] = { &info, &bare };
    Coordgen__V1__RequestListReply listed = COORDGEN__V1__REQUEST_LIST_REPLY__INIT;
    Coordgen__V1__ExplainReply explained = COORDGEN__V1__EXPLAIN_REPLY__INIT, empty = COORDGEN__V1__EXPLAIN_REPLY__INIT;
    Coordgen__V1__DraftSource source, *sources[1];
    Coordgen__V1__Explanation explanation = explanation_with(&source, sources);

    info.has_number = info.has_state = true;
    info.number = 77;
    info.state = COORDGEN__V1__REQUEST_STATE__REQUEST_STATE_ENDED;
    info.model = model;
    info.outcome = outcome;
    info.explanation = &explanation;
    listed.n_requests = 2;
    listed.requests = infos;
    listed.has_more = true;
    listed.more = 3;
    explained.request = &info;
    if (!peer_hello(peer) || !(list = peer_next(peer)) || list->op_case != COORDGEN__V1__REQUEST__OP_REQUEST_LIST)
        return;
    RESPONSE(first, REQUEST_LIST, request_list, &listed);
    peer_send(peer, &first, list->request_id);
    if (!(one = peer_next(peer)) || one->op_case != COORDGEN__V1__REQUEST__OP_EXPLAIN || one->explain->number != 77)
        return;
    RESPONSE(second, EXPLAIN, explain, &explained);
    peer_send(peer, &second, one->request_id);
    if (!(none = peer_next(peer)))
        return;
    RESPONSE(third, EXPLAIN, explain, &empty);
    peer_send(peer, &third, none->request_id);
    frame_request_free(peer_next(peer)); /* until the client hangs up: the last one is refused before it is sent */
}

static void test_client_requests_are_read(void **state) {
    const CoordgenRequestInfo *request;
    const CoordgenExplanation *explanation;
    CoordgenReply *reply = NULL;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_requests);

    assert_int_equal(coordgen_request_list(client, 5000, &reply), 0);
    assert_int_equal(coordgen_reply_n_requests(reply), 2);
    assert_int_equal(coordgen_reply_more_requests(reply), 3);
    assert_null(coordgen_reply_explanation(reply));
    assert_null(coordgen_reply_request(reply, 2));
    request = coordgen_reply_request(reply, 0);
    assert_int_equal(request->struct_bytes, sizeof(*request));
    assert_int_equal(request->number, 77);
    assert_int_equal(request->state, COORDGEN_REQUEST_ENDED);
    assert_string_equal(request->model, "m");
    assert_string_equal(request->outcome, "max-tokens");
    request = coordgen_reply_request(reply, 1);
    assert_string_equal(request->model, "");
    assert_string_equal(request->outcome, "");
    assert_int_equal(request->explanation->struct_bytes, sizeof(*explanation));
    assert_int_equal(request->explanation->n_sources, 0);
    coordgen_reply_unref(reply);

    assert_int_equal(coordgen_explain(client, 77, 5000, &reply), 0);
    assert_int_equal(coordgen_reply_n_requests(reply), 1);
    assert_int_equal(coordgen_reply_more_requests(reply), 0);
    explanation = coordgen_reply_explanation(reply);
    assert_ptr_equal(explanation, coordgen_reply_request(reply, 0)->explanation);
    assert_int_equal(explanation->off, COORDGEN_SPECULATION_NO_SOURCE);
    assert_int_equal(explanation->n_sources, 1);
    assert_int_equal(explanation->sources[0]->struct_bytes, sizeof(CoordgenDraftSource));
    assert_string_equal(explanation->sources[0]->name, "sam");
    assert_true(explanation->sources[0]->is_on);
    assert_true(explanation->sources[0]->drafted_tokens == UINT64_C(1) << 40);
    assert_int_equal(explanation->n_accept_lengths, 3);
    assert_int_equal(explanation->accept_lengths[2], 2);
    assert_int_equal(explanation->valid_rows, 16);
    assert_int_equal(explanation->wasted_rows, 0);
    assert_int_equal(explanation->model_passes, 21);
    assert_int_equal(explanation->model_rows, 22);
    assert_int_equal(explanation->model_us, 23);
    assert_true(explanation->read_bytes == UINT64_C(24) << 32);
    assert_int_equal(explanation->read_wait_us, 25);
    coordgen_reply_unref(reply);

    assert_int_equal(coordgen_explain(client, 78, 5000, &reply), 0);
    assert_int_equal(coordgen_reply_n_requests(reply), 0);
    assert_null(coordgen_reply_explanation(reply));
    coordgen_reply_unref(reply);
    assert_int_equal(coordgen_explain(client, 0, 5000, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "explain.number");
    peer_end(&peer, client);
}

/* Answers with an explanation; the number encodes the request's options. */
static void script_generate(Peer *peer) {
    Coordgen__V1__GenerateDone done = COORDGEN__V1__GENERATE_DONE__INIT;
    Coordgen__V1__Usage usage = COORDGEN__V1__USAGE__INIT;
    Coordgen__V1__DraftSource source, *sources[1];
    Coordgen__V1__Explanation explanation = explanation_with(&source, sources);

    if (!peer_hello(peer))
        return;
    for (size_t i = 0; i < 2; i++) {
        _cleanup_(frame_request_freep) Coordgen__V1__Request *request = peer_next(peer);

        if (!request)
            return;
        usage.has_request_number = true;
        usage.request_number = !request->generate->speculation                       ? 1
                               : strcmp(request->generate->speculation, "sam,table") ? 2
                                                                                     : 3;
        done.usage = &usage;
        done.explanation = request->generate->has_explain && request->generate->explain ? &explanation : NULL;
        RESPONSE(response, GENERATE_DONE, generate_done, &done);
        peer_send(peer, &response, request->request_id);
    }
}

static void test_client_requests_generate_explains(void **state) {
    CoordgenGenerateOptions options;
    CoordgenReply *reply = NULL;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_generate);

    peer_options(&options, "x");
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, &reply), 0);
    assert_int_equal(coordgen_reply_generate(reply)->request_number, 1);
    assert_null(coordgen_reply_explanation(reply));
    coordgen_reply_unref(reply);
    options.speculation = "sam,table";
    options.explain = true;
    assert_int_equal(coordgen_generate(client, &options, NULL, NULL, &reply), 0);
    assert_int_equal(coordgen_reply_generate(reply)->request_number, 3);
    assert_int_equal(coordgen_reply_explanation(reply)->valid_rows, 16);
    assert_int_equal(coordgen_reply_n_requests(reply), 0);
    coordgen_reply_unref(reply);
    peer_end(&peer, client);
}

static void test_client_requests_names(void **state) {
    assert_string_equal(coordgen_request_state_name(COORDGEN_REQUEST_PREFILL), "prefill");
    assert_string_equal(coordgen_request_state_name(COORDGEN_REQUEST_ENDED), "ended");
    assert_string_equal(coordgen_request_state_name(8), "unknown");
    assert_string_equal(coordgen_request_state_name(-1), "unknown");
    assert_string_equal(coordgen_speculation_off_name(COORDGEN_SPECULATION_ON), "on");
    assert_string_equal(coordgen_speculation_off_name(COORDGEN_SPECULATION_NO_SOURCE), "no-source");
    assert_string_equal(coordgen_speculation_off_name(4), "unknown");
    assert_string_equal(coordgen_prompt_learning_name(COORDGEN_PROMPT_LEARNING_NONE), "none");
    assert_string_equal(coordgen_prompt_learning_name(COORDGEN_PROMPT_LEARNING_TRIAL), "trial");
    assert_string_equal(coordgen_prompt_learning_name(5), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_requests_are_read),
        cmocka_unit_test(test_client_requests_generate_explains),
        cmocka_unit_test(test_client_requests_names),
    };

    return cmocka_run_group_tests_name("client requests", tests, NULL, NULL);
}
