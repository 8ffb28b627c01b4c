// SPDX-License-Identifier: Apache-2.0
/* Log probabilities of a generation's deltas beside the logits that its tokens were sampled from; what the options
 * point to need not live as long as the generation. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/generation.h"
#include "test/unit/fixtures/real_model.h"

#define N_TOKENS 40

static const SpecLab always = { .always = true };
static const char text[] =
    "The keeper wrote: ship, lamp, rope, sail. The keeper wrote: ship, lamp, rope, sail. The keeper";

static RealModel model;

static int setup(void **state) {
    real_model_open(&model, ENGINE_DEVICE_CPU, ISA_BEST, 2, 32);
    return 0;
}

static int teardown(void **state) {
    real_model_close(&model);
    return 0;
}

/* What a run has given. */
typedef struct Run {
    TokenLogprobs sampled[2 * N_TOKENS], given[N_TOKENS]; /* from logits; from deltas */
    size_t n_sampled, n_given, n_with_text;
    uint32_t tokens[N_TOKENS];
    char text[4096]; /* NUL-terminated */
    size_t text_bytes;
    GenerationUsage usage;
    GenerationEnd end;
} Run;

static void on_logits(void *arg, const float *logits) {
    Run *run = arg;

    if (run->n_sampled < 2 * N_TOKENS) /* the token is known later */
        logprobs_compute(logits, engine_info(model.engine)->n_vocab, 0, LOGPROBS_TOP_MAX,
                         &run->sampled[run->n_sampled++]);
}

static void take(void *arg, const GenerationDelta *delta) {
    Run *run = arg;

    assert_true(run->text_bytes + delta->len_bytes < sizeof(run->text));
    memcpy(run->text + run->text_bytes, delta->text, delta->len_bytes);
    run->text_bytes += delta->len_bytes;
    if (!delta->n_tokens) {
        assert_null(delta->logprobs);
        return;
    }
    assert_non_null(delta->logprobs);
    assert_true(run->n_given < N_TOKENS);
    assert_int_equal(delta->logprobs->chosen.token, delta->tokens[0]);
    run->tokens[run->n_given] = delta->tokens[0];
    run->given[run->n_given++] = *delta->logprobs;
    run->n_with_text += delta->len_bytes > 0;
}

static void go(const GenerationOptions *from, bool drafts, Run *run) {
    _cleanup_(token_list_deinit) TokenList prompt = { 0 };
    _cleanup_(generation_freep) Generation *generation = NULL;
    SamplerBias biases[2] = { { 28, 1.5f }, { 30, -INFINITY } };
    char breaker[] = "wrote";
    const char *breakers[] = { breaker };
    GenerationOptions options = *from;
    ErrText err = { 0 };

    *run = (Run){ 0 };
    assert_int_equal(tokenizer_encode(engine_tokenizer(model.engine), text, strlen(text), 0, &prompt, &err), 0);
    options.max_tokens = N_TOKENS;
    options.ignore_end = true;
    options.no_reuse = true;
    options.logprobs = (GenerationLogprobs){ true, LOGPROBS_TOP_MAX };
    options.on_logits = on_logits;
    options.on_logits_arg = run;
    if (drafts)
        options.speculation = (GenerationSpeculation){ .sources = 1u << SPECULATION_LOOKUP, .lab = &always };
    if (options.sampler.dry.multiplier > 0) {
        options.sampler.biases = biases;
        options.sampler.n_biases = 2;
        options.sampler.dry.breakers = breakers;
        options.sampler.dry.n_breakers = 1;
    }
    if (generation_new(&generation, model.engine, prompt.ids, prompt.n, &options, &err))
        fail_msg("%s", err.text);
    memset(biases, 0xff, sizeof(biases)); /* the generation has copies */
    memset(breaker, 'x', sizeof(breaker) - 1);
    breakers[0] = NULL;
    while (generation_end(generation) == GENERATION_RUNNING)
        assert_int_equal(generation_step(generation, take, run, NULL), 0);
    run->usage = *generation_usage(generation);
    run->end = generation_end(generation);
}

static void expect_same(const Run *run, const Run *plain) {
    assert_int_equal(run->n_given, plain->n_given);
    assert_memory_equal(run->tokens, plain->tokens, plain->n_given * sizeof(*plain->tokens));
    assert_memory_equal(run->given, plain->given, plain->n_given * sizeof(*plain->given));
}

