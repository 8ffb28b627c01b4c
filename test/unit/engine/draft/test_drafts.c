// SPDX-License-Identifier: Apache-2.0
/* Generations with drafts have the tokens and logits of plain decoding, alone and together, whatever the chunk, the
 * sampling and the limits. Some drafts are right and some wrong; without memory for drafts generations go on without
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/draft/drafting_state.h"
#include "engine/generation_state.h"
#include "test/unit/fixtures/golden_hash.h"
#include "test/unit/fixtures/model_maker.h"
#include "test/unit/fixtures/tiny_engine.h"

static const SpecLab always = { .always = true }, chains = { .always = true, .chains = true },
                     no_prompt = { .always = true, .no_prompt = true };

enum {
    CHUNK = 32,
    N_PROMPT = 40,
    OUTPUT = 50,
    SAMPLINGS = 4,
    STOP_TOKENS = 12,
};

#define LEARNED (1u << SPECULATION_TABLE | 1u << SPECULATION_CALIBRATION | 1u << SPECULATION_REUSE)

/* The first way is plain decoding; tests of one way take the second. */
static const GenerationSpeculation ways[] = {
    { .sources = 0 },
    { .sources = SPECULATION_AUTO, .lab = &always },
    { .sources = 1u << SPECULATION_LOOKUP, .lab = &always },
    { .sources = 1u << SPECULATION_SAM, .lab = &always, .rows_max = 4 },
    { .sources = LEARNED, .lab = &always, .rows_max = 16 },
    { .sources = LEARNED, .lab = &no_prompt },
    { .sources = 1u << SPECULATION_SAM | 1u << SPECULATION_LOOKUP, .lab = &always, .head_on_demand = true },
    { .sources = SPECULATION_AUTO, .lab = &always, .head_on_demand = true }, /* which wants all rows' */
    { .sources = SPECULATION_AUTO, .lab = &chains },
    { .sources = SPECULATION_AUTO, .lab = &always, .rows_max = 1 },
    { .sources = SPECULATION_AUTO },
};

enum {
    WAYS = sizeof(ways) / sizeof(*ways),
    NO_DRAFTS = WAYS - 2, /* one row: no draft */
    CONTROLLED            /* as many drafts as pay, on this machine */
};

static TinyEngine tiny;

static int setup(void **state) {
    assert_int_equal(prefix_cache_new(&tiny.prefix_cache, UINT64_MAX), 0);
    tiny_engine_open(&tiny, ENGINE_DEVICE_CPU, CHUNK);
    return 0;
}

static int teardown(void **state) {
    tiny_engine_close(&tiny);
    prefix_cache_free(tiny.prefix_cache);
    return 0;
}

typedef struct Given {
    uint64_t tokens, logits; /* hashes of logits */
    size_t n_tokens;
    uint32_t ids[OUTPUT];
    char texts[OUTPUT][32]; /* of each delta */
    GenerationEnd end;
    GenerationUsage usage;
    DraftReport report;
} Given;

static void take_logits(void *arg, const float *logits) {
    Given *given = arg;

    given->logits = hash_of(given->logits, logits, TINY_VOCAB * sizeof(*logits));
}

static void take(void *arg, const GenerationDelta *delta) {
    Given *given = arg;

    assert_true(delta->n_tokens <= 1);
    if (!delta->n_tokens)
        return;
    assert_true(given->n_tokens < OUTPUT);
    given->tokens = hash_of(given->tokens, delta->tokens, delta->n_tokens * sizeof(*delta->tokens));
    given->ids[given->n_tokens] = *delta->tokens;
    assert_true(delta->len_bytes < sizeof(given->texts[0]));
    memcpy(given->texts[given->n_tokens++], delta->text, delta->len_bytes);
}

