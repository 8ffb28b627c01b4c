// SPDX-License-Identifier: Apache-2.0
/* The engine thread on the real model: turns, cancellation at every stage, pauses, small jobs between steps. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/engine/engine_thread.h"
#include "proto/frame.h"
#include "test/unit/fixtures/loaded_engine.h"
#include "test/unit/fixtures/real_model.h"

#define TIMEOUT_MS 120000 /* sanitizers are slow */

/* Stands in for the loop: owns the thread, and accumulates the news of each job. */
typedef struct Fixture {
    RealModel model; /* opened once for all tests, which is slow with a sanitizer */
    Outbox *outbox;
    EngineThread *thread;
} Fixture;

typedef struct Got {
    StrBuf text;
    TokenList tokens;
    size_t n_marks;
    bool started;
    bool done;
    int result;
    GenerationEnd end;
    GenerationUsage usage;
    ErrText err;
    uint64_t done_order;
    Engine *engine; /* result of a load */
} Got;

static uint64_t n_done;

static int open_model(void **state) {
    Fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    real_model_open(&fixture->model, ENGINE_DEVICE_CPU, ISA_BEST, 1, 32);
    *state = fixture;
    return 0;
}

static int close_model(void **state) {
    Fixture *fixture = *state;

    real_model_close(&fixture->model);
    free(fixture);
    return 0;
}

static int setup(void **state) {
    Fixture *fixture = *state;
    ErrText err;

    assert_int_equal(outbox_new(&fixture->outbox), 0);
    assert_int_equal(engine_thread_new(&fixture->thread, fixture->outbox, 1, &err), 0);
    return 0;
}

static int teardown(void **state) {
    Fixture *fixture = *state;

    assert_int_equal(engine_thread_stop(fixture->thread, TIMEOUT_MS), 0);
    fixture->thread = engine_thread_free(fixture->thread);
    fixture->outbox = outbox_free(fixture->outbox);
    assert_int_equal(fixture->model.accounts.used_bytes[ACCOUNT_KV], 0);
    return 0;
}

static Job generate_job(Fixture *fixture, Got *got, const char *text, uint32_t max_tokens) {
    return (Job){
        .kind = JOB_GENERATE,
        .owner = got,
        .engine = fixture->model.engine,
        .input = { .text = text, .text_bytes = strlen(text) },
        .generate = { .want_tokens = true,
                      .ageing_ns = UINT64_C(3600) * 1000000000,
                      .options = { .max_tokens = max_tokens,
                                   .context_tokens = 1024,
                                   .ignore_end = true,
                                   .sampler = SAMPLER_OPTIONS_GREEDY } },
    };
}

/* Takes the news that arrive within the time-out, and adds each to its job's Got. */
static void take_news(Fixture *fixture, int timeout_ms) {
    struct pollfd wait = { .fd = outbox_fd(fixture->outbox), .events = POLLIN };
    JobNews news;
    Job *job;

    if (poll(&wait, 1, timeout_ms) <= 0)
        return;
    outbox_quiet(fixture->outbox);
    while ((job = outbox_take(fixture->outbox, &news))) {
        Got *got = job->owner;

        assert_false(got->done); /* nothing may come after the end */
        str_buf_append(&got->text, news.text.data ? news.text.data : "", news.text.len_bytes);
        for (size_t i = 0; i < news.tokens.n; i++)
            assert_int_equal(token_list_add(&got->tokens, news.tokens.ids[i]), 0);
        got->n_marks += news.n_marks;
        got->started |= news.started;
        got->usage = news.usage;
        if (news.done) {
            got->done = true;
            got->done_order = ++n_done;
            got->result = news.result;
            got->end = news.end;
            got->err = news.err;
            got->engine = news.engine;
        }
        job_news_deinit(&news);
    }
}

