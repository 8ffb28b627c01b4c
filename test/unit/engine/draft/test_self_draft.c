// SPDX-License-Identifier: Apache-2.0
/* A model whose first layers draft for it: their likely tokens are those of these layers and the head, row by row.
 * Generations have the tokens and logits of plain decoding, with all layers in memory or some, alone, together, making
 * way and repeated; limits and cancelling. */
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

#include "engine/core/engine_state.h"
#include "engine/draft/self_draft.h"
#include "engine/generation.h"
#include "engine/kv/sequence_state.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"
#include "test/unit/fixtures/drafted_run.h"
#include "test/unit/fixtures/loaded_engine.h"
#include "test/unit/fixtures/policies.h"
#include "test/unit/spec/draft_walk.h"
#include "weights/image/weights_image.h"
#include "weights/weights_report.h"

enum {
    N_LAYERS = 20,
    N_PINNED = 10, /* layers in memory of the streamed model */
    CAPACITY = 200,
    N_PROMPT = 21,
    OUTPUT = 40,
    DROPPED_MAX = 500
};

typedef struct Models {
    ImportFixture *files;
    char package[PATH_MAX], image[PATH_MAX];
    Loaded whole, streamed;
} Models;

static Models models;

static int setup(void **state) {
    assert_int_equal(import_fixture_setup((void **)&models.files), 0);
    loaded_make_package(models.files, 8, false, false, models.package);
    assert_int_equal(weights_image_path(models.image, sizeof(models.image), models.files->cache, models.package), 0);
    loaded_init(&models.whole, models.package, 0);
    models.streamed = (Loaded){
        .image_path = models.image,
        .weights_memory = { .is_set = true, .is_percent = true, .percent = 50 },
    };
    loaded_init(&models.streamed, models.package, 0);
    return 0;
}

static int teardown(void **state) {
    loaded_deinit(&models.whole);
    loaded_deinit(&models.streamed);
    import_fixture_teardown((void **)&models.files);
    return 0;
}

/* --- tops --------------------------------------------------------------------------------------------------------- */

/* A text that is computed except for its last token, a tree behind it, and a plain sequence beside. */
typedef struct Draft {
    Engine *engine;
    uint32_t n_layers;
    Sequence *sequence, *plain;
    float logits[LOADED_N_VOCAB];
    DraftWalk walk;
} Draft;

static void compute(Draft *draft, Sequence *sequence, size_t n) {
    for (size_t at = sequence_n_tokens(sequence); at < n; at++)
        assert_int_equal(engine_forward(draft->engine, sequence, draft->walk.text + at, 1, 0, NULL, NULL), 0);
}

static void draft_init(Draft *draft, Engine *engine, uint32_t n_layers, size_t n_text) {
    *draft = (Draft){ .engine = engine, .n_layers = n_layers, .walk = { .n_text = n_text } };
    for (size_t i = 0; i < CAPACITY; i++)
        draft->walk.text[i] = (uint32_t)(i * i * 7 + i) % LOADED_N_VOCAB;
    assert_int_equal(sequence_new(&draft->sequence, engine, CAPACITY, NULL), 0);
    assert_int_equal(sequence_new(&draft->plain, engine, CAPACITY, NULL), 0);
    assert_int_equal(self_draft_new(&draft->walk.model, draft->sequence, n_layers, draft->logits, NULL), 0);
    compute(draft, draft->sequence, n_text - 1);
}

static void draft_deinit(Draft *draft) {
    assert_int_equal(draft->sequence->tree.n, 0); /* nobody else sees the tree */
    self_draft_free(&draft->walk.model);
    assert_null(draft->walk.model.ops);
    self_draft_free(&draft->walk.model); /* the draft may have none */
    sequence_free(draft->sequence);
    sequence_free(draft->plain);
}

