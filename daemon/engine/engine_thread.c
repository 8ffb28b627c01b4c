// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/engine/engine_thread.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/min_max.h"
#include "base/system/c_library.h"
#include "base/system/thread.h"
#include "daemon/engine/job_choices.h"
#include "daemon/engine/turns.h"
#include "proto/frame.h"

struct EngineThread {
    pthread_t thread;
    bool is_started;        /* loop */
    bool is_joined;         /* loop */
    Outbox *outbox;         /* const */
    unsigned int n_threads; /* const */
    WorkerPool *pool;       /* engine thread until it is joined, then loop */

    pthread_mutex_t lock;
    pthread_cond_t wake;
    JobList small;                /* lock; all jobs but generations */
    JobList arrived;              /* lock; generations without a turn so far */
    bool stopping;                /* lock */
    Histories *histories;         /* engine thread, once set under the lock; NULL: none */
    ConstraintStore *constraints; /* as histories */

    Turns *turns;     /* engine thread, except for what turns.h allows elsewhere */
    uint64_t owed_ns; /* engine thread; time that interactive steps are due after the last small job */
    JobList arriving; /* engine thread; loads with an engine whose weights still arrive */

    _Atomic uint64_t n_beats;
    _Atomic uint64_t busy_since_ns;
};

/* ---- small jobs -------------------------------------------------------------------------------------------------- */

/* Checks the answer's length after each token, so that no text grows far beyond what a message may hold. */
static int check_answer(const JobNews *news, ErrText *err) {
    if (str_buf_failed(&news->text))
        return err_raise(-ENOMEM);
    return news->text.len_bytes <= FRAME_MAX_BYTES ? 0
                                                   : err_set(err, JOB_E_ANSWER,
                                                             "the answer does not fit: it has more than %u bytes of "
                                                             "text: ask for less at a time",
                                                             FRAME_MAX_BYTES);
}

static int tokenize(Job *job, JobNews *news, ErrText *err) {
    const Tokenizer *tokenizer = engine_tokenizer(job->engine);
    int r = job->input.render_only ? job_render(job, &news->text, err) : job_encode(job, &news->tokens, err);

    if (!r && job->input.render_only)
        return check_answer(news, err);
    if (r || job->input.count_only)
        return r;
    for (size_t i = 0; i < news->tokens.n; i++) {
        r = tokenizer_piece(tokenizer, news->tokens.ids[i], true, &news->text);
        if (!r)
            r = job_news_mark(news, ANSWER_TEXT, NULL);
        if (r)
            return err_fold(r);
        r = check_answer(news, err);
        if (r)
            return r;
        if (i % 1024 == 0 && atomic_load(&job->cancelled))
            return JOB_E_CANCELLED;
    }
    return 0;
}

static int detokenize(Job *job, JobNews *news, ErrText *err) {
    const Tokenizer *tokenizer = engine_tokenizer(job->engine);
    Detokenizer detokenizer;
    int r;

    detokenizer_init(&detokenizer, tokenizer, true, job->detokenize.with_special);
    for (size_t i = 0; i < job->detokenize.n_tokens; i++) {
        if (job->detokenize.tokens[i] >= tokenizer_n_tokens(tokenizer))
            return err_set(err, JOB_E_TOKEN, "token %zu is %" PRIu32 ": the model's ids are 0 to %" PRIu32, i,
                           job->detokenize.tokens[i], tokenizer_n_tokens(tokenizer) - 1);
        r = detokenizer_push(&detokenizer, job->detokenize.tokens[i], &news->text);
        if (r)
            return err_fold(r);
        r = check_answer(news, err);
        if (r)
            return r;
        if (i % 1024 == 0 && atomic_load(&job->cancelled))
            return JOB_E_CANCELLED;
    }
    r = detokenizer_finish(&detokenizer, &news->text);
    return r ? err_fold(r) : check_answer(news, err);
}

static int load_code(int r) {
    return r == ENGINE_E_MODEL ? JOB_E_MODEL : r == ENGINE_E_MEMORY ? JOB_E_MEMORY : err_fold(r);
}

/* Loads an engine. If memory is short, kept constraints, histories and kept prompts are dropped: none of them keeps a
 * model out. */
