// SPDX-License-Identifier: Apache-2.0
/* Trees whose rows end at a middle layer have the tokens and logits of plain decoding, on both devices, alone and
 * together, stopped before every operator. Pruned rows count as not drafted; shares are the head's. The control asks,
 * and prunes only if allowed; without a predictor nothing is asked. */
#undef NDEBUG
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/generation.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"
#include "test/unit/fixtures/drafted_run.h"
#include "test/unit/fixtures/model_maker.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/fixtures/tiny_engine.h"
#include "tools/exit/exit_pruning.h"

static const SpecLab always = { .always = true }, chains = { .always = true, .chains = true };

enum {
    CHUNK = 80,
    N_PROMPT = 40,
    OUTPUT = 60,
};

typedef struct Way {
    GenerationSpeculation speculation;
    ExitPruningMode mode;
} Way;

static const Way none, ways[] = {
    { { .sources = SPECULATION_AUTO, .lab = &always }, EXIT_PRUNING_ALWAYS },
    { { .sources = 1u << SPECULATION_SAM | 1u << SPECULATION_LOOKUP, .lab = &always, .head_on_demand = true },
      EXIT_PRUNING_ALWAYS },
    { { .sources = SPECULATION_AUTO, .lab = &always, .rows_max = 16 }, EXIT_PRUNING_ALWAYS },
    { { .sources = SPECULATION_AUTO, .lab = &chains }, EXIT_PRUNING_ALWAYS },
    { { .sources = SPECULATION_AUTO, .lab = &always }, EXIT_PRUNING_CONTROLLED },
    { { .sources = SPECULATION_AUTO }, EXIT_PRUNING_CONTROLLED },
    { { .sources = SPECULATION_AUTO, .lab = &always }, EXIT_PRUNING_OFF },
};

enum {
    WAYS = sizeof(ways) / sizeof(*ways)
};

static TinyEngine tiny;
static EarlyExit early;

static const char *tiny_arch; /* NULL: llama */

static void open_tiny(EngineDevice device, uint32_t lens) {
    tiny = (TinyEngine){ .preempts = true, .arch = tiny_arch };
    tiny_engine_open(&tiny, device, CHUNK);
    assert_int_equal(early_exit_set_lens(&early, tiny.engine, lens, NULL), 0);
    assert_int_equal(early.layer, lens);
}

static void close_tiny(void) {
    early_exit_deinit(&early);
    tiny_engine_close(&tiny);
}

/* A generation's way, and what it gave. */
typedef struct Run {
    ExitPruning pruning;
    SpecLab lab;
    Given given;
} Run;

static Generation *run_begin(Run *run, bool sampled, const Way *way) {
    GenerationSpeculation speculation = way->speculation;
    GenerationOptions options;

    run->pruning = (ExitPruning){ .exit = &early, .mode = way->mode };
    run->lab = *spec_lab_of(speculation.lab);
    exit_pruning_hook(&run->pruning, &run->lab);
    speculation.lab = &run->lab;
    options = given_options(&run->given, tiny.engine, OUTPUT, sampled, &speculation);
    return given_begin(tiny.engine, N_PROMPT, &options);
}

static void run_whole(Run *run, bool sampled, const Way *way) {
    given_run(&run->given, run_begin(run, sampled, way));
    assert_int_equal(run->given.n, OUTPUT);
}

static void check_report(const Run *run) {
    const DraftReport *report = &run->given.report;
    const ExitReport *pruned = &run->pruning.report;
    uint64_t accepted = 0;

    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        accepted += i * report->lengths[i];
    assert_int_equal(report->n_rows, report->n_steps + run->given.usage.n_drafted_tokens + pruned->n_rows);
    assert_int_equal(accepted, run->given.usage.n_accepted_tokens);
    assert_int_equal(pruned->n_steps > 0, pruned->n_rows > 0);
    if (run->pruning.mode == EXIT_PRUNING_ALWAYS)
        assert_int_equal(pruned->n_trials, 0);
    if (run->pruning.mode == EXIT_PRUNING_OFF)
        assert_int_equal(pruned->ns, 0);
}

