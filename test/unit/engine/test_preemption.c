// SPDX-License-Identifier: Apache-2.0
/* Steps that make way: wherever a step stops, and whatever runs meanwhile, all logits have the bytes of an undisturbed
 * run. On small models, at every border between operators, for every kernel of the machine. */
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine/generation.h"
#include "engine/kv/kv_page.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/importer/import_fixture.h"

enum {
    N_VOCAB = 40,
    CHUNK = 8,
    ROWS_A = 7, /* rows of the step that makes way */
    ROWS_B = 5, /* rows of the step that it makes way for */
    BEFORE = 3, /* positions of each sequence before */
};

typedef struct Loaded {
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
    Sequence *a, *b;
} Loaded;

static void loaded_init(Loaded *loaded, const char *package, Isa isa, unsigned int threads) {
    ErrText err = { 0 };

    account_table_init(&loaded->accounts);
    assert_int_equal(worker_pool_new(&loaded->pool, threads), 0);
    if (engine_new(&loaded->engine,
                   &(EngineOptions){ .path = package,
                                     .load.device = ENGINE_DEVICE_CPU,
                                     .load.isa = isa,
                                     .load.chunk_tokens = CHUNK,
                                     .load.preemption = true,
                                     .pool = loaded->pool,
                                     .accounts = &loaded->accounts },
                   &err))
        fail_msg("%s", err.text);
    assert_int_equal(sequence_new(&loaded->a, loaded->engine, 100, &err), 0);
    assert_int_equal(sequence_new(&loaded->b, loaded->engine, 100, &err), 0);
}

static void loaded_deinit(Loaded *loaded) {
    sequence_free(loaded->a);
    sequence_free(loaded->b);
    engine_free(loaded->engine);
    worker_pool_free(loaded->pool);
    for (int id = 0; id < _ACCOUNT_N; id++)
        assert_int_equal(atomic_load(&loaded->accounts.used_bytes[id]), 0);
}

static const char *make_package(ImportFixture *fixture, const char *arch, double bits, bool static_activations) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.arch = arch;
    return import_fixture_package(fixture, &maker, bits, static_activations);
}

/* Returns tokens of a sequence by their positions. */
static const uint32_t *tokens_at(Sequence *sequence, uint32_t salt) {
    static uint32_t tokens[2][CHUNK];
    uint32_t *of = tokens[salt % 2];

    for (uint32_t i = 0; i < CHUNK; i++)
        of[i] = ((uint32_t)sequence_n_tokens(sequence) + i + salt) * 7 % N_VOCAB;
    return of;
}

/* Rewinds to the first positions and computes them anew: what a step left behind them must not matter. */
static void begin_again(Loaded *loaded) {
    float logits[N_VOCAB];

    sequence_rewind(loaded->a, 0);
    sequence_rewind(loaded->b, 0);
    assert_int_equal(engine_forward(loaded->engine, loaded->a, tokens_at(loaded->a, 1), BEFORE, 1, logits, NULL), 0);
    assert_int_equal(engine_forward(loaded->engine, loaded->b, tokens_at(loaded->b, 2), BEFORE, 1, logits, NULL), 0);
}

typedef struct Logits {
    float a[ROWS_A][N_VOCAB], b[ROWS_B][N_VOCAB];
} Logits;

static EngineSpan span_a(Loaded *loaded, Logits *logits) {
    return (EngineSpan){ .sequence = loaded->a,
                         .tokens = tokens_at(loaded->a, 1),
                         .n = ROWS_A,
                         .head = { .n_rows = ROWS_A, .logits = logits->a[0] } };
}

static void run_b(Loaded *loaded, Logits *logits) {
    assert_int_equal(
        engine_forward(loaded->engine, loaded->b, tokens_at(loaded->b, 2), ROWS_B, ROWS_B, logits->b[0], NULL), 0);
}

static void compare(const Logits *logits, const Logits *alone, size_t border) {
    if (memcmp(logits, alone, sizeof(*alone)))
        fail_msg("other logits than alone after %zu operators", border);
}

static const _Atomic bool wanted = true;
static const EngineYield at_once = { .wanted = &wanted };

/* Stops after `border` operators, or at its end. Return: how many ran; *stepp: NULL if the step has ended. */
static size_t run_to(EngineStep **stepp, size_t border) {
    for (size_t n = 0; n < border; n++) {
        int r = engine_step_run(*stepp, &at_once, NULL);

        if (!r) {
            *stepp = NULL;
            return n;
        }
        assert_int_equal(r, ENGINE_E_YIELDED);
    }
    return border;
}

