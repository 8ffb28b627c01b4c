// SPDX-License-Identifier: Apache-2.0
/* Sampling options and log probabilities between the library's structures and the messages. */
#undef NDEBUG
#include "client/sampling/client_sampling.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static CoordgenClient *client;

static int setup(void **state) {
    return coordgen_client_new(&client);
}

static int teardown(void **state) {
    coordgen_client_free(client);
    return 0;
}

static void test_client_sampling_plain(void **state) {
    CoordgenGenerateOptions options;
    ClientSampling sampling;

    coordgen_generate_options_init(&options);
    options.temperature = 0.5f;
    assert_int_equal(client_sampling_fill(client, &sampling, &options), 0);
    assert_true(sampling.message.has_temperature && sampling.message.temperature == 0.5f);
    assert_false(sampling.message.has_top_k || sampling.message.has_presence_penalty || sampling.message.has_typical_p);
    assert_int_equal(sampling.message.n_logit_bias + sampling.message.n_dry_breaker, 0);
    client_sampling_deinit(&sampling);
}

static void test_client_sampling_more(void **state) {
    static const CoordgenLogitBias biases[] = { { 7, 1.5f }, { 9, -INFINITY } };
    static const char *const breakers[] = { ";", "end" };
    CoordgenGenerateOptions options;
    CoordgenSamplingOptions more;
    ClientSampling sampling;
    ClientSamplingReply reply = { 0 };

    coordgen_generate_options_init(&options);
    coordgen_sampling_options_init(&more);
    more.presence_penalty = -1; /* the value that stands for "not set" elsewhere */
    more.typical_p = 0.5f;
    more.dry_multiplier = 2;
    more.dry_window = 100;
    more.logit_bias = biases;
    more.n_logit_bias = 2;
    more.dry_breakers = breakers;
    more.n_dry_breakers = 2;
    options.more_sampling = &more;
    assert_int_equal(client_sampling_fill(client, &sampling, &options), 0);
    assert_true(sampling.message.has_presence_penalty && sampling.message.presence_penalty == -1);
    assert_true(client_sampling_reply_fill(&reply, &sampling.message)); /* and back */
    assert_true(reply.options.presence_penalty == -1 && reply.options.typical_p == 0.5f);
    assert_true(reply.options.dry_multiplier == 2 && reply.options.dry_base == 1.75f);
    assert_int_equal(reply.options.dry_allowed_length, 2);
    assert_int_equal(reply.options.dry_window, 100);
    assert_int_equal(reply.options.n_dry_breakers, 2);
    assert_string_equal(reply.options.dry_breakers[1], "end");
    assert_int_equal(reply.options.n_logit_bias, 2);
    assert_int_equal(reply.options.logit_bias[1].token, 9);
    assert_true(reply.options.logit_bias[1].bias == -INFINITY);
    client_sampling_reply_deinit(&reply);
    client_sampling_deinit(&sampling);
}

/* NULL leaves the breakers to the service; an empty list has its own sign on the wire. */
static void test_client_sampling_no_breakers(void **state) {
    static const char *const none[1] = { 0 };
    CoordgenGenerateOptions options;
    CoordgenSamplingOptions more;
    ClientSampling sampling;
    ClientSamplingReply reply = { 0 };

    coordgen_generate_options_init(&options);
    coordgen_sampling_options_init(&more);
    options.more_sampling = &more;
    assert_int_equal(client_sampling_fill(client, &sampling, &options), 0);
    assert_int_equal(sampling.message.n_dry_breaker, 0);
    client_sampling_deinit(&sampling);
    more.dry_breakers = none;
    assert_int_equal(client_sampling_fill(client, &sampling, &options), 0);
    assert_int_equal(sampling.message.n_dry_breaker, 1);
    assert_string_equal(sampling.message.dry_breaker[0], "");
    assert_true(client_sampling_reply_fill(&reply, &sampling.message));
    assert_int_equal(reply.options.n_dry_breakers, 0);
    client_sampling_reply_deinit(&reply);
    client_sampling_deinit(&sampling);
}

