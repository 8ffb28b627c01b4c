// SPDX-License-Identifier: Apache-2.0
/* Answers under a constraint: whole texts, the same bits with drafts, in company and preempted, an end in time. On a
 * small model, and JSON on the real one. */
#undef NDEBUG
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/constraint/constraint_spec.h"
#include "engine/generation_state.h"
#include "test/unit/fixtures/drafted_run.h"
#include "test/unit/fixtures/real_model.h"
#include "test/unit/fixtures/tiny_engine.h"

enum {
    N_PROMPT = 50,
    LONG = 48, /* tokens of output */
};

static const SpecLab always = { .always = true };

static TinyEngine tiny;

static int setup_tiny(void **state) {
    tiny = (TinyEngine){ .preempts = true };
    tiny_engine_open(&tiny, ENGINE_DEVICE_CPU, 32);
    return 0;
}

static int teardown_tiny(void **state) {
    tiny_engine_close(&tiny); /* nothing is left in any account */
    return 0;
}

/* Makes a constraint, which the caller frees. */
static Constraint *constraint_of(Engine *engine, ConstraintForm form, const char *text, bool is_compact) {
    const ConstraintSpec spec = { .form = form, .text = text, .n_bytes = strlen(text), .is_compact = is_compact };
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    Constraint *constraint = NULL;
    ErrText err = { 0 };

    if (constraint_spec_compile(&spec, &CONSTRAINT_LIMITS, &grammar, &err) ||
        constraint_spec_build(&spec, grammar, engine, &constraint, &err))
        fail_msg("%s", err.text);
    return constraint;
}

/* Texts of the small model's tokens: letters, "cd", "t28" and so on; "b" ends its answers. */
static const char words[] = "(t[23][0-9]|[c-n]{2,4}(x|y|z))*(q|cdcd){3}w(t3[0-9]|cd|[e-z]){1,9}";

static GenerationOptions options_of(Given *given, Constraint *constraint, uint32_t n, bool sampled, bool drafts) {
    const GenerationSpeculation speculation = { .sources = drafts ? SPECULATION_AUTO : 0, .lab = &always };
    GenerationOptions options = given_options(given, tiny.engine, n, sampled, &speculation);

    options.ignore_end = false;
    options.constraint.it = constraint;
    return options;
}

/* Returns the text of an answer; the caller frees it. */
static char *text_of(const Given *given) {
    StrBuf text = STR_BUF_NULL;

    for (size_t i = 0; i < given->n; i++)
        assert_int_equal(tokenizer_piece(engine_tokenizer(tiny.engine), given->ids[i], true, &text), 0);
    str_buf_add(&text, "");
    return str_buf_steal(&text);
}

/* Whether a text is whole; begun: what stands before the tokens, or NULL. */
static bool fits_behind(const Constraint *constraint, const char *begun, const Given *given) {
    _cleanup_(constraint_run_freep) ConstraintRun *run = NULL;
    ConstraintState at;
    size_t n_taken;

    assert_int_equal(constraint_run_new(&run, (Constraint *)(uintptr_t)constraint), 0);
    at = constraint_run_start(run);
    if (begun && constraint_run_start_behind(run, 0, begun, strlen(begun), &at, &n_taken))
        return false;
    for (size_t i = 0; i < given->n; i++) {
        constraint_run_refuel(run, 10);
        if (constraint_run_advance(run, at, given->ids[i], &at))
            return false;
    }
    return constraint_run_is_end_allowed(run, at);
}

static bool fits(const Constraint *constraint, const Given *given) {
    return fits_behind(constraint, NULL, given);
}

static void test_drafts_change_nothing(void **state) {
    _cleanup_(constraint_unrefp) Constraint *constraint =
        constraint_of(tiny.engine, CONSTRAINT_FORM_REGEX, words, false);

    for (int sampled = 0; sampled < 2; sampled++)
        for (uint32_t n = 12; n <= LONG; n += 12) {
            GenerationOptions options;
            Given plain, drafted;

            options = options_of(&plain, constraint, n, sampled, false);
            given_run(&plain, given_begin(tiny.engine, N_PROMPT, &options));
            assert_true(fits(constraint, &plain));
            options = options_of(&drafted, constraint, n, sampled, true);
            given_run(&drafted, given_begin(tiny.engine, N_PROMPT, &options));
            given_check_same(&drafted, &plain);
            assert_int_equal(drafted.usage.ended_in_time, plain.usage.ended_in_time);
        }
}

