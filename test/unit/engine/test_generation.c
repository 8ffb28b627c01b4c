// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/generation.h"
#include "test/unit/fixtures/real_model.h"

static const SpecLab always = { .always = true };

static RealModel model;

static int setup(void **state) {
    real_model_open(&model, ENGINE_DEVICE_CPU, ISA_BEST, 2, 32);
    return 0;
}

static int teardown(void **state) {
    real_model_close(&model);
    return 0;
}

static void ask(TokenList *prompt, const char *question) {
    ChatMessage message = { .role = CHAT_ROLE_USER, .text = question, .len_bytes = strlen(question) };
    ErrText err;

    assert_int_equal(
        engine_encode_chat(model.engine, &(ChatInput){ .messages = &message, .n_messages = 1 }, prompt, &err), 0);
}

typedef struct Answer {
    StrBuf text;
    size_t n_tokens, n_calls;
} Answer;

static void take(void *arg, const GenerationDelta *delta) {
    Answer *answer = arg;

    str_buf_append(&answer->text, delta->text, delta->len_bytes);
    answer->n_tokens += delta->n_tokens;
    answer->n_calls++;
}

/* Runs a generation to its end; the caller owns the answer. */
static GenerationEnd run(const char *question, const GenerationOptions *options, Answer *answer,
                         GenerationUsage *usage) {
    _cleanup_(token_list_deinit) TokenList prompt = { 0 };
    _cleanup_(generation_freep) Generation *generation = NULL;
    ErrText err = { 0 };

    *answer = (Answer){ 0 };
    ask(&prompt, question);
    if (generation_new(&generation, model.engine, prompt.ids, prompt.n, options, &err))
        fail_msg("%s", err.text);
    while (generation_end(generation) == GENERATION_RUNNING)
        assert_int_equal(generation_step(generation, take, answer, NULL), 0);
    if (usage)
        *usage = *generation_usage(generation);
    return generation_end(generation);
}

static const char question[] = "What is the capital of France? Answer in one sentence.";

static void test_generation_answers(void **state) {
    GenerationOptions options = { .max_tokens = 60, .sampler = SAMPLER_OPTIONS_GREEDY };
    GenerationUsage usage;
    Answer answer;

    assert_int_equal(run(question, &options, &answer, &usage), GENERATION_END_TOKEN);
    assert_non_null(strstr(answer.text.data, "Paris"));
    assert_int_equal(usage.n_output_tokens, answer.n_tokens);
    assert_int_equal(usage.n_prefilled_tokens, usage.n_prompt_tokens);
    assert_true(usage.n_prompt_tokens > 32); /* more than a chunk */
    assert_null(strstr(answer.text.data, "<|im_end|>"));
    str_buf_deinit(&answer.text);
}

static void test_generation_max_tokens(void **state) {
    GenerationOptions options = { .max_tokens = 1, .sampler = SAMPLER_OPTIONS_GREEDY };
    Answer answer;

    assert_int_equal(run(question, &options, &answer, NULL), GENERATION_END_MAX);
    assert_int_equal(answer.n_tokens, 1);
    str_buf_deinit(&answer.text);
}

/* The text before a stop string is complete, and no part of the stop string is output, wherever tokens cut it. */
static void test_generation_stop_strings(void **state) {
    GenerationOptions options = { .max_tokens = 40, .sampler = SAMPLER_OPTIONS_GREEDY };
    Answer whole, stopped;
    size_t n_tried = 0;

    run(question, &options, &whole, NULL);
    for (size_t begin = 1; begin + 9 < whole.text.len_bytes; begin += 3) {
        char stop[10] = { 0 };
        const char *first;

        memcpy(stop, whole.text.data + begin, 9);
        first = strstr(whole.text.data, stop);
        options.stops[0] = "never in the answer";
        options.stops[1] = stop;
        options.n_stops = 2;
        assert_int_equal(run(question, &options, &stopped, NULL), GENERATION_END_STOP);
        assert_int_equal(stopped.text.len_bytes, first - whole.text.data);
        assert_memory_equal(stopped.text.data, whole.text.data, stopped.text.len_bytes);
        str_buf_deinit(&stopped.text);
        n_tried++;
    }
    assert_true(n_tried > 5);
    str_buf_deinit(&whole.text);
}

/* An answer ends at a control token, which no output shows; all text before the token is output, with drafts and
 * without. */