static GenerationOptions options_of(size_t sampling, size_t way, uint32_t max_tokens, Given *given) {
    GenerationOptions options = {
        .max_tokens = max_tokens,
        .ignore_end = true,
        .no_reuse = true,
        .sampler = SAMPLER_OPTIONS_GREEDY,
        .speculation = ways[way],
        .on_logits = take_logits,
        .on_logits_arg = given,
    };

    if (sampling == 1)
        options.sampler.repetition_penalty = 1.2f;
    if (sampling >= 2) {
        options.sampler.temperature = sampling == 2 ? 0.3f : 1;
        options.sampler.seed = 40 + sampling;
    }
    *given = (Given){ .tokens = HASH_START, .logits = HASH_START };
    return options;
}

/* A text that repeats itself, so that there is something to draft. */
static void fill_prompt(uint32_t *prompt) {
    for (uint32_t i = 0; i < N_PROMPT; i++)
        prompt[i] = (i % 9) * (i % 9) * 7 % TINY_VOCAB;
}

static Generation *generation_of(const GenerationOptions *options) {
    uint32_t prompt[N_PROMPT];
    Generation *generation;
    ErrText err = { 0 };

    fill_prompt(prompt);
    if (generation_new(&generation, tiny.engine, prompt, N_PROMPT, options, &err))
        fail_msg("%s", err.text);
    return generation;
}

static void run(const GenerationOptions *options, Given *given) {
    Generation *generation = generation_of(options);

    while (generation_end(generation) == GENERATION_RUNNING)
        assert_int_equal(generation_step(generation, take, given, NULL), 0);
    given->end = generation_end(generation);
    given->usage = *generation_usage(generation);
    given->report = *generation_report(generation);
    generation_free(generation);
}

static void check_same(const Given *given, const Given *plain) {
    assert_int_equal(given->n_tokens, plain->n_tokens);
    assert_int_equal(given->tokens, plain->tokens);
    assert_int_equal(given->logits, plain->logits);
    assert_int_equal(given->end, plain->end);
    assert_int_equal(given->usage.n_output_tokens, plain->usage.n_output_tokens);
    assert_int_equal(given->usage.n_prefilled_tokens, plain->usage.n_prefilled_tokens);
    assert_int_equal(given->usage.n_steps + given->usage.n_accepted_tokens, plain->usage.n_steps);
    assert_true(given->usage.n_accepted_tokens <= given->usage.n_drafted_tokens);
}

static void test_drafts_alone(void **state) {
    static const uint32_t chunks[] = { 1, 2, 7, CHUNK };
    size_t n_accepted[WAYS] = { 0 }, n_rejected[WAYS] = { 0 };

    for (size_t c = 0; c < ARRAY_LEN(chunks); c++) {
        assert_int_equal(engine_set_chunk_tokens(tiny.engine, chunks[c], NULL), 0);
        for (size_t s = 0; s < SAMPLINGS; s++) {
            Given plain, given;
            GenerationOptions options = options_of(s, 0, OUTPUT, &plain);

            run(&options, &plain);
            assert_int_equal(plain.usage.n_drafted_tokens, 0);
            assert_int_equal(plain.usage.n_steps, OUTPUT - 1);
            for (size_t way = 1; way < WAYS; way++) {
                options = options_of(s, way, OUTPUT, &given);
                run(&options, &given);
                check_same(&given, &plain);
                if (chunks[c] == 1)
                    assert_int_equal(given.usage.n_drafted_tokens, 0);
                n_accepted[way] += given.usage.n_accepted_tokens;
                n_rejected[way] += given.usage.n_drafted_tokens - given.usage.n_accepted_tokens;
            }
        }
    }
    for (size_t way = 1; way < CONTROLLED; way++)
        assert_true(way == NO_DRAFTS ? !n_accepted[way] && !n_rejected[way] : n_accepted[way] && n_rejected[way]);
    assert_int_equal(engine_set_chunk_tokens(tiny.engine, CHUNK, NULL), 0);
}

static size_t as_many_idle(const Backend *backend, size_t rows) {
    return rows == 1 ? 1 : 0;
}

