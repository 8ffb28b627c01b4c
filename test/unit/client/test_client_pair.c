// SPDX-License-Identifier: Apache-2.0
/* Tests of the client's requests about pairs of models: the messages sent, and the content of replies, also of
 * incomplete ones. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/client/client_peer.h"

static char big[] = "big", small[] = "small", tiny[] = "tiny", why[] = "their tokens differ", large[] = "it is large";

/* Answers with a pair with a warning, an undone pair, a pair that does not fit, and a list whose second pair is nearly
 * empty. */
static void script_pairs(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *first = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *second = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *third = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *fourth = NULL;
    Coordgen__V1__ModelPair pair = COORDGEN__V1__MODEL_PAIR__INIT, bare = COORDGEN__V1__MODEL_PAIR__INIT;
    Coordgen__V1__ModelPair *pairs[] = { &pair, &bare };
    Coordgen__V1__ModelPairReply made = COORDGEN__V1__MODEL_PAIR_REPLY__INIT,
                                 undone = COORDGEN__V1__MODEL_PAIR_REPLY__INIT;
    Coordgen__V1__ModelPairListReply list = COORDGEN__V1__MODEL_PAIR_LIST_REPLY__INIT;

    pair.target = big;
    pair.draft = small;
    pair.has_is_stored = pair.is_stored = pair.has_state = true;
    pair.state = COORDGEN__V1__MODEL_PAIR_STATE__MODEL_PAIR_STATE_MISMATCH;
    pair.detail = why;
    made.pair = &pair;
    made.warning = large;
    list.n_pairs = 2;
    list.pairs = pairs;
    if (!peer_hello(peer) || !(first = peer_next(peer)) || first->op_case != COORDGEN__V1__REQUEST__OP_MODEL_PAIR ||
        strcmp(first->model_pair->target, big) || strcmp(first->model_pair->draft, small))
        return;
    RESPONSE(one, MODEL_PAIR, model_pair, &made);
    peer_send(peer, &one, first->request_id);
    if (!(second = peer_next(peer)) || second->op_case != COORDGEN__V1__REQUEST__OP_MODEL_PAIR ||
        !second->model_pair->draft || *second->model_pair->draft)
        return;
    RESPONSE(two, MODEL_PAIR, model_pair, &undone);
    peer_send(peer, &two, second->request_id);
    if (!(third = peer_next(peer)))
        return;
    peer_error(peer, third->request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_VOCAB_MISMATCH, why, "model_pair.draft",
               0);
    if (!(fourth = peer_next(peer)) || fourth->op_case != COORDGEN__V1__REQUEST__OP_MODEL_PAIR_LIST)
        return;
    RESPONSE(three, MODEL_PAIR_LIST, model_pair_list, &list);
    peer_send(peer, &three, fourth->request_id);
    frame_request_free(peer_next(peer)); /* until the client hangs up: the last one is refused before it is sent */
}

static void test_client_pair_replies(void **state) {
    const CoordgenModelPair *pair;
    CoordgenReply *reply = NULL;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_pairs);

    assert_int_equal(coordgen_model_pair(client, "big", "small", 5000, &reply), 0);
    assert_int_equal(coordgen_reply_n_model_pairs(reply), 1);
    assert_string_equal(coordgen_reply_warning(reply), "it is large");
    pair = coordgen_reply_model_pair(reply, 0);
    assert_int_equal(pair->struct_bytes, sizeof(*pair));
    assert_string_equal(pair->target, "big");
    assert_string_equal(pair->draft, "small");
    assert_true(pair->is_stored);
    assert_int_equal(pair->state, COORDGEN_MODEL_PAIR_MISMATCH);
    assert_string_equal(pair->detail, "their tokens differ");
    assert_null(coordgen_reply_model_pair(reply, 1));
    coordgen_reply_unref(reply);

    assert_int_equal(coordgen_model_pair(client, "big", NULL, 5000, &reply), 0);
    assert_int_equal(coordgen_reply_n_model_pairs(reply), 0);
    assert_string_equal(coordgen_reply_warning(reply), "");
    coordgen_reply_unref(reply);

    assert_int_equal(coordgen_model_pair(client, "big", "tiny", 5000, NULL), COORDGEN_E_VOCAB_MISMATCH);
    assert_string_equal(coordgen_error_name(COORDGEN_E_VOCAB_MISMATCH), "vocab-mismatch");
    assert_string_equal(coordgen_client_field(client), "model_pair.draft");
    assert_string_equal(coordgen_client_message(client), "their tokens differ");

    assert_int_equal(coordgen_model_pair_list(client, 5000, &reply), 0);
    assert_int_equal(coordgen_reply_n_model_pairs(reply), 2);
    assert_string_equal(coordgen_reply_warning(reply), "");
    pair = coordgen_reply_model_pair(reply, 1);
    assert_string_equal(pair->target, "");
    assert_string_equal(pair->draft, "");
    assert_string_equal(pair->detail, "");
    assert_false(pair->is_stored);
    coordgen_reply_unref(reply);

    assert_int_equal(coordgen_model_pair(client, "", "small", 5000, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "model_pair.target");
    peer_end(&peer, client);
}