/* The answer is whole whatever room it has; less than the least is refused. */
static void test_ends_in_time(void **state) {
    _cleanup_(constraint_unrefp) Constraint *constraint =
        constraint_of(tiny.engine, CONSTRAINT_FORM_REGEX, words, false);
    const uint32_t least = constraint_least_tokens(constraint, 0);
    size_t n_hurried = 0;
    GenerationOptions options;
    Generation *generation = NULL;
    uint32_t prompt[N_PROMPT];
    ErrText err;
    Given given;

    assert_int_equal(least, 5);
    for (uint32_t n = least; n < least + 14; n++)
        for (int sampled = 0; sampled < 2; sampled++) {
            options = options_of(&given, constraint, n, sampled, false);
            given_run(&given, given_begin(tiny.engine, N_PROMPT, &options));
            if (!fits(constraint, &given))
                fail_msg("%u tokens: %s", n, text_of(&given));
            assert_true(given.n <= n);
            if (given.usage.ended_in_time)
                assert_int_equal(given.end, GENERATION_END_TOKEN);
            n_hurried += given.usage.ended_in_time;
        }
    assert_true(n_hurried > 10);
    given_prompt(prompt, N_PROMPT, TINY_VOCAB);
    options.max_tokens = least - 1;
    assert_int_equal(generation_new(&generation, tiny.engine, prompt, N_PROMPT, &options, &err), GENERATION_E_SHORT);
    assert_non_null(strstr(err.text, "takes 5"));
    options.max_tokens = 0;
    options.context_tokens = N_PROMPT + least - 1;
    assert_int_equal(generation_new(&generation, tiny.engine, prompt, N_PROMPT, &options, &err), GENERATION_E_TOO_LONG);
    options.context_tokens = 0;
    options.max_tokens = 4;
    options.constraint.may_be_cut = true;
    given = (Given){ .n_vocab = TINY_VOCAB };
    given_run(&given, given_begin(tiny.engine, N_PROMPT, &options));
    assert_int_equal(given.end, GENERATION_END_MAX);
    assert_false(given.usage.ended_in_time || fits(constraint, &given));
    options.ignore_end = true;
    assert_int_equal(generation_new(&generation, tiny.engine, prompt, N_PROMPT, &options, &err), GENERATION_E_OPTIONS);
}

/* The constraint holds for the text with which an answer has begun and for what follows, with drafts and without. */
static void test_a_beginning(void **state) {
    static const char *const texts[] = { "qqqw", "t28cdcdqq", "cd" };
    _cleanup_(constraint_unrefp) Constraint *constraint =
        constraint_of(tiny.engine, CONSTRAINT_FORM_REGEX, words, false);

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        for (int sampled = 0; sampled < 2; sampled++) {
            Given plain, drafted;
            GenerationOptions options = options_of(&plain, constraint, 20, sampled, false);

            options.constraint.prefix = texts[i];
            options.constraint.prefix_bytes = strlen(texts[i]);
            given_run(&plain, given_begin(tiny.engine, N_PROMPT, &options));
            if (!fits_behind(constraint, texts[i], &plain))
                fail_msg("%s: %s", texts[i], text_of(&plain));
            assert_false(i < 2 && fits(constraint, &plain));
            options = options_of(&drafted, constraint, 20, sampled, true);
            options.constraint.prefix = texts[i];
            options.constraint.prefix_bytes = strlen(texts[i]);
            given_run(&drafted, given_begin(tiny.engine, N_PROMPT, &options));
            given_check_same(&drafted, &plain);
        }
}