/* Computes a token by the first layers and the head alone, as decoding would that stops there. */
static void lens(Draft *draft, uint32_t token, float *logits) {
    EngineSpan span = { .sequence = draft->plain, .tokens = &token, .n = 1 };
    EngineStep *step;

    assert_int_equal(engine_step_begin(&step, draft->engine, &span, 1, NULL), 0);
    assert_int_equal(engine_step_layers(step, draft->n_layers, NULL, NULL), 0);
    assert_int_equal(engine_step_logits(step, &(uint32_t){ 0 }, 1, logits, NULL), 0);
    engine_step_commit(step);
    engine_step_drop(step);
}

/* The tops are the largest logits with their shares, the lower id first of equal ones. */
static void check_row(const DraftModelTops *tops, const float *logits) {
    bool is_taken[LOADED_N_VOCAB] = { false };
    double mass = 0;

    for (uint32_t token = 0; token < LOADED_N_VOCAB; token++)
        mass += exp((double)logits[token]);
    assert_int_equal(tops->n, DRAFT_CHOICES_MAX);
    for (uint32_t i = 0; i < tops->n; i++) {
        uint32_t best = UINT32_MAX;

        for (uint32_t token = 0; token < LOADED_N_VOCAB; token++)
            if (!is_taken[token] && (best == UINT32_MAX || logits[token] > logits[best]))
                best = token;
        is_taken[best] = true;
        assert_int_equal(tops->tops[i].token, best);
        assert_float_equal(tops->tops[i].probability, (float)(exp((double)logits[best]) / mass), 1e-5F);
    }
}

static void check_tops(Draft *draft) {
    assert_int_equal(draft->sequence->tree.n, 0); /* nobody else sees the tree */
    sequence_rewind(draft->plain, 0);
    compute(draft, draft->plain, draft->walk.n_text - 1);
    for (size_t row = 0; row < draft->walk.n_rows; row++) {
        uint32_t way[WALK_ROWS_MAX];
        const size_t n = walk_way(&draft->walk, row, way);
        float logits[LOADED_N_VOCAB];

        sequence_rewind(draft->plain, draft->walk.n_text - 1);
        for (size_t i = 0; i < n; i++)
            lens(draft, way[i], logits);
        check_row(&draft->walk.tops[row], logits);
    }
}

static void check_text(Engine *engine, uint32_t n_layers) {
    Draft draft;

    draft_init(&draft, engine, n_layers, 30);
    assert_int_equal(walk_follow(&draft.walk), 0);
    walk_grow(&draft.walk, 5, 4);
    check_tops(&draft);
    compute(&draft, draft.sequence, 33); /* the text goes on */
    draft.walk.n_text = 34;
    assert_int_equal(walk_follow(&draft.walk), 0);
    walk_grow(&draft.walk, 12, 3); /* more rows than a step has */
    check_tops(&draft);
    sequence_rewind(draft.sequence, 9); /* rewound */
    draft.walk.n_text = 10;
    assert_int_equal(walk_follow(&draft.walk), 0);
    walk_grow(&draft.walk, 2, 2);
    check_tops(&draft);
    sequence_rewind(draft.sequence, 0);
    draft.walk.n_text = 1;
    assert_int_equal(walk_follow(&draft.walk), 0);
    walk_grow(&draft.walk, 2, 2);
    check_tops(&draft);
    draft_deinit(&draft);
}

static void test_self_draft_tops(void **state) {
    static const uint32_t layers[] = { 1, 7, N_PINNED, N_LAYERS };

    for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
        check_text(models.whole.engine, layers[i]);
        check_text(models.streamed.engine, layers[i]);
    }
}

/* Beside other sources two thirds of the layers draft: 13 of 20 are too few, and layers that a ring holds are in memory
 * too. */
static void test_self_draft_layers_for(void **state) {
    static const struct {
        uint32_t percent;
        uint32_t layers;
    } cases[] = { { 0, 0 }, { 65, 0 }, { 75, 15 }, { 95, 0 }, { 100, 0 } };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Loaded loaded = {
            .image_path = models.image,
            .weights_memory = { .is_set = true, .is_percent = true, .percent = cases[i].percent },
        };

        loaded_init(&loaded, models.package, 0);
        assert_int_equal(self_draft_layers_for(loaded.engine, SPECULATION_AUTO), cases[i].layers);
        assert_int_equal(self_draft_layers_for(loaded.engine, 1u << SPECULATION_MODEL),
                         self_draft_layers(loaded.engine));
        loaded_deinit(&loaded);
    }
}