static void wait_done(Fixture *fixture, const Got *got) {
    uint64_t until_ns = clock_now_ns() + (uint64_t)TIMEOUT_MS * 1000000;

    while (!got->done) {
        assert_true(clock_now_ns() < until_ns);
        take_news(fixture, 100);
    }
}

static void got_deinit(Got *got) {
    str_buf_deinit(&got->text);
    token_list_deinit(&got->tokens);
}

static void test_engine_thread_generates(void **state) {
    Fixture *fixture = *state;
    _cleanup_(got_deinit) Got got = { 0 };
    Job job = generate_job(fixture, &got, "The sun rises in the", 8);

    engine_thread_submit(fixture->thread, &job);
    wait_done(fixture, &got);
    assert_int_equal(got.result, 0);
    assert_int_equal(got.end, GENERATION_END_MAX);
    assert_true(got.started);
    assert_int_equal(got.tokens.n, 8);
    assert_int_equal(got.n_marks, 8);
    assert_int_equal(got.usage.n_output_tokens, 8);
    assert_true(got.text.len_bytes > 0);
}

/* A short generation that begins later ends before a long one; both have the same tokens as alone. */
static void test_engine_thread_takes_turns(void **state) {
    Fixture *fixture = *state;
    _cleanup_(got_deinit) Got alone = { 0 }, lengthy = { 0 }, brief = { 0 };
    Job alone_job = generate_job(fixture, &alone, "Water boils at", 6);
    Job lengthy_job = generate_job(fixture, &lengthy, "Once upon a time", 24);
    Job brief_job = generate_job(fixture, &brief, "Water boils at", 6);

    engine_thread_submit(fixture->thread, &alone_job);
    wait_done(fixture, &alone);
    engine_thread_submit(fixture->thread, &lengthy_job);
    engine_thread_submit(fixture->thread, &brief_job);
    wait_done(fixture, &lengthy);
    wait_done(fixture, &brief);
    assert_true(brief.done_order < lengthy.done_order);
    assert_int_equal(brief.tokens.n, alone.tokens.n);
    assert_memory_equal(brief.tokens.ids, alone.tokens.ids, alone.tokens.n * sizeof(uint32_t));
    assert_int_equal(lengthy.tokens.n, 24);
}

/* An interactive request that arrives during a step of a long prompt ends first; both have the same tokens as alone.
 * The moment of arrival depends on the machine, so the test repeats until a request has arrived during a step. */
static void test_engine_thread_preempts(void **state) {
    static char text[1200];
    Fixture *fixture = *state;
    _cleanup_(got_deinit) Got alone = { 0 }, lengthy_alone = { 0 };
    Job job = generate_job(fixture, &alone, "Water boils at", 3), lengthy_job;
    bool is_shown = false;

    for (size_t i = 0; i + 6 < sizeof(text); i += 6)
        memcpy(text + i, "apple ", 6);
    engine_thread_submit(fixture->thread, &job);
    wait_done(fixture, &alone);
    lengthy_job = generate_job(fixture, &lengthy_alone, text, 3);
    engine_thread_submit(fixture->thread, &lengthy_job);
    wait_done(fixture, &lengthy_alone);
    assert_int_equal(engine_thread_n_preempted(fixture->thread), 0);

    for (size_t round = 0; !is_shown; round++) {
        _cleanup_(got_deinit) Got lengthy = { 0 }, brief = { 0 };
        Job brief_job = generate_job(fixture, &brief, "Water boils at", 3);

        assert_true(round < 100);
        lengthy_job = generate_job(fixture, &lengthy, text, 3);
        lengthy_job.generate.priority = PRIORITY_BACKGROUND;
        brief_job.generate.priority = PRIORITY_INTERACTIVE;
        engine_thread_submit(fixture->thread, &lengthy_job);
        while (!lengthy.usage.n_prompt_tokens) /* until the lengthy job has had its first turn */
            take_news(fixture, 100);
        engine_thread_submit(fixture->thread, &brief_job);
        wait_done(fixture, &brief);
        wait_done(fixture, &lengthy);
        is_shown = engine_thread_n_preempted(fixture->thread) && brief.done_order < lengthy.done_order;
        assert_int_equal(brief.tokens.n, 3);
        assert_memory_equal(brief.tokens.ids, alone.tokens.ids, 3 * sizeof(uint32_t));
        assert_int_equal(lengthy.tokens.n, 3);
        assert_memory_equal(lengthy.tokens.ids, lengthy_alone.tokens.ids, 3 * sizeof(uint32_t));
    }
}