/* A beginning that the constraint refuses, or that leaves no way to an end, is told before anything is computed. */
static void test_a_beginning_refused(void **state) {
    static const struct {
        const char *begun;
        uint32_t max_tokens;
        int r;
        const char *text;
    } cases[] = {
        { "qqw", 20, GENERATION_E_PREFIX, "allows 2 of the 3 bytes" },
        { "qqqwt3", 20, GENERATION_E_PREFIX, "cannot write an end" }, /* no token is a digit */
        { "qq", 2, GENERATION_E_SHORT, "takes 3" },
        { "qq", 3, 0, "" },
    };
    _cleanup_(constraint_unrefp) Constraint *constraint =
        constraint_of(tiny.engine, CONSTRAINT_FORM_REGEX, words, false);
    uint32_t prompt[N_PROMPT];

    given_prompt(prompt, N_PROMPT, TINY_VOCAB);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(generation_freep) Generation *generation = NULL;
        Given given;
        GenerationOptions options = options_of(&given, constraint, cases[i].max_tokens, false, false);
        ErrText err = { 0 };

        options.constraint.prefix = cases[i].begun;
        options.constraint.prefix_bytes = strlen(cases[i].begun);
        assert_int_equal(generation_new(&generation, tiny.engine, prompt, N_PROMPT, &options, &err), cases[i].r);
        if (!strstr(err.text, cases[i].text))
            fail_msg("%s: %s", cases[i].begun, err.text);
    }
}

/* The vocabulary has no digits alone. Behind "t" no token goes on with "t2d": an answer that ends in time avoids such
 * texts, another one ends with an error of its own. */
static void test_a_dead_end(void **state) {
    _cleanup_(constraint_unrefp) Constraint *constraint =
        constraint_of(tiny.engine, CONSTRAINT_FORM_REGEX, "(c|t2d)x", false);
    const SamplerBias lured = { 't' - 'a', 1000 };

    for (int sampled = 0; sampled < 2; sampled++) {
        _cleanup_(generation_freep) Generation *generation = NULL;
        _cleanup_(freep) char *text = NULL;
        uint32_t prompt[N_PROMPT];
        ErrText err;
        Given given;
        GenerationOptions options = options_of(&given, constraint, 8, sampled, false);
        int r = 0;

        options.sampler.biases = &lured;
        options.sampler.n_biases = 1;
        given_run(&given, given_begin(tiny.engine, N_PROMPT, &options));
        text = text_of(&given);
        assert_string_equal(text, "cx");
        options.constraint.may_be_cut = true;
        given_prompt(prompt, N_PROMPT, TINY_VOCAB);
        assert_int_equal(generation_new(&generation, tiny.engine, prompt, N_PROMPT, &options, &err), 0);
        while (!r && generation_end(generation) == GENERATION_RUNNING)
            r = generation_step(generation, NULL, NULL, &err);
        assert_int_equal(r, GENERATION_E_DEAD_END);
        assert_int_equal(generation_usage(generation)->n_output_tokens, 1);
    }
}