static void check_alone(EngineDevice device) {
    for (uint32_t lens = 0; lens < 2; lens++) {
        open_tiny(device, lens);
        for (int sampled = 0; sampled < 2; sampled++) {
            Run plain, run;

            run_whole(&plain, sampled, &none);
            for (size_t way = 0; way < WAYS; way++) {
                run_whole(&run, sampled, &ways[way]);
                given_check_same(&run.given, &plain.given);
                check_report(&run);
                if (!lens)
                    assert_int_equal(run.pruning.report.ns, 0);
                else if (way == 0 || way == 2)
                    assert_true(run.pruning.report.n_rows > (tiny_arch ? 0 : 50)); /* the model's own likely tokens */
                else if (way == 3)
                    assert_true(run.pruning.report.n_rows > 0); /* the end of a chain, too, which hardly comes so far */
                else if (way == 4)
                    assert_true(run.pruning.report.n_trials > 0);
            }
        }
        close_tiny();
    }
}

static void test_drafts_pruned_reference(void **state) {
    check_alone(ENGINE_DEVICE_REFERENCE);
}

static void test_drafts_pruned_cpu(void **state) {
    check_alone(ENGINE_DEVICE_CPU);
}

/* Caps of scores and logits, and a head with a bias beside attention that runs with the feed-forward. */
static void test_drafts_pruned_others(void **state) {
    static const char *const archs[] = { "gemma2", "phi2" };

    for (size_t i = patience_is_short(); i < ARRAY_LEN(archs); i++) {
        tiny_arch = archs[i];
        check_alone(ENGINE_DEVICE_CPU);
    }
    tiny_arch = NULL;
}

/* Runs all in one step, which stops before every operator if it is told to, while another one runs. */
static void check_together(bool stops) {
    Generation *generations[WAYS], *beside = NULL;
    Run runs[WAYS], plain, besides;
    bool running = true;
    uint32_t n_stops = 0;

    open_tiny(ENGINE_DEVICE_CPU, 1);
    run_whole(&plain, true, &none);
    for (size_t i = 0; i < WAYS; i++)
        generations[i] = run_begin(&runs[i], true, &ways[i]);
    beside = run_begin(&besides, true, &ways[0]);
    while (running) {
        const EngineYield yield = { .until_ns = 1 };
        GenerationTurn turns[WAYS];
        GenerationStep step;
        int r;

        running = false;
        for (size_t i = 0; i < WAYS; i++)
            turns[i] = (GenerationTurn){ .generation = generations[i], .fn = given_take, .arg = &runs[i].given };
        assert_int_equal(generation_step_begin(&step, turns, WAYS, 0, NULL), 0);
        while ((r = generation_step_run(&step, stops ? &yield : NULL, NULL)) == GENERATION_E_YIELDED) {
            if (n_stops++ % 3 == 0 && generation_end(beside) == GENERATION_RUNNING)
                assert_int_equal(generation_step(beside, given_take, &besides.given, NULL), 0);
        }
        assert_int_equal(r, 0);
        for (size_t i = 0; i < WAYS; i++)
            running = running || generation_end(generations[i]) == GENERATION_RUNNING;
    }
    assert_int_equal(n_stops > 0, stops);
    for (size_t i = 0; i < WAYS; i++) {
        given_end(&runs[i].given, generations[i]);
        given_check_same(&runs[i].given, &plain.given);
        check_report(&runs[i]);
    }
    assert_true(runs[0].pruning.report.n_rows > 0);
    if (stops) {
        given_end(&besides.given, beside);
        given_check_same(&besides.given, &plain.given);
        assert_true(besides.pruning.report.n_rows > 0);
    } else {
        generation_free(beside);
    }
    close_tiny();
}

static void test_drafts_pruned_together(void **state) {
    check_together(false);
}

static void test_drafts_pruned_preempted(void **state) {
    check_together(true);
}

/* Shares beside those of the whole head's product, on the device that computes in floats; with capped logits, and with
 * biases of the head and the last norm. */
