// SPDX-License-Identifier: Apache-2.0
/* Generations that share their steps answer as each of them does alone: the same tokens from the same bytes of logits.
 * Models: a small one, and the real one unless COORDGEN_SMALL is set, because an emulator would take many minutes. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine/generation_state.h"
#include "scheduler/requests/row_share.h"
#include "test/unit/fixtures/golden_hash.h"
#include "test/unit/fixtures/model_maker.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/fixtures/real_model.h"
#include "test/unit/fixtures/tiny_engine.h"

enum {
    REQUESTS = 7,
    CHUNK = 32,
    OUTPUT = 14,
};

static RealModel model;
static TinyEngine tiny;

/* The engine is all that the tests know of a model. */
static int setup_small(void **state) {
    tiny.preempts = true;
    tiny_engine_open(&tiny, ENGINE_DEVICE_CPU, CHUNK);
    model.engine = tiny.engine;
    return 0;
}

static int teardown_small(void **state) {
    model.engine = NULL;
    tiny_engine_close(&tiny);
    return 0;
}

static int setup(void **state) {
    real_model_open(&model, ENGINE_DEVICE_CPU, ISA_BEST, 2, CHUNK);
    return 0;
}

static int teardown(void **state) {
    real_model_close(&model);
    return 0;
}

static const char text[] =
    "The ferry had left an hour before, and the keeper of the landing counted the coins by lamplight. There were fewer "
    "than on other evenings, because the fair in the upper town drew the people over the bridge; but the river was "
    "low, and whoever came late would have to wait for the morning. He wrote the sum into the book, as he had every "
    "night for thirty years, and then he heard steps on the planks.";

/* Prompts are shorter and longer than a chunk. */
static const size_t prompt_lengths[REQUESTS] = { 70, 1, 33, 8, 32, 80, 5 };

static TokenList prompt_tokens(void) {
    TokenList tokens = { 0 };
    ErrText err;

    if (tiny.engine) {
        tokens.ids = malloc(80 * sizeof(*tokens.ids));
        assert_non_null(tokens.ids);
        for (; tokens.n < 80; tokens.n++)
            tokens.ids[tokens.n] = (uint32_t)(tokens.n * tokens.n * 7 % TINY_VOCAB);
        return tokens;
    }
    if (tokenizer_encode(engine_tokenizer(model.engine), text, sizeof(text) - 1, 0, &tokens, &err))
        fail_msg("%s", err.text);
    assert_true(tokens.n >= 80);
    return tokens;
}

/* Output of a generation so far. */
typedef struct Given {
    const Generation *generation;
    uint64_t hash; /* hash of all logits and tokens */
    size_t n_tokens;
} Given;

static void take(void *arg, const GenerationDelta *delta) {
    Given *given = arg;

    if (!delta->n_tokens)
        return;
    given->hash = hash_of(given->hash, given->generation->logits, engine_info(model.engine)->n_vocab * sizeof(float));
    given->hash = hash_of(given->hash, delta->tokens, delta->n_tokens * sizeof(*delta->tokens));
    given->n_tokens += delta->n_tokens;
}

static Generation *request(const TokenList *tokens, size_t index) {
    GenerationOptions options = { .max_tokens = OUTPUT, .ignore_end = true, .sampler = SAMPLER_OPTIONS_GREEDY };
    Generation *generation;
    ErrText err = { 0 };

    if (index % 2) {
        options.sampler.temperature = 0.9f;
        options.sampler.top_k = 40;
        options.sampler.seed = index;
    }
    if (generation_new(&generation, model.engine, tokens->ids, prompt_lengths[index], &options, &err))
        fail_msg("%s", err.text);
    return generation;
}

static void run_alone(const TokenList *tokens, Given *alone) {
    for (size_t i = 0; i < REQUESTS; i++) {
        Generation *generation = request(tokens, i);

        alone[i] = (Given){ .generation = generation, .hash = HASH_START };
        while (generation_end(generation) == GENERATION_RUNNING)
            assert_int_equal(generation_step(generation, take, &alone[i], NULL), 0);
        assert_int_equal(alone[i].n_tokens, OUTPUT);
        generation_free(generation);
    }
}