/* Idle rows are those of the steps, divided by the rows that each generation has. */
static void test_drafts_idle(void **state) {
    const BackendOps *real = tiny.engine->backend->ops;
    BackendOps ops = *real;
    Given plain, given;
    GenerationOptions options = options_of(0, 0, OUTPUT, &plain);

    ops.idle_rows = as_many_idle;
    tiny.engine->backend->ops = &ops;
    run(&options, &plain);
    assert_int_equal(plain.report.n_rows_idle, plain.usage.n_steps);
    options = options_of(0, 1, OUTPUT, &given);
    run(&options, &given);
    tiny.engine->backend->ops = real;
    assert_int_equal(given.report.n_rows_idle, given.report.n_steps - given.report.n_verifications);
    assert_true(given.report.n_verifications);
}

/* Every limit on the output, by tokens and by the context. */
static void test_drafts_limits(void **state) {
    for (uint32_t n = 1; n <= 24; n++)
        for (int by_context = 0; by_context < 2; by_context++) {
            Given plain, given;
            GenerationOptions options = options_of(0, 0, by_context ? 0 : n, &plain);

            options.context_tokens = by_context ? N_PROMPT + n : 0;
            run(&options, &plain);
            assert_int_equal(plain.n_tokens, n);
            options = options_of(0, 1, by_context ? 0 : n, &given);
            options.context_tokens = by_context ? N_PROMPT + n : 0;
            run(&options, &given);
            check_same(&given, &plain);
        }
}

/* More generations than the chunk has room for drafts. */
static void test_drafts_together(void **state) {
    enum {
        MOST = 20
    };

    for (size_t n = 2; n <= MOST; n += 6) {
        Generation *generations[MOST];
        Given given[MOST], plain[SAMPLINGS];
        uint32_t n_drafted = 0;
        bool running = true;

        for (size_t s = 0; s < SAMPLINGS; s++) {
            const GenerationOptions options = options_of(s, 0, OUTPUT, &plain[s]);

            run(&options, &plain[s]);
        }
        for (size_t i = 0; i < n; i++) {
            const GenerationOptions options = options_of(i % SAMPLINGS, i % WAYS, OUTPUT, &given[i]);

            generations[i] = generation_of(&options);
        }
        while (running) {
            GenerationTurn turns[MOST];

            running = false;
            for (size_t i = 0; i < n; i++)
                turns[i] = (GenerationTurn){ .generation = generations[i], .fn = take, .arg = &given[i] };
            assert_int_equal(generation_step_together(turns, n, NULL), 0);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(turns[i].r, 0);
                running = running || generation_end(generations[i]) == GENERATION_RUNNING;
            }
        }
        for (size_t i = 0; i < n; i++) {
            given[i].end = generation_end(generations[i]);
            given[i].usage = *generation_usage(generations[i]);
            check_same(&given[i], &plain[i % SAMPLINGS]);
            n_drafted += given[i].usage.n_drafted_tokens;
            generation_free(generations[i]);
        }
        assert_true(n_drafted > 0);
    }
}

/* An answer that ends at a stop string inside right drafts keeps nothing that was computed behind it. The stop string
 * is as long as the model's repeats; a shorter one would come before anything is drafted. */
