// SPDX-License-Identifier: Apache-2.0
/* Features of an engine beside plain decoding, on a tiny model of every architecture: drafts from the text, from the
 * model's own first layers and from another model, and kept prompts. The bits are the same with and without. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/draft/draft_timeline.h"
#include "engine/generation.h"
#include "test/unit/fixtures/drafted_run.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/fixtures/tiny_engine.h"
#include "test/unit/golden/golden_arch.h"

static const SpecLab always = { .always = true };

enum {
    CHUNK = 16,
    N_PROMPT = 70,
    OUTPUT = 12,
    CAPACITY = N_PROMPT + OUTPUT,
};

typedef struct Golden {
    PrefixCache *cache;
    TinyEngine target;
} Golden;

static void golden_open(Golden *golden, const GoldenArch *model) {
    *golden = (Golden){ 0 };
    assert_int_equal(prefix_cache_new(&golden->cache, UINT64_MAX), 0);
    golden->target.maker = &model->maker;
    golden->target.isa = ISA_BEST;
    golden->target.prefix_cache = golden->cache;
    tiny_engine_open(&golden->target, ENGINE_DEVICE_CPU, CHUNK);
}

static void golden_close(Golden *golden) {
    tiny_engine_close(&golden->target);
    golden->cache = prefix_cache_free(golden->cache);
}

static void run(Engine *engine, const GenerationSpeculation *speculation, Given *given) {
    const GenerationOptions options = given_options(given, engine, OUTPUT, false, speculation);

    given_run(given, given_begin(engine, N_PROMPT, &options));
    assert_int_equal(given->n, OUTPUT);
}

/* Drafts of the text itself, as trees. */
static void check_own_drafts(Engine *engine, const Given *plain) {
    const GenerationSpeculation speculation = { .sources = 1u << SPECULATION_SAM | 1u << SPECULATION_LOOKUP |
                                                           1u << SPECULATION_TABLE | 1u << SPECULATION_CALIBRATION,
                                                .rows_max = 12,
                                                .lab = &always };
    Given given;

    run(engine, &speculation, &given);
    given_check_same(&given, plain);
    assert_true(given.usage.n_drafted_tokens > 0);
}

/* Drafts of the model's first n_layers; n_layers 0: of another model. */
static void check_model_drafts(Engine *engine, uint32_t n_layers, DraftModel model, const Given *plain, Given *given) {
    const GenerationSpeculation speculation = {
        .sources = 1u << SPECULATION_MODEL, .rows_max = 12, .lab = &always, .self_layers = n_layers, .model = model
    };

    run(engine, &speculation, given);
    given_check_same(given, plain);
    assert_true(given->report.n_model_passes > 0 && given->report.drafted[SPECULATION_MODEL] > 0);
}

static void check_pair(Engine *target, Engine *draft, const Given *plain, Given *given) {
    _cleanup_(draft_pair_freep) DraftPair *pair = NULL;
    DraftModel model;
    ErrText err = { 0 };

    if (draft_pair_new(&pair, draft, target, &err))
        fail_msg("%s", err.text);
    if (draft_timeline_new(&model, pair, CAPACITY, &err))
        fail_msg("%s", err.text);
    check_model_drafts(target, 0, model, plain, given);
    draft_timeline_free(&model);
}

/* A prompt again reuses what was kept of it. */
static void check_kept_prompt(Engine *engine, const Given *plain) {
    for (int again = 0; again < 2; again++) {
        Given given;
        GenerationOptions options = given_options(&given, engine, OUTPUT, false, &(GenerationSpeculation){ 0 });

        options.no_reuse = false;
        options.user = 1;
        given_run(&given, given_begin(engine, N_PROMPT, &options));
        given_check_same(&given, plain);
        assert_int_equal(given.usage.n_cached_tokens > 0, again);
    }
}

static void test_golden_arch_engine(void **state) {
    TinyEngine other = { .maker = &golden_arch_find("mistral")->maker, .isa = ISA_BEST };

    tiny_engine_open(&other, ENGINE_DEVICE_CPU, CHUNK);
    for (size_t i = 0; i < golden_arch_n(); i += patience_is_short() ? 2 : 1) {
        const GoldenArch *model = golden_arch_at(i);
        Engine *engine;
        Given plain, given;
        Golden golden;

        golden_open(&golden, model);
        engine = golden.target.engine;
        run(engine, &(GenerationSpeculation){ 0 }, &plain);
        check_own_drafts(engine, &plain);
        check_model_drafts(engine, 1, (DraftModel){ 0 }, &plain, &given);
        check_model_drafts(engine, model->maker.n_layers, (DraftModel){ 0 }, &plain, &given);
        if (given.usage.n_steps > OUTPUT / 2)
            fail_msg("%s: %u steps with all of its own layers as a draft", model->name, given.usage.n_steps);
        check_pair(engine, engine, &plain, &given);
        if (given.usage.n_steps > OUTPUT / 2)
            fail_msg("%s: %u steps with itself as a draft", model->name, given.usage.n_steps);
        check_pair(engine, other.engine, &plain, &given);
        check_kept_prompt(engine, &plain);
        golden_close(&golden);
    }
    tiny_engine_close(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_arch_engine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