/* Two answers with constraints and one without share steps, of which each makes way at every operator. */
static void test_company_and_preemption(void **state) {
    _cleanup_(constraint_unrefp) Constraint *one = constraint_of(tiny.engine, CONSTRAINT_FORM_REGEX, words, false);
    _cleanup_(constraint_unrefp) Constraint *two =
        constraint_of(tiny.engine, CONSTRAINT_FORM_GBNF, "root ::= (\"cd\" | [m-p] root [m-p])", false);
    Constraint *const constraints[] = { one, two, NULL, one };
    const _Atomic bool wanted = true;
    const EngineYield yield = { .wanted = &wanted };
    GenerationTurn turns[ARRAY_LEN(constraints)];
    Given alone[ARRAY_LEN(constraints)], shared[ARRAY_LEN(constraints)];
    bool goes_on = true;

    for (size_t i = 0; i < ARRAY_LEN(constraints); i++) {
        GenerationOptions options = options_of(&alone[i], constraints[i], 20 + (uint32_t)i, i % 2, false);

        given_run(&alone[i], given_begin(tiny.engine, N_PROMPT - i, &options));
        options = options_of(&shared[i], constraints[i], 20 + (uint32_t)i, i % 2, i > 0);
        turns[i] = (GenerationTurn){ .generation = given_begin(tiny.engine, N_PROMPT - i, &options),
                                     .fn = given_take,
                                     .arg = &shared[i],
                                     .standing = { PRIORITY_NORMAL, PRIORITY_NORMAL } };
    }
    while (goes_on) {
        GenerationStep step;
        ErrText err;
        int r = generation_step_begin(&step, turns, ARRAY_LEN(turns), 0, &err);

        while (!r && (r = generation_step_run(&step, &yield, &err)) == GENERATION_E_YIELDED)
            r = 0;
        assert_int_equal(r, 0);
        goes_on = false;
        for (size_t i = 0; i < ARRAY_LEN(turns); i++) {
            assert_int_equal(turns[i].r, 0);
            goes_on = goes_on || generation_end(turns[i].generation) == GENERATION_RUNNING;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(turns); i++) {
        given_end(&shared[i], turns[i].generation);
        assert_int_equal(shared[i].n, alone[i].n);
        assert_memory_equal(shared[i].ids, alone[i].ids, alone[i].n * sizeof(*alone[i].ids));
        assert_int_equal(shared[i].logits, alone[i].logits);
        assert_int_equal(shared[i].end, alone[i].end);
        assert_true(!constraints[i] || fits(constraints[i], &shared[i]));
    }
}

/* Every way of sampling gives a text that fits, with penalties too. */
static void test_ways_of_sampling(void **state) {
    _cleanup_(constraint_unrefp) Constraint *constraint =
        constraint_of(tiny.engine, CONSTRAINT_FORM_REGEX, words, false);
    const SamplerBias never[] = { { 'w' - 'a', -INFINITY }, { 'q' - 'a', -1000 } };
    SamplerOptions ways[] = {
        { .temperature = 1, .top_p = 1, .repetition_penalty = 1 },
        { .temperature = 3, .top_k = 3, .top_p = 1, .repetition_penalty = 1 },
        { .temperature = 1, .top_k = 39, .top_p = 0.9F, .repetition_penalty = 1 },
        { .temperature = 0, .top_p = 1, .repetition_penalty = 1.7F, .repetition_window = 16 },
        { .temperature = 0, .top_p = 1, .repetition_penalty = 1, .biases = never, .n_biases = 2 },
        { .temperature = 1e-40F, .top_p = 1, .min_p = 0.1F, .repetition_penalty = 1 },
        { .temperature = 1, .top_p = 0.5F, .repetition_penalty = 1, .presence_penalty = 3, .typical_p = 0.5F },
        { .temperature = 2, .top_p = 1, .repetition_penalty = 1, .xtc_probability = 1, .xtc_threshold = 0.02F },
    };

    for (size_t i = 0; i < ARRAY_LEN(ways); i++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            GenerationOptions options;
            Given given;

            options = options_of(&given, constraint, 24, false, false);
            options.sampler = ways[i];
            options.sampler.seed = seed;
            given_run(&given, given_begin(tiny.engine, N_PROMPT, &options));
            if (!fits(constraint, &given))
                fail_msg("way %zu, seed %u: %s", i, (unsigned int)seed, text_of(&given));
        }
}

/* What candidates say one by one is what the mask says: the sampled token does not depend on the way. */
typedef struct Fixed {
    uint64_t mask[8];
    size_t n_tests, n_masks;
    bool tests_nothing; /* as if all candidates but the mask's were refused */
} Fixed;

static int fixed_test(void *arg, uint32_t token) {
    Fixed *fixed = arg;

    fixed->n_tests++;
    return fixed->tests_nothing || !(fixed->mask[token / 64] >> (token % 64) & 1) ? SAMPLER_FILTER_REFUSED : 0;
}

static int fixed_mask(void *arg, const uint64_t **maskp) {
    Fixed *fixed = arg;

    fixed->n_masks++;
    *maskp = fixed->mask;
    return 0;
}

static void test_the_way_changes_nothing(void **state) {
    enum {
        N = 500
    };
    static float logits[N];
    static SamplerCandidate scratch[N];
    size_t n_lazy = 0;
    uint32_t x = 3;

    for (uint32_t round = 0; round < 600; round++) {
        const SamplerOptions options = { .temperature = round % 3 ? 0.3F + (float)(round % 5) : 0,
                                         .top_k = round % 2 ? 1 + round % 60 : 0,
                                         .top_p = round % 4 ? 0.9F : 1,
                                         .repetition_penalty = 1,
                                         .seed = round };
        Fixed tested = { 0 }, masked = { .tests_nothing = true };
        const SamplerFilter lazy = { fixed_test, fixed_mask, &tested }, whole = { fixed_test, fixed_mask, &masked };
        const SamplerRow row = { &options, logits, N, NULL, 0, round, scratch };
        uint32_t a, b;

        for (size_t i = 0; i < N; i++) {
            x = x * 1664525u + 1013904223u;
            logits[i] = (float)(x >> 24) * 0.05F; /* many are equal */
            if (x >> 8 & (round % 7 ? 1 : 63))
                continue;
            tested.mask[i / 64] |= UINT64_C(1) << (i % 64);
        }
        tested.mask[round % N / 64] |= UINT64_C(1) << (round % N % 64);
        memcpy(masked.mask, tested.mask, sizeof(tested.mask));
        assert_int_equal(sampler_pick_allowed(&row, &lazy, &a), 0);
        assert_int_equal(sampler_pick_allowed(&row, &whole, &b), 0);
        assert_int_equal(a, b);
        assert_true(tested.mask[a / 64] >> (a % 64) & 1);
        n_lazy += !tested.n_masks;
        assert_int_equal(masked.n_masks, 1);
    }
    assert_true(n_lazy > 100);
}

/* --- the real model ----------------------------------------------------------------------------------------------- */

static const char person[] =
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 12}, "
    "\"age\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 150}, \"likes\": {\"enum\": "
    "[\"tea\", \"coffee\"]}}, \"required\": [\"name\", \"age\", \"likes\"], "
    "\"additionalProperties\": false}";

