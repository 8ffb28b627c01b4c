// SPDX-License-Identifier: Apache-2.0
/* Every option of the sampler, alone and with others, beside numpy: test/golden/sampling/make-sampling. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/sampling/sampler.h"
#include "test/unit/engine/sampling/golden_row.h"

static const char *const breakers[] = { "\n", ":", "\"", "*b", "xyz" };
#define N_BREAKERS ARRAY_LEN(breakers)

static const struct {
    const char *name;
    SamplerOptions options;
    float boost; /* added to the logits of tokens of the history */
    uint32_t tokens[GOLDEN_ROW_POSITIONS];
} cases[] = {
#include "test/golden/sampling/sampling.inc"
};

static void test_sampler_golden_tokens(void **state) {
    float logits[GOLDEN_ROW_VOCAB];
    uint32_t history[GOLDEN_ROW_HISTORY];
    SamplerCandidate scratch[GOLDEN_ROW_VOCAB];

    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        _cleanup_(dry_penalty_freep) DryPenalty *dry = NULL;
        SamplerOptions options = cases[c].options;
        ErrText err;

        if (sampler_options_check(&options, &err))
            fail_msg("%s: %s", cases[c].name, err.text);
        if (options.dry.multiplier > 0)
            assert_int_equal(dry_penalty_new(&dry, &options.dry, GOLDEN_ROW_HISTORY, golden_row_piece, NULL), 0);
        options.dry_penalty = dry;
        options.n_prompt = GOLDEN_ROW_PROMPT;
        for (uint32_t position = 0; position < GOLDEN_ROW_POSITIONS; position++) {
            float plain[GOLDEN_ROW_VOCAB];
            uint32_t token;

            golden_row_logits(position, logits);
            golden_row_history(1000 + position, history);
            memcpy(plain, logits, sizeof(plain));
            for (size_t i = 0; cases[c].boost > 0 && i < GOLDEN_ROW_HISTORY; i++)
                logits[history[i]] = plain[history[i]] + cases[c].boost;
            token = sampler_pick(&options, logits, GOLDEN_ROW_VOCAB, history, GOLDEN_ROW_HISTORY, position, scratch);
            if (token != cases[c].tokens[position])
                fail_msg("%s, position %u: token %u instead of %u", cases[c].name, position, token,
                         cases[c].tokens[position]);
        }
    }
}

/* A token that is banned is never given, whatever else is asked for, and also where nothing else is left but noise. */
static void test_sampler_golden_never_gives_banned_tokens(void **state) {
    static const SamplerOptions ways[] = {
        { .temperature = 0 },
        { .temperature = 1 },
        { .temperature = 100 },
        { .temperature = 1, .top_k = 1 },
        { .temperature = 1, .typical_p = 0.999999f },
        { .temperature = 1, .typical_p = 0.01f },
        { .temperature = 1, .min_p = 0.5f },
        { .temperature = 2, .xtc_probability = 1, .xtc_threshold = 0 },
        { .temperature = 1, .presence_penalty = -10, .frequency_penalty = -10 },
    };
    SamplerBias biases[GOLDEN_ROW_VOCAB - 3];
    float logits[GOLDEN_ROW_VOCAB];
    uint32_t history[GOLDEN_ROW_HISTORY];
    SamplerCandidate scratch[GOLDEN_ROW_VOCAB];

    golden_row_logits(1, logits);
    golden_row_history(2, history);
    for (uint32_t i = 0; i < ARRAY_LEN(biases); i++)
        biases[i] = (SamplerBias){ i + 2, -INFINITY }; /* tokens 0, 1 and 999 are left */
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        SamplerOptions options = ways[w];

        options.top_p = w % 2 ? 1 : 0.9f;
        options.repetition_penalty = w % 3 ? 1 : 1.5f;
        options.biases = biases;
        options.n_biases = ARRAY_LEN(biases);
        assert_int_equal(sampler_options_check(&options, &(ErrText){ 0 }), 0);
        for (uint32_t position = 0; position < 50; position++) {
            const uint32_t token =
                sampler_pick(&options, logits, GOLDEN_ROW_VOCAB, history, GOLDEN_ROW_HISTORY, position, scratch);

            assert_true(token < 2 || token == GOLDEN_ROW_VOCAB - 1);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampler_golden_tokens),
        cmocka_unit_test(test_sampler_golden_never_gives_banned_tokens),
    };

    return cmocka_run_group_tests_name("sampler_golden", tests, NULL, NULL);
}