static void test_engine_thread_cancels_in_decode(void **state) {
    Fixture *fixture = *state;
    _cleanup_(got_deinit) Got got = { 0 }, other = { 0 };
    Job job = generate_job(fixture, &got, "One two three", 900),
        other_job = generate_job(fixture, &other, "Red, green", 10);

    engine_thread_submit(fixture->thread, &job);
    engine_thread_submit(fixture->thread, &other_job);
    while (got.tokens.n < 2)
        take_news(fixture, 100);
    engine_thread_cancel(fixture->thread, &job);
    wait_done(fixture, &got);
    assert_int_equal(got.result, 0);
    assert_int_equal(got.end, GENERATION_END_CANCELLED);
    assert_true(got.tokens.n < 900);
    wait_done(fixture, &other); /* the cancellation does not affect the other job */
    assert_int_equal(other.end, GENERATION_END_MAX);
    assert_int_equal(other.tokens.n, 10);
}

static void test_engine_thread_cancels_in_prefill(void **state) {
    static char text[4000];
    Fixture *fixture = *state;
    _cleanup_(got_deinit) Got got = { 0 };
    Job job = generate_job(fixture, &got, text, 5);

    for (size_t i = 0; i + 6 < sizeof(text); i += 6)
        memcpy(text + i, "apple ", 6);
    job.input.text_bytes = strlen(text);
    engine_thread_submit(fixture->thread, &job);
    while (!got.usage.n_prefilled_tokens)
        take_news(fixture, 100);
    engine_thread_cancel(fixture->thread, &job);
    wait_done(fixture, &got);
    assert_int_equal(got.end, GENERATION_END_CANCELLED);
    assert_int_equal(got.tokens.n, 0);
    assert_true(got.usage.n_prefilled_tokens < got.usage.n_prompt_tokens);
}

static void test_engine_thread_cancelled_before_its_first_turn(void **state) {
    Fixture *fixture = *state;
    _cleanup_(got_deinit) Got got = { 0 };
    Job job = generate_job(fixture, &got, "never read", 5);

    atomic_store(&job.cancelled, true);
    engine_thread_submit(fixture->thread, &job);
    wait_done(fixture, &got);
    assert_int_equal(got.end, GENERATION_END_CANCELLED);
    assert_false(got.started);
}

/* A paused job computes nothing, does not delay others, goes on from where it stopped, and can be cancelled. */
static void test_engine_thread_pauses(void **state) {
    Fixture *fixture = *state;
    _cleanup_(got_deinit) Got got = { 0 }, other = { 0 };
    Job job = generate_job(fixture, &got, "A long tale", 400), other_job = generate_job(fixture, &other, "Blue", 4);
    size_t n_tokens;

    engine_thread_submit(fixture->thread, &job);
    while (got.tokens.n < 2)
        take_news(fixture, 100);
    engine_thread_pause(fixture->thread, &job, true);
    engine_thread_submit(fixture->thread, &other_job);
    wait_done(fixture, &other);
    n_tokens = got.tokens.n;
    take_news(fixture, 300);
    assert_int_equal(got.tokens.n, n_tokens); /* no further token since the step that ran at the pause */
    assert_int_equal(engine_thread_pulse(fixture->thread).busy_since_ns, 0);
    engine_thread_pause(fixture->thread, &job, false);
    while (got.tokens.n < n_tokens + 2)
        take_news(fixture, 100);
    engine_thread_pause(fixture->thread, &job, true);
    engine_thread_cancel(fixture->thread, &job);
    wait_done(fixture, &got);
    assert_int_equal(got.end, GENERATION_END_CANCELLED);
}

