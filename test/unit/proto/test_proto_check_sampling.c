// SPDX-License-Identifier: Apache-2.0
/* Ranges of sampling options. */
#include "proto/proto_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/proto/good_request.h"

/* Both ends of every range, the values just past them, and NaN. */
static void test_proto_check_sampling_ranges(void **state) {
    static const struct {
        size_t has_offset, value_offset;
        const char *field;
        float lowest_good, highest_good, below, above;
    } ranges[] = {
#define RANGE(name, lowest, highest, below, above)                                                                     \
    { offsetof(Coordgen__V1__SamplingOptions, has_##name),                                                             \
      offsetof(Coordgen__V1__SamplingOptions, name),                                                                   \
      "generate.sampling." #name,                                                                                      \
      lowest,                                                                                                          \
      highest,                                                                                                         \
      below,                                                                                                           \
      above }
        RANGE(temperature, 0, 100, -1e-30f, 100.001f),
        RANGE(top_p, 1e-30f, 1, 0, 1.0000001f),
        RANGE(min_p, 0, 0.9999999f, -1e-30f, 1),
        RANGE(repetition_penalty, 1e-30f, 10, 0, 10.000001f),
        RANGE(presence_penalty, -10, 10, -10.000001f, 10.000001f),
        RANGE(frequency_penalty, -10, 10, -10.000001f, 10.000001f),
        RANGE(typical_p, 1e-30f, 1, 0, 1.0000001f),
        RANGE(xtc_probability, 0, 1, -1e-30f, 1.0000001f),
        RANGE(xtc_threshold, 0, 0.5f, -1e-30f, 0.50000006f),
        RANGE(dry_multiplier, 0, 100, -1e-30f, 100.00001f),
        RANGE(dry_base, 1, 10, 0.99999994f, 10.000001f),
#undef RANGE
    };

    for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
        const float good_values[] = { ranges[i].lowest_good, ranges[i].highest_good };
        const float bad_values[] = { ranges[i].below, ranges[i].above, NAN, INFINITY, -INFINITY };
        Good good;
        float *valuep = (float *)((char *)&good.sampling + ranges[i].value_offset);
        protobuf_c_boolean *hasp = (protobuf_c_boolean *)((char *)&good.sampling + ranges[i].has_offset);

        good_init(&good);
        *valuep = NAN; /* absent: ignored */
        expect(&good, 0, "");
        *hasp = true;
        for (size_t j = 0; j < ARRAY_LEN(good_values); j++) {
            *valuep = good_values[j];
            expect(&good, 0, "");
        }
        for (size_t j = 0; j < ARRAY_LEN(bad_values); j++) {
            *valuep = bad_values[j];
            expect(&good, PROTO_CHECK_E_VALUE, ranges[i].field);
        }
    }
}

static void test_proto_check_logit_bias(void **state) {
    static const float good_biases[] = { -1000, 0, 1000, -INFINITY },
                       bad_biases[] = { -1000.1f, 1000.1f, INFINITY, NAN };
    Coordgen__V1__LogitBias bias = COORDGEN__V1__LOGIT_BIAS__INIT, *biases[PROTO_LOGIT_BIASES_MAX + 1];
    Good good;

    good_init(&good);
    for (size_t i = 0; i < ARRAY_LEN(biases); i++)
        biases[i] = &bias;
    good.sampling.logit_bias = biases;
    good.sampling.n_logit_bias = PROTO_LOGIT_BIASES_MAX;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.sampling.logit_bias[0]");
    bias.has_token = true;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.sampling.logit_bias[0]");
    bias.has_bias = true;
    for (size_t i = 0; i < ARRAY_LEN(good_biases); i++) {
        bias.bias = good_biases[i];
        expect(&good, 0, "");
    }
    for (size_t i = 0; i < ARRAY_LEN(bad_biases); i++) {
        bias.bias = bad_biases[i];
        expect(&good, PROTO_CHECK_E_VALUE, "generate.sampling.logit_bias[0]");
    }
    bias.bias = 0;
    good.sampling.n_logit_bias++;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.sampling.logit_bias");
}

static void test_proto_check_dry_breakers_and_logprobs(void **state) {
    char longest[PROTO_DRY_BREAKER_BYTES_MAX + 2] = { 0 }, empty[] = "", *breakers[PROTO_DRY_BREAKERS_MAX + 1];
    Good good;

    good_init(&good);
    memset(longest, 'x', PROTO_DRY_BREAKER_BYTES_MAX);
    for (size_t i = 0; i < ARRAY_LEN(breakers); i++)
        breakers[i] = longest;
    good.sampling.dry_breaker = breakers;
    good.sampling.n_dry_breaker = PROTO_DRY_BREAKERS_MAX;
    expect(&good, 0, "");
    good.sampling.n_dry_breaker++;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.sampling.dry_breaker");
    good.sampling.n_dry_breaker = 2;
    breakers[1] = empty;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.sampling.dry_breaker[1]");
    good.sampling.n_dry_breaker = 1;
    breakers[0] = empty; /* none at all */
    expect(&good, 0, "");
    breakers[0] = longest;
    longest[PROTO_DRY_BREAKER_BYTES_MAX] = 'x';
    expect(&good, PROTO_CHECK_E_VALUE, "generate.sampling.dry_breaker[0]");
    good_init(&good);
    good.generate.has_logprobs = true;
    good.generate.logprobs = PROTO_LOGPROBS_MAX;
    expect(&good, 0, "");
    good.generate.logprobs++;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.logprobs");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proto_check_sampling_ranges),
        cmocka_unit_test(test_proto_check_logit_bias),
        cmocka_unit_test(test_proto_check_dry_breakers_and_logprobs),
    };

    return cmocka_run_group_tests_name("proto_check_sampling", tests, NULL, NULL);
}