/* Request i comes `distance` steps after the one before; request `cancelled` leaves in its 9th step (REQUESTS: none
 * does). With classes every third request is interactive and every third one background. */
static void run_together(const TokenList *tokens, const Given *alone, size_t distance, size_t cancelled, bool classes) {
    Generation *generations[REQUESTS] = { 0 };
    Given given[REQUESTS];
    size_t n_steps[REQUESTS] = { 0 }, n_shared = 0;
    bool running = true;

    for (size_t step = 0; running; step++) {
        GenerationTurn turns[REQUESTS];
        size_t n = 0, of[REQUESTS], rows = 0;
        uint32_t before[REQUESTS];

        for (size_t i = 0; i < REQUESTS; i++) {
            if (!generations[i] && step >= i * distance) {
                generations[i] = request(tokens, i);
                given[i] = (Given){ .generation = generations[i], .hash = HASH_START };
            }
            if (!generations[i] || generation_end(generations[i]) != GENERATION_RUNNING)
                continue;
            if (i == cancelled && n_steps[i] == 8)
                generation_cancel(generations[i]);
            before[n] = generation_usage(generations[i])->n_prefilled_tokens;
            of[n] = i;
            turns[n] = (GenerationTurn){ .generation = generations[i], .fn = take, .arg = &given[i] };
            if (classes)
                turns[n].standing = (Standing){ (Priority)(i % 3) - 1, (Priority)(i % 3) - 1 };
            n++;
        }
        if (n)
            assert_int_equal(generation_step_together(turns, n, NULL), 0);
        for (size_t t = 0; t < n; t++) {
            const GenerationUsage *usage = generation_usage(turns[t].generation);

            assert_int_equal(turns[t].r, 0);
            n_steps[of[t]] += turns[t].ran;
            rows += usage->n_prefilled_tokens - before[t];
            n_shared += n > 1 && turns[t].ran;
            if (before[t] == usage->n_prompt_tokens)
                assert_true(turns[t].ran); /* a generation that decodes never waits for prompts */
        }
        assert_true(rows <= CHUNK);
        running = step < (REQUESTS - 1) * distance;
        for (size_t i = 0; i < REQUESTS; i++)
            running = running || (generations[i] && generation_end(generations[i]) == GENERATION_RUNNING);
    }
    assert_true(n_shared > REQUESTS);
    for (size_t i = 0; i < REQUESTS; i++) {
        if (i == cancelled) {
            assert_int_equal(generation_end(generations[i]), GENERATION_END_CANCELLED);
            assert_true(given[i].n_tokens && given[i].n_tokens < OUTPUT);
        } else {
            assert_int_equal(given[i].n_tokens, OUTPUT);
            if (given[i].hash != alone[i].hash)
                fail_msg("request %zu, %zu steps apart: other logits than alone", i, distance);
        }
        generation_free(generations[i]);
    }
}

static void test_together_is_as_alone(void **state) {
    _cleanup_(token_list_deinit) TokenList tokens = prompt_tokens();
    Given alone[REQUESTS];

    run_alone(&tokens, alone);
    run_together(&tokens, alone, 0, REQUESTS, false);
    run_together(&tokens, alone, 1, REQUESTS, true);
    run_together(&tokens, alone, 2, 1, true);
}