/* Tokenize and detokenize jobs are answered during a generation, not after its end. */
static void test_engine_thread_small_jobs_between_steps(void **state) {
    Fixture *fixture = *state;
    _cleanup_(got_deinit) Got got = { 0 }, tokens = { 0 }, text = { 0 }, bad = { 0 };
    static const char words[] = "Hello, wörld";
    static const uint32_t no_token = 4000000000u;
    Job job = generate_job(fixture, &got, "Count with me", 300);
    Job encode = { .kind = JOB_TOKENIZE,
                   .owner = &tokens,
                   .engine = fixture->model.engine,
                   .input = { .text = words, .text_bytes = sizeof(words) - 1 } };
    Job decode = { .kind = JOB_DETOKENIZE, .owner = &text, .engine = fixture->model.engine };
    Job wrong = { .kind = JOB_DETOKENIZE,
                  .owner = &bad,
                  .engine = fixture->model.engine,
                  .detokenize = { .tokens = &no_token, .n_tokens = 1 } };

    engine_thread_submit(fixture->thread, &job);
    engine_thread_submit(fixture->thread, &encode);
    wait_done(fixture, &tokens);
    assert_int_equal(tokens.result, 0);
    assert_int_equal(tokens.n_marks, tokens.tokens.n);
    assert_string_equal(tokens.text.data, words); /* the token's pieces give the text again */
    decode.detokenize.tokens = tokens.tokens.ids;
    decode.detokenize.n_tokens = tokens.tokens.n;
    engine_thread_submit(fixture->thread, &decode);
    wait_done(fixture, &text);
    assert_int_equal(text.result, 0);
    assert_string_equal(text.text.data, words);
    engine_thread_submit(fixture->thread, &wrong);
    wait_done(fixture, &bad);
    assert_int_equal(bad.result, JOB_E_TOKEN);
    assert_non_null(strstr(bad.err.text, "4000000000"));
    assert_false(got.done);
    engine_thread_cancel(fixture->thread, &job);
    wait_done(fixture, &got);
}

/* The memory of a text is charged before the text is tokenized. A refused text gets an error and leaves no charge. */
static void test_engine_thread_text_memory(void **state) {
    Fixture *fixture = *state;
    AccountTable *accounts = &fixture->model.accounts;
    const uint64_t used_bytes = accounts->used_bytes[ACCOUNT_ACTIVATIONS];
    static char text[100000];

    memset(text, 'a', sizeof(text));
    for (size_t i = 0; i < 2; i++) {
        _cleanup_(got_deinit) Got got = { 0 };
        Job job = { .kind = JOB_TOKENIZE,
                    .owner = &got,
                    .engine = fixture->model.engine,
                    .input = { .text = text, .text_bytes = sizeof(text) } };

        accounts->limit_bytes[ACCOUNT_ACTIVATIONS] = used_bytes + sizeof(text) * TOKENIZER_SCRATCH_BYTES - !i;
        engine_thread_submit(fixture->thread, &job);
        wait_done(fixture, &got);
        assert_int_equal(got.result, i ? 0 : JOB_E_MEMORY);
        if (!i)
            assert_non_null(strstr(got.err.text, "100000 bytes"));
        assert_int_equal(accounts->used_bytes[ACCOUNT_ACTIVATIONS], used_bytes);
    }
    accounts->limit_bytes[ACCOUNT_ACTIVATIONS] = UINT64_MAX;
}

enum {
    SMALL_JOBS = 3,
    SMALL_TEXT_BYTES = 1000000,
    INTERACTIVE_TOKENS = 60
};

/* Measures an interactive generation beside @n_small small jobs, each of which is submitted again when done. Return:
 * ns. */
