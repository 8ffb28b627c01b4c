// SPDX-License-Identifier: Apache-2.0
/* Steps whose rows go through the layers in groups, each at its own pace (row_groups): all logits have the bytes of
 * steps without groups, wherever the groups' borders are and wherever the step stops. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "engine/core/engine_state.h"
#include "engine/engine.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/importer/import_fixture.h"

enum {
    N_VOCAB = 40,
    CHUNK = 256,
    CAPACITY = 400,
    SPANS_MAX = 6,
    EVENTS_MAX = 20000,
    GROUP_ROWS = 64,
    WINDOW = 100, /* window of gemma3: longer than a group, shorter than a chunk */
};

typedef struct Loaded {
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
    Trace *trace;
    Sequence *sequences[SPANS_MAX];
} Loaded;

static uint64_t activations_limit_bytes = UINT64_MAX;
static uint32_t group_rows = GROUP_ROWS; /* the smallest groups, whatever the kernel prefers */

static void loaded_init(Loaded *loaded, const char *package, Isa isa, unsigned int threads, bool no_pipeline) {
    ErrText err = { 0 };

    account_table_init(&loaded->accounts);
    loaded->accounts.limit_bytes[ACCOUNT_ACTIVATIONS] = activations_limit_bytes;
    assert_int_equal(worker_pool_new(&loaded->pool, threads), 0);
    assert_int_equal(trace_new(&loaded->trace, EVENTS_MAX), 0);
    if (engine_new(&loaded->engine,
                   &(EngineOptions){ .path = package,
                                     .load.device = ENGINE_DEVICE_CPU,
                                     .load.isa = isa,
                                     .load.chunk_tokens = CHUNK,
                                     .load.preemption = true,
                                     .load.no_pipeline = no_pipeline,
                                     .load.group_rows = group_rows,
                                     .pool = loaded->pool,
                                     .accounts = &loaded->accounts },
                   &err))
        fail_msg("%s", err.text);
    engine_set_trace(loaded->engine, loaded->trace);
    for (size_t i = 0; i < SPANS_MAX; i++)
        assert_int_equal(sequence_new(&loaded->sequences[i], loaded->engine, CAPACITY, &err), 0);
}

static void loaded_deinit(Loaded *loaded) {
    for (size_t i = 0; i < SPANS_MAX; i++)
        sequence_free(loaded->sequences[i]);
    engine_free(loaded->engine);
    trace_free(loaded->trace);
    worker_pool_free(loaded->pool);
    for (int id = 0; id < _ACCOUNT_N; id++)
        assert_int_equal(atomic_load(&loaded->accounts.used_bytes[id]), 0);
}

static const char *make_package(ImportFixture *fixture, const char *arch, double bits, bool static_activations) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.arch = arch;
    maker.window = strcmp(arch, "gemma3") ? 0 : WINDOW;
    return import_fixture_package(fixture, &maker, bits, static_activations);
}

/* Rows of the sequences in one step: before[i] positions, which steps of one row make, then rows[i] in the step. */
typedef struct Mix {
    size_t n_spans;
    size_t before[SPANS_MAX], rows[SPANS_MAX];
} Mix;

static const Mix mixes[] = {
    { 1, { 0 }, { 256 } },                                    /* groups end where blocks of the cache do */
    { 1, { 37 }, { 256 } },                                   /* five groups, the first and the last short */
    { 1, { 63 }, { 129 } },                                   /* one row, then two whole groups */
    { 3, { 0, 5, 64 }, { 100, 1, 155 } },                     /* borders of spans and of groups alternate */
    { 6, { 1, 2, 3, 4, 5, 0 }, { 1, 1, 1, 1, 1, 251 } },      /* decode rows beside a prompt */
    { 6, { 0, 1, 2, 3, 4, 5 }, { 251, 1, 1, 1, 1, 1 } },      /* decode rows behind a prompt */
    { 6, { 0, 9, 0, 0, 0, 70 }, { 60, 60, 60, 16, 30, 30 } }, /* no sequence is in two groups */
    { 2, { 10, 20 }, { 64, 64 } },                            /* the fewest rows that two threads take */
};

/* Computes logits of all rows of the step, and of one row behind it, which reads all that the step stored. */
typedef struct Logits {
    float step[CHUNK][N_VOCAB], next[SPANS_MAX][N_VOCAB];
} Logits;