/* Rows of prompts in a step depend on who waits for an interactive answer, and who reads one. */
static void test_together_rows_by_class(void **state) {
    _cleanup_(token_list_deinit) TokenList tokens = prompt_tokens();
    Generation *background = request(&tokens, 5), *normal = request(&tokens, 0), *interactive = request(&tokens, 2);
    GenerationTurn turns[] = {
        { .generation = background, .standing = { PRIORITY_BACKGROUND, PRIORITY_BACKGROUND } },
        { .generation = normal },
        { .generation = interactive, .standing = { PRIORITY_INTERACTIVE, PRIORITY_INTERACTIVE } },
    };
    const GenerationUsage *of_background = generation_usage(background), *of_normal = generation_usage(normal);

    /* Its prompt of 33 tokens takes two steps. The others get nothing in them, except for one that has waited for
     * long. */
    assert_int_equal(generation_step_together(turns, 3, NULL), 0);
    assert_int_equal(generation_usage(interactive)->n_prefilled_tokens, CHUNK);
    assert_true(!turns[0].ran && !turns[1].ran);
    turns[0].standing.rank = PRIORITY_INTERACTIVE;
    assert_int_equal(generation_step_together(turns, 3, NULL), 0);
    assert_int_equal(generation_usage(interactive)->n_output_tokens, 1);
    assert_int_equal(of_background->n_prefilled_tokens, ROW_SHARE_LOWER_ROWS);
    assert_false(turns[1].ran);
    /* While it answers the others get some rows, the higher class first. */
    turns[0].standing.rank = PRIORITY_BACKGROUND;
    assert_int_equal(generation_step_together(turns, 3, NULL), 0);
    assert_int_equal(generation_usage(interactive)->n_output_tokens, 2);
    assert_int_equal(of_normal->n_prefilled_tokens, ROW_SHARE_LOWER_ROWS);
    assert_false(turns[0].ran);
    /* When it has gone, the normal one gets the chunk; the background one gets its part once nobody waits. */
    assert_int_equal(generation_step_together(turns, 2, NULL), 0);
    assert_int_equal(of_normal->n_prefilled_tokens, ROW_SHARE_LOWER_ROWS + CHUNK);
    assert_false(turns[0].ran);
    assert_int_equal(generation_step_together(turns, 2, NULL), 0);
    assert_int_equal(of_normal->n_prefilled_tokens, 70);
    assert_int_equal(of_background->n_prefilled_tokens, ROW_SHARE_LOWER_ROWS);
    generation_free(background);
    generation_free(normal);
    generation_free(interactive);
}

/* Background prompts beside an answer of a higher class get some rows in one step of eight, so that the answer is
 * nearly as fast as alone. When it has gone they get the whole chunk. */
static void test_together_background_takes_what_is_left(void **state) {
    static const Priority classes[] = { PRIORITY_NORMAL, PRIORITY_INTERACTIVE };
    _cleanup_(token_list_deinit) TokenList tokens = prompt_tokens();

    for (size_t c = 0; c < ARRAY_LEN(classes); c++) {
        const GenerationOptions options = { .max_tokens = 32, .ignore_end = true, .sampler = SAMPLER_OPTIONS_GREEDY };
        Generation *backgrounds[] = { request(&tokens, 5), request(&tokens, 0) }, *answer;
        GenerationTurn turns[3] = { { .generation = backgrounds[0] }, { .generation = backgrounds[1] } };
        uint64_t n_rows = 0, n_before;

        assert_int_equal(generation_new(&answer, model.engine, tokens.ids, 1, &options, NULL), 0);
        turns[0].standing = turns[1].standing = (Standing){ PRIORITY_BACKGROUND, PRIORITY_BACKGROUND };
        turns[2] = (GenerationTurn){ .generation = answer, .standing = { classes[c], classes[c] } };
        assert_int_equal(generation_step_together(turns, 3, NULL), 0); /* the prompt leaves no row of that step */
        assert_true(!turns[0].ran && !turns[1].ran);
        for (size_t i = 1; i <= 2 * ROW_SHARE_BACKGROUND_STEPS; i++) {
            assert_int_equal(generation_step_together(turns, 3, NULL), 0);
            assert_true(turns[2].ran);
            n_before = n_rows;
            n_rows = generation_usage(backgrounds[0])->n_prefilled_tokens +
                     generation_usage(backgrounds[1])->n_prefilled_tokens;
            assert_int_equal(n_rows - n_before, i % ROW_SHARE_BACKGROUND_STEPS ? 0 : ROW_SHARE_LOWER_ROWS);
        }
        /* Waiting ranks a prompt before others of its class, and no higher beside an answer. */
        turns[1].standing.rank = classes[c];
        for (size_t i = 1; i <= ROW_SHARE_BACKGROUND_STEPS; i++) {
            n_before = generation_usage(backgrounds[1])->n_prefilled_tokens;
            assert_int_equal(generation_step_together(turns, 3, NULL), 0);
            assert_int_equal(generation_usage(backgrounds[1])->n_prefilled_tokens - n_before,
                             i % ROW_SHARE_BACKGROUND_STEPS ? 0 : ROW_SHARE_LOWER_ROWS);
        }
        generation_free(answer);
        n_before = generation_usage(backgrounds[0])->n_prefilled_tokens;
        turns[1].standing.rank = PRIORITY_BACKGROUND;
        assert_int_equal(generation_step_together(turns, 2, NULL), 0);
        assert_int_equal(generation_usage(backgrounds[0])->n_prefilled_tokens - n_before, CHUNK);
        generation_free(backgrounds[0]);
        generation_free(backgrounds[1]);
    }
}