static uint64_t run_interactive(Fixture *fixture, Job *small, Got *small_gots, size_t n_small) {
    _cleanup_(got_deinit) Got got = { 0 };
    Job job = generate_job(fixture, &got, "Water boils at", INTERACTIVE_TOKENS);
    const uint64_t start_ns = clock_now_ns();
    uint64_t took_ns;

    job.generate.priority = PRIORITY_INTERACTIVE;
    for (size_t i = 0; i < n_small; i++)
        engine_thread_submit(fixture->thread, &small[i]);
    engine_thread_submit(fixture->thread, &job);
    while (!got.done) {
        take_news(fixture, 100);
        for (size_t i = 0; i < n_small; i++)
            if (small_gots[i].done && !got.done) {
                got_deinit(&small_gots[i]);
                small_gots[i] = (Got){ 0 };
                engine_thread_submit(fixture->thread, &small[i]);
            }
    }
    took_ns = clock_now_ns() - start_ns;
    for (size_t i = 0; i < n_small; i++) {
        wait_done(fixture, &small_gots[i]);
        got_deinit(&small_gots[i]);
        small_gots[i] = (Got){ 0 };
    }
    assert_int_equal(got.tokens.n, INTERACTIVE_TOKENS);
    return took_ns;
}

/* Small jobs get as much time as an interactive generation beside them, and no more. The generation therefore takes
 * twice its time alone plus one job; with one small job per step the time would be many times that. The machine may be
 * busy, so the test repeats until one round is within the bound. */
static void test_engine_thread_small_jobs_beside_interactive(void **state) {
    static char text[SMALL_TEXT_BYTES];
    Fixture *fixture = *state;
    Got gots[SMALL_JOBS] = { 0 };
    Job small[SMALL_JOBS];
    bool is_shown = false;

    for (size_t i = 0; i + 6 <= sizeof(text); i += 6)
        memcpy(text + i, "apple ", 6);
    for (size_t i = 0; i < SMALL_JOBS; i++)
        small[i] = (Job){ .kind = JOB_TOKENIZE,
                          .owner = &gots[i],
                          .engine = fixture->model.engine,
                          .input = { .text = text, .text_bytes = sizeof(text) / 6 * 6 } };
    for (size_t round = 0; !is_shown; round++) {
        const uint64_t alone_ns = run_interactive(fixture, small, gots, 0), start_ns = clock_now_ns();
        uint64_t small_ns;

        assert_true(round < 5);
        engine_thread_submit(fixture->thread, &small[0]);
        wait_done(fixture, &gots[0]);
        small_ns = clock_now_ns() - start_ns;
        got_deinit(&gots[0]);
        gots[0] = (Got){ 0 };
        is_shown = run_interactive(fixture, small, gots, SMALL_JOBS) < 3 * (alone_ns + small_ns);
    }
}

/* Few token ids can stand for a long text, which is not built beyond the size of a message. */
static void test_engine_thread_answer_too_long(void **state) {
    enum {
        N = FRAME_MAX_BYTES / 64
    };
    static uint32_t ids[N + 1];
    static const char words[] = "                                                                "; /* one token */
    Fixture *fixture = *state;
    _cleanup_(got_deinit) Got token = { 0 }, longest = { 0 }, longer = { 0 };
    Job encode = { .kind = JOB_TOKENIZE,
                   .owner = &token,
                   .engine = fixture->model.engine,
                   .input = { .text = words, .text_bytes = sizeof(words) - 1 } };
    Job decode = { .kind = JOB_DETOKENIZE,
                   .owner = &longest,
                   .engine = fixture->model.engine,
                   .detokenize = { .tokens = ids, .n_tokens = N } };

    engine_thread_submit(fixture->thread, &encode);
    wait_done(fixture, &token);
    assert_int_equal(token.tokens.n, 1);
    for (size_t i = 0; i <= N; i++)
        ids[i] = token.tokens.ids[0];
    engine_thread_submit(fixture->thread, &decode);
    wait_done(fixture, &longest);
    assert_int_equal(longest.result, 0);
    assert_int_equal(longest.text.len_bytes, FRAME_MAX_BYTES);
    decode.owner = &longer;
    decode.detokenize.n_tokens = N + 1;
    engine_thread_submit(fixture->thread, &decode);
    wait_done(fixture, &longer);
    assert_int_equal(longer.result, JOB_E_ANSWER);
    assert_int_equal(longer.text.len_bytes, 0);
}