static const SamplerOptions ways[] = {
    { .top_p = 1, .repetition_penalty = 1 },
    { .top_p = 1, .repetition_penalty = 1, .presence_penalty = 1, .frequency_penalty = 0.5f },
    { .temperature = 1, .top_p = 0.9f, .repetition_penalty = 1, .typical_p = 0.9f, .seed = 5 },
    { .temperature = 1, .top_p = 1, .repetition_penalty = 1.1f, .xtc_probability = 0.5f, .xtc_threshold = 0.1f },
    { .temperature = 0, .top_p = 1, .repetition_penalty = 1, .dry = { .multiplier = 2, .base = 1.75f } },
};

/* The log probabilities of each token come from the logits that it was sampled from, with drafts and without. */
static void test_generation_sampling_logprobs(void **state) {
    static Run plain, drafted;
    size_t n_accepted = 0;

    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        const GenerationOptions options = { .sampler = ways[w] };

        go(&options, false, &plain);
        assert_int_equal(plain.n_given, N_TOKENS);
        assert_int_equal(plain.n_sampled, N_TOKENS);
        for (size_t i = 0; i < N_TOKENS; i++) {
            const TokenLogprobs *given = &plain.given[i];

            assert_memory_equal(given->top, plain.sampled[i].top, sizeof(given->top));
            for (size_t j = 0; j < given->n_top; j++)
                if (given->top[j].token == given->chosen.token)
                    assert_memory_equal(&given->top[j], &given->chosen, sizeof(given->chosen));
        }
        go(&options, true, &drafted);
        expect_same(&drafted, &plain);
        n_accepted += drafted.usage.n_accepted_tokens;
    }
    assert_true(n_accepted > 10);
}

/* A stop string that tokens come to bit by bit: their text is held back, their log probabilities are not mixed up. */
static void test_generation_sampling_stop(void **state) {
    static Run whole, stopped;
    GenerationOptions options = { .sampler = ways[0] };
    char stop[33] = { 0 };

    go(&options, false, &whole);
    assert_true(whole.text_bytes > 50);
    memcpy(stop, whole.text + 10, sizeof(stop) - 1);
    options.stops[0] = stop;
    options.n_stops = 1;
    for (int drafts = 0; drafts < 2; drafts++) {
        go(&options, drafts, &stopped);
        assert_int_equal(stopped.end, GENERATION_END_STOP);
        assert_true(stopped.n_given < N_TOKENS && stopped.n_with_text + 2 < stopped.n_given);
        assert_int_equal(stopped.text_bytes, strstr(whole.text, stop) - whole.text);
        assert_memory_equal(stopped.given, whole.given, stopped.n_given * sizeof(*stopped.given));
    }
}

static void test_generation_sampling_refusals(void **state) {
    const uint32_t n_vocab = engine_info(model.engine)->n_vocab, prompt[] = { 28, 29 };
    const SamplerBias last = { n_vocab - 1, 1 }, beyond = { n_vocab, 1 };
    Generation *generation = NULL;
    GenerationOptions options = { .sampler = ways[0] };
    ErrText err = { 0 };

    options.sampler.n_biases = 1;
    options.sampler.biases = &last;
    assert_int_equal(generation_new(&generation, model.engine, prompt, 2, &options, &err), 0);
    generation = generation_free(generation);
    options.sampler.biases = &beyond;
    assert_int_equal(generation_new(&generation, model.engine, prompt, 2, &options, &err), GENERATION_E_OPTIONS);
    assert_non_null(strstr(err.text, "logit_bias"));
    options = (GenerationOptions){ .sampler = ways[0], .logprobs = { true, LOGPROBS_TOP_MAX + 1 } };
    assert_int_equal(generation_new(&generation, model.engine, prompt, 2, &options, &err), GENERATION_E_OPTIONS);
    assert_non_null(strstr(err.text, "logprobs"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generation_sampling_logprobs),
        cmocka_unit_test(test_generation_sampling_stop),
        cmocka_unit_test(test_generation_sampling_refusals),
    };

    return cmocka_run_group_tests_name("generation_sampling", tests, setup, teardown);
}