static void test_self_draft_layers(void **state) {
    Draft draft;
    ErrText err = { 0 };
    DraftModel none = { 0 };

    assert_int_equal(self_draft_layers(models.whole.engine), 0);
    assert_int_equal(self_draft_layers(models.streamed.engine), N_PINNED);
    draft_init(&draft, models.whole.engine, 1, 1);
    assert_true(draft.walk.model.ops->has_text);
    assert_int_equal(draft.walk.model.ops->rows_max, WALK_ROWS_MAX);
    assert_int_equal(self_draft_new(&none, draft.sequence, 0, draft.logits, &err), -EINVAL);
    assert_int_equal(self_draft_new(&none, draft.sequence, N_LAYERS + 1, draft.logits, &err), -EINVAL);
    assert_string_equal(err.text, "21 layers cannot draft for their model, which has 20");
    assert_null(none.ops);
    draft_deinit(&draft);
}

/* No layer that is read from the disk is touched: no more comes than is read ahead behind the text. */
static void test_self_draft_reads_nothing(void **state) {
    Engine *engine = models.streamed.engine;
    WeightsRingCounts before;
    Draft draft;

    draft_init(&draft, engine, N_PINNED, 20);
    assert_int_equal(walk_follow(&draft.walk), 0);
    before = weights_flash_counts(engine_weights(engine));
    assert_int_equal(walk_follow(&draft.walk), 0);
    walk_grow(&draft.walk, 8, 7);
    assert_true(weights_flash_counts(engine_weights(engine)).read_bytes - before.read_bytes <=
                engine_info(engine)->weights.ring_bytes);
    draft_deinit(&draft);
}

/* As many rows as allowed, then one more; invalid rows and texts. */
static void test_self_draft_rows(void **state) {
    for (size_t what = 0; what < 6; what++) {
        Draft draft;

        draft_init(&draft, models.whole.engine, 3, 20);
        assert_int_equal(walk_follow(&draft.walk), 0);
        walk_add(&draft.walk, 0, -1, draft.walk.text[19]);
        for (size_t i = 1; i < WALK_ROWS_MAX; i++)
            walk_add(&draft.walk, i, (int)(i - 1) / 2, (uint32_t)(i % 2));
        assert_int_equal(walk_expand(&draft.walk, 8), 0);
        if (!what) {
            assert_int_equal(walk_expand(&draft.walk, WALK_ROWS_MAX - 8), 0);
            check_tops(&draft);
            assert_int_equal(walk_expand(&draft.walk, 1), -EINVAL);
        } else if (what < 4) {
            if (what == 1)
                draft.walk.rows[8].parent = 8;
            if (what == 2)
                draft.walk.rows[8].token = LOADED_N_VOCAB;
            assert_int_equal(walk_expand(&draft.walk, what == 3 ? 0 : 1), -EINVAL);
        } else {
            draft.walk.n_text += what == 4 ? 1 : (size_t)-1; /* not the sequence's text */
            assert_int_equal(walk_follow(&draft.walk), -EINVAL);
            draft.walk.n_text = 20;
        }
        assert_int_equal(walk_follow(&draft.walk), -EINVAL); /* the model is off from now on */
        assert_int_equal(walk_expand(&draft.walk, 1), -EINVAL);
        draft_deinit(&draft);
    }
}

/* The sequence has no room for the deepest row. */
static void test_self_draft_context(void **state) {
    Draft draft;

    draft_init(&draft, models.whole.engine, 3, CAPACITY - 2);
    assert_int_equal(walk_follow(&draft.walk), 0);
    for (size_t i = 0; i < 4; i++)
        walk_add(&draft.walk, i, (int)i - 1, i ? 1 : draft.walk.text[CAPACITY - 3]);
    assert_int_equal(walk_expand(&draft.walk, 3), 0);
    assert_int_equal(walk_expand(&draft.walk, 1), DRAFTER_E_MEMORY);
    assert_int_equal(walk_follow(&draft.walk), DRAFTER_E_MEMORY);
    draft_deinit(&draft);
}

