// SPDX-License-Identifier: Apache-2.0
/* Generations with a draft model, under every policy, have the tokens and logits of plain decoding, alone and together.
 * The model reads the prompt as it is computed; a kept prompt is read a chunk a step. Its work is counted. A model that
 * fails, is too slow or has no memory is off, and a cancelled generation asks it no more. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/engine_state.h"
#include "engine/generation.h"
#include "test/unit/fixtures/drafted_run.h"
#include "test/unit/fixtures/tiny_engine.h"
#include "test/unit/fixtures/policies.h"

enum {
    CHUNK = 16,
    N_PROMPT = 150,
    OUTPUT = 60,
    ROWS_MAX = 200
};

/* A draft model that has seen an answer, and is wrong in `wrong` of ten places. */
typedef struct Parrot {
    DraftModelOps ops;
    const uint32_t *answer;
    uint32_t wrong;
    float pass_ms;
    uint32_t fails_at; /* the pass that fails, from 1; 0: none */
    size_t n_text;
    uint32_t n_rows, depths[ROWS_MAX];
    uint32_t n_follows, n_passes, n_computed;
    size_t most_read;    /* most tokens of the prompt at a time */
    Generation *cancels; /* cancels in its third pass */
} Parrot;

static TinyEngine tiny;

static int setup(void **state) {
    tiny_engine_open(&tiny, ENGINE_DEVICE_CPU, CHUNK);
    return 0;
}

static int teardown(void **state) {
    tiny_engine_close(&tiny);
    return 0;
}

static int parrot_follow(void *self, const uint32_t *text, size_t n) {
    Parrot *parrot = self;
    uint32_t prompt[N_PROMPT];

    given_prompt(prompt, N_PROMPT, TINY_VOCAB);
    assert_true(n >= parrot->n_text && n <= N_PROMPT + OUTPUT);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(text[i], i < N_PROMPT ? prompt[i] : parrot->answer[i - N_PROMPT]);
    if (parrot->n_text < N_PROMPT && n - parrot->n_text > parrot->most_read)
        parrot->most_read = n - parrot->n_text;
    parrot->n_text = n;
    parrot->n_rows = 0;
    parrot->n_follows++;
    return 0;
}

static int parrot_expand(void *self, const DraftModelRow *rows, size_t n, DraftModelTops *tops) {
    Parrot *parrot = self;

    assert_true(parrot->n_rows + n <= ROWS_MAX && parrot->n_text >= N_PROMPT);
    if (++parrot->n_passes == parrot->fails_at)
        return -EIO;
    if (parrot->cancels && parrot->n_passes == 3)
        generation_cancel(parrot->cancels);
    for (size_t i = 0; i < n; i++) {
        const uint32_t row = parrot->n_rows++, depth = row ? parrot->depths[rows[i].parent] + 1 : 0;
        const size_t at = parrot->n_text - N_PROMPT + depth;
        uint32_t first = at < OUTPUT ? parrot->answer[at] : 0;

        parrot->depths[row] = depth;
        first += at * 7 % 10 < parrot->wrong;
        tops[i].n = DRAFT_CHOICES_MAX;
        for (uint32_t k = 0; k < DRAFT_CHOICES_MAX; k++)
            tops[i].tops[k] = (ContextTop){ (first + k * 3) % TINY_VOCAB, 0.8F / (float)(1 << (3 * k)) };
    }
    parrot->n_computed += (uint32_t)n;
    return 0;
}

static float parrot_cost_ms(const void *self, uint32_t n_rows) {
    const Parrot *parrot = self;

    return parrot->pass_ms * (1 + (float)n_rows / 100);
}

static DraftModel parrot_model(Parrot *parrot, const uint32_t *answer, uint32_t wrong) {
    *parrot = (Parrot){ .ops = { parrot_follow, parrot_expand, parrot_cost_ms, ROWS_MAX, false },
                        .answer = answer,
                        .wrong = wrong,
                        .pass_ms = 1e-6F };
    return (DraftModel){ &parrot->ops, parrot };
}

static void run(bool sampled, const GenerationSpeculation *speculation, Given *given) {
    const GenerationOptions options = given_options(given, tiny.engine, OUTPUT, sampled, speculation);

    given_run(given, given_begin(tiny.engine, N_PROMPT, &options));
}