static uint32_t token_at(size_t sequence, size_t position) {
    return (uint32_t)(position * 7 + sequence * 3 + position / 11) % N_VOCAB;
}

static void append_one(Loaded *loaded, size_t i, float *logits) {
    const uint32_t token = token_at(i, sequence_n_tokens(loaded->sequences[i]));

    assert_int_equal(engine_forward(loaded->engine, loaded->sequences[i], &token, 1, logits ? 1 : 0, logits, NULL), 0);
}

typedef struct Step {
    uint32_t tokens[CHUNK];
    EngineSpan spans[SPANS_MAX];
    EngineStep *step;
} Step;

static void step_begin(Loaded *loaded, const Mix *mix, Logits *logits, Step *step) {
    size_t row = 0;

    memset(logits, 0, sizeof(*logits));
    for (size_t i = 0; i < mix->n_spans; i++) {
        sequence_rewind(loaded->sequences[i], 0);
        for (size_t n = 0; n < mix->before[i]; n++)
            append_one(loaded, i, NULL);
        step->spans[i] = (EngineSpan){ .sequence = loaded->sequences[i],
                                       .tokens = step->tokens + row,
                                       .n = mix->rows[i],
                                       .head = { .n_rows = mix->rows[i], .logits = logits->step[row] } };
        for (size_t n = 0; n < mix->rows[i]; n++, row++)
            step->tokens[row] = token_at(i, mix->before[i] + n);
    }
    trace_clear(loaded->trace);
    assert_int_equal(engine_step_begin(&step->step, loaded->engine, step->spans, mix->n_spans, NULL), 0);
}

static void step_end(Loaded *loaded, const Mix *mix, Logits *logits) {
    for (size_t i = 0; i < mix->n_spans; i++) {
        assert_int_equal(sequence_n_tokens(loaded->sequences[i]), mix->before[i] + mix->rows[i]);
        append_one(loaded, i, logits->next[i]);
    }
}

static void run_mix(Loaded *loaded, const Mix *mix, Logits *logits) {
    static Step step;

    step_begin(loaded, mix, logits, &step);
    assert_int_equal(engine_step_run(step.step, NULL, NULL), 0);
    step_end(loaded, mix, logits);
}

/* Most rows of one product of the layers since the step began. */
static uint32_t most_rows(const Loaded *loaded) {
    uint32_t most = 0;

    for (size_t i = 0; i < trace_n(loaded->trace); i++) {
        const TraceEvent *event = trace_at(loaded->trace, i);

        if (event->layer >= 0 && !strcmp(event->category, "product") && event->rows > most)
            most = event->rows;
    }
    assert_int_equal(trace_n_lost(loaded->trace), 0);
    return most;
}

/* Within a span groups end at borders of the cache's blocks: attention reads a block as a whole. */
static void check_borders(const Loaded *loaded, const Mix *mix) {
    for (size_t i = 0; i < trace_n(loaded->trace); i++) {
        size_t row = trace_at(loaded->trace, i)->row, span = 0;

        for (; row >= mix->rows[span]; span++)
            row -= mix->rows[span];
        if (row && (mix->before[span] + row) % GROUP_ROWS)
            fail_msg("a group begins at position %zu of a sequence", mix->before[span] + row);
    }
}

static size_t n_rows(const Mix *mix) {
    size_t n = 0;

    for (size_t i = 0; i < mix->n_spans; i++)
        n += mix->rows[i];
    return n;
}

static void compare(const Logits *logits, const Logits *whole, size_t mix, const char *what, unsigned int threads) {
    for (size_t row = 0; row < CHUNK; row++)
        if (memcmp(logits->step[row], whole->step[row], sizeof(whole->step[row])))
            fail_msg("mix %zu, %s, %u threads: other logits of row %zu", mix, what, threads, row);
    if (memcmp(logits->next, whole->next, sizeof(whole->next)))
        fail_msg("mix %zu, %s, %u threads: other logits behind the step", mix, what, threads);
}

static void whole_steps(const char *package, Logits whole[ARRAY_LEN(mixes)]) {
    Loaded loaded;

    loaded_init(&loaded, package, ISA_BEST, 2, true);
    for (size_t i = 0; i < ARRAY_LEN(mixes); i++) {
        run_mix(&loaded, &mixes[i], &whole[i]);
        assert_int_equal(most_rows(&loaded), n_rows(&mixes[i]));
    }
    loaded_deinit(&loaded);
}