static void test_self_draft_memory(void **state) {
    AccountTable *accounts = &models.whole.accounts;
    const uint64_t limit = accounts->limit_bytes[ACCOUNT_KV];
    Draft draft;

    draft_init(&draft, models.whole.engine, 3, 10);
    assert_int_equal(walk_follow(&draft.walk), 0);
    accounts->limit_bytes[ACCOUNT_KV] = accounts->used_bytes[ACCOUNT_KV]; /* none for the side block */
    walk_add(&draft.walk, 0, -1, draft.walk.text[9]);
    assert_int_equal(walk_expand(&draft.walk, 1), DRAFTER_E_MEMORY);
    accounts->limit_bytes[ACCOUNT_KV] = limit;
    assert_int_equal(walk_expand(&draft.walk, 1), DRAFTER_E_MEMORY); /* the model stays off */
    draft_deinit(&draft);
}

/* While all steps have made way, the model cannot compute. It drafts again once there is memory for a step. */
static void test_self_draft_busy(void **state) {
    const uint32_t token = 3;
    Engine *engine = models.whole.engine;
    EngineStep *steps[ENGINE_STEPS_MAX];
    EngineSpan spans[ENGINE_STEPS_MAX];
    Draft draft;

    draft_init(&draft, engine, 3, 10);
    assert_int_equal(walk_follow(&draft.walk), 0);
    walk_grow(&draft.walk, 2, 2);
    walk_add(&draft.walk, 5, 3, 7);
    for (size_t i = 0; i < ENGINE_STEPS_MAX; i++) {
        spans[i] = (EngineSpan){ .tokens = &token, .n = 1 };
        assert_int_equal(sequence_new(&spans[i].sequence, engine, CAPACITY, NULL), 0);
        assert_int_equal(engine_step_begin(&steps[i], engine, &spans[i], 1, NULL), 0);
    }
    assert_int_equal(walk_expand(&draft.walk, 1), -EBUSY);
    assert_int_equal(walk_expand(&draft.walk, 1), -EBUSY);
    for (size_t i = 0; i < ENGINE_STEPS_MAX; i++)
        engine_step_drop(steps[i]);
    assert_int_equal(walk_expand(&draft.walk, 1), 0);
    check_tops(&draft);
    assert_int_equal(walk_follow(&draft.walk), 0);
    walk_grow(&draft.walk, 2, 2);
    check_tops(&draft);
    for (size_t i = 0; i < ENGINE_STEPS_MAX; i++)
        sequence_free(spans[i].sequence);
    draft_deinit(&draft);
}

/* --- cancelling --------------------------------------------------------------------------------------------------- */

static BackendOps cancelling_ops;
static const BackendOps *real_ops;
static size_t cancel_after; /* products */
static _Atomic bool cancelled;

static int cancel_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                         size_t rows, const LinearOutput *out, ErrText *err) {
    if (cancel_after && !--cancel_after)
        cancelled = true;
    return real_ops->linear(backend, linears, n, in, rows, out, err);
}

/* A cancel in every operator of a pass: earlier rows are there, and the pass can be repeated. */
static void test_self_draft_cancel(void **state) {
    Engine *engine = models.whole.engine;
    bool was_cancelled = true;

    real_ops = engine->backend->ops;
    cancelling_ops = *real_ops;
    cancelling_ops.linear = cancel_linear;
    for (size_t after = 1; was_cancelled; after++) {
        Draft draft;
        int r;

        draft_init(&draft, engine, 3, 10);
        sequence_set_cancel(draft.sequence, &cancelled);
        assert_int_equal(walk_follow(&draft.walk), 0);
        walk_grow(&draft.walk, 2, 2);
        walk_add(&draft.walk, 5, 3, 7);
        walk_add(&draft.walk, 6, 4, 8);
        cancel_after = after;
        engine->backend->ops = &cancelling_ops;
        r = walk_expand(&draft.walk, 2);
        engine->backend->ops = real_ops;
        was_cancelled = cancelled && r;
        assert_int_equal(r, was_cancelled ? -ECANCELED : 0);
        assert_true(was_cancelled || after > 3);
        cancelled = false;
        cancel_after = 0;
        if (was_cancelled)
            assert_int_equal(walk_expand(&draft.walk, 2), 0);
        check_tops(&draft);
        draft_deinit(&draft);
    }
}