static void expect_refused(CoordgenSamplingOptions *more, int code, const char *field) {
    CoordgenGenerateOptions options;
    ClientSampling sampling;

    coordgen_generate_options_init(&options);
    options.more_sampling = more;
    assert_int_equal(client_sampling_fill(client, &sampling, &options), code);
    assert_string_equal(coordgen_client_field(client), field);
    client_sampling_deinit(&sampling);
}

static void test_client_sampling_refusals(void **state) {
    static const char *const empty[] = { "x", "" };
    CoordgenSamplingOptions more;
    struct {
        CoordgenSamplingOptions known;
        int later;
    } newer = { .later = 1 };

    coordgen_sampling_options_init(&more);
    more.n_logit_bias = 1;
    expect_refused(&more, COORDGEN_E_INVALID_ARGUMENT, "generate.sampling.logit_bias");
    coordgen_sampling_options_init(&more);
    more.n_dry_breakers = 1;
    expect_refused(&more, COORDGEN_E_INVALID_ARGUMENT, "generate.sampling.dry_breaker");
    more.dry_breakers = empty;
    more.n_dry_breakers = 2;
    expect_refused(&more, COORDGEN_E_INVALID_ARGUMENT, "generate.sampling.dry_breaker");
    more.struct_bytes = 0;
    expect_refused(&more, COORDGEN_E_INVALID_ARGUMENT, "struct_bytes");
    coordgen_sampling_options_init(&newer.known);
    newer.known.struct_bytes = sizeof(newer);
    expect_refused(&newer.known, COORDGEN_E_UNKNOWN_OPTION, "struct_bytes");
}

static void test_client_sampling_logprobs(void **state) {
    uint8_t piece[] = { 0xc3 };
    Coordgen__V1__Logprob chosen = COORDGEN__V1__LOGPROB__INIT, other = COORDGEN__V1__LOGPROB__INIT,
                          *top[] = { &other, &chosen };
    Coordgen__V1__TokenLogprobs token = COORDGEN__V1__TOKEN_LOGPROBS__INIT, *tokens[] = { &token, &token };
    Coordgen__V1__GenerateDelta delta = COORDGEN__V1__GENERATE_DELTA__INIT;
    CoordgenEvent event = { 0 };
    ClientLogprobs logprobs;

    assert_int_equal(client_logprobs_fill(&logprobs, &delta, &event), 0);
    assert_true(!event.n_logprobs && !event.logprobs);
    client_logprobs_deinit(&logprobs);
    delta.logprobs = tokens;
    delta.n_logprobs = 2;
    assert_int_equal(client_logprobs_fill(&logprobs, &delta, &event), COORDGEN_E_BAD_REPLY);
    client_logprobs_deinit(&logprobs);
    chosen.token = 5;
    chosen.logprob = -2;
    chosen.piece = (ProtobufCBinaryData){ 1, piece };
    other.token = 6;
    token.chosen = &chosen;
    token.top = top;
    token.n_top = 2;
    assert_int_equal(client_logprobs_fill(&logprobs, &delta, &event), 0);
    assert_int_equal(event.n_logprobs, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(event.logprobs[i].chosen.token, 5);
        assert_int_equal(event.logprobs[i].n_top, 2);
        assert_int_equal(event.logprobs[i].top[0].token, 6);
        assert_int_equal(event.logprobs[i].top[0].piece_bytes, 0);
        assert_true(event.logprobs[i].top[1].logprob == -2);
        assert_memory_equal(event.logprobs[i].top[1].piece, piece, 1);
    }
    client_logprobs_deinit(&logprobs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_sampling_plain),       cmocka_unit_test(test_client_sampling_more),
        cmocka_unit_test(test_client_sampling_no_breakers), cmocka_unit_test(test_client_sampling_refusals),
        cmocka_unit_test(test_client_sampling_logprobs),
    };

    return cmocka_run_group_tests_name("client_sampling", tests, setup, teardown);
}