static void test_pipeline_has_the_same_bits(void **state) {
    static const struct {
        const char *arch;
        double bits;
    } models[] = { { "llama", 8 }, { "qwen2", 4.5 }, { "gemma3", 8 } };
    static Logits whole[ARRAY_LEN(mixes)], logits;

    for (size_t m = 0; m < ARRAY_LEN(models); m++) {
        const char *package = make_package(*state, models[m].arch, models[m].bits, false);

        whole_steps(package, whole);
        for (int isa = ISA_SCALAR; isa < _ISA_N; isa++)
            for (unsigned int threads = 1; threads <= 5 && patience_takes_isa((Isa)isa);
                 threads += patience_is_short() ? 2 : 1) {
                Loaded loaded;

                loaded_init(&loaded, package, (Isa)isa, threads, false);
                for (size_t i = 0; i < ARRAY_LEN(mixes); i++) {
                    const bool is_grouped = threads > 1 && n_rows(&mixes[i]) / GROUP_ROWS >= threads;

                    run_mix(&loaded, &mixes[i], &logits);
                    compare(&logits, &whole[i], i, isa_name((Isa)isa), threads);
                    check_borders(&loaded, &mixes[i]);
                    assert_true(is_grouped ? most_rows(&loaded) <= GROUP_ROWS
                                           : most_rows(&loaded) == n_rows(&mixes[i]));
                }
                loaded_deinit(&loaded);
            }
    }
}

static const _Atomic bool wanted = true;
static const EngineYield at_once = { .wanted = &wanted };

/* The step stops at every border between operators, and another step with groups runs there. */
static void test_pipeline_makes_way(void **state) {
    static const Mix mix = { 1, { 37 }, { 219 } }, other = { 1, { 0 }, { 140 } };
    static Logits whole, other_whole, logits, other_logits;
    static Step step;
    const char *package = make_package(*state, "llama", 8, false);
    Loaded loaded;

    loaded_init(&loaded, package, ISA_BEST, 2, true);
    run_mix(&loaded, &other, &other_whole);
    run_mix(&loaded, &mix, &whole);
    loaded_deinit(&loaded);
    for (unsigned int threads = 2; threads <= 3; threads++) {
        static uint32_t tokens[140];
        size_t n_borders = 0;
        int r;

        loaded_init(&loaded, package, ISA_BEST, threads, false);
        for (size_t n = 0; n < ARRAY_LEN(tokens); n++)
            tokens[n] = token_at(0, n);
        step_begin(&loaded, &mix, &logits, &step);
        while ((r = engine_step_run(step.step, &at_once, NULL)) == ENGINE_E_YIELDED) {
            EngineSpan span = { .sequence = loaded.sequences[1],
                                .tokens = tokens,
                                .n = ARRAY_LEN(tokens),
                                .head = { .n_rows = ARRAY_LEN(tokens), .logits = other_logits.step[0] } };

            n_borders++;
            assert_int_equal(sequence_n_tokens(loaded.sequences[0]), 37);
            if (n_borders % 5)
                continue;
            sequence_rewind(loaded.sequences[1], 0);
            memset(&other_logits, 0, sizeof(other_logits));
            assert_int_equal(engine_forward_spans(loaded.engine, &span, 1, NULL), 0);
            assert_memory_equal(other_logits.step, other_whole.step, sizeof(other_whole.step));
        }
        assert_int_equal(r, 0);
        step_end(&loaded, &mix, &logits);
        compare(&logits, &whole, 0, "making way", threads);
        assert_true(n_borders > 20); /* two layers of four groups, and two or three threads at each */
        loaded_deinit(&loaded);
    }
}

/* The time of a step ends while it runs: each part runs at least one operator, and the step ends. */
static void test_pipeline_in_time_slices(void **state) {
    static const EngineYield over = { .until_ns = 1 };
    static Logits whole, logits;
    static Step step;
    const char *package = make_package(*state, "qwen2", 8, false);
    Loaded loaded;
    int r, n = 0;

    loaded_init(&loaded, package, ISA_BEST, 2, true);
    run_mix(&loaded, &mixes[0], &whole);
    loaded_deinit(&loaded);
    loaded_init(&loaded, package, ISA_BEST, 2, false);
    step_begin(&loaded, &mixes[0], &logits, &step);
    while ((r = engine_step_run(step.step, &over, NULL)) == ENGINE_E_YIELDED)
        n++;
    assert_int_equal(r, 0);
    assert_true(n > 20);
    step_end(&loaded, &mixes[0], &logits);
    compare(&logits, &whole, 0, "time slices", 2);
    loaded_deinit(&loaded);
}