/* Returns how many borders between operators the step has. */
static size_t every_border(Loaded *loaded) {
    Logits alone, logits;
    EngineSpan span;
    EngineStep *step;
    size_t border;

    begin_again(loaded);
    span = span_a(loaded, &alone);
    assert_int_equal(engine_forward_spans(loaded->engine, &span, 1, NULL), 0);
    run_b(loaded, &alone);
    for (border = 0;; border++) {
        begin_again(loaded);
        memset(&logits, 0, sizeof(logits));
        span = span_a(loaded, &logits);
        assert_int_equal(engine_step_begin(&step, loaded->engine, &span, 1, NULL), 0);
        if (run_to(&step, border) < border)
            break;
        run_b(loaded, &logits);
        assert_int_equal(sequence_n_tokens(loaded->a), BEFORE);
        assert_int_equal(engine_step_run(step, NULL, NULL), 0);
        assert_int_equal(sequence_n_tokens(loaded->a), BEFORE + ROWS_A);
        compare(&logits, &alone, border);
    }
    /* The step stops at every border. */
    begin_again(loaded);
    memset(&logits, 0, sizeof(logits));
    span = span_a(loaded, &logits);
    assert_int_equal(engine_step_begin(&step, loaded->engine, &span, 1, NULL), 0);
    for (size_t n = 0; n + 1 < border; n++) {
        assert_int_equal(run_to(&step, 1), 1);
        sequence_rewind(loaded->b, BEFORE);
        run_b(loaded, &logits);
    }
    assert_int_equal(engine_step_run(step, NULL, NULL), 0);
    compare(&logits, &alone, border);
    return border;
}

static void test_preemption_at_every_border(void **state) {
    static const struct {
        const char *arch;
        double bits;
        bool static_activations;
    } models[] = { { "llama", 8, false },
                   { "qwen2", 8, false },
                   { "gemma3", 8, false },
                   { "llama", 4.5, false },
                   { "llama", 8, true } };

    for (size_t i = 0; i < ARRAY_LEN(models); i++) {
        const char *package = make_package(*state, models[i].arch, models[i].bits, models[i].static_activations);

        for (int isa = ISA_SCALAR; isa < _ISA_N; isa++)
            for (unsigned int threads = 1; threads <= 2 && patience_takes_isa((Isa)isa); threads++) {
                Loaded loaded;

                loaded_init(&loaded, package, (Isa)isa, threads);
                assert_true(every_border(&loaded) > 10); /* two layers */
                loaded_deinit(&loaded);
            }
    }
}

/* Steps of several sequences stop and resume at random. */
static void test_preemption_at_random(void **state) {
    const char *package = make_package(*state, "llama", 4.5, false);
    uint64_t random = 20261122;
    Logits alone, logits;
    Loaded loaded;

    loaded_init(&loaded, package, ISA_BEST, 2);
    begin_again(&loaded);
    {
        EngineSpan span = span_a(&loaded, &alone);

        assert_int_equal(engine_forward_spans(loaded.engine, &span, 1, NULL), 0);
        run_b(&loaded, &alone);
    }
    for (size_t round = 0; round < 100; round++) {
        EngineSpan spans_a[1], spans_b[1];
        EngineStep *steps[2];
        bool is_over[2] = { false, false };

        begin_again(&loaded);
        memset(&logits, 0, sizeof(logits));
        spans_a[0] = span_a(&loaded, &logits);
        spans_b[0] = (EngineSpan){ .sequence = loaded.b,
                                   .tokens = tokens_at(loaded.b, 2),
                                   .n = ROWS_B,
                                   .head = { .n_rows = ROWS_B, .logits = logits.b[0] } };
        assert_int_equal(engine_step_begin(&steps[0], loaded.engine, spans_a, 1, NULL), 0);
        assert_int_equal(engine_step_begin(&steps[1], loaded.engine, spans_b, 1, NULL), 0);
        while (!is_over[0] || !is_over[1]) { /* either step may make way for the other */
            const size_t which = test_random(&random) % 2;
            const bool ask = test_random(&random) % 4;
            int r = is_over[which] ? 0 : engine_step_run(steps[which], ask ? &at_once : NULL, NULL);

            assert_true(!r || (r == ENGINE_E_YIELDED && ask));
            is_over[which] = !r;
        }
        compare(&logits, &alone, round);
    }
    loaded_deinit(&loaded);
}

