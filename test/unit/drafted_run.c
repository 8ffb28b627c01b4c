// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/drafted_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/golden_hash.h"

void given_prompt(uint32_t *prompt, size_t n, size_t n_vocab) {
    for (size_t i = 0; i < n; i++)
        prompt[i] = (uint32_t)((i % 9) * (i % 9) * 7 % n_vocab);
}

static void take_logits(void *arg, const float *logits) {
    Given *given = arg;

    given->logits = hash_of(given->logits, logits, given->n_vocab * sizeof(*logits));
}

GenerationOptions given_options(Given *given, Engine *engine, uint32_t max_tokens, bool sampled,
                                const GenerationSpeculation *speculation) {
    static uint64_t user = 1000;
    GenerationOptions options = {
        .max_tokens = max_tokens,
        .ignore_end = true,
        .no_reuse = true,
        .user = user++,
        .sampler = SAMPLER_OPTIONS_GREEDY,
        .speculation = *speculation,
        .on_logits = take_logits,
        .on_logits_arg = given,
    };

    assert_true(max_tokens <= GIVEN_MAX);
    if (sampled) {
        options.sampler.temperature = 0.7F;
        options.sampler.seed = 43;
    }
    *given = (Given){ .n_vocab = engine_info(engine)->n_vocab, .logits = HASH_START };
    return options;
}

Generation *given_begin(Engine *engine, size_t n_prompt, const GenerationOptions *options) {
    uint32_t prompt[256];
    Generation *generation;
    ErrText err = { "" };

    assert_true(n_prompt <= sizeof(prompt) / sizeof(*prompt));
    given_prompt(prompt, n_prompt, engine_info(engine)->n_vocab);
    if (generation_new(&generation, engine, prompt, n_prompt, options, &err))
        fail_msg("%s", err.text);
    return generation;
}

void given_take(void *arg, const char *delta, size_t len_bytes, const uint32_t *tokens, size_t n_tokens) {
    Given *given = arg;

    assert_true(n_tokens <= GIVEN_MAX - given->n);
    for (size_t i = 0; i < n_tokens; i++)
        given->ids[given->n++] = tokens[i];
}

void given_end(Given *given, Generation *generation) {
    given->end = generation_end(generation);
    given->usage = *generation_usage(generation);
    generation_report(generation, &given->report);
    generation_free(generation);
}

void given_run(Given *given, Generation *generation) {
    while (generation_end(generation) == GENERATION_RUNNING)
        assert_int_equal(generation_step(generation, given_take, given, NULL), 0);
    given_end(given, generation);
}

void given_check_same(const Given *given, const Given *plain) {
    assert_int_equal(given->n, plain->n);
    assert_memory_equal(given->ids, plain->ids, plain->n * sizeof(*plain->ids));
    assert_int_equal(given->logits, plain->logits);
    assert_int_equal(given->end, plain->end);
    assert_int_equal(given->usage.n_steps + given->usage.n_accepted_tokens, plain->usage.n_steps);
}