/* Either of two sequences is cancelled while the step has made way, then the other one. */
static void test_pipeline_cancelled(void **state) {
    static const Mix mix = { 2, { 0, 3 }, { 120, 100 } };
    static Logits whole, logits;
    static Step step;
    const char *package = make_package(*state, "llama", 8, false);
    _Atomic bool flags[2] = { false, false };
    Loaded loaded;

    loaded_init(&loaded, package, ISA_BEST, 2, true);
    run_mix(&loaded, &mix, &whole);
    loaded_deinit(&loaded);
    loaded_init(&loaded, package, ISA_BEST, 2, false);
    for (size_t i = 0; i < 2; i++)
        sequence_set_cancel(loaded.sequences[i], &flags[i]);

    step_begin(&loaded, &mix, &logits, &step);
    assert_int_equal(engine_step_run(step.step, &at_once, NULL), ENGINE_E_YIELDED);
    flags[1] = true;
    assert_int_equal(engine_step_run(step.step, NULL, NULL), 0);
    assert_true(!step.spans[0].is_cancelled && step.spans[1].is_cancelled);
    assert_int_equal(sequence_n_tokens(loaded.sequences[0]), 120);
    assert_int_equal(sequence_n_tokens(loaded.sequences[1]), 3);
    assert_memory_equal(logits.step, whole.step, 120 * sizeof(*whole.step));

    flags[1] = false;
    step_begin(&loaded, &mix, &logits, &step);
    assert_int_equal(engine_step_run(step.step, &at_once, NULL), ENGINE_E_YIELDED);
    flags[0] = flags[1] = true;
    assert_int_equal(engine_step_run(step.step, NULL, NULL), ENGINE_E_CANCELLED);
    assert_int_equal(sequence_n_tokens(loaded.sequences[0]), 0);
    assert_int_equal(sequence_n_tokens(loaded.sequences[1]), 3);

    flags[0] = flags[1] = false;
    run_mix(&loaded, &mix, &logits);
    compare(&logits, &whole, 0, "after one that was cancelled", 2);
    loaded_deinit(&loaded);
}

/* Shadows read columns of the package and count them, for one product at a time. */
static void test_pipeline_not_with_shadows(void **state) {
    static Logits logits;
    const char *package = make_package(*state, "llama", 8, true);
    Loaded loaded;

    loaded_init(&loaded, package, ISA_BEST, 2, false);
    run_mix(&loaded, &mixes[0], &logits);
    assert_int_equal(most_rows(&loaded), CHUNK);
    loaded_deinit(&loaded);
}

/* A model that fits without the threads' scratch is served without groups. */
static void test_pipeline_without_memory(void **state) {
    static Logits whole, logits;
    const char *package = make_package(*state, "llama", 8, false);
    uint64_t used_bytes[2];
    Loaded loaded;

    for (int no_pipeline = 0; no_pipeline < 2; no_pipeline++) {
        loaded_init(&loaded, package, ISA_BEST, 2, no_pipeline);
        used_bytes[no_pipeline] = atomic_load(&loaded.accounts.used_bytes[ACCOUNT_ACTIVATIONS]);
        run_mix(&loaded, &mixes[0], &whole);
        loaded_deinit(&loaded);
    }
    assert_true(used_bytes[0] > used_bytes[1]);
    activations_limit_bytes = used_bytes[0] - 1;
    loaded_init(&loaded, package, ISA_BEST, 2, false);
    activations_limit_bytes = UINT64_MAX;
    assert_int_equal(atomic_load(&loaded.accounts.used_bytes[ACCOUNT_ACTIVATIONS]), used_bytes[1]);
    run_mix(&loaded, &mixes[0], &logits);
    assert_int_equal(most_rows(&loaded), CHUNK);
    compare(&logits, &whole, 0, "without memory", 2);
    loaded_deinit(&loaded);
}

/* Groups are whole blocks of the cache, of the size asked for or the device's choice: with AMX more than half of this
 * chunk. */