/* --- generations -------------------------------------------------------------------------------------------------- */

/* With a lab for each of the policies. */
static GenerationSpeculation self_speculation(int policy, uint32_t n_layers, bool chains) {
    static SpecLab labs[_POLICY_N + 1][2];
    SpecLab *lab = &labs[policy + 1][chains];

    *lab = (SpecLab){ .policy = policy_ops(policy), .always = true, .chains = chains };
    return (GenerationSpeculation){
        .sources = 1u << SPECULATION_MODEL, .rows_max = 12, .self_layers = n_layers, .lab = lab
    };
}

static Generation *begin(Engine *engine, bool sampled, const GenerationSpeculation *speculation, uint64_t user,
                         Given *given) {
    GenerationOptions options = given_options(given, engine, OUTPUT, sampled, speculation);

    options.user = user;
    return given_begin(engine, N_PROMPT, &options);
}

static void run(Engine *engine, bool sampled, const GenerationSpeculation *speculation, uint64_t user, Given *given) {
    given_run(given, begin(engine, sampled, speculation, user, given));
    assert_int_equal(given->end, GENERATION_END_MAX);
}

static void run_plain(bool sampled, Given *given) {
    run(models.whole.engine, sampled, &(GenerationSpeculation){ 0 }, 1, given);
    assert_int_equal(given->n, OUTPUT);
}

/* Drafts of all layers are the text where it is greedy; those of fewer are mostly wrong. */
static void check_drafts(const Given *given, int policy, bool sampled, uint32_t n_layers) {
    assert_true(given->report.n_model_passes > 0 && given->report.n_model_rows >= given->report.n_model_passes);
    assert_true(given->report.sources >> SPECULATION_MODEL & 1); /* it has never been off */
    assert_true(given->report.drafted[SPECULATION_MODEL] > 0);
    if (n_layers == 1 || sampled)
        assert_true(given->usage.n_accepted_tokens < given->usage.n_drafted_tokens);
    if (n_layers == N_LAYERS && !sampled && policy == POLICY_CHAIN_SD)
        assert_int_equal(given->usage.n_accepted_tokens, given->usage.n_drafted_tokens);
    if (n_layers == N_LAYERS && !sampled)
        assert_true(given->usage.n_steps <= OUTPUT / 2);
}

static void test_self_draft_generations(void **state) {
    static const uint32_t layers[] = { 1, N_PINNED, N_LAYERS };
    Engine *const engines[] = { models.whole.engine, models.streamed.engine };
    uint32_t n_accepted = 0;

    for (int sampled = 0; sampled < 2; sampled++) {
        Given plain, given;

        run_plain(sampled, &plain);
        for (size_t e = 0; e < ARRAY_LEN(engines); e++)
            for (size_t i = 0; i < ARRAY_LEN(layers); i++)
                for (int policy = OURS; policy < _POLICY_N; policy++) {
                    GenerationSpeculation speculation = self_speculation(policy, layers[i], false);

                    run(engines[e], sampled, &speculation, 1, &given);
                    given_check_same(&given, &plain);
                    check_drafts(&given, policy, sampled, layers[i]);
                    n_accepted += layers[i] == N_PINNED ? given.usage.n_accepted_tokens : 0;
                    speculation = self_speculation(policy, layers[i], true);
                    speculation.head_on_demand = true;
                    speculation.sources |= 1u << SPECULATION_SAM | 1u << SPECULATION_LOOKUP;
                    run(engines[e], sampled, &speculation, 1, &given);
                    given_check_same(&given, &plain);
                }
    }
    assert_true(n_accepted > 0);
}

enum {
    MOST = 5
};