static void check_shares(const char *arch) {
    enum {
        ROWS = 7,
        TOKENS = 11
    };
    uint64_t random = 5;

    for (int device = 0; device < 2; device++) {
        const Hparams *hparams;
        const BackendLinear *head;
        float *hidden, *states, *normed, *all;
        const float close = device ? 0.05F : 1e-4F;

        tiny_arch = arch;
        open_tiny(device ? ENGINE_DEVICE_CPU : ENGINE_DEVICE_REFERENCE, 1);
        hparams = &tiny.engine->hparams;
        head = weights_head(tiny.engine->weights);
        hidden = calloc(ROWS, hparams->n_embd * sizeof(float));
        states = calloc(ROWS, hparams->n_embd * sizeof(float));
        normed = calloc(ROWS, hparams->n_embd * sizeof(float));
        all = calloc(ROWS, hparams->n_vocab * sizeof(float));
        for (size_t i = 0; i < ROWS * (size_t)hparams->n_embd; i++)
            hidden[i] = (float)(test_random(&random) % 2001) / 500 - 2;
        assert_int_equal(early_exit_states(&early, hidden, ROWS, states, NULL), 0);
        layer_norm_rows(tiny.engine->backend, hparams, weights_outside(tiny.engine->weights)->vectors, ROLE_OUTPUT_NORM,
                        hidden, ROWS, hparams->n_embd, normed);
        assert_memory_equal(states, normed, ROWS * hparams->n_embd * sizeof(float));
        assert_int_equal(tiny.engine->backend->ops->linear(tiny.engine->backend, &head, 1,
                                                           &(LinearInput){ .x = normed }, ROWS,
                                                           &(LinearOutput){ .y = &all }, NULL),
                         0);
        for (size_t i = 0; hparams->logit_cap > 0 && i < ROWS * (size_t)hparams->n_vocab; i++)
            all[i] = hparams->logit_cap * tanhf(all[i] / hparams->logit_cap);
        for (size_t row = 0; row < ROWS; row++) {
            uint32_t tokens[TOKENS];
            float logits[TOKENS], again[TOKENS], shares[TOKENS];
            double sum = 0;

            for (size_t i = 0; i < TOKENS; i++)
                tokens[i] = (uint32_t)(test_random(&random) % hparams->n_vocab);
            early_exit_logits(&early, states + row * hparams->n_embd, tokens, TOKENS, logits);
            for (size_t i = 0; i < TOKENS; i++) {
                assert_true(fabsf(logits[i] - all[row * hparams->n_vocab + tokens[i]]) <
                            close * (1 + fabsf(logits[i])));
                early_exit_logits(&early, states + row * hparams->n_embd, tokens + i, 1, &again[i]);
            }
            assert_memory_equal(logits, again, sizeof(logits)); /* shares of other edges do not matter */
            early_exit_shares(logits, TOKENS, 2, shares);
            for (size_t i = 0; i < TOKENS; i++) {
                sum += exp((double)shares[i]);
                assert_true(fabs((double)(shares[i] - shares[0]) - (double)(logits[i] - logits[0]) / 2) < 1e-4);
            }
            assert_true(fabs(sum - 1) < 1e-5);
        }
        free(hidden);
        free(states);
        free(normed);
        free(all);
        close_tiny();
    }
}

static void test_drafts_pruned_shares(void **state) {
    static const char *const archs[] = { NULL, "gemma2", "phi2" };

    for (size_t i = 0; i < ARRAY_LEN(archs); i++)
        check_shares(archs[i]);
    tiny_arch = NULL;
}

enum {
    SPANS = 2,
    TREE = 6,
    EDGES = 9
};

static const int16_t tree_parents[TREE] = { -1, 0, 1, 1, 0, 4 };
static const uint32_t tree_tokens[TREE] = { 3, 8, 1, 30, 17, 22 };
/* Edges begin behind a leaf, too. */
static const uint32_t edge_rows[EDGES] = { 0, 0, 0, 1, 1, 4, 4, 5, 5 };
static const uint32_t edge_tokens[EDGES] = { 8, 17, 2, 1, 30, 22, 9, 4, 5 };

typedef struct Asked {
    float expected[EDGES];
    uint32_t n_chosen;
    uint32_t n_logits;
} Asked;

static int look_first(void *arg, const float *hidden, uint16_t *rows, ErrText *err) {
    Asked *asked = arg;
    DraftEdge edges[EDGES];
    float log_shares[EDGES];

    for (size_t i = 0; i < EDGES; i++)
        edges[i] = (DraftEdge){ edge_rows[i], edge_tokens[i], -1 };
    assert_int_equal(early_exit_score(&early, hidden, edges, EDGES, log_shares, err), 0);
    assert_memory_equal(log_shares, asked->expected, sizeof(asked->expected));
    asked->n_chosen++;
    rows[0] = 0;
    rows[1] = 4;
    return 2;
}