static void take_text(void *arg, const GenerationDelta *delta) {
    str_buf_append(arg, delta->text, delta->len_bytes);
}

static void test_json_of_a_real_model(void **state) {
    static const char question[] = "Describe a person as JSON.";
    const ChatMessage message = { .role = CHAT_ROLE_USER, .text = question, .len_bytes = strlen(question) };
    _cleanup_(token_list_deinit) TokenList prompt = { 0 };
    Constraint *constraint;
    RealModel model;
    ErrText err;

    real_model_open(&model, ENGINE_DEVICE_CPU, ISA_BEST, 2, 32);
    constraint = constraint_of(model.engine, CONSTRAINT_FORM_JSON_SCHEMA, person, true);
    assert_int_equal(
        engine_encode_chat(model.engine, &(ChatInput){ .messages = &message, .n_messages = 1 }, &prompt, &err), 0);
    for (int way = 0; way < 3; way++) {
        GenerationOptions options = { .is_answer = true,
                                      .no_reuse = true,
                                      .max_tokens = way == 2 ? constraint_least_tokens(constraint, 0) : 0,
                                      .sampler = SAMPLER_OPTIONS_GREEDY,
                                      .constraint.it = constraint };
        _cleanup_(generation_freep) Generation *generation = NULL;
        _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
        json_t *value;

        options.sampler.temperature = way == 1 ? 1.2F : 0;
        options.sampler.seed = 5;
        assert_int_equal(generation_new(&generation, model.engine, prompt.ids, prompt.n, &options, &err), 0);
        while (generation_end(generation) == GENERATION_RUNNING)
            assert_int_equal(generation_step(generation, take_text, &text, &err), 0);
        str_buf_add(&text, "");
        assert_int_equal(generation_end(generation), GENERATION_END_TOKEN);
        value = json_loads(text.data, 0, NULL);
        if (json_object_size(value) != 3)
            fail_msg("%s", text.data);
        assert_null(strpbrk(text.data, "\n"));
        assert_in_range(json_integer_value(json_object_get(value, "age")), 0, 150);
        assert_non_null(strstr("tea coffee", json_string_value(json_object_get(value, "likes"))));
        json_decref(value);
    }
    constraint_unref(constraint);
    real_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafts_change_nothing),
        cmocka_unit_test(test_ends_in_time),
        cmocka_unit_test(test_a_beginning),
        cmocka_unit_test(test_a_beginning_refused),
        cmocka_unit_test(test_a_dead_end),
        cmocka_unit_test(test_company_and_preemption),
        cmocka_unit_test(test_ways_of_sampling),
        cmocka_unit_test(test_the_way_changes_nothing),
    };
    const struct CMUnitTest real_tests[] = { cmocka_unit_test(test_json_of_a_real_model) };

    return cmocka_run_group_tests_name("small", tests, setup_tiny, teardown_tiny) +
           cmocka_run_group_tests_name("real", real_tests, NULL, NULL);
}