static void test_generation_stops_at_marks(void **state) {
    static const char short_question[] = "Answer with one word: what colour is the sky on a clear day?";
    GenerationOptions options = { .max_tokens = 120, .sampler = SAMPLER_OPTIONS_GREEDY };
    GenerationUsage usage, whole_usage;
    Answer whole, stopped;

    assert_int_equal(run(short_question, &options, &whole, &whole_usage), GENERATION_END_TOKEN);
    assert_true(whole.text.len_bytes > 0);
    options.stops[0] = "no mark";
    options.stops[1] = "<|im_end|>";
    options.n_stops = 2;
    assert_int_equal(run(short_question, &options, &stopped, NULL), GENERATION_END_TOKEN); /* the model's own end */
    str_buf_deinit(&stopped.text);
    options.ignore_end = true;
    for (int drafts = 0; drafts < 2; drafts++) {
        options.speculation.sources = drafts ? SPECULATION_AUTO : 0;
        options.speculation.lab = &always;
        assert_int_equal(run(short_question, &options, &stopped, &usage), GENERATION_END_STOP);
        assert_string_equal(stopped.text.data, whole.text.data);
        assert_int_equal(usage.n_output_tokens, whole_usage.n_output_tokens + 1);
        assert_int_equal(stopped.n_tokens, usage.n_output_tokens);
        str_buf_deinit(&stopped.text);
    }
    options.stops[1] = "<|im_end|"; /* a part of the mark */
    assert_int_equal(run(short_question, &options, &stopped, NULL), GENERATION_END_MAX);
    str_buf_deinit(&stopped.text);
    str_buf_deinit(&whole.text);
}

/* A stop string that only seems to begin at the end of the answer does not swallow text. */
static void test_generation_gives_out_what_was_held_back(void **state) {
    GenerationOptions options = { .max_tokens = 6, .sampler = SAMPLER_OPTIONS_GREEDY };
    Answer whole, held;
    char stop[64];

    run(question, &options, &whole, NULL);
    assert_true(whole.text.len_bytes > 4 && whole.text.len_bytes < 60);
    snprintf(stop, sizeof(stop), "%s!?", whole.text.data + whole.text.len_bytes - 4);
    options.stops[0] = stop;
    options.n_stops = 1;
    assert_int_equal(run(question, &options, &held, NULL), GENERATION_END_MAX);
    assert_string_equal(held.text.data, whole.text.data);
    str_buf_deinit(&whole.text);
    str_buf_deinit(&held.text);
}

static void test_generation_context_borders(void **state) {
    GenerationOptions options = { .ignore_end = true, .sampler = SAMPLER_OPTIONS_GREEDY };
    _cleanup_(token_list_deinit) TokenList prompt = { 0 };
    ErrText err;

    ask(&prompt, question);
    for (int room = -1; room <= 3; room++) {
        _cleanup_(generation_freep) Generation *generation = NULL;

        options.context_tokens = (uint32_t)((int)prompt.n + room);
        if (room <= 0) {
            assert_int_equal(generation_new(&generation, model.engine, prompt.ids, prompt.n, &options, &err),
                             GENERATION_E_TOO_LONG);
            assert_null(generation);
            continue;
        }
        assert_int_equal(generation_new(&generation, model.engine, prompt.ids, prompt.n, &options, &err), 0);
        while (generation_end(generation) == GENERATION_RUNNING)
            assert_int_equal(generation_step(generation, NULL, NULL, NULL), 0);
        assert_int_equal(generation_end(generation), GENERATION_END_CONTEXT);
        assert_int_equal(generation_usage(generation)->n_output_tokens, room);
    }
}

/* Logits, candidates and tokens of a request are charged, and the pages of as many positions as it may reach. */
static void test_generation_pays_for_its_memory(void **state) {
    GenerationOptions options = { .max_tokens = 700, .sampler = SAMPLER_OPTIONS_GREEDY };
    const uint64_t n_vocab = engine_info(model.engine)->n_vocab,
                   before = model.accounts.used_bytes[ACCOUNT_ACTIVATIONS];
    const uint32_t prompt[] = { 5, 6, 7 };
    Generation *generation;

    assert_int_equal(generation_new(&generation, model.engine, prompt, 3, &options, NULL), 0);
    assert_int_equal(model.accounts.used_bytes[ACCOUNT_ACTIVATIONS] - before,
                     n_vocab * (sizeof(float) + sizeof(SamplerCandidate)) + 703 * sizeof(uint32_t));
    assert_true(model.accounts.used_bytes[ACCOUNT_KV] >= 703 * engine_info(model.engine)->kv_bytes_per_token);
    generation_free(generation);
    assert_int_equal(model.accounts.used_bytes[ACCOUNT_ACTIVATIONS], before);
}

static void test_generation_refuses(void **state) {
    GenerationOptions options = { .sampler = SAMPLER_OPTIONS_GREEDY };
    Generation *generation = NULL;
    uint32_t token = 5, no_token = UINT32_MAX, first_beyond = engine_info(model.engine)->n_vocab;
    ErrText err;
    char long_stop[GENERATION_STOP_BYTES_MAX + 2];

    assert_int_equal(generation_new(&generation, model.engine, &token, 0, &options, &err), GENERATION_E_EMPTY);
    assert_int_equal(generation_new(&generation, model.engine, &no_token, 1, &options, &err), -EINVAL);
    assert_int_equal(generation_new(&generation, model.engine, &first_beyond, 1, &options, &err), -EINVAL);
    options.stops[0] = "";
    options.n_stops = 1;
    assert_int_equal(generation_new(&generation, model.engine, &token, 1, &options, &err), GENERATION_E_OPTIONS);
    memset(long_stop, 'x', sizeof(long_stop));
    long_stop[sizeof(long_stop) - 1] = 0;
    options.stops[0] = long_stop;
    assert_int_equal(generation_new(&generation, model.engine, &token, 1, &options, &err), GENERATION_E_OPTIONS);
    options.n_stops = 0;
    options.sampler.top_p = 2;
    assert_int_equal(generation_new(&generation, model.engine, &token, 1, &options, &err), GENERATION_E_OPTIONS);
    assert_null(generation);
}