/* Forbidden calls while a step has made way, and steps that are cancelled or dropped then. */
static void test_preemption_keeps_steps_apart(void **state) {
    const char *package = make_package(*state, "llama", 8, false);
    const EngineYield over = { .until_ns = 1 };
    _Atomic bool cancelled = false;
    Logits alone, logits;
    EngineStep *step, *second, *third;
    EngineSpan span, other, again;
    Loaded loaded;
    ErrText err;

    loaded_init(&loaded, package, ISA_BEST, 1);
    assert_true(engine_has_preemption(loaded.engine));
    begin_again(&loaded);
    span = span_a(&loaded, &alone);
    assert_int_equal(engine_forward_spans(loaded.engine, &span, 1, NULL), 0);
    run_b(&loaded, &alone);

    begin_again(&loaded);
    span = again = span_a(&loaded, &logits);
    assert_int_equal(engine_step_begin(&step, loaded.engine, &span, 1, NULL), 0);
    assert_int_equal(engine_step_run(step, &over, NULL), ENGINE_E_YIELDED); /* its time ended before it began */
    assert_int_equal(engine_forward_spans(loaded.engine, &again, 1, NULL), -EINVAL);
    assert_int_equal(engine_set_chunk_tokens(loaded.engine, 4, &err), -EBUSY);
    other = (EngineSpan){ .sequence = loaded.b,
                          .tokens = tokens_at(loaded.b, 2),
                          .n = ROWS_B,
                          .head = { .n_rows = ROWS_B, .logits = logits.b[0] } };
    assert_int_equal(engine_step_begin(&second, loaded.engine, &other, 1, NULL), 0);
    {
        Sequence *c;
        EngineSpan more;

        assert_int_equal(sequence_new(&c, loaded.engine, 8, &err), 0);
        more =
            (EngineSpan){ .sequence = c, .tokens = tokens_at(c, 2), .n = 1, .head = { .n_rows = 0, .logits = NULL } };
        assert_int_equal(engine_step_begin(&third, loaded.engine, &more, 1, &err), -EBUSY);
        sequence_free(c);
    }
    /* A cancelled step ends at its next operator. */
    sequence_set_cancel(loaded.a, &cancelled);
    atomic_store(&cancelled, true);
    assert_int_equal(engine_step_run(step, &at_once, NULL), ENGINE_E_CANCELLED);
    assert_int_equal(sequence_n_tokens(loaded.a), BEFORE);
    second = engine_step_drop(second);
    assert_null(second);
    assert_int_equal(sequence_n_tokens(loaded.b), BEFORE);
    atomic_store(&cancelled, false);
    /* Both sequences are as they were. */
    assert_int_equal(engine_set_chunk_tokens(loaded.engine, CHUNK, &err), 0);
    assert_int_equal(engine_forward_spans(loaded.engine, &again, 1, NULL), 0);
    run_b(&loaded, &logits);
    compare(&logits, &alone, 0);
    loaded_deinit(&loaded);
}

static void test_preemption_takes_memory_only_when_asked_for(void **state) {
    const char *package = make_package(*state, "llama", 8, false);
    uint64_t used_bytes[2];

    for (int preemption = 0; preemption < 2; preemption++) {
        AccountTable accounts;
        WorkerPool *pool;
        Engine *engine;
        EngineOptions options = { .path = package,
                                  .load.device = ENGINE_DEVICE_CPU,
                                  .load.chunk_tokens = CHUNK,
                                  .load.preemption = preemption,
                                  .accounts = &accounts };
        ErrText err;

        account_table_init(&accounts);
        assert_int_equal(worker_pool_new(&pool, 1), 0);
        options.pool = pool;
        assert_int_equal(engine_new(&engine, &options, &err), 0);
        assert_int_equal(engine_has_preemption(engine), preemption);
        used_bytes[preemption] = atomic_load(&accounts.used_bytes[ACCOUNT_ACTIVATIONS]);
        engine_free(engine);
        worker_pool_free(pool);
    }
    assert_true(used_bytes[1] > used_bytes[0] + (uint64_t)CHUNK * 4 * 64 * sizeof(float));
}

/* --- with kept prefixes ------------------------------------------------------------------------------------------- */

enum {
    PROMPT = 100,
    ALIKE = 80, /* tokens that both prompts begin with: a page and a part of the next */
    ANSWER = 4,
};

typedef struct Answer {
    uint32_t tokens[ANSWER];
    size_t n;
} Answer;

static void take_answer(void *arg, const GenerationDelta *delta) {
    Answer *answer = arg;

    for (size_t i = 0; i < delta->n_tokens; i++) {
        assert_true(answer->n < ANSWER);
        answer->tokens[answer->n++] = delta->tokens[i];
    }
}