static void test_pipeline_rows_of_a_group(void **state) {
    static const struct {
        uint32_t asked, most_rows;
    } cases[] = { { 1, 64 }, { 65, 128 }, { 128, 128 }, { 129, CHUNK }, { 4096, CHUNK } };
    static Logits whole, logits;
    const char *package = make_package(*state, "llama", 8, false);
    Loaded loaded;

    loaded_init(&loaded, package, ISA_BEST, 2, true);
    run_mix(&loaded, &mixes[0], &whole);
    loaded_deinit(&loaded);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        group_rows = cases[i].asked;
        loaded_init(&loaded, package, ISA_BEST, 2, false);
        run_mix(&loaded, &mixes[0], &logits);
        assert_int_equal(most_rows(&loaded), cases[i].most_rows);
        compare(&logits, &whole, 0, "groups as asked", 2);
        loaded_deinit(&loaded);
    }
    group_rows = 0;
    for (int is_packed = 0; is_packed < 2; is_packed++) {
        package = make_package(*state, "llama", is_packed ? 6 : 8, false);
        for (int isa = ISA_SCALAR; isa < _ISA_N; isa++) {
            size_t rows;

            if (!patience_takes_isa((Isa)isa))
                continue;
            loaded_init(&loaded, package, (Isa)isa, 2, false);
            run_mix(&loaded, &mixes[0], &logits);
            rows =
                loaded.engine->backend->ops->thread_rows(loaded.engine->backend); /* measured, so any of three sizes */
            assert_true(rows == 128 || rows == 256 || (rows == 64 && !is_packed));
            assert_true(isa != ISA_SCALAR || rows == (is_packed ? 128 : 64)); /* any number keeps it busy */
            assert_int_equal(most_rows(&loaded), rows <= CHUNK / 2 ? rows : CHUNK);
            loaded_deinit(&loaded);
        }
    }
    group_rows = GROUP_ROWS;
}

/* Another chunk changes the size of the groups, or leaves none. */
static void test_pipeline_with_another_chunk(void **state) {
    static const struct {
        uint32_t chunk_tokens, most_rows;
    } cases[] = { { 100, 100 }, { 128, 64 }, { 4096, 128 }, { 64, 64 }, { CHUNK, 64 } };
    static uint32_t tokens[CAPACITY];
    static float whole[N_VOCAB], logits[N_VOCAB];
    const char *package = make_package(*state, "llama", 8, false);
    Loaded loaded;

    for (size_t n = 0; n < ARRAY_LEN(tokens); n++)
        tokens[n] = token_at(0, n);
    loaded_init(&loaded, package, ISA_BEST, 2, true);
    for (size_t done = 0, n; done < CAPACITY; done += n) {
        n = MIN(CAPACITY - done, CHUNK);
        assert_int_equal(
            engine_forward(loaded.engine, loaded.sequences[0], tokens + done, n, done + n == CAPACITY, whole, NULL), 0);
    }
    loaded_deinit(&loaded);
    loaded_init(&loaded, package, ISA_BEST, 2, false);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(engine_set_chunk_tokens(loaded.engine, cases[i].chunk_tokens, NULL), 0);
        trace_clear(loaded.trace);
        sequence_rewind(loaded.sequences[0], 0);
        for (size_t done = 0, n; done < CAPACITY; done += n) {
            n = MIN(CAPACITY - done, cases[i].chunk_tokens);
            assert_int_equal(engine_forward(loaded.engine, loaded.sequences[0], tokens + done, n, done + n == CAPACITY,
                                            logits, NULL),
                             0);
        }
        assert_memory_equal(logits, whole, sizeof(whole));
        assert_int_equal(most_rows(&loaded), cases[i].most_rows);
    }
    loaded_deinit(&loaded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_pipeline_has_the_same_bits), WITH_FOLDER(test_pipeline_makes_way),
        WITH_FOLDER(test_pipeline_in_time_slices),    WITH_FOLDER(test_pipeline_cancelled),
        WITH_FOLDER(test_pipeline_not_with_shadows),  WITH_FOLDER(test_pipeline_with_another_chunk),
        WITH_FOLDER(test_pipeline_without_memory),    WITH_FOLDER(test_pipeline_rows_of_a_group),
    };

    return cmocka_run_group_tests_name("pipeline", tests, NULL, NULL);
}