static void test_generation_memory_limit(void **state) {
    GenerationOptions options = { .max_tokens = 1000, .sampler = SAMPLER_OPTIONS_GREEDY };
    uint64_t before = model.accounts.total_bytes;
    Generation *generation = NULL;
    uint32_t token = 5;
    ErrText err;

    model.accounts.limit_bytes[ACCOUNT_KV] = 100 * engine_info(model.engine)->kv_bytes_per_token;
    assert_int_equal(generation_new(&generation, model.engine, &token, 1, &options, &err), GENERATION_E_MEMORY);
    assert_null(generation);
    assert_int_equal(model.accounts.total_bytes, before);
    model.accounts.limit_bytes[ACCOUNT_KV] = UINT64_MAX;
}

static void test_generation_cancel_at_every_stage(void **state) {
    GenerationOptions options = { .max_tokens = 50, .ignore_end = true, .sampler = SAMPLER_OPTIONS_GREEDY };
    _cleanup_(token_list_deinit) TokenList prompt = { 0 };
    uint64_t before = model.accounts.used_bytes[ACCOUNT_KV];
    ErrText err;

    ask(&prompt, question);
    for (size_t steps = 0; steps < 6; steps++) {
        _cleanup_(generation_freep) Generation *generation = NULL;

        assert_int_equal(generation_new(&generation, model.engine, prompt.ids, prompt.n, &options, &err), 0);
        for (size_t i = 0; i < steps; i++)
            assert_int_equal(generation_step(generation, NULL, NULL, NULL), 0);
        generation_cancel(generation);
        assert_int_equal(generation_step(generation, NULL, NULL, NULL), 0);
        assert_int_equal(generation_end(generation), GENERATION_END_CANCELLED);
    }
    assert_int_equal(model.accounts.used_bytes[ACCOUNT_KV], before);
}

/* A flag that is set while operators run stops the pass at the next operator and leaves the sequence as it was. */
static void test_forward_cancelled_changes_nothing(void **state) {
    size_t n_vocab = engine_info(model.engine)->n_vocab;
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    float *first = malloc(n_vocab * sizeof(float)), *second = malloc(n_vocab * sizeof(float));
    uint32_t tokens[] = { 19556, 28, 392, 416, 722 };
    _Atomic bool cancelled = false;
    ErrText err;

    assert_int_equal(sequence_new(&sequence, model.engine, 16, &err), 0);
    sequence_set_cancel(sequence, &cancelled);
    assert_int_equal(engine_forward(model.engine, sequence, tokens, 4, 1, first, NULL), 0);
    cancelled = true;
    assert_int_equal(engine_forward(model.engine, sequence, tokens, 5, 1, second, NULL), ENGINE_E_CANCELLED);
    assert_int_equal(sequence_n_tokens(sequence), 4);
    cancelled = false;
    assert_int_equal(engine_forward(model.engine, sequence, tokens + 4, 1, 1, first, NULL), 0);
    sequence_free(steal(&sequence));
    assert_int_equal(sequence_new(&sequence, model.engine, 16, &err), 0);
    assert_int_equal(engine_forward(model.engine, sequence, tokens, 5, 1, second, NULL), 0);
    assert_memory_equal(first, second, n_vocab * sizeof(float));
    assert_int_equal(engine_forward(model.engine, sequence, tokens, 33, 1, second, NULL),
                     -EINVAL); /* more than a chunk */
    assert_int_equal(engine_forward(model.engine, sequence, (uint32_t[12]){ 0 }, 12, 1, second, NULL),
                     ENGINE_E_CONTEXT);
    free(first);
    free(second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generation_answers),
        cmocka_unit_test(test_generation_max_tokens),
        cmocka_unit_test(test_generation_stop_strings),
        cmocka_unit_test(test_generation_stops_at_marks),
        cmocka_unit_test(test_generation_gives_out_what_was_held_back),
        cmocka_unit_test(test_generation_context_borders),
        cmocka_unit_test(test_generation_refuses),
        cmocka_unit_test(test_generation_pays_for_its_memory),
        cmocka_unit_test(test_generation_memory_limit),
        cmocka_unit_test(test_generation_cancel_at_every_stage),
        cmocka_unit_test(test_forward_cancelled_changes_nothing),
    };

    return cmocka_run_group_tests_name("generation", tests, setup, teardown);
}