/* Collects the requests of a half that still run. Return: how many. */
static size_t turns_of(GenerationTurn *turns, Generation *const *generations, Given *given, size_t half) {
    size_t n = 0;

    for (size_t i = half; i < REQUESTS; i += 2)
        if (generation_end(generations[i]) == GENERATION_RUNNING)
            turns[n++] = (GenerationTurn){ .generation = generations[i], .fn = take, .arg = &given[i] };
    return n;
}

/* Steps of one half of the requests make way, at random, for steps of the other half. */
static void test_together_with_preemption(void **state) {
    static const _Atomic bool wanted = true;
    const EngineYield yield = { .wanted = &wanted };
    _cleanup_(token_list_deinit) TokenList tokens = prompt_tokens();
    GenerationTurn turns[REQUESTS], others[REQUESTS];
    Generation *generations[REQUESTS];
    Given alone[REQUESTS], given[REQUESTS];
    uint64_t random = 5;
    size_t n;

    run_alone(&tokens, alone);
    for (size_t i = 0; i < REQUESTS; i++) {
        generations[i] = request(&tokens, i);
        given[i] = (Given){ .generation = generations[i], .hash = HASH_START };
    }
    while ((n = turns_of(turns, generations, given, 0))) {
        GenerationStep step;
        int r;

        assert_int_equal(generation_step_begin(&step, turns, n, 0, NULL), 0);
        while ((r = generation_step_run(&step, &yield, NULL)) == GENERATION_E_YIELDED) {
            size_t n_others = test_random(&random) % 8 ? 0 : turns_of(others, generations, given, 1);

            if (n_others)
                assert_int_equal(generation_step_together(others, n_others, NULL), 0);
        }
        assert_int_equal(r, 0);
    }
    assert_int_equal(turns_of(others, generations, given, 1), 0); /* meanwhile they have ended */
    for (size_t i = 0; i < REQUESTS; i++) {
        assert_int_equal(given[i].n_tokens, OUTPUT);
        if (given[i].hash != alone[i].hash)
            fail_msg("request %zu: other logits than alone", i);
        generation_free(generations[i]);
    }
}

/* Without memory for the shared head the answers do not change. */
static void test_together_without_memory_for_the_head(void **state) {
    const size_t n_vocab = engine_info(model.engine)->n_vocab,
                 request_bytes = n_vocab * (sizeof(float) + sizeof(SamplerCandidate)) +
                                 engine_info(model.engine)->n_context * sizeof(uint32_t);
    _cleanup_(token_list_deinit) TokenList tokens = prompt_tokens();
    Given alone[REQUESTS];
    uint64_t before;

    real_model_close(&model);
    real_model_open(&model, ENGINE_DEVICE_CPU, ISA_BEST, 1, CHUNK);
    run_alone(&tokens, alone);
    before = model.accounts.used_bytes[ACCOUNT_ACTIVATIONS];
    model.accounts.limit_bytes[ACCOUNT_ACTIVATIONS] = before + REQUESTS * request_bytes;
    run_together(&tokens, alone, 0, REQUESTS, false);
    assert_int_equal(model.accounts.used_bytes[ACCOUNT_ACTIVATIONS], before);
    model.accounts.limit_bytes[ACCOUNT_ACTIVATIONS] = UINT64_MAX;
    run_together(&tokens, alone, 0, REQUESTS, false);
    assert_true(model.accounts.used_bytes[ACCOUNT_ACTIVATIONS] > before); /* the rows of the head */
}