static void test_engine_thread_refuses_prompts(void **state) {
    static char text[20000];
    Fixture *fixture = *state;
    _cleanup_(got_deinit) Got context = { 0 }, limit = { 0 };
    Job job = generate_job(fixture, &context, text, 5);

    for (size_t i = 0; i + 6 < sizeof(text); i += 6)
        memcpy(text + i, "apple ", 6);
    job.input.text_bytes = strlen(text);
    engine_thread_submit(fixture->thread, &job);
    wait_done(fixture, &context);
    assert_int_equal(context.result, JOB_E_TOO_LONG);
    assert_non_null(strstr(context.err.text, "1024"));

    job = generate_job(fixture, &limit, "one two three four five six", 5);
    job.generate.prompt_max_tokens = 2;
    engine_thread_submit(fixture->thread, &job);
    wait_done(fixture, &limit);
    assert_int_equal(limit.result, JOB_E_TOO_LONG);
    assert_non_null(strstr(limit.err.text, "at most 2"));
}

static void test_engine_thread_reports_a_full_account(void **state) {
    Fixture *fixture = *state;
    _cleanup_(got_deinit) Got got = { 0 };
    Job job = generate_job(fixture, &got, "Hello", 5);

    fixture->model.accounts.limit_bytes[ACCOUNT_KV] = 1000;
    engine_thread_submit(fixture->thread, &job);
    wait_done(fixture, &got);
    fixture->model.accounts.limit_bytes[ACCOUNT_KV] = UINT64_MAX;
    assert_int_equal(got.result, JOB_E_MEMORY);
}

static void test_engine_thread_load_failure(void **state) {
    Fixture *fixture = *state;
    _cleanup_(got_deinit) Got got = { 0 };
    Job job = { .kind = JOB_LOAD,
                .owner = &got,
                .load.options = { .path = "/nonexistent/model.cgm",
                                  .load = { .device = ENGINE_DEVICE_CPU, .isa = ISA_BEST },
                                  .accounts = &fixture->model.accounts } };

    engine_thread_submit(fixture->thread, &job);
    wait_done(fixture, &got);
    assert_int_not_equal(got.result, 0);
    assert_non_null(strstr(got.err.text, "/nonexistent/model.cgm"));
}

static bool loads_within(EngineOptions *options, uint64_t limit_bytes) {
    Engine *engine = NULL;
    ErrText err;
    int r;

    options->accounts->total_limit_bytes = options->accounts->others_limit_bytes = limit_bytes;
    r = engine_new(&engine, options, &err);
    assert_true(r == 0 || r == ENGINE_E_MEMORY);
    engine_free(engine);
    return r == 0;
}

/* Finds the least limit on all accounts together, to a few KiB, with which the package can be loaded. */
static uint64_t least_limit(EngineOptions *options) {
    uint64_t low = options->accounts->total_bytes, high = low + (256 << 20);

    assert_true(loads_within(options, high));
    while (high - low > 4096) {
        const uint64_t middle = (low + high) / 2;

        *(loads_within(options, middle) ? &high : &low) = middle;
    }
    return high;
}