/* Answers with a model with all fields of its draft model and layers, and a model without any. */
static void script_models(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;
    Coordgen__V1__Model model = COORDGEN__V1__MODEL__INIT, bare = COORDGEN__V1__MODEL__INIT;
    Coordgen__V1__Model *models[] = { &bare, &model };
    Coordgen__V1__ModelPair pair = COORDGEN__V1__MODEL_PAIR__INIT;
    Coordgen__V1__ModelListReply list = COORDGEN__V1__MODEL_LIST_REPLY__INIT;
    char *targets[] = { tiny, big };

    pair.draft = small;
    model.draft = &pair;
    model.n_draft_of = 2;
    model.draft_of = targets;
    model.has_layers = model.has_streamed_layers = model.has_pinned_bytes = model.has_sweep_bytes = true;
    model.layers = 28;
    model.streamed_layers = 20;
    model.pinned_bytes = UINT64_C(5) << 30;
    model.sweep_bytes = UINT64_C(6) << 30;
    model.has_read_bytes_per_s = true;
    model.read_bytes_per_s = UINT64_C(7) << 30;
    list.n_models = 2;
    list.models = models;
    if (!peer_hello(peer) || !(request = peer_next(peer)))
        return;
    RESPONSE(response, MODEL_LIST, model_list, &list);
    peer_send(peer, &response, request->request_id);
    frame_request_free(peer_next(peer));
}

static void test_client_pair_of_models(void **state) {
    const CoordgenModel *model;
    CoordgenReply *reply = NULL;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_models);

    assert_int_equal(coordgen_model_list(client, 5000, &reply), 0);
    model = coordgen_reply_model(reply, 0);
    assert_null(model->draft);
    assert_int_equal(model->n_draft_of, 0);
    assert_int_equal(model->streamed_layers, 0);
    model = coordgen_reply_model(reply, 1);
    assert_int_equal(model->struct_bytes, sizeof(*model));
    assert_string_equal(model->draft->draft, "small");
    assert_string_equal(model->draft->target, "");
    assert_int_equal(model->n_draft_of, 2);
    assert_string_equal(model->draft_of[1], "big");
    assert_int_equal(model->layers, 28);
    assert_int_equal(model->streamed_layers, 20);
    assert_true(model->pinned_bytes == UINT64_C(5) << 30);
    assert_true(model->sweep_bytes == UINT64_C(6) << 30);
    assert_true(model->read_bytes_per_s == UINT64_C(7) << 30);
    assert_int_equal(coordgen_reply_n_model_pairs(reply), 0); /* the reply is about models */
    coordgen_reply_unref(reply);
    peer_end(&peer, client);
}

/* Answers to the default model (asked for, chosen, refused), a load by the rule for requests, and a generation that
 * waits for its model. */
