// SPDX-License-Identifier: Apache-2.0
/* Speculation on the npu device. A verification runs on decode graphs, in passes of 32 rows, whatever the policy keeps
 * in memory. Tokens and logits are those of plain decoding, and of the cpu device on the same package: with chains and
 * with trees, alone, together, after a prompt that is known. The time of rows is learned without the time spent waiting
 * for graphs. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "engine/generation_state.h"
#include "test/unit/fixtures/drafted_run.h"
#include "test/unit/fixtures/npu_engine.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/importer/import_fixture.h"
#include "weights/image/weights_image.h"
#include "weights/weights_report.h"

static const SpecLab always = { .always = true }, chains = { .always = true, .chains = true };

enum {
    N_PROMPT = 70, /* more rows than a decode graph has */
    N_OUTPUT = 48,
    N_MORE = 50, /* that a second turn of a conversation adds */
    N_TOGETHER = 4,
    SAMPLINGS = 2,
    DECODE_ROWS = 32,
};

static const char *const policies[] = { "progressive", "none", "sync", "async" };

#define LEARNED (1u << SPECULATION_TABLE | 1u << SPECULATION_CALIBRATION | 1u << SPECULATION_REUSE)

static const struct Way {
    const char *name;
    GenerationSpeculation speculation;
    bool is_wide; /* some verifications have more rows than a decode graph */
} ways[] = {
    { "tree of 64", { .sources = SPECULATION_AUTO, .lab = &always }, true },
    { "tree of 16", { .sources = SPECULATION_AUTO, .lab = &always, .rows_max = 16 }, false },
    { "learned", { .sources = LEARNED, .lab = &always, .rows_max = 33 }, true },
    { "chain", { .sources = SPECULATION_AUTO, .lab = &chains }, false },
    { "sam", { .sources = 1u << SPECULATION_SAM, .lab = &chains }, false },
    { "auto", { .sources = SPECULATION_AUTO }, false },
};

static const GenerationSpeculation plain = { .sources = 0 };

typedef struct NpuDrafts {
    char image[PATH_MAX];
    EngineOptions options;
    PrefixCache *prefix_cache;
    NpuEngine cpu, npu;
} NpuDrafts;

static void npu_drafts_init(NpuDrafts *drafts, ImportFixture *fixture) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    const char *package;

    maker.n_layers = 6;
    package = import_fixture_package(fixture, &maker, 8, true);
    assert_int_equal(weights_image_path(drafts->image, sizeof(drafts->image), fixture->cache, package), 0);
    assert_int_equal(prefix_cache_new(&drafts->prefix_cache, UINT64_MAX), 0);
    drafts->options = (EngineOptions){ .path = package,
                                       .load.device = ENGINE_DEVICE_CPU,
                                       .load.isa = ISA_BEST,
                                       .prefix_cache = drafts->prefix_cache,
                                       .load.weights.checking = WEIGHTS_CHECKING_NEW };
    npu_engine_load(&drafts->cpu, &drafts->options, 2);
    drafts->options.load.device = ENGINE_DEVICE_NPU;
    drafts->options.image_path = drafts->image;
    drafts->options.load.weights.graphs.n_blocks = 3;
}

static void npu_drafts_deinit(NpuDrafts *drafts) {
    npu_engine_unload(&drafts->cpu);
    prefix_cache_free(drafts->prefix_cache);
}

static void load_with(NpuDrafts *drafts, const char *policy) {
    assert_true(choice_set(graph_switch_choices, policy, &drafts->options.load.weights.graphs.policy));
    npu_engine_load(&drafts->npu, &drafts->options, 2);
}

/* What a generation used of the device after its first step that decodes. */
typedef struct Decoding {
    uint64_t n_loads, n_of_prompts; /* blocks loaded; blocks computed with prompt graphs */
    uint64_t rows_max;              /* of a step */
} Decoding;

/* Runs a generation to its end. */
static Decoding run(Given *given, NpuEngine *loaded, const GenerationSpeculation *speculation, size_t sampling) {
    const GenerationOptions options = given_options(given, loaded->engine, N_OUTPUT, sampling, speculation);
    Generation *generation = given_begin(loaded->engine, N_PROMPT, &options);
    WeightsGraphsCounts before = { 0 }, after = { 0 };
    Decoding decoding = { 0 };
    uint64_t n_rows = 0;

    while (generation_end(generation) == GENERATION_RUNNING) {
        const DraftReport *report = generation_report(generation);

        assert_int_equal(generation_step(generation, given_take, given, NULL), 0);
        decoding.rows_max = MAX(report->n_rows - n_rows, decoding.rows_max);
        n_rows = report->n_rows;
        if (report->n_steps < 2) /* the first step that decodes may have waited for its graphs */
            weights_graph_counts(engine_weights(loaded->engine), &before);
    }
    given_end(given, generation);
    weights_graph_counts(engine_weights(loaded->engine), &after);
    decoding.n_loads = after.n_loads - before.n_loads;
    decoding.n_of_prompts = after.n_computed[GRAPH_PREFILL] - before.n_computed[GRAPH_PREFILL];
    return decoding;
}