static void begin_all(Engine *engine, Generation *generations[MOST], Given given[MOST]) {
    static const uint32_t layers[MOST] = { 1, N_PINNED, N_LAYERS, 0, 5 };

    for (size_t i = 0; i < MOST; i++) {
        const GenerationSpeculation speculation = self_speculation(i % 2 ? OURS : POLICY_SPECINFER, layers[i], false);

        generations[i] = begin(engine, false, &speculation, 1, &given[i]);
    }
}

static void end_all(Generation *generations[MOST], Given given[MOST], const Given *plain) {
    for (size_t i = 0; i < MOST; i++) {
        given_end(&given[i], generations[i]);
        given_check_same(&given[i], plain);
        assert_int_equal(given[i].report.n_model_passes > 0, i != 3);
    }
}

static void test_self_draft_together(void **state) {
    Engine *const engines[] = { models.whole.engine, models.streamed.engine };
    Given plain;

    run_plain(false, &plain);
    for (size_t e = 0; e < ARRAY_LEN(engines); e++) {
        Generation *generations[MOST];
        Given given[MOST];
        bool running = true;

        begin_all(engines[e], generations, given);
        while (running) {
            GenerationTurn turns[MOST];

            running = false;
            for (size_t i = 0; i < MOST; i++)
                turns[i] = (GenerationTurn){ .generation = generations[i], .fn = given_take, .arg = &given[i] };
            assert_int_equal(generation_step_together(turns, MOST, NULL), 0);
            for (size_t i = 0; i < MOST; i++)
                running = running || generation_end(generations[i]) == GENERATION_RUNNING;
        }
        end_all(generations, given, &plain);
    }
}

/* A generation's step stops before every operator; now and then the others run a whole step there, with passes of
 * their own, or the step is dropped and begins again. */
static void test_self_draft_making_way(void **state) {
    static const _Atomic bool wanted = true;
    const EngineYield yield = { .wanted = &wanted };
    Engine *const engines[] = { models.whole.engine, models.streamed.engine };
    Given plain;

    run_plain(false, &plain);
    for (size_t e = 0; e < ARRAY_LEN(engines); e++) {
        Generation *generations[MOST];
        Given given[MOST];
        size_t n_borders = 0, n_dropped = 0;

        begin_all(engines[e], generations, given);
        for (size_t i = 0; i < MOST; i++)
            while (generation_end(generations[i]) == GENERATION_RUNNING) {
                GenerationTurn turn = { .generation = generations[i], .fn = given_take, .arg = &given[i] };
                GenerationStep step;
                int r = GENERATION_E_YIELDED;

                assert_int_equal(generation_step_begin(&step, &turn, 1, 0, NULL), 0);
                while (r == GENERATION_E_YIELDED) {
                    const size_t other = (i + 1 + n_borders % (MOST - 1)) % MOST;

                    r = generation_step_run(&step, &yield, NULL);
                    if (r != GENERATION_E_YIELDED || ++n_borders % 61)
                        continue;
                    if (generation_end(generations[other]) == GENERATION_RUNNING)
                        assert_int_equal(generation_step(generations[other], given_take, &given[other], NULL), 0);
                    /* Drops are bounded: a step that waits for the disk makes way again and again, and never ends if it
                     * is dropped each time before the layer is there. */
                    if (++n_dropped % 13 || n_dropped > DROPPED_MAX)
                        continue;
                    generation_step_drop(&step);
                    r = 0;
                }
                assert_int_equal(r, 0);
            }
        assert_true(n_dropped > 8);
        end_all(generations, given, &plain);
    }
}

/* Without memory for rows beside the cache the model is off, and the generation goes on. */
static void test_self_draft_goes_without(void **state) {
    AccountTable *accounts = &models.whole.accounts;
    const uint64_t limit = accounts->limit_bytes[ACCOUNT_KV];
    const GenerationSpeculation speculation = self_speculation(OURS, 5, false);
    Generation *generation;
    Given plain, given;

    run_plain(false, &plain);
    generation = begin(models.whole.engine, false, &speculation, 1, &given);
    accounts->limit_bytes[ACCOUNT_KV] = accounts->used_bytes[ACCOUNT_KV];
    given_run(&given, generation);
    accounts->limit_bytes[ACCOUNT_KV] = limit;

    given_check_same(&given, &plain);
    assert_false(given.report.sources >> SPECULATION_MODEL & 1);
    assert_int_equal(given.usage.n_drafted_tokens, 0);
}