static void take_row(EngineSpan *span, size_t row, const float *logits, const EngineTops *tops) {
    Asked *asked = span->head.arg;

    assert_int_equal(row, asked->n_logits++ ? 4 : 0);
}

/* Shares are of each row's own state in a step of several trees, and only chosen rows go on. */
static void test_drafts_pruned_states(void **state) {
    Sequence *sequences[SPANS];
    EngineSpan spans[SPANS];
    Asked asked[SPANS];
    float *logits;
    EngineStep *step;

    open_tiny(ENGINE_DEVICE_CPU, 1);
    logits = calloc(1, TINY_VOCAB * sizeof(float));
    for (size_t i = 0; i < SPANS; i++) {
        const uint32_t before[] = { 5, (uint32_t)i, 7 };

        assert_int_equal(sequence_new(&sequences[i], tiny.engine, 64, NULL), 0);
        assert_int_equal(engine_forward(tiny.engine, sequences[i], before, 3, 0, NULL, NULL), 0);
        asked[i] = (Asked){ 0 };
        spans[i] = (EngineSpan){ .sequence = sequences[i],
                                 .tokens = tree_tokens,
                                 .parents = tree_parents,
                                 .n = TREE,
                                 .head = { .n_rows = TREE, .logits = logits, .take = take_row, .arg = &asked[i] },
                                 .look = { 1, look_first, &asked[i] } };
    }
    assert_int_equal(engine_step_begin(&step, tiny.engine, spans, SPANS, NULL), 0);
    assert_int_equal(engine_step_layers(step, 1, NULL, NULL), 0);
    for (size_t i = 0; i < SPANS; i++)
        for (size_t first = 0, n; first < EDGES; first += n) {
            float *normed = calloc(1, tiny.engine->hparams.n_embd * sizeof(float));

            for (n = 1; first + n < EDGES && edge_rows[first + n] == edge_rows[first];)
                n++;
            assert_int_equal(
                early_exit_states(&early,
                                  step->slots[SLOT_X] + (i * TREE + edge_rows[first]) * tiny.engine->hparams.n_embd, 1,
                                  normed, NULL),
                0);
            early_exit_logits(&early, normed, edge_tokens + first, n, asked[i].expected + first);
            early_exit_shares(asked[i].expected + first, n, 1, asked[i].expected + first);
            free(normed);
        }
    assert_true(memcmp(asked[0].expected, asked[1].expected, sizeof(asked[0].expected)));
    engine_step_drop(step);
    assert_int_equal(engine_forward_spans(tiny.engine, spans, SPANS, NULL), 0);
    for (size_t i = 0; i < SPANS; i++) {
        assert_int_equal(asked[i].n_chosen, 1);
        assert_int_equal(asked[i].n_logits, 2);
        sequence_free(sequences[i]);
    }
    free(logits);
    close_tiny();
}

static void test_drafts_pruned_refused(void **state) {
    ErrText err = { 0 };

    open_tiny(ENGINE_DEVICE_CPU, 1);
    assert_int_equal(early_exit_set_lens(&early, tiny.engine, engine_info(tiny.engine)->n_layers, &err), -EINVAL);
    assert_string_equal(err.text, "there is no layer between 2 and the head");
    assert_int_equal(early_exit_load(&early, tiny.engine, "/nonexistent.exit", &err), ENGINE_E_MODEL);
    assert_non_null(strstr(err.text, "/nonexistent.exit"));
    assert_int_equal(early.layer, 1);
    assert_int_equal(early_exit_set_lens(&early, tiny.engine, 0, &err), 0);
    assert_int_equal(early.layer, 0);
    close_tiny();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafts_pruned_reference), cmocka_unit_test(test_drafts_pruned_cpu),
        cmocka_unit_test(test_drafts_pruned_others),    cmocka_unit_test(test_drafts_pruned_together),
        cmocka_unit_test(test_drafts_pruned_preempted), cmocka_unit_test(test_drafts_pruned_shares),
        cmocka_unit_test(test_drafts_pruned_states),    cmocka_unit_test(test_drafts_pruned_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