static void script_default(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *ask = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *choose = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *want = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *generate = NULL;
    Coordgen__V1__ModelDefaultReply reply = COORDGEN__V1__MODEL_DEFAULT_REPLY__INIT;
    Coordgen__V1__GenerateProgress progress = COORDGEN__V1__GENERATE_PROGRESS__INIT;
    Coordgen__V1__GenerateDone done = COORDGEN__V1__GENERATE_DONE__INIT;
    Coordgen__V1__ModelLoadReply load = COORDGEN__V1__MODEL_LOAD_REPLY__INIT;
    Coordgen__V1__Model model = COORDGEN__V1__MODEL__INIT;

    model.name = big;
    model.has_default_by = model.has_usable_context_tokens = model.has_setting_context_tokens = true;
    model.default_by = COORDGEN__V1__MODEL_DEFAULT_BY__MODEL_DEFAULT_BY_COMMAND;
    model.usable_context_tokens = 64;
    model.setting_context_tokens = 65;
    reply.model = &model;
    if (!peer_hello(peer) || !(ask = peer_next(peer)) || ask->op_case != COORDGEN__V1__REQUEST__OP_MODEL_DEFAULT ||
        ask->model_default->model)
        return;
    RESPONSE(one, MODEL_DEFAULT, model_default, &reply);
    peer_send(peer, &one, ask->request_id);
    if (!(choose = peer_next(peer)) || choose->op_case != COORDGEN__V1__REQUEST__OP_MODEL_DEFAULT ||
        !choose->model_default->model || strcmp(choose->model_default->model, small))
        return;
    peer_error(peer, choose->request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_DENIED, why, "", 0);
    if (!(want = peer_next(peer)) || want->op_case != COORDGEN__V1__REQUEST__OP_MODEL_LOAD ||
        !want->model_load->on_demand || *want->model_load->model)
        return;
    load.model = &model;
    RESPONSE(two, MODEL_LOAD, model_load, &load);
    peer_send(peer, &two, want->request_id);
    if (!(generate = peer_next(peer)) || generate->op_case != COORDGEN__V1__REQUEST__OP_GENERATE)
        return;
    progress.has_queue_position = progress.has_model_state = progress.has_model_permille = true;
    progress.queue_position = 1;
    progress.model_state = COORDGEN__V1__MODEL_STATE__MODEL_STATE_LOADING;
    progress.model_permille = 250;
    progress.model = big;
    RESPONSE(three, GENERATE_PROGRESS, generate_progress, &progress);
    peer_send(peer, &three, generate->request_id);
    RESPONSE(four, GENERATE_DONE, generate_done, &done);
    peer_send(peer, &four, generate->request_id);
    frame_request_free(peer_next(peer));
}

static int on_waiting(void *arg, const CoordgenEvent *event) {
    unsigned int *np = arg;

    assert_int_equal(event->kind, COORDGEN_EVENT_PROGRESS);
    assert_int_equal(event->model_state, COORDGEN_MODEL_LOADING);
    assert_int_equal(event->permille, 250);
    assert_string_equal(event->model, "big");
    ++*np;
    return 0;
}

static void test_client_pair_default(void **state) {
    CoordgenGenerateOptions options;
    const CoordgenModel *model;
    CoordgenReply *reply = NULL;
    unsigned int n = 0;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_default);

    assert_int_equal(coordgen_model_default(client, NULL, 5000, &reply), 0);
    model = coordgen_reply_model(reply, 0);
    assert_string_equal(model->name, "big");
    assert_int_equal(model->state, 0);
    assert_int_equal(model->default_by, COORDGEN_MODEL_DEFAULT_BY_COMMAND);
    assert_string_equal(coordgen_model_default_by_name((int)model->default_by), "command");
    assert_int_equal(model->usable_context_tokens, 64);
    assert_int_equal(model->setting_context_tokens, 65);
    coordgen_reply_unref(reply);
    assert_int_equal(coordgen_model_default(client, "small", 5000, NULL), COORDGEN_E_DENIED);
    assert_int_equal(coordgen_model_want(client, NULL, 5000, &reply), 0);
    assert_string_equal(coordgen_reply_model(reply, 0)->name, "big");
    coordgen_reply_unref(reply);
    coordgen_generate_options_init(&options);
    options.prompt = "Once";
    assert_int_equal(coordgen_generate(client, &options, on_waiting, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_string_equal(coordgen_model_default_by_name(99), "unknown");
    peer_end(&peer, client);
}

static void test_client_pair_state_names(void **state) {
    assert_string_equal(coordgen_model_pair_state_name(COORDGEN_MODEL_PAIR_READY), "ready");
    assert_string_equal(coordgen_model_pair_state_name(COORDGEN_MODEL_PAIR_FAILED), "failed");
    assert_string_equal(coordgen_model_pair_state_name(COORDGEN_MODEL_PAIR_FAILED + 1), "unknown");
    assert_string_equal(coordgen_model_pair_state_name(-1), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_pair_replies),
        cmocka_unit_test(test_client_pair_of_models),
        cmocka_unit_test(test_client_pair_default),
        cmocka_unit_test(test_client_pair_state_names),
    };

    return cmocka_run_group_tests_name("client_pair", tests, NULL, NULL);
}