static void check_way(NpuDrafts *drafts, const char *policy, const struct Way *way, size_t sampling,
                      const Given *expected) {
    Given given;
    const Decoding decoding = run(&given, &drafts->npu, &way->speculation, sampling);

    given_check_same(&given, expected);
    assert_true(!way->speculation.lab || given.usage.n_drafted_tokens);
    if (way->is_wide && decoding.rows_max <= DECODE_ROWS)
        fail_msg("%s, %s: no step has more than %u rows", policy, way->name, (unsigned int)decoding.rows_max);
    /* A load that has begun for the prompt may end late. */
    if (drafts->options.load.weights.graphs.policy != GRAPH_SWITCH_NONE &&
        (decoding.n_loads > 1 || decoding.n_of_prompts))
        fail_msg("%s, %s: %u loads, %u blocks with graphs of prompts while it decodes", policy, way->name,
                 (unsigned int)decoding.n_loads, (unsigned int)decoding.n_of_prompts);
}

/* Sampling does not depend on graphs: one run is enough. */
static size_t n_samplings(size_t policy) {
    return policy || patience_is_short() ? 1 : SAMPLINGS;
}

/* Every kind of drafts under every policy; no verification loads prompt graphs. */
static void test_npu_drafts_alone(void **state) {
    static Given expected[SAMPLINGS];
    NpuDrafts drafts = { .image = "" };

    npu_drafts_init(&drafts, *state);
    for (size_t sampling = 0; sampling < SAMPLINGS; sampling++)
        run(&expected[sampling], &drafts.cpu, &plain, sampling);
    for (size_t p = 0; p < sizeof(policies) / sizeof(*policies); p++) {
        load_with(&drafts, policies[p]);
        for (size_t sampling = 0; sampling < n_samplings(p); sampling++) {
            Given given;

            run(&given, &drafts.npu, &plain, sampling);
            given_check_same(&given, &expected[sampling]);
            for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++)
                check_way(&drafts, policies[p], &ways[way], sampling, &expected[sampling]);
        }
        npu_engine_unload(&drafts.npu);
    }
    npu_drafts_deinit(&drafts);
}

/* Several generations share every step, the last one with a prompt that comes when the others decode: steps have rows
 * of decoding and of prompts, and more of decoding than a decode graph has. */
static void test_npu_drafts_together(void **state) {
    static Given expected[SAMPLINGS], given[N_TOGETHER];
    NpuDrafts drafts = { .image = "" };

    npu_drafts_init(&drafts, *state);
    for (size_t sampling = 0; sampling < SAMPLINGS; sampling++)
        run(&expected[sampling], &drafts.cpu, &plain, sampling);
    for (size_t p = 0; p < sizeof(policies) / sizeof(*policies); p++) {
        GenerationTurn turns[N_TOGETHER];
        bool is_running = true;

        load_with(&drafts, policies[p]);
        for (size_t i = 0; i < N_TOGETHER; i++) {
            const GenerationOptions options =
                given_options(&given[i], drafts.npu.engine, N_OUTPUT, i % SAMPLINGS, &ways[i % 4].speculation);

            turns[i] = (GenerationTurn){ .generation = given_begin(drafts.npu.engine, N_PROMPT, &options),
                                         .fn = given_take,
                                         .arg = &given[i] };
        }
        for (size_t step = 0; is_running; step++) {
            const size_t n = step < 4 ? N_TOGETHER - 1 : N_TOGETHER;

            assert_int_equal(generation_step_together(turns, n, NULL), 0);
            is_running = n < N_TOGETHER;
            for (size_t i = 0; i < n; i++)
                is_running = is_running || generation_end(turns[i].generation) == GENERATION_RUNNING;
        }
        for (size_t i = 0; i < N_TOGETHER; i++) {
            given_end(&given[i], turns[i].generation);
            given_check_same(&given[i], &expected[i % SAMPLINGS]);
        }
        npu_engine_unload(&drafts.npu);
    }
    npu_drafts_deinit(&drafts);
}

