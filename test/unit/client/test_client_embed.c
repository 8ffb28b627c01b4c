// SPDX-License-Identifier: Apache-2.0
/* Tests of the client's requests for vectors, of texts and of token ids, and of what a reply about one model has. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/client/client_peer.h"

static char small[] = "small", template[] = "{{ a }}";

static bool is_of_tokens(const Coordgen__V1__Request *request) {
    const Coordgen__V1__EmbedRequest *embed =
        request->op_case == COORDGEN__V1__REQUEST__OP_EMBED ? request->embed : NULL;

    return embed && !embed->n_text && embed->n_tokens == 2 && embed->tokens[0]->n_id == 2 &&
           embed->tokens[0]->id[1] == 8 && embed->tokens[1]->n_id == 1 && embed->tokens[1]->id[0] == 9;
}

static bool is_of_texts(const Coordgen__V1__Request *request) {
    return request->op_case == COORDGEN__V1__REQUEST__OP_EMBED && request->embed->n_text == 1 &&
           !request->embed->n_tokens && !strcmp(request->embed->text[0], small);
}

static void send_vectors(Peer *peer, uint64_t id) {
    float values[] = { 0.5f, -0.25f };
    Coordgen__V1__Embedding embedding = COORDGEN__V1__EMBEDDING__INIT, *list[] = { &embedding };
    Coordgen__V1__EmbedReply reply = COORDGEN__V1__EMBED_REPLY__INIT;

    embedding.n_value = 2;
    embedding.value = values;
    embedding.has_tokens = true;
    embedding.tokens = 3;
    reply.n_embeddings = 1;
    reply.embeddings = list;
    reply.model = small;
    RESPONSE(response, EMBED, embed, &reply);
    peer_send(peer, &response, id);
}

/* Answers token ids, then texts; any other request ends the connection. */
static void script_vectors(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *first = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *second = NULL;

    if (!peer_hello(peer) || !(first = peer_next(peer)) || !is_of_tokens(first))
        return;
    send_vectors(peer, first->request_id);
    if (!(second = peer_next(peer)) || !is_of_texts(second))
        return;
    send_vectors(peer, second->request_id);
    frame_request_free(peer_next(peer));
}

static void check_vectors(CoordgenReply *reply) {
    const float *values;
    size_t n;

    values = coordgen_reply_embedding(reply, 0, &n);
    assert_int_equal(n, 2);
    assert_true(values[0] == 0.5f && values[1] == -0.25f);
    assert_int_equal(coordgen_reply_embedding_tokens(reply, 0), 3);
    assert_string_equal(coordgen_reply_embedding_model(reply), small);
    coordgen_reply_unref(reply);
}

static void test_client_embed(void **state) {
    static const uint32_t first[] = { 7, 8 }, second[] = { 9 };
    static const uint32_t *const lists[] = { first, second };
    static const size_t lengths[] = { 2, 1 };
    const char *texts[] = { small };
    CoordgenEmbedOptions options;
    CoordgenReply *reply = NULL;
    Peer peer = { 0 };
    CoordgenClient *client = peer_connect(&peer, script_vectors);

    coordgen_embed_options_init(&options);
    options.tokens = lists;
    options.n_tokens = lengths;
    options.n_texts = 2;
    assert_int_equal(coordgen_embed(client, &options, &reply), 0);
    check_vectors(reply);
    options.texts = texts;
    assert_int_equal(coordgen_embed(client, &options, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "embed.tokens");
    options.texts = NULL;
    options.n_tokens = NULL;
    assert_int_equal(coordgen_embed(client, &options, NULL), COORDGEN_E_INVALID_ARGUMENT);
    options.n_tokens = lengths;
    options.tokens = (const uint32_t *const[]){ first, NULL };
    assert_int_equal(coordgen_embed(client, &options, NULL), COORDGEN_E_INVALID_ARGUMENT);
    coordgen_embed_options_init(&options);
    options.texts = texts;
    options.n_texts = 1;
    assert_int_equal(coordgen_embed(client, &options, &reply), 0);
    check_vectors(reply);
    assert_string_equal(coordgen_reply_embedding_model(NULL), "");
    peer_end(&peer, client);
}

/* Shows a model with a template and defaults, then one without. */
static void script_models(Peer *peer) {
    Coordgen__V1__Model model = COORDGEN__V1__MODEL__INIT;
    Coordgen__V1__SamplingOptions sampling = COORDGEN__V1__SAMPLING_OPTIONS__INIT;
    Coordgen__V1__ModelShowReply full = COORDGEN__V1__MODEL_SHOW_REPLY__INIT,
                                 bare = COORDGEN__V1__MODEL_SHOW_REPLY__INIT;

    model.name = small;
    model.has_file_time_s = model.has_embedding_values = true;
    model.file_time_s = 1764000000;
    model.embedding_values = 576;
    sampling.has_temperature = sampling.has_top_k = true;
    sampling.temperature = 0.5f;
    sampling.top_k = 40;
    full.model = bare.model = &model;
    full.sampling = &sampling;
    full.has_chat_template = true;
    full.chat_template = (ProtobufCBinaryData){ .data = (uint8_t *)template, .len = strlen(template) };
    if (!peer_hello(peer))
        return;
    for (int i = 0; i < 2; i++) {
        _cleanup_(frame_request_freep) Coordgen__V1__Request *request = peer_next(peer);

        if (!request || request->op_case != COORDGEN__V1__REQUEST__OP_MODEL_SHOW)
            return;
        RESPONSE(response, MODEL_SHOW, model_show, i ? &bare : &full);
        peer_send(peer, &response, request->request_id);
    }
    frame_request_free(peer_next(peer));
}

static void test_client_model_show(void **state) {
    Peer peer = { 0 };
    CoordgenClient *client = peer_connect(&peer, script_models);
    CoordgenReply *reply = NULL;
    size_t len_bytes;

    assert_int_equal(coordgen_model_show(client, NULL, -1, &reply), 0);
    assert_int_equal(coordgen_reply_model(reply, 0)->file_time_s, 1764000000);
    assert_int_equal(coordgen_reply_model(reply, 0)->embedding_values, 576);
    assert_memory_equal(coordgen_reply_chat_template(reply, &len_bytes), template, strlen(template));
    assert_int_equal(len_bytes, strlen(template));
    assert_true(coordgen_reply_sampling_defaults(reply)->temperature == 0.5f);
    assert_int_equal(coordgen_reply_sampling_defaults(reply)->top_k, 40);
    coordgen_reply_unref(reply);
    assert_int_equal(coordgen_model_show(client, NULL, -1, &reply), 0);
    assert_null(coordgen_reply_chat_template(reply, &len_bytes));
    assert_int_equal(len_bytes, 0);
    assert_null(coordgen_reply_sampling_defaults(reply));
    assert_null(coordgen_reply_chat_template(NULL, NULL));
    assert_null(coordgen_reply_sampling_defaults(NULL));
    coordgen_reply_unref(reply);
    peer_end(&peer, client);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_client_embed), cmocka_unit_test(test_client_model_show) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