static void test_spans_are_checked(void **state) {
    size_t n_vocab = engine_info(model.engine)->n_vocab;
    float *logits = malloc(n_vocab * sizeof(float));
    uint32_t tokens[CHUNK] = { 1, 2, 3 };
    Sequence *a, *b;
    ErrText err;

    assert_non_null(logits);
    assert_int_equal(sequence_new(&a, model.engine, 64, &err), 0);
    assert_int_equal(sequence_new(&b, model.engine, 8, &err), 0);
    for (int wrong = 0; wrong < 6; wrong++) {
        EngineSpan spans[] = { { .sequence = a, .tokens = tokens, .n = 4, .head = { .n_rows = 1, .logits = logits } },
                               { .sequence = b, .tokens = tokens, .n = 3, .head = { .n_rows = 0, .logits = NULL } } };

        if (wrong == 0)
            spans[1].n = 0;
        if (wrong == 1)
            spans[0].n = CHUNK - 2; /* 33 rows together */
        if (wrong == 2)
            spans[1].head.n_rows = 4;
        if (wrong == 3)
            spans[1].sequence = a;
        if (wrong == 4)
            spans[1].n = 9;
        if (wrong == 5)
            tokens[2] = (uint32_t)n_vocab;
        assert_int_equal(engine_forward_spans(model.engine, spans, 2, NULL), wrong == 4 ? ENGINE_E_CONTEXT : -EINVAL);
        assert_int_equal(sequence_n_tokens(a) + sequence_n_tokens(b), 0);
    }
    sequence_free(a);
    sequence_free(b);
    free(logits);
}

/* A generation that shares a step is cancelled meanwhile: the other one goes on as if it were alone. */
static void test_cancelled_span_stays_as_it_was(void **state) {
    size_t n_vocab = engine_info(model.engine)->n_vocab;
    float *logits = malloc(3 * n_vocab * sizeof(float));
    uint32_t tokens[] = { 19556, 28, 392, 416, 722 };
    _Atomic bool cancelled = true;
    Sequence *a, *b;
    ErrText err;

    assert_non_null(logits);
    assert_int_equal(sequence_new(&a, model.engine, 16, &err), 0);
    assert_int_equal(sequence_new(&b, model.engine, 16, &err), 0);
    assert_int_equal(engine_forward(model.engine, b, tokens, 5, 1, logits, NULL), 0);
    sequence_rewind(b, 0);
    sequence_set_cancel(a, &cancelled);
    {
        EngineSpan spans[] = {
            { .sequence = a, .tokens = tokens, .n = 3, .head = { .n_rows = 1, .logits = logits + 2 * n_vocab } },
            { .sequence = b, .tokens = tokens, .n = 5, .head = { .n_rows = 1, .logits = logits + n_vocab } }
        };

        assert_int_equal(engine_forward_spans(model.engine, spans, 2, NULL), 0);
        assert_true(spans[0].is_cancelled && !spans[1].is_cancelled);
    }
    assert_int_equal(sequence_n_tokens(a), 0);
    assert_int_equal(sequence_n_tokens(b), 5);
    assert_memory_equal(logits, logits + n_vocab, n_vocab * sizeof(float));
    sequence_free(a);
    sequence_free(b);
    free(logits);
}

enum {
    LEAVERS = 16,
    LEAVE_TRIES = 4000,
};

/* Raises `cancelled` at `at_ns`, again and again, until `is_over`. */
typedef struct Leaver {
    _Atomic bool cancelled, is_over;
    _Atomic uint64_t at_ns; /* 0: raised, or not wanted */
} Leaver;