/* The lab is the policy's own: of the last generation that was begun with it, and of those that are alike. */
static GenerationSpeculation speculation_of(int policy, bool always) {
    static SpecLab labs[_POLICY_N + 1][2];
    SpecLab *lab = &labs[policy + 1][always];

    *lab = (SpecLab){ .policy = policy_ops(policy), .always = always };
    return (GenerationSpeculation){ .sources = policy_sources(policy), .lab = lab };
}

static void test_drafts_model_policies(void **state) {
    for (int sampled = 0; sampled < 2; sampled++) {
        const GenerationSpeculation none = { 0 };
        Given plain;

        run(sampled, &none, &plain);
        assert_int_equal(plain.n, OUTPUT);
        for (int policy = OURS; policy < _POLICY_N; policy++)
            for (uint32_t wrong = 0; wrong <= 10; wrong += 5) {
                GenerationSpeculation speculation = speculation_of(policy, true);
                Parrot parrot;
                Given given;

                speculation.model = parrot_model(&parrot, plain.ids, wrong);
                run(sampled, &speculation, &given);
                given_check_same(&given, &plain);
                assert_int_equal(given.report.n_model_passes, parrot.n_passes);
                assert_int_equal(given.report.n_model_rows, parrot.n_computed);
                assert_true(given.report.model_ns > 0);
                assert_true(parrot.n_passes > 0);
                assert_true(given.report.drafted[SPECULATION_MODEL] > 0);
                if (policy == POLICY_CHAIN_SD) /* a rule of its own */
                    assert_true(parrot.n_passes == parrot.n_computed && parrot.n_passes <= 8 * given.usage.n_steps);
                if (!wrong) {
                    assert_true(given.usage.n_steps < OUTPUT / 4);
                    assert_true(given.report.accepted[SPECULATION_MODEL] > OUTPUT / 2);
                    assert_int_equal(parrot.n_follows, (N_PROMPT + CHUNK - 1) / CHUNK + given.usage.n_steps);
                }
            }
    }
}

static void test_drafts_model_together(void **state) {
    enum {
        MOST = 7
    };
    const GenerationSpeculation none = { 0 };
    Generation *generations[MOST];
    Parrot parrots[MOST];
    Given given[MOST], plain;
    bool running = true;

    run(false, &none, &plain);
    for (size_t i = 0; i < MOST; i++) {
        GenerationSpeculation speculation = speculation_of((int)(i % (_POLICY_N + 1)) - 1, true);
        GenerationOptions options;

        speculation.model = parrot_model(&parrots[i], plain.ids, (uint32_t)i);
        options = given_options(&given[i], tiny.engine, OUTPUT, false, &speculation);
        generations[i] = given_begin(tiny.engine, N_PROMPT, &options);
    }
    while (running) {
        GenerationTurn turns[MOST];

        running = false;
        for (size_t i = 0; i < MOST; i++)
            turns[i] = (GenerationTurn){ .generation = generations[i], .fn = given_take, .arg = &given[i] };
        assert_int_equal(generation_step_together(turns, MOST, NULL), 0);
        for (size_t i = 0; i < MOST; i++)
            running = running || generation_end(generations[i]) == GENERATION_RUNNING;
    }
    for (size_t i = 0; i < MOST; i++) {
        given_end(&given[i], generations[i]);
        given_check_same(&given[i], &plain);
        assert_int_equal(given[i].report.n_model_passes, parrots[i].n_passes);
    }
}

/* Pretends that an earlier generation measured rows to take next to nothing: the first step may have drafts then,
 * whatever the durations on this machine. */
static void know_times(void) {
    SpeculationControl *times = &tiny.engine->speculation.times;

    speculation_control_init(times, NULL);
    for (uint32_t i = 0; i < 64; i++)
        speculation_control_took(times, 1 + i % 16, (StepCompany){ 0, 0 }, 1 + i % 16, 100 + (float)(i % 16) / 10, 0);
}

/* Under the control the model is asked if it takes next to nothing, and never if a pass takes more than a step may
 * lose. */