/* The model is tried by its gains for the user so far, and may lose two plain steps. No prompt is read. */
static void test_self_draft_is_tried_seldom(void **state) {
    SpeculationMemory *memory = &models.whole.engine->speculation;
    GenerationSpeculation speculation = self_speculation(OURS, 5, false);
    Given plain, given;
    float token_ms;

    run_plain(false, &plain);
    speculation.lab = NULL;
    memory->token_ms = 0;
    run(models.whole.engine, false, &speculation, 50, &given); /* nothing is known */
    given_check_same(&given, &plain);
    assert_int_equal(given.report.model.reason, PROMPT_RULE_TRIAL);
    assert_true(memory->token_ms > 0);
    assert_true(memory->model_row_ms == 0);
    token_ms = memory->token_ms;
    run(models.whole.engine, false, &speculation, 51, &given);
    assert_int_equal(given.report.model.reason, PROMPT_RULE_PAYS);
    assert_true(given.report.model.cost_ms == 2 * token_ms);
    speculation_memory_user(memory, 52)->model = (PromptRule){ .output = 1e6F, .expected = OUTPUT };
    run(models.whole.engine, false, &speculation, 52, &given); /* no gain */
    given_check_same(&given, &plain);
    assert_int_equal(given.report.model.reason, PROMPT_RULE_LOSES);
    assert_int_equal(given.report.n_model_passes, 0);
    assert_int_equal(speculation_memory_user(memory, 52)->model.n_refused, 1);
}

/* Without the source there is none. */
static void test_self_draft_source(void **state) {
    GenerationSpeculation speculation = self_speculation(OURS, 5, false);
    Given plain, given;

    run_plain(false, &plain);
    speculation.sources = 1u << SPECULATION_SAM;
    run(models.whole.engine, false, &speculation, 1, &given);
    given_check_same(&given, &plain);
    assert_int_equal(given.report.n_model_passes, 0);
    assert_int_equal(given.report.model.reason, PROMPT_RULE_NO_SOURCE);
}

static void test_self_draft_cost(void **state) {
    Draft draft, next;

    memset(&models.whole.engine->speculation.self_times, 0, sizeof(RowTimes));
    draft_init(&draft, models.whole.engine, 5, 20);
    assert_true(draft.walk.model.ops->cost_ms(draft.walk.model.self, 1) == 0);
    assert_int_equal(walk_follow(&draft.walk), 0);
    walk_grow(&draft.walk, 2, 1);
    assert_true(draft.walk.model.ops->cost_ms(draft.walk.model.self, 1) > 0);
    draft_init(&next, models.whole.engine, 5, 20); /* the next generation has the durations */
    assert_true(next.walk.model.ops->cost_ms(next.walk.model.self, 2) ==
                draft.walk.model.ops->cost_ms(draft.walk.model.self, 2));
    draft_deinit(&next);
    draft_deinit(&draft);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self_draft_layers_for),   cmocka_unit_test(test_self_draft_tops),
        cmocka_unit_test(test_self_draft_layers),       cmocka_unit_test(test_self_draft_reads_nothing),
        cmocka_unit_test(test_self_draft_rows),         cmocka_unit_test(test_self_draft_context),
        cmocka_unit_test(test_self_draft_memory),       cmocka_unit_test(test_self_draft_busy),
        cmocka_unit_test(test_self_draft_cancel),       cmocka_unit_test(test_self_draft_generations),
        cmocka_unit_test(test_self_draft_together),     cmocka_unit_test(test_self_draft_making_way),
        cmocka_unit_test(test_self_draft_goes_without), cmocka_unit_test(test_self_draft_is_tried_seldom),
        cmocka_unit_test(test_self_draft_source),       cmocka_unit_test(test_self_draft_cost),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