static void test_drafts_kept(void **state) {
    Given whole;
    GenerationOptions options = options_of(0, 1, OUTPUT, &whole);
    size_t n_inside = 0;

    run(&options, &whole);
    for (size_t at = STOP_TOKENS; at + 1 < OUTPUT; at++) {
        char stop[GENERATION_STOP_BYTES_MAX + 1] = "";
        uint32_t prompt[N_PROMPT + OUTPUT];
        Given given[2], again;
        uint32_t cached[2];

        for (size_t i = at - STOP_TOKENS; i < at; i++)
            snprintf(stop + strlen(stop), sizeof(stop) - strlen(stop), "%s", whole.texts[i]);
        if (!*stop)
            continue;
        for (int drafts = 0; drafts < 2; drafts++) {
            Generation *generation;

            options = options_of(0, (size_t)drafts, OUTPUT, &given[drafts]);
            options.no_reuse = false;
            options.user = 100 + 2 * at + (size_t)drafts;
            options.stops[0] = stop;
            options.n_stops = 1;
            options.on_logits = NULL; /* logits behind the stop string included */
            run(&options, &given[drafts]);
            assert_int_equal(given[drafts].end, GENERATION_END_STOP);
            fill_prompt(prompt);
            memcpy(prompt + N_PROMPT, whole.ids, sizeof(whole.ids));
            options = options_of(0, 0, 1, &again);
            options.no_reuse = false;
            options.user = 100 + 2 * at + (size_t)drafts;
            assert_int_equal(generation_new(&generation, tiny.engine, prompt, ARRAY_LEN(prompt), &options, NULL), 0);
            cached[drafts] = generation_usage(generation)->n_cached_tokens;
            generation_free(generation);
        }
        assert_int_equal(given[1].tokens, given[0].tokens);
        assert_int_equal(given[1].usage.n_output_tokens, given[0].usage.n_output_tokens);
        assert_int_equal(cached[1], cached[0]);
        n_inside += given[1].usage.n_steps < given[0].usage.n_steps;
    }
    assert_true(n_inside > 0);
}

/* Generations leave what they learned of their users. */
static uint64_t users_bytes(void) {
    uint64_t bytes = 0;

    for (size_t i = 0; i < SPECULATION_USERS_MAX; i++)
        bytes += tiny.engine->speculation.users[i] ? sizeof(SpeculationUser) : 0;
    return bytes;
}

static void test_drafts_memory(void **state) {
    AccountTable *accounts = engine_accounts(tiny.engine);
    const uint64_t limit = accounts->limit_bytes[ACCOUNT_DRAFTDB];
    Given plain, given;
    GenerationOptions options = options_of(0, 0, OUTPUT, &plain);

    run(&options, &plain);
    options = options_of(0, 1, OUTPUT, &given);
    accounts->limit_bytes[ACCOUNT_DRAFTDB] = 0;
    run(&options, &given);
    accounts->limit_bytes[ACCOUNT_DRAFTDB] = limit;
    check_same(&given, &plain);
    assert_int_equal(given.usage.n_drafted_tokens, 0);
    assert_true(given.report.n_prompt_rows <= CHUNK); /* the rest of the prompt has nobody to learn from it */
    assert_int_equal(accounts->used_bytes[ACCOUNT_DRAFTDB], users_bytes());
    options = options_of(0, 1, OUTPUT, &given);
    run(&options, &given);
    assert_true(given.usage.n_drafted_tokens > 0);
    assert_true(accounts->peak_bytes[ACCOUNT_DRAFTDB] > 0);
    assert_int_equal(accounts->used_bytes[ACCOUNT_DRAFTDB], users_bytes());
}

/* A request again: its answer is in the history, and takes few steps. Answers of others make no draft wrong. A history
 * that is freed while it is read takes its drafts with it. */