static void test_drafts_model_controlled(void **state) {
    const GenerationSpeculation none = { 0 };
    Given plain, given;
    Parrot parrot;

    run(false, &none, &plain);
    for (int policy = OURS; policy < _POLICY_N; policy++)
        for (int dear = 0; dear < 2; dear++) {
            GenerationSpeculation speculation = speculation_of(policy, false);

            speculation.model = parrot_model(&parrot, plain.ids, 0);
            parrot.pass_ms = dear ? 1e6F : 1e-6F;
            know_times();
            run(false, &speculation, &given);
            given_check_same(&given, &plain);
            assert_true(prompt_rule_learns(given.report.model));
            assert_true(parrot.n_follows >= (N_PROMPT + CHUNK - 1) / CHUNK);
            assert_int_equal(parrot.n_passes > 0, !dear);
        }
    run(false, &(GenerationSpeculation){ .sources = 1u << SPECULATION_MODEL }, &given); /* no draft model */
    given_check_same(&given, &plain);
    assert_int_equal(given.report.sources, 0);
    assert_int_equal(given.report.model.reason, PROMPT_RULE_NO_SOURCE);
}

/* Counts rows of the first step that decodes. */
static uint64_t first_rows(const GenerationSpeculation *speculation, Given *given) {
    const GenerationOptions options = given_options(given, tiny.engine, OUTPUT, false, speculation);
    Generation *generation = given_begin(tiny.engine, N_PROMPT, &options);

    do
        assert_int_equal(generation_step(generation, given_take, given, NULL), 0);
    while (!generation_usage(generation)->n_steps);
    given_end(given, generation);
    return given->report.n_rows;
}

/* Without bounds drafts that pay are tried at once, by guessed durations; without known durations there are none. */
static void test_drafts_model_no_bounds(void **state) {
    static const int policies[] = { POLICY_LEVER, OURS };
    const GenerationSpeculation none = { 0 };
    SpeculationControl *times = &tiny.engine->speculation.times;
    Given plain, given;
    Parrot parrot;

    run(false, &none, &plain);
    for (size_t i = 0; i < 2; i++)
        for (int no_bounds = 0; no_bounds < 2; no_bounds++)
            for (uint32_t n_known = 0; n_known < 4; n_known += 3) {
                const SpecLab lab = { .policy = policy_ops(policies[i]), .no_bounds = no_bounds };
                GenerationSpeculation speculation = { .sources = policy_sources(policies[i]), .lab = &lab };
                uint64_t rows;

                speculation.model = parrot_model(&parrot, plain.ids, 0);
                speculation_control_init(times, NULL);
                for (uint32_t j = 0; j < n_known; j++)
                    speculation_control_took(times, 1, (StepCompany){ 0, 0 }, 1, 100, 0);
                rows = first_rows(&speculation, &given);
                if (!n_known)
                    assert_int_equal(rows, 1);
                else if (no_bounds)
                    assert_true(rows > 4);
                else
                    assert_int_equal(rows, 2);
                assert_true(prompt_rule_learns(given.report.model));
            }
    for (size_t i = 0; i < 2; i++) {
        const SpecLab lab = { .policy = policy_ops(policies[i]), .no_bounds = true };
        GenerationSpeculation speculation = { .sources = policy_sources(policies[i]), .lab = &lab };

        speculation.model = parrot_model(&parrot, plain.ids, 5);
        run(false, &speculation, &given);
        given_check_same(&given, &plain);
    }
}

static void test_drafts_model_fails(void **state) {
    AccountTable *accounts = engine_accounts(tiny.engine);
    const uint64_t limit = accounts->limit_bytes[ACCOUNT_DRAFTDB];
    const GenerationSpeculation none = { 0 };
    Given plain, given;
    Parrot parrot;
    uint64_t used;

    run(false, &none, &plain);
    for (int policy = OURS; policy < _POLICY_N; policy++) {
        GenerationSpeculation speculation = speculation_of(policy, true);

        speculation.model = parrot_model(&parrot, plain.ids, 5);
        parrot.fails_at = 4;
        run(false, &speculation, &given);
        given_check_same(&given, &plain);
        assert_int_equal(parrot.n_passes, 4);
        assert_false(given.report.sources >> SPECULATION_MODEL & 1);
        used = accounts->used_bytes[ACCOUNT_DRAFTDB]; /* forgets what is known of users */
        speculation.model = parrot_model(&parrot, plain.ids, 5);
        accounts->limit_bytes[ACCOUNT_DRAFTDB] = 0;
        run(false, &speculation, &given);
        accounts->limit_bytes[ACCOUNT_DRAFTDB] = limit;
        given_check_same(&given, &plain);
        assert_int_equal(parrot.n_passes, 0);
        assert_int_equal(accounts->used_bytes[ACCOUNT_DRAFTDB], used);
    }
}