/* --- a conversation ----------------------------------------------------------------------------------------------- */

/* Two turns: the second prompt is the first one, its answer, and more. */
static void converse(NpuEngine *loaded, const GenerationSpeculation *speculation, bool reuses, Given turns[2]) {
    uint32_t text[N_PROMPT + N_OUTPUT + N_MORE];
    size_t n = N_PROMPT;

    given_prompt(text, N_PROMPT, engine_info(loaded->engine)->n_vocab);
    for (size_t turn = 0; turn < 2; turn++) {
        GenerationOptions options = given_options(&turns[turn], loaded->engine, N_OUTPUT, turn, speculation);
        Generation *generation;
        ErrText err = { 0 };

        options.no_reuse = !reuses;
        options.user = 7;
        if (generation_new(&generation, loaded->engine, text, n, &options, &err))
            fail_msg("%s", err.text);
        given_run(&turns[turn], generation);
        if (turn) {
            assert_int_equal(turns[turn].usage.n_cached_tokens > N_PROMPT, reuses);
            break;
        }
        memcpy(text + n, turns[turn].ids, N_OUTPUT * sizeof(*text));
        n += N_OUTPUT;
        for (size_t i = 0; i < N_MORE; i++)
            text[n++] = text[i];
    }
}

static void test_npu_drafts_reuse(void **state) {
    static Given expected[2], given[2];
    NpuDrafts drafts = { .image = "" };

    npu_drafts_init(&drafts, *state);
    converse(&drafts.cpu, &plain, false, expected);
    for (size_t p = 0; p < sizeof(policies) / sizeof(*policies); p++)
        for (size_t way = 0; way < 4; way += 3) { /* a tree, a chain */
            load_with(&drafts, policies[p]);
            converse(&drafts.npu, &ways[way].speculation, true, given);
            for (size_t turn = 0; turn < 2; turn++)
                given_check_same(&given[turn], &expected[turn]);
            assert_true(given[1].usage.n_drafted_tokens);
            npu_engine_unload(&drafts.npu);
        }
    npu_drafts_deinit(&drafts);
}

/* --- times -------------------------------------------------------------------------------------------------------- */

/* A block takes 100 ms to load, and the first step that decodes waits for all blocks. The wait counts for no row: a
 * step takes a small part of it. */
static void test_npu_drafts_times(void **state) {
    NpuDrafts drafts = { .image = "" };
    const float load_ms = 100;
    Given given;

    npu_drafts_init(&drafts, *state);
    load_with(&drafts, "sync"); /* makes the image */
    npu_engine_unload(&drafts.npu);
    drafts.options.load.weights.flash_limit = (ReadLimit){ .latency_us = (uint32_t)(1000 * load_ms) };
    load_with(&drafts, "sync");
    for (int turn = 0; turn < 2; turn++) { /* the second one may find graphs in memory */
        const SpeculationControl *times = &drafts.npu.engine->speculation.times;

        run(&given, &drafts.npu, &(GenerationSpeculation){ .sources = SPECULATION_AUTO }, 0);
        assert_true(turn || given.usage.read_wait_ns > (uint64_t)(2 * load_ms * 1e6F)); /* the first one has waited */
        if (!(times->ms[0] > 0 && times->ms[0] < load_ms / 4))
            fail_msg("a step with one row is said to take %.1f ms", (double)times->ms[0]);
    }
    npu_engine_unload(&drafts.npu);
    npu_drafts_deinit(&drafts);
}

/* Decoding on prompt graphs, while decode graphs are on their way, teaches nothing of what rows take. */
static void test_npu_drafts_makeshift(void **state) {
    NpuDrafts drafts = { .image = "" };
    Given given, expected;

    npu_drafts_init(&drafts, *state);
    run(&expected, &drafts.cpu, &plain, 0);
    drafts.options.load.weights.flash_limit = (ReadLimit){ .latency_us = 60000000 };
    load_with(&drafts, "none"); /* which makes the image, and so has the graphs of prompts */
    run(&given, &drafts.npu, &(GenerationSpeculation){ .sources = SPECULATION_AUTO }, 0);
    given_check_same(&given, &expected);
    assert_int_equal(drafts.npu.engine->speculation.times.n_seen[0], 0);
    npu_engine_unload(&drafts.npu);
    npu_drafts_deinit(&drafts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_npu_drafts_alone), WITH_FOLDER(test_npu_drafts_together),  WITH_FOLDER(test_npu_drafts_reuse),
        WITH_FOLDER(test_npu_drafts_times), WITH_FOLDER(test_npu_drafts_makeshift),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