static void test_drafts_history(void **state) {
    static const GenerationSpeculation of_history = { .sources = 1u << SPECULATION_HISTORY, .lab = &always };
    _cleanup_(history_freep) History *history = NULL;
    uint32_t text[N_PROMPT + OUTPUT], others[600];
    Generation *generation;
    Given plain, given;
    GenerationOptions options = options_of(3, 0, OUTPUT, &plain);

    assert_int_equal(history_new(engine_accounts(tiny.engine), 1 << 20, &history), 0);
    run(&options, &plain);
    for (size_t round = 0; round < 3; round++) {
        options = options_of(3, 0, OUTPUT, &given);
        options.speculation = of_history;
        options.speculation.history = history;
        run(&options, &given);
        check_same(&given, &plain);
        assert_true(round == 2 ? given.usage.n_steps < OUTPUT / 2 : given.usage.n_accepted_tokens < OUTPUT / 2);
        if (round == 0)
            for (size_t i = 0; i < ARRAY_LEN(others); i++)
                others[i] = (uint32_t)(i * i) % TINY_VOCAB;
        fill_prompt(text);
        memcpy(text + N_PROMPT, plain.ids, sizeof(plain.ids));
        assert_int_equal(history_add(history, round ? text : others, round ? ARRAY_LEN(text) : ARRAY_LEN(others)), 0);
    }
    options = options_of(3, 0, OUTPUT, &given);
    options.speculation = of_history;
    options.speculation.history = history;
    generation = generation_of(&options);
    while (generation_end(generation) == GENERATION_RUNNING) {
        assert_int_equal(generation_step(generation, take, &given, NULL), 0);
        if (generation_usage(generation)->n_output_tokens > OUTPUT / 3)
            history_free(steal(&history));
    }
    given.end = generation_end(generation);
    given.usage = *generation_usage(generation);
    check_same(&given, &plain);
    assert_true(given.usage.n_accepted_tokens > 0 && given.usage.n_steps > OUTPUT / 2);
    generation_free(generation);
}

/* A generation that drafts without weighing costs leaves no times to those that do. */
static void test_drafts_times(void **state) {
    const SpeculationMemory *memory = &tiny.engine->speculation;
    const SpeculationControl before = memory->times;
    const float token_ms = memory->token_ms;
    Given given;
    GenerationOptions options = options_of(0, 1, OUTPUT, &given);

    run(&options, &given);
    assert_memory_equal(&memory->times, &before, sizeof(before));
    assert_true(memory->token_ms == token_ms);
    options = options_of(0, CONTROLLED, OUTPUT, &given);
    run(&options, &given);
    assert_memory_not_equal(&memory->times, &before, sizeof(before));
    assert_true(memory->token_ms != token_ms);
    assert_true(memory->times.row_ms > 0); /* the prompt's rows were timed as well */
}

/* Branches have no memory for keys and values: a tree becomes a chain, and the answer is the same. */
static void test_drafts_memory_for_trees(void **state) {
    AccountTable *accounts = engine_accounts(tiny.engine);
    const uint64_t limit = accounts->limit_bytes[ACCOUNT_KV];
    uint64_t used;
    Given plain, given;
    GenerationOptions options = options_of(0, 0, OUTPUT, &plain);

    run(&options, &plain);
    options = options_of(0, 1, OUTPUT, &given);
    run(&options, &given);
    used = accounts->peak_bytes[ACCOUNT_KV];
    accounts->limit_bytes[ACCOUNT_KV] = engine_kv_bytes(tiny.engine, N_PROMPT + OUTPUT);
    assert_true(used > accounts->limit_bytes[ACCOUNT_KV]); /* trees took more */
    options = options_of(0, 1, OUTPUT, &given);
    run(&options, &given);
    accounts->limit_bytes[ACCOUNT_KV] = limit;
    check_same(&given, &plain);
    assert_true(given.usage.n_accepted_tokens > 0);
}