/* A cancel in the midst of the model's passes: the next pass is not made, and the step is the last. */
static void test_drafts_model_cancel(void **state) {
    const GenerationSpeculation none = { 0 };
    Given plain, given;

    run(false, &none, &plain);
    for (int policy = OURS; policy < _POLICY_N; policy++) {
        GenerationSpeculation speculation = speculation_of(policy, true);
        GenerationOptions options;
        Generation *generation;
        Parrot parrot;

        speculation.model = parrot_model(&parrot, plain.ids, 0);
        options = given_options(&given, tiny.engine, OUTPUT, false, &speculation);
        generation = parrot.cancels = given_begin(tiny.engine, N_PROMPT, &options);
        given_run(&given, generation);
        assert_int_equal(given.end, GENERATION_END_CANCELLED);
        assert_int_equal(parrot.n_passes, 3);
        assert_memory_equal(given.ids, plain.ids, given.n * sizeof(*given.ids));
    }
}

/* A prompt that was kept from an earlier request: the first token does not wait until the model has read it. */
static void test_drafts_model_reuse(void **state) {
    GenerationSpeculation speculation = speculation_of(OURS, true);
    const GenerationSpeculation none = { 0 };
    PrefixCache *cache;
    Given plain, given;
    GenerationOptions options = given_options(&plain, tiny.engine, OUTPUT, false, &none);
    Generation *generation;
    Parrot parrot;

    assert_int_equal(prefix_cache_new(&cache, UINT64_MAX), 0);
    tiny.engine->kv.prefix_cache = cache;
    options.no_reuse = false;
    given_run(&plain, given_begin(tiny.engine, N_PROMPT, &options));
    speculation.model = parrot_model(&parrot, plain.ids, 0);
    options = given_options(&given, tiny.engine, OUTPUT, false, &speculation);
    options.user--; /* the same prompt */
    options.no_reuse = false;
    generation = given_begin(tiny.engine, N_PROMPT, &options);
    while (!given.n)
        assert_int_equal(generation_step(generation, given_take, &given, NULL), 0);
    assert_true(generation_usage(generation)->n_cached_tokens >= N_PROMPT - 2 * CHUNK);
    assert_true(parrot.n_text && parrot.n_text < N_PROMPT / 2);
    given_run(&given, generation);
    given_check_same(&given, &plain);
    assert_int_equal(parrot.most_read, CHUNK + 1); /* and the root of the next tree */
    assert_true(parrot.n_passes > 0 && given.usage.n_steps < OUTPUT / 2);
    tiny.engine->kv.prefix_cache = NULL;
    prefix_cache_free(cache);
}

/* The model's gain is remembered for its user, unless it was always asked. */
static void test_drafts_model_memory(void **state) {
    SpeculationMemory *memory = &tiny.engine->speculation;
    GenerationSpeculation speculation = speculation_of(OURS, false);
    const GenerationSpeculation none = { 0 };
    Given plain, given;
    GenerationOptions options;
    Generation *generation;
    Parrot parrot;

    run(false, &none, &plain);
    speculation.model = parrot_model(&parrot, plain.ids, 0);
    options = given_options(&given, tiny.engine, OUTPUT, false, &speculation);
    options.user = 77;
    generation = given_begin(tiny.engine, N_PROMPT, &options);
    given_run(&given, generation);
    assert_true(memory->model_row_ms > 0);
    assert_true(speculation_memory_user(memory, 77)->model.output > 0);
    assert_true(speculation_memory_user(memory, 77)->model.expected == OUTPUT - 1);
    speculation_memory_user(memory, 78)->model = (PromptRule){ .output = 1e6F, .expected = OUTPUT }; /* no gain */
    speculation.model = parrot_model(&parrot, plain.ids, 0);
    options = given_options(&given, tiny.engine, OUTPUT, false, &speculation);
    options.user = 78;
    generation = given_begin(tiny.engine, N_PROMPT, &options);
    given_run(&given, generation);
    assert_int_equal(given.report.model.reason, PROMPT_RULE_LOSES);
    assert_int_equal(parrot.n_follows, 0);
    assert_int_equal(speculation_memory_user(memory, 78)->model.n_refused, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafts_model_policies),  cmocka_unit_test(test_drafts_model_together),
        cmocka_unit_test(test_drafts_model_no_bounds), cmocka_unit_test(test_drafts_model_controlled),
        cmocka_unit_test(test_drafts_model_fails),     cmocka_unit_test(test_drafts_model_cancel),
        cmocka_unit_test(test_drafts_model_reuse),     cmocka_unit_test(test_drafts_model_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