static void *leave(void *arg) {
    Leaver *leaver = arg;

    while (!atomic_load(&leaver->is_over)) {
        const uint64_t at_ns = atomic_load(&leaver->at_ns);

        if (!at_ns)
            sched_yield();
        else if (clock_now_ns() >= at_ns) {
            atomic_store(&leaver->cancelled, true);
            atomic_store(&leaver->at_ns, 0);
        }
    }
    return NULL;
}

/* The last of many generations leaves at any moment of the step. A step that ends as cancelled marks every span as
 * cancelled, because the others' rows are not computed then. */
static void test_last_one_leaves_at_any_moment(void **state) {
    size_t n_vocab = engine_info(model.engine)->n_vocab, n_cancelled = 0;
    float *logits = malloc(LEAVERS * n_vocab * sizeof(float));
    uint32_t token = 1;
    _Atomic bool has_left = true;
    Leaver leaver = { 0 };
    EngineSpan spans[LEAVERS];
    uint64_t random = 1, step_ns = 0;
    pthread_t thread;
    ErrText err;

    assert_non_null(logits);
    for (size_t i = 0; i < LEAVERS; i++) {
        spans[i] = (EngineSpan){ .tokens = &token, .n = 1, .head = { .n_rows = 1, .logits = logits + i * n_vocab } };
        assert_int_equal(sequence_new(&spans[i].sequence, model.engine, 16, &err), 0);
        sequence_set_cancel(spans[i].sequence, i ? &has_left : &leaver.cancelled);
    }
    assert_int_equal(pthread_create(&thread, NULL, leave, &leaver), 0);
    for (int try = 0; try < LEAVE_TRIES; try++) {
        const uint64_t start_ns = clock_now_ns();
        int r;

        random = random * 6364136223846793005u + 1442695040888963407u;
        if (try)
            atomic_store(&leaver.at_ns, start_ns + (random >> 33) % step_ns);
        r = engine_forward_spans(model.engine, spans, LEAVERS, NULL);
        step_ns = try ? step_ns : clock_now_ns() - start_ns;
        while (atomic_load(&leaver.at_ns))
            sched_yield();
        assert_int_equal(r, spans[0].is_cancelled ? ENGINE_E_CANCELLED : 0);
        assert_int_equal(sequence_n_tokens(spans[0].sequence), r ? 0 : 1);
        n_cancelled += r != 0;
        sequence_rewind(spans[0].sequence, 0);
        atomic_store(&leaver.cancelled, false);
    }
    atomic_store(&leaver.is_over, true);
    pthread_join(thread, NULL);
    assert_in_range(n_cancelled, 1, LEAVE_TRIES - 1); /* some flags were raised in time */
    for (size_t i = 0; i < LEAVERS; i++)
        sequence_free(spans[i].sequence);
    free(logits);
}

int main(void) {
    const struct CMUnitTest small[] = {
        cmocka_unit_test(test_together_is_as_alone),
        cmocka_unit_test(test_together_rows_by_class),
        cmocka_unit_test(test_together_background_takes_what_is_left),
        cmocka_unit_test(test_together_background_takes_what_is_left),
        cmocka_unit_test(test_together_with_preemption),
        cmocka_unit_test(test_spans_are_checked),
        cmocka_unit_test(test_last_one_leaves_at_any_moment),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together_is_as_alone),
        cmocka_unit_test(test_together_rows_by_class),
        cmocka_unit_test(test_together_background_takes_what_is_left),
        cmocka_unit_test(test_together_with_preemption),
        cmocka_unit_test(test_together_without_memory_for_the_head),
        cmocka_unit_test(test_spans_are_checked),
        cmocka_unit_test(test_cancelled_span_stays_as_it_was),
    };

    if (cmocka_run_group_tests_name("generation_together, small", small, setup_small, teardown_small))
        return 1;
    return patience_is_short() ? 0 : cmocka_run_group_tests_name("generation_together", tests, setup, teardown);
}