static int engine_thread_load(EngineThread *thread, Job *job, JobNews *news, ErrText *err) {
    PrefixCache *cache = job->load.options.prefix_cache;
    int r;

    job->load.options.pool = thread->pool;
    job->load.options.heartbeat = &thread->n_beats;
    r = engine_new(&news->engine, &job->load.options, err);
    if (r == ENGINE_E_MEMORY && thread->constraints && constraint_store_drop(thread->constraints))
        r = engine_new(&news->engine, &job->load.options, err);
    if (r == ENGINE_E_MEMORY && thread->histories && histories_drop(thread->histories))
        r = engine_new(&news->engine, &job->load.options, err);
    if (r == ENGINE_E_MEMORY && cache && prefix_cache_kept_bytes(cache)) {
        prefix_cache_drop_all(cache);
        r = engine_new(&news->engine, &job->load.options, err);
    }
    return load_code(r);
}

/* Hands the engine over to the loop, so that generations may begin on it; the job ends once all weights are there. */
static int begin_arrival(EngineThread *thread, Job *job, const JobNews *news) {
    job->engine = news->engine;
    TAILQ_INSERT_TAIL(&thread->arriving, job, link);
    outbox_lock(thread->outbox);
    job->news = *news;
    outbox_post_locked(thread->outbox, job);
    outbox_unlock(thread->outbox);
    return 0;
}

static int finish_code(EngineThread *thread, Job *job, int code, const ErrText *err) {
    outbox_finish(thread->outbox, job, GENERATION_RUNNING, code, err);
    return code;
}

static int serve_small(EngineThread *thread, Job *job) {
    JobNews news = { 0 };
    ErrText err = { 0 };
    int r = 0;

    if (atomic_load(&job->cancelled))
        return finish_code(thread, job, JOB_E_CANCELLED, NULL);
    switch (job->kind) {
    case JOB_TOKENIZE:
        r = tokenize(job, &news, &err);
        break;
    case JOB_DETOKENIZE:
        r = detokenize(job, &news, &err);
        break;
    case JOB_LOAD:
        r = engine_thread_load(thread, job, &news, &err);
        if (!r && thread->histories)
            histories_warm(thread->histories, tokenizer_hash(engine_tokenizer(news.engine)));
        if (!r && engine_is_arriving(news.engine))
            return begin_arrival(thread, job, &news);
        break;
    case JOB_UNLOAD:
        job->engine = engine_free(job->engine);
        break;
    case JOB_SESSION_FORK:
        prefix_pin_copy(job->pins.pin, job->pins.from);
        break;
    case JOB_SESSION_CLOSE:
        prefix_pin_release(job->pins.cache, job->pins.pin);
        break;
    case JOB_GENERATE:
        assert(!"not a small job");
    }
    if (r)
        job_news_deinit(&news);
    outbox_lock(thread->outbox);
    job->news = news;
    outbox_unlock(thread->outbox);
    return finish_code(thread, job, r, &err);
}

/* ---- weights on their way ---------------------------------------------------------------------------------------- */

static void tell_progress(EngineThread *thread, Job *job) {
    const uint32_t permille = weights_permille(engine_weights(job->engine));

    if (job->load.told_permille == permille)
        return;
    job->load.told_permille = permille;
    outbox_lock(thread->outbox);
    job->news.permille = permille;
    outbox_post_locked(thread->outbox, job);
    outbox_unlock(thread->outbox);
}

/* Reads weights, at least a few MiB, until @until_ns or until an interactive generation arrives. Weights that steps on
 * the engine have already read are skipped. */