/* Memory of trees is counted before the first tree. If it is beyond the user's share, drafts are chains. */
static void test_drafts_share_for_trees(void **state) {
    AccountTable *accounts = engine_accounts(tiny.engine);
    const uint64_t cache_bytes = engine_kv_bytes(tiny.engine, N_PROMPT + OUTPUT),
                   tree_bytes = engine_kv_tree_bytes(tiny.engine);
    Given plain, given;
    GenerationOptions options = options_of(0, 0, OUTPUT, &plain);

    assert_int_equal(accounts->used_bytes[ACCOUNT_KV], 0);
    run(&options, &plain);
    for (int has_room = 0; has_room < 2; has_room++) {
        Generation *generation;

        options = options_of(0, 1, OUTPUT, &given);
        options.kv_max_bytes = cache_bytes + (has_room ? tree_bytes : tree_bytes - 1);
        generation = generation_of(&options);
        assert_int_equal(generation_kv_bytes(generation), cache_bytes + (has_room ? tree_bytes : 0));
        generation_free(generation);
        accounts->peak_bytes[ACCOUNT_KV] = 0;
        run(&options, &given);
        assert_int_equal(accounts->peak_bytes[ACCOUNT_KV], cache_bytes + (has_room ? tree_bytes : 0));
        check_same(&given, &plain);
        assert_true(given.usage.n_accepted_tokens > 0);
    }
    options = options_of(0, 0, OUTPUT, &given); /* a generation without drafts needs none */
    options.kv_max_bytes = cache_bytes;
    run(&options, &given);
    check_same(&given, &plain);
}

static BackendOps counting_ops;
static const BackendOps *real_ops;
static size_t n_head_rows;

static int count_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                        size_t rows, const LinearOutput *out, ErrText *err) {
    if (linears[0] == weights_head(tiny.engine->weights))
        n_head_rows += rows;
    return real_ops->linear(backend, linears, n, in, rows, out, err);
}

/* The head computes as many rows as tokens come out, unless a source learns from all rows. */
static void test_drafts_head_on_demand(void **state) {
    real_ops = tiny.engine->backend->ops;
    counting_ops = *real_ops;
    counting_ops.linear = count_linear;
    tiny.engine->backend->ops = &counting_ops;
    for (int learns = 0; learns < 2; learns++)
        for (int on_demand = 0; on_demand < 2; on_demand++) {
            Given given;
            GenerationOptions options = options_of(2, 1, OUTPUT, &given);

            options.speculation = (GenerationSpeculation){
                .sources = learns ? LEARNED : 1u << SPECULATION_SAM | 1u << SPECULATION_LOOKUP,
                .lab = &no_prompt,
                .head_on_demand = on_demand,
            };
            n_head_rows = 0;
            run(&options, &given);
            assert_int_equal(given.n_tokens, OUTPUT);
            assert_true(given.report.n_rows > 2 * OUTPUT);
            assert_int_equal(n_head_rows, on_demand && !learns ? OUTPUT : 1 + given.report.n_rows);
        }
    tiny.engine->backend->ops = real_ops;
}

/* Tops of earlier rows, for a source that is off, do not stay at rows without logits. */
static void test_drafts_head_on_demand_leaves_nothing(void **state) {
    Given given;
    GenerationOptions options = options_of(0, 1, OUTPUT, &given);
    Generation *generation;

    options.speculation =
        (GenerationSpeculation){ .sources = 1u << SPECULATION_SAM, .lab = &always, .head_on_demand = true };
    generation = generation_of(&options);
    while (generation_end(generation) == GENERATION_RUNNING) {
        for (size_t row = 0; row < DRAFT_ROWS_MAX; row++)
            generation->drafting->step.tops[row].n = ENGINE_TOPS;
        assert_int_equal(generation_step(generation, take, &given, NULL), 0);
        for (size_t row = 0; given.n_tokens > 1 && row < DRAFT_ROWS_MAX; row++)
            assert_int_equal(generation->drafting->step.tops[row].n, 0);
    }
    generation_free(generation);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafts_alone),
        cmocka_unit_test(test_drafts_idle),
        cmocka_unit_test(test_drafts_limits),
        cmocka_unit_test(test_drafts_together),
        cmocka_unit_test(test_drafts_kept),
        cmocka_unit_test(test_drafts_memory),
        cmocka_unit_test(test_drafts_history),
        cmocka_unit_test(test_drafts_memory_for_trees),
        cmocka_unit_test(test_drafts_share_for_trees),
        cmocka_unit_test(test_drafts_times),
        cmocka_unit_test(test_drafts_head_on_demand),
        cmocka_unit_test(test_drafts_head_on_demand_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
