// SPDX-License-Identifier: Apache-2.0
/* Answers of a real model under a constraint: whole texts, the same bits with drafts and without, an end in time. */
#undef NDEBUG
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/constraint/constraint_spec.h"
#include "engine/generation.h"
#include "test/unit/fixtures/real_model.h"

static const SpecLab always = { .always = true };

static const char person[] = "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, \"age\": "
                             "{\"type\": \"integer\", \"minimum\": 0, \"maximum\": 150}, \"hobbies\": {\"type\": "
                             "\"array\", \"items\": {\"type\": \"string\"}, \"minItems\": 2, \"maxItems\": 4}}, "
                             "\"required\": [\"name\", \"age\", \"hobbies\"], \"additionalProperties\": false}";

static RealModel model;

static int setup(void **state) {
    real_model_open(&model, ENGINE_DEVICE_CPU, ISA_BEST, 2, 32);
    return 0;
}

static int teardown(void **state) {
    real_model_close(&model);
    return 0;
}

/* Makes a constraint, which the caller frees. */
static Constraint *constraint_of(ConstraintForm form, const char *text, bool is_compact) {
    const ConstraintSpec spec = { .form = form, .text = text, .n_bytes = strlen(text), .is_compact = is_compact };
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    Constraint *constraint = NULL;
    ErrText err = { 0 };

    if (constraint_spec_compile(&spec, &GRAMMAR_LIMITS_DEFAULT, &grammar, &err) ||
        constraint_spec_build(&spec, grammar, model.engine, &constraint, &err))
        fail_msg("%s", err.text);
    return constraint;
}

typedef struct Answer {
    StrBuf text;
    uint32_t tokens[512];
    size_t n;
    GenerationEnd end;
    GenerationUsage usage;
} Answer;

static void take(void *arg, const GenerationDelta *delta) {
    Answer *answer = arg;

    str_buf_append(&answer->text, delta->text, delta->len_bytes);
    for (size_t i = 0; i < delta->n_tokens; i++)
        answer->tokens[answer->n++] = delta->tokens[i];
}

static Generation *begin(const char *question, const GenerationOptions *options, int expected) {
    ChatMessage message = { .role = CHAT_ROLE_USER, .text = question, .len_bytes = strlen(question) };
    _cleanup_(token_list_deinit) TokenList prompt = { 0 };
    Generation *generation = NULL;
    ErrText err = { 0 };

    assert_int_equal(
        engine_encode_chat(model.engine, &(ChatInput){ .messages = &message, .n_messages = 1 }, &prompt, &err), 0);
    assert_int_equal(generation_new(&generation, model.engine, prompt.ids, prompt.n, options, &err), expected);
    return generation;
}

static void end(Generation *generation, Answer *answer) {
    answer->end = generation_end(generation);
    answer->usage = *generation_usage(generation);
    str_buf_append(&answer->text, "", 1);
    generation_free(generation);
}

static void run(const char *question, const GenerationOptions *options, Answer *answer) {
    Generation *generation = begin(question, options, 0);

    *answer = (Answer){ 0 };
    while (generation_end(generation) == GENERATION_RUNNING)
        assert_int_equal(generation_step(generation, take, answer, NULL), 0);
    end(generation, answer);
}

/* Checks that a text is what `person` describes. */
static void check_person(const char *text) {
    json_error_t error;
    json_t *value = json_loads(text, 0, &error), *hobbies = json_object_get(value, "hobbies");

    if (!value)
        fail_msg("no JSON: %s", text);
    assert_int_equal(json_object_size(value), 3);
    assert_true(json_is_string(json_object_get(value, "name")));
    assert_true(json_is_integer(json_object_get(value, "age")));
    assert_in_range(json_integer_value(json_object_get(value, "age")), 0, 150);
    assert_in_range(json_array_size(hobbies), 2, 4);
    for (size_t i = 0; i < json_array_size(hobbies); i++)
        assert_true(json_is_string(json_array_get(hobbies, i)));
    json_decref(value);
}

static const char question[] = "Describe a person as JSON with name, age and hobbies.";

static GenerationOptions options_of(Constraint *constraint, float temperature, uint32_t top_k, float top_p) {
    GenerationOptions options = { .max_tokens = 200,
                                  .is_answer = true,
                                  .no_reuse = true,
                                  .sampler = SAMPLER_OPTIONS_GREEDY,
                                  .constraint = { .it = constraint } };

    options.sampler.temperature = temperature;
    options.sampler.top_k = top_k;
    options.sampler.top_p = top_p;
    options.sampler.seed = 7;
    return options;
}

static void test_constraint_greedy_and_sampled(void **state) {
    static const struct {
        float temperature;
        uint32_t top_k;
        float top_p;
    } ways[] = { { 0, 0, 1 }, { 0.8f, 40, 0.95f }, { 1.5f, 0, 0.9f }, { 2, 300, 1 }, { 1, 0, 1 } };
    _cleanup_(constraint_unrefp) Constraint *constraint = constraint_of(CONSTRAINT_FORM_JSON_SCHEMA, person, false);

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        GenerationOptions options = options_of(constraint, ways[i].temperature, ways[i].top_k, ways[i].top_p);
        Answer plain, drafted;

        run(question, &options, &plain);
        if (plain.end != GENERATION_END_TOKEN)
            fail_msg("way %zu: %s: %s", i, generation_end_name(plain.end), plain.text.data);
        check_person(plain.text.data);
        options.speculation = (GenerationSpeculation){ .sources = SPECULATION_AUTO, .lab = &always };
        run(question, &options, &drafted);
        assert_int_equal(drafted.n, plain.n);
        assert_memory_equal(drafted.tokens, plain.tokens, plain.n * sizeof(*plain.tokens));
        assert_string_equal(drafted.text.data, plain.text.data);
        assert_int_equal(drafted.end, plain.end);
        assert_int_equal(drafted.usage.ended_in_time, plain.usage.ended_in_time);
        print_message("%zu: %s\n", i, plain.text.data);
        str_buf_deinit(&plain.text);
        str_buf_deinit(&drafted.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constraint_greedy_and_sampled),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