static Generation *ask(Engine *engine, uint32_t salt, bool no_reuse) {
    const GenerationOptions options = {
        .max_tokens = ANSWER, .ignore_end = true, .no_reuse = no_reuse, .sampler = SAMPLER_OPTIONS_GREEDY
    };
    uint32_t prompt[PROMPT];
    Generation *generation;

    for (uint32_t i = 0; i < PROMPT; i++)
        prompt[i] = (i * 7 + (i < ALIKE ? 0 : salt)) % N_VOCAB;
    assert_int_equal(generation_new(&generation, engine, prompt, PROMPT, &options, NULL), 0);
    return generation;
}

static Answer answer_of(Engine *engine, uint32_t salt, bool no_reuse) {
    Generation *generation = ask(engine, salt, no_reuse);
    Answer answer = { .n = 0 };

    while (generation_end(generation) == GENERATION_RUNNING)
        assert_int_equal(generation_step(generation, take_answer, &answer, NULL), 0);
    generation_free(generation);
    assert_int_equal(answer.n, ANSWER);
    return answer;
}

/* A generation makes way before every operator, on pages of a kept prompt. Meanwhile others begin with the same pages,
 * go on in their own, and put texts into a cache that evicts for them. */
static void test_preemption_of_shared_pages(void **state) {
    static const uint64_t limits_of_pages[] = { 1000, 3, 1 };
    const char *package = make_package(*state, "llama", 4.5, false);

    for (size_t i = 0; i < ARRAY_LEN(limits_of_pages); i++) {
        Loaded loaded = { 0 };
        PrefixCache *cache;
        Answer first, second, answer = { .n = 0 };
        Generation *generation;
        size_t n_borders = 0;
        EngineOptions options = { .path = package,
                                  .load.device = ENGINE_DEVICE_CPU,
                                  .load.chunk_tokens = CHUNK,
                                  .load.preemption = true,
                                  .accounts = &loaded.accounts };

        account_table_init(&loaded.accounts);
        assert_int_equal(worker_pool_new(&loaded.pool, 2), 0);
        options.pool = loaded.pool;
        assert_int_equal(engine_new(&loaded.engine, &options, NULL), 0);
        assert_int_equal(
            prefix_cache_new(&cache, limits_of_pages[i] *
                                         kv_page_charge_bytes(64 * engine_info(loaded.engine)->kv_bytes_per_token)),
            0);
        engine_free(loaded.engine);
        options.prefix_cache = cache;
        assert_int_equal(engine_new(&loaded.engine, &options, NULL), 0);
        first = answer_of(loaded.engine, 1, true);
        second = answer_of(loaded.engine, 2, true);
        assert_memory_equal(answer_of(loaded.engine, 1, false).tokens, first.tokens, sizeof(first.tokens));

        generation = ask(loaded.engine, 1, false);
        assert_true(generation_usage(generation)->n_cached_tokens >= 64);
        while (generation_end(generation) == GENERATION_RUNNING) {
            GenerationTurn turn = { .generation = generation, .fn = take_answer, .arg = &answer };
            GenerationStep step;
            int r = generation_step_begin(&step, &turn, 1, 0, NULL);

            while (!r && (r = generation_step_run(&step, &at_once, NULL)) == GENERATION_E_YIELDED) {
                r = 0;
                if (n_borders++ % 5 == 0)
                    assert_memory_equal(answer_of(loaded.engine, 2, false).tokens, second.tokens,
                                        sizeof(second.tokens));
            }
            assert_int_equal(r, 0);
            assert_int_equal(turn.r, 0);
        }
        generation_free(generation);
        assert_true(n_borders > 50);
        assert_memory_equal(answer.tokens, first.tokens, sizeof(first.tokens));
        engine_free(loaded.engine);
        prefix_cache_free(cache);
        worker_pool_free(loaded.pool);
        for (int id = 0; id < _ACCOUNT_N; id++)
            assert_int_equal(atomic_load(&loaded.accounts.used_bytes[id]), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_preemption_at_every_border),
        WITH_FOLDER(test_preemption_at_random),
        WITH_FOLDER(test_preemption_of_shared_pages),
        WITH_FOLDER(test_preemption_keeps_steps_apart),
        WITH_FOLDER(test_preemption_takes_memory_only_when_asked_for),
    };

    return cmocka_run_group_tests_name("preemption", tests, NULL, NULL);
}