static void engine_thread_take_in(EngineThread *thread, uint64_t until_ns) {
    Job *job = TAILQ_FIRST(&thread->arriving);
    ErrText err = { 0 };
    int r;

    if (!job)
        return;
    do
        r = engine_arrive(job->engine, &err);
    while (!r && engine_is_arriving(job->engine) && clock_now_ns() < until_ns && !turns_are_wanted(thread->turns));
    if (!r && engine_is_arriving(job->engine)) {
        tell_progress(thread, job);
        return;
    }
    TAILQ_REMOVE(&thread->arriving, job, link);
    (void)finish_code(thread, job, load_code(r), &err);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void busy(EngineThread *thread, bool is_busy) {
    atomic_fetch_add(&thread->n_beats, 1);
    atomic_store(&thread->busy_since_ns, is_busy ? clock_now_ns() : 0);
}

/* Sleeps until the thread is woken or unused histories can be dropped. The caller holds the lock. */
static void sleep_on(EngineThread *thread) {
    const uint64_t wake_ns = thread->histories ? histories_wake_ns(thread->histories) : UINT64_MAX;

    busy(thread, false);
    if (wake_ns == UINT64_MAX)
        pthread_cond_wait(&thread->wake, &thread->lock);
    else
        (void)thread_cond_wait_until(&thread->wake, &thread->lock, wake_ns);
}

static bool has_history_work(const EngineThread *thread) {
    return thread->histories &&
           (histories_have_news(thread->histories) || histories_wake_ns(thread->histories) <= clock_now_ns());
}

/* Sleeps until there is work, and takes new generations in. Return: false if the thread must end. */
static bool wait_for_work(EngineThread *thread, Job **smallp) {
    Job *job;
    bool stopping;

    pthread_mutex_lock(&thread->lock);
    while (!thread->stopping && TAILQ_EMPTY(&thread->small) && TAILQ_EMPTY(&thread->arrived) &&
           TAILQ_EMPTY(&thread->arriving) && !turns_have_work(thread->turns) && !has_history_work(thread))
        sleep_on(thread);
    turns_resume(thread->turns);
    while ((job = TAILQ_FIRST(&thread->arrived))) {
        TAILQ_REMOVE(&thread->arrived, job, link);
        turns_add(thread->turns, job);
    }
    /* A turn serves one small job, so that many small jobs slow generations down but never stop them. Interactive
     * generations get as much time as small jobs. */
    if (!turns_have_interactive(thread->turns))
        thread->owed_ns = 0;
    *smallp = thread->owed_ns ? NULL : TAILQ_FIRST(&thread->small);
    if (*smallp)
        TAILQ_REMOVE(&thread->small, *smallp, link);
    stopping = thread->stopping;
    pthread_mutex_unlock(&thread->lock);
    return !stopping;
}

static void cancel_everything(EngineThread *thread) {
    Job *job;

    turns_cancel_all(thread->turns);
    while ((job = TAILQ_FIRST(&thread->arriving))) {
        TAILQ_REMOVE(&thread->arriving, job, link);
        outbox_finish(thread->outbox, job, GENERATION_RUNNING, JOB_E_CANCELLED, NULL);
    }
    for (;;) {
        pthread_mutex_lock(&thread->lock);
        job = TAILQ_FIRST(&thread->small);
        if (job)
            TAILQ_REMOVE(&thread->small, job, link);
        pthread_mutex_unlock(&thread->lock);
        if (!job)
            return;
        if (job->kind == JOB_UNLOAD)
            (void)serve_small(thread, job);
        else
            outbox_finish(thread->outbox, job, GENERATION_RUNNING, JOB_E_CANCELLED, NULL);
    }
}

static void *engine_thread_run(void *arg) {
    EngineThread *thread = arg;
    Job *small;

    while (wait_for_work(thread, &small)) {
        uint64_t until_ns = 0;

        if (thread->histories)
            histories_settle(thread->histories, clock_now_ns());
        if (small) {
            const uint64_t start_ns = clock_now_ns();

            busy(thread, true);
            (void)serve_small(thread, small);
            thread->owed_ns = clock_now_ns() - start_ns;
        }
        if (turns_have_work(thread->turns)) {
            const uint64_t start_ns = clock_now_ns();
            uint64_t interactive_ns;

            busy(thread, true);
            interactive_ns = turns_take(thread->turns);
            thread->owed_ns -= MIN(interactive_ns, thread->owed_ns);
            until_ns = 2 * clock_now_ns() - start_ns; /* a load gets half of the thread's time */
        }
        busy(thread, true);
        engine_thread_take_in(thread, until_ns);
    }
    if (small)
        outbox_finish(thread->outbox, small, GENERATION_RUNNING, JOB_E_CANCELLED, NULL);
    cancel_everything(thread);
    busy(thread, false);
    return NULL;
}

/**
 * engine_thread_new() - start the thread that computes and its workers
 * @n_threads:   threads that compute, this one counted; at least 1
 *
 * With one thread for every processor each worker is bound to one processor; if that fails, the log says why.
 * Signals stay with the loop: see thread_start().
 */
int engine_thread_new(EngineThread **threadp, Outbox *outbox, unsigned int n_threads, ErrText *err) {
    _cleanup_(engine_thread_freep) EngineThread *thread = calloc(1, sizeof(*thread));
    int r;

    if (!thread)
        return err_no_memory(err);
    thread->outbox = outbox;
    thread->n_threads = n_threads;
    r = turns_new(&thread->turns, outbox);
    if (r)
        return err_set(err, r, "out of memory");
    TAILQ_INIT(&thread->small);
    TAILQ_INIT(&thread->arrived);
    TAILQ_INIT(&thread->arriving);
    pthread_mutex_init(&thread->lock, NULL);
    thread_cond_init(&thread->wake);
    r = worker_pool_new(&thread->pool, n_threads);
    if (!r) {
        r = worker_pool_pin(thread->pool);
        if (r)
            log_info(TOPIC_DAEMON, "threads do not stay on a processor each: %s", strerror(-r));
        r = thread_start(&thread->thread, "engine", engine_thread_run, thread);
        thread->is_started = !r;
    }
    if (r)
        return err_set(err, r < 0 ? r : err_fold(r), "cannot start %u threads: %s", n_threads, strerror(-r));
    *threadp = steal(&thread);
    return 0;
}

void engine_thread_use_histories(EngineThread *thread, Histories *histories) {
    pthread_mutex_lock(&thread->lock);
    thread->histories = histories;
    turns_use_histories(thread->turns, histories);
    pthread_mutex_unlock(&thread->lock);
}

void engine_thread_use_constraints(EngineThread *thread, ConstraintStore *constraints) {
    pthread_mutex_lock(&thread->lock);
    thread->constraints = constraints;
    turns_use_constraints(thread->turns, constraints);
    pthread_mutex_unlock(&thread->lock);
}

void engine_thread_wake(EngineThread *thread) {
    pthread_mutex_lock(&thread->lock);
    pthread_cond_signal(&thread->wake);
    pthread_mutex_unlock(&thread->lock);
}

int engine_thread_stop(EngineThread *thread, uint64_t timeout_ms) {
    Job *job;
    int r;

    if (!thread->is_started || thread->is_joined)
        return 0;
    pthread_mutex_lock(&thread->lock);
    thread->stopping = true;
    turns_interrupt(thread->turns, PRIORITY_INTERACTIVE);
    TAILQ_FOREACH (job, &thread->small, link)
        atomic_store(&job->cancelled, true);
    pthread_cond_signal(&thread->wake);
    pthread_mutex_unlock(&thread->lock);
    r = c_library_join_within(thread->thread, timeout_ms);
    if (r)
        return r;
    thread->is_joined = true;
    return 0;
}

EngineThread *engine_thread_free(EngineThread *thread) {
    if (!thread)
        return NULL;
    assert(!thread->is_started || thread->is_joined);
    worker_pool_free(thread->pool);
    turns_free(thread->turns);
    pthread_cond_destroy(&thread->wake);
    pthread_mutex_destroy(&thread->lock);
    free(thread);
    return NULL;
}

void engine_thread_submit(EngineThread *thread, Job *job) {
    pthread_mutex_lock(&thread->lock);
    if (job->kind == JOB_GENERATE)
        TAILQ_INSERT_TAIL(&thread->arrived, job, link);
    else
        TAILQ_INSERT_TAIL(&thread->small, job, link);
    if (job->kind == JOB_GENERATE)
        turns_interrupt(thread->turns, job->generate.priority);
    pthread_cond_signal(&thread->wake);
    pthread_mutex_unlock(&thread->lock);
}

void engine_thread_cancel(EngineThread *thread, Job *job) {
    outbox_lock(thread->outbox);
    job_cancel_answers(job);
    outbox_unlock(thread->outbox);
    pthread_mutex_lock(&thread->lock);
    pthread_cond_signal(&thread->wake);
    pthread_mutex_unlock(&thread->lock);
}

void engine_thread_pause(EngineThread *thread, Job *job, bool paused) {
    atomic_store(&job->paused, paused);
    if (paused)
        return;
    pthread_mutex_lock(&thread->lock);
    turns_interrupt(thread->turns, job->generate.priority);
    pthread_cond_signal(&thread->wake);
    pthread_mutex_unlock(&thread->lock);
}

EngineThreadPulse engine_thread_pulse(const EngineThread *thread) {
    return (EngineThreadPulse){ atomic_load(&thread->n_beats), atomic_load(&thread->busy_since_ns) };
}

uint64_t engine_thread_n_preempted(const EngineThread *thread) {
    return turns_n_preempted(thread->turns);
}