/* Kept prompts make way for a model's load. */
static void test_engine_thread_load_drops_kept_prompts(void **state) {
    static const uint32_t prompt[100] = { 1, 2, 3 };
    const GenerationOptions options = { .max_tokens = 2, .ignore_end = true, .sampler = SAMPLER_OPTIONS_GREEDY };
    Fixture *fixture = *state;
    _cleanup_(got_deinit) Got got = { 0 };
    Generation *generation;
    PrefixCache *cache;
    WorkerPool *pool;
    AccountTable accounts;
    char path[PATH_MAX];
    void *folder;
    uint64_t limit_bytes, kept_bytes;
    Engine *first;
    Job job = { .kind = JOB_LOAD, .owner = &got };

    assert_int_equal(import_fixture_setup(&folder), 0);
    loaded_make_package(folder, 8, false, false, path);
    account_table_init(&accounts);
    assert_int_equal(prefix_cache_new(&cache, UINT64_MAX), 0);
    assert_int_equal(worker_pool_new(&pool, 1), 0);
    job.load.options = (EngineOptions){ .path = path,
                                        .load.device = ENGINE_DEVICE_CPU,
                                        .load.isa = ISA_BEST,
                                        .load.chunk_tokens = 8,
                                        .pool = pool,
                                        .accounts = &accounts,
                                        .prefix_cache = cache };
    assert_int_equal(engine_new(&first, &job.load.options, NULL), 0);
    limit_bytes = least_limit(&job.load.options);
    accounts.total_limit_bytes = accounts.others_limit_bytes = UINT64_MAX;
    assert_int_equal(generation_new(&generation, first, prompt, ARRAY_LEN(prompt), &options, NULL), 0);
    while (!generation_end(generation))
        assert_int_equal(generation_step(generation, NULL, NULL, NULL), 0);
    generation_free(generation);
    kept_bytes = prefix_cache_kept_bytes(cache);
    assert_true(kept_bytes > 64 << 10);

    accounts.total_limit_bytes = accounts.others_limit_bytes = limit_bytes + kept_bytes / 2;
    engine_thread_submit(fixture->thread, &job);
    wait_done(fixture, &got);
    assert_int_equal(got.result, 0);
    assert_int_equal(prefix_cache_kept_bytes(cache), 0);
    engine_free(got.engine);
    engine_free(first);
    worker_pool_free(pool);
    prefix_cache_free(cache);
    loaded_accounts_are_empty(&accounts);
    import_fixture_teardown(&folder);
}

/* A stop cancels running and waiting jobs, and gives every job back. */
static void test_engine_thread_stops_under_work(void **state) {
    Fixture *fixture = *state;
    Got got[4] = { { .done = false } };
    Job jobs[4];

    for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
        jobs[i] = generate_job(fixture, &got[i], "On and on", 900);
        engine_thread_submit(fixture->thread, &jobs[i]);
    }
    while (got[0].tokens.n < 2)
        take_news(fixture, 100);
    assert_int_equal(engine_thread_stop(fixture->thread, TIMEOUT_MS), 0);
    take_news(fixture, 0);
    for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
        assert_true(got[i].done);
        assert_int_equal(got[i].end, GENERATION_END_CANCELLED);
    }
    for (size_t i = 0; i < ARRAY_LEN(got); i++)
        got_deinit(&got[i]);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_engine_thread_generates),
        TEST(test_engine_thread_takes_turns),
        TEST(test_engine_thread_preempts),
        TEST(test_engine_thread_cancels_in_decode),
        TEST(test_engine_thread_cancels_in_prefill),
        TEST(test_engine_thread_cancelled_before_its_first_turn),
        TEST(test_engine_thread_pauses),
        TEST(test_engine_thread_small_jobs_between_steps),
        TEST(test_engine_thread_small_jobs_beside_interactive),
        TEST(test_engine_thread_text_memory),
        TEST(test_engine_thread_answer_too_long),
        TEST(test_engine_thread_refuses_prompts),
        TEST(test_engine_thread_reports_a_full_account),
        TEST(test_engine_thread_load_failure),
        TEST(test_engine_thread_load_drops_kept_prompts),
        TEST(test_engine_thread_stops_under_work),
    };

    return cmocka_run_group_tests(tests, open_model, close_model);
}
