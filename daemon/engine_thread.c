#define _GNU_SOURCE
#include "daemon/engine_thread.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"

struct EngineThread {
    pthread_t thread;
    bool is_started;        /* loop */
    bool is_joined;         /* loop */
    Outbox *outbox;         /* const */
    unsigned int n_threads; /* const */
    WorkerPool *pool;       /* engine thread until it is joined, then loop */

    pthread_mutex_t lock;
    pthread_cond_t wake;
    JobList small;   /* lock: all but generations */
    JobList arrived; /* lock: generations that have not had a turn */
    bool stopping;   /* lock */

    JobList active; /* engine thread: in the order of their turns */

    _Atomic uint64_t n_beats;
    _Atomic uint64_t busy_since_ns;
};

/* ---- news -------------------------------------------------------------------------------------------------------- */

/* The last touch of the job: from here on it is the loop's. */
static void finish(EngineThread *thread, Job *job, GenerationEnd end, int result, const ErrText *err) {
    Generation *generation;

    outbox_lock(thread->outbox);
    generation = steal(&job->running);
    outbox_unlock(thread->outbox);
    /* Memory first: a client that has read the end finds its pages free. */
    if (generation) {
        GenerationUsage usage = *generation_usage(generation);

        generation_free(generation);
        outbox_lock(thread->outbox);
        job->news.usage = usage;
        outbox_unlock(thread->outbox);
    }
    outbox_lock(thread->outbox);
    job->news.end = end;
    job->news.result = result;
    if (err)
        job->news.err = *err;
    job->news.done = true;
    outbox_post_locked(thread->outbox, job);
    outbox_unlock(thread->outbox);
}

static int finish_code(EngineThread *thread, Job *job, int code, const ErrText *err) {
    finish(thread, job, GENERATION_RUNNING, code, err);
    return code;
}

/* ---- generate ---------------------------------------------------------------------------------------------------- */

/* Prompt text to tokens. Return: 0, JOB_E_*, -errno. */
static int encode(const Job *job, TokenList *list, ErrText *err) {
    const Tokenizer *tokenizer = engine_tokenizer(job->engine);
    int r;

    if (job->n_messages) {
        r = chat_template_encode(engine_chat_template(job->engine), tokenizer, job->messages, job->n_messages, list,
                                 err);
        return r == CHAT_E_ROLE ? JOB_E_ROLE : r == CHAT_E_NO_TEMPLATE ? JOB_E_NO_TEMPLATE : r > 0 ? JOB_E_TOO_LONG : r;
    }
    r = tokenizer_encode(tokenizer, job->text, job->text_bytes, job->tokenize_flags, list, err);
    return r > 0 ? JOB_E_TOO_LONG : r;
}

static int generation_code(int r) {
    switch (r) {
    case GENERATION_E_EMPTY:
        return JOB_E_EMPTY;
    case GENERATION_E_TOO_LONG:
        return JOB_E_TOO_LONG;
    case GENERATION_E_MEMORY:
        return JOB_E_MEMORY;
    case GENERATION_E_OPTIONS:
        return JOB_E_OPTIONS;
    default:
        return err_fold(r);
    }
}

static int generate_begin_inner(EngineThread *thread, Job *job, ErrText *err) {
    _cleanup_(token_list_deinit) TokenList prompt = { 0 };
    Generation *generation = NULL;
    uint32_t n_context = engine_info(job->engine)->n_context;
    int r;

    if (!job->generation_options.context_tokens || job->generation_options.context_tokens > n_context)
        job->generation_options.context_tokens = n_context;
    outbox_lock(thread->outbox);
    job->news.started = true;
    job->news.started_ns = clock_now_ns();
    job->news.context_tokens = job->generation_options.context_tokens;
    outbox_post_locked(thread->outbox, job);
    outbox_unlock(thread->outbox);

    r = encode(job, &prompt, err);
    if (r)
        return r;
    if (job->prompt_max_tokens && prompt.n > job->prompt_max_tokens)
        return err_set(err, JOB_E_TOO_LONG, "the prompt has %zu tokens: at most %" PRIu32 " are accepted", prompt.n,
                       job->prompt_max_tokens);
    if (atomic_load(&job->cancelled))
        return JOB_E_CANCELLED;
    r = generation_new(&generation, job->engine, prompt.ids, prompt.n, &job->generation_options, err);
    if (r)
        return generation_code(r);
    outbox_lock(thread->outbox);
    job->running = generation;
    job->news.usage = *generation_usage(generation);
    /* A cancel that came before the generation was there would be lost on it. */
    if (atomic_load(&job->cancelled))
        generation_cancel(generation);
    outbox_post_locked(thread->outbox, job);
    outbox_unlock(thread->outbox);
    return 0;
}

/* Tokenizes the prompt and reserves memory: this is a job's first turn. */
static int generate_begin(EngineThread *thread, Job *job) {
    ErrText err = { "" };
    int r = generate_begin_inner(thread, job, &err);

    if (r == JOB_E_CANCELLED)
        finish(thread, job, GENERATION_END_CANCELLED, 0, NULL);
    else if (r)
        finish(thread, job, GENERATION_RUNNING, r, &err);
    return r;
}

typedef struct StepTarget {
    EngineThread *thread;
    Job *job;
    int r;
} StepTarget;

static void on_delta(void *arg, const char *text, size_t len_bytes, const uint32_t *tokens, size_t n_tokens) {
    StepTarget *target = arg;
    JobNews *news = &target->job->news;
    int r = 0;

    if (!len_bytes && !(n_tokens && target->job->want_tokens))
        return;
    outbox_lock(target->thread->outbox);
    str_buf_append(&news->text, text, len_bytes);
    if (target->job->want_tokens)
        for (size_t i = 0; i < n_tokens && !r; i++)
            r = token_list_add(&news->tokens, tokens[i]);
    if (!r)
        r = str_buf_failed(&news->text) ? -ENOMEM : job_news_mark(news);
    outbox_unlock(target->thread->outbox);
    if (r)
        target->r = r;
}

/* A job's first turn. Return: whether it goes on; if not, the job is the loop's already. */
static bool first_turn(EngineThread *thread, Job *job) {
    if (!atomic_load(&job->cancelled))
        return generate_begin(thread, job) == 0;
    finish(thread, job, GENERATION_END_CANCELLED, 0, NULL);
    return false;
}

/* What a step has given a job. Return: whether it goes on; if not, the job is the loop's already. */
static bool took_turn(EngineThread *thread, Job *job, int r, ErrText *err) {
    GenerationEnd end;

    if (r == GENERATION_E_READ) {
        finish(thread, job, GENERATION_RUNNING, JOB_E_MODEL, err);
        return false;
    }
    if (r) {
        err_set(err, 0, "the step failed: %s", r < 0 ? strerror(-r) : "unexpected condition");
        finish(thread, job, GENERATION_RUNNING, r < 0 ? r : err_fold(r), err);
        return false;
    }
    end = generation_end(job->running);
    if (end != GENERATION_RUNNING) {
        finish(thread, job, end, 0, NULL);
        return false;
    }
    outbox_lock(thread->outbox);
    job->news.usage = *generation_usage(job->running);
    outbox_post_locked(thread->outbox, job);
    outbox_unlock(thread->outbox);
    return true;
}

/* Jobs that share a step. */
typedef struct Group {
    Job *jobs[GENERATION_TURNS_MAX];
    StepTarget targets[GENERATION_TURNS_MAX];
    GenerationTurn turns[GENERATION_TURNS_MAX];
    size_t n;
} Group;

static bool may_run(Job *job) {
    return !atomic_load(&job->paused) || atomic_load(&job->cancelled);
}

/* All that have had their first turn and run on this engine, in the order of their turns. */
static void gather(EngineThread *thread, const Engine *engine, Group *group) {
    Job *job, *next;

    group->n = 0;
    for (job = TAILQ_FIRST(&thread->active); job && group->n < GENERATION_TURNS_MAX; job = next) {
        next = TAILQ_NEXT(job, link);
        if (!job->running || job->engine != engine || !may_run(job))
            continue;
        if (atomic_load(&job->cancelled)) {
            TAILQ_REMOVE(&thread->active, job, link);
            finish(thread, job, GENERATION_END_CANCELLED, 0, NULL);
            continue;
        }
        group->targets[group->n] = (StepTarget){ thread, job, 0 };
        group->turns[group->n] = (GenerationTurn){
            .generation = job->running, .fn = on_delta, .arg = &group->targets[group->n]
        };
        group->jobs[group->n++] = job;
    }
}

/* A step of all generations of one engine. Who had no rows in it keeps its place before those that had. */
static void step_together(EngineThread *thread, const Engine *engine) {
    ErrText err = { "" };
    Group group;
    int r;

    gather(thread, engine, &group);
    if (!group.n)
        return;
    r = generation_step_together(group.turns, group.n, &err);
    for (size_t i = 0; i < group.n; i++) {
        const GenerationTurn *turn = &group.turns[i];
        ErrText own = err;

        if (!turn->ran)
            continue;
        TAILQ_REMOVE(&thread->active, group.jobs[i], link);
        if (took_turn(thread, group.jobs[i], r ? r : turn->r ? turn->r : group.targets[i].r, &own))
            TAILQ_INSERT_TAIL(&thread->active, group.jobs[i], link);
    }
}

/* ---- small jobs -------------------------------------------------------------------------------------------------- */

static int tokenize(Job *job, JobNews *news, ErrText *err) {
    const Tokenizer *tokenizer = engine_tokenizer(job->engine);
    int r = encode(job, &news->tokens, err);

    if (r)
        return r;
    for (size_t i = 0; i < news->tokens.n; i++) {
        r = tokenizer_piece(tokenizer, news->tokens.ids[i], true, &news->text);
        if (!r)
            r = job_news_mark(news);
        if (r)
            return err_fold(r);
        if (i % 1024 == 0 && atomic_load(&job->cancelled))
            return JOB_E_CANCELLED;
    }
    return str_buf_failed(&news->text) ? err_raise(-ENOMEM) : 0;
}

static int detokenize(Job *job, JobNews *news, ErrText *err) {
    const Tokenizer *tokenizer = engine_tokenizer(job->engine);
    Detokenizer detokenizer;
    int r;

    detokenizer_init(&detokenizer, tokenizer, true, job->with_special);
    for (size_t i = 0; i < job->n_tokens; i++) {
        if (job->tokens[i] >= tokenizer_n_tokens(tokenizer))
            return err_set(err, JOB_E_TOKEN, "token %zu is %" PRIu32 ": the model's ids are 0 to %" PRIu32, i,
                           job->tokens[i], tokenizer_n_tokens(tokenizer) - 1);
        r = detokenizer_push(&detokenizer, job->tokens[i], &news->text);
        if (r)
            return err_fold(r);
        if (i % 1024 == 0 && atomic_load(&job->cancelled))
            return JOB_E_CANCELLED;
    }
    r = detokenizer_finish(&detokenizer, &news->text);
    if (r)
        return err_fold(r);
    return str_buf_failed(&news->text) ? err_raise(-ENOMEM) : 0;
}

static int load(EngineThread *thread, Job *job, JobNews *news, ErrText *err) {
    int r;

    job->engine_options.pool = thread->pool;
    job->engine_options.heartbeat = &thread->n_beats;
    r = engine_new(&news->engine, &job->engine_options, err);
    return r == ENGINE_E_MODEL ? JOB_E_MODEL : r == ENGINE_E_MEMORY ? JOB_E_MEMORY : err_fold(r);
}

static int serve_small(EngineThread *thread, Job *job) {
    JobNews news = { 0 };
    ErrText err = { "" };
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
        r = load(thread, job, &news, &err);
        break;
    case JOB_UNLOAD:
        job->engine = engine_free(job->engine);
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

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static Job *next_turn(JobList *active) {
    Job *job;

    TAILQ_FOREACH(job, active, link)
    if (may_run(job))
        return job;
    return NULL;
}

static void busy(EngineThread *thread, bool is_busy) {
    atomic_fetch_add(&thread->n_beats, 1);
    atomic_store(&thread->busy_since_ns, is_busy ? clock_now_ns() : 0);
}

/* Sleeps until there is work. Return: false when the thread must end. */
static bool wait_for_work(EngineThread *thread, Job **smallp) {
    Job *job;
    bool stopping;

    pthread_mutex_lock(&thread->lock);
    while (!thread->stopping && TAILQ_EMPTY(&thread->small) && TAILQ_EMPTY(&thread->arrived) &&
           !next_turn(&thread->active)) {
        busy(thread, false);
        pthread_cond_wait(&thread->wake, &thread->lock);
    }
    while ((job = TAILQ_FIRST(&thread->arrived))) {
        TAILQ_REMOVE(&thread->arrived, job, link);
        TAILQ_INSERT_TAIL(&thread->active, job, link);
    }
    /* One small job a turn: many of them slow the generations down, but never stop them. */
    *smallp = TAILQ_FIRST(&thread->small);
    if (*smallp)
        TAILQ_REMOVE(&thread->small, *smallp, link);
    stopping = thread->stopping;
    pthread_mutex_unlock(&thread->lock);
    return !stopping;
}

static void cancel_everything(EngineThread *thread) {
    Job *job;

    while ((job = TAILQ_FIRST(&thread->active))) {
        TAILQ_REMOVE(&thread->active, job, link);
        finish(thread, job, GENERATION_END_CANCELLED, 0, NULL);
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
            finish(thread, job, GENERATION_RUNNING, JOB_E_CANCELLED, NULL);
    }
}

static void *run(void *arg) {
    EngineThread *thread = arg;
    Job *small, *job;

    (void)pthread_setname_np(pthread_self(), "engine");
    while (wait_for_work(thread, &small)) {
        if (small) {
            busy(thread, true);
            (void)serve_small(thread, small);
        }
        job = next_turn(&thread->active);
        if (!job)
            continue;
        busy(thread, true);
        if (job->running) {
            step_together(thread, job->engine);
            continue;
        }
        TAILQ_REMOVE(&thread->active, job, link);
        if (first_turn(thread, job))
            TAILQ_INSERT_TAIL(&thread->active, job, link);
    }
    if (small)
        finish(thread, small, GENERATION_RUNNING, JOB_E_CANCELLED, NULL);
    cancel_everything(thread);
    busy(thread, false);
    return NULL;
}

/**
 * engine_thread_new() - start the thread that computes and its workers
 * @n_threads: threads that compute, this one counted; at least 1
 *
 * Signals stay with the loop: the thread starts with all of them blocked.
 */
int engine_thread_new(EngineThread **threadp, Outbox *outbox, unsigned int n_threads, ErrText *err) {
    _cleanup_(engine_thread_freep) EngineThread *thread = calloc(1, sizeof(*thread));
    pthread_condattr_t attr;
    sigset_t all, before;
    int r;

    if (!thread)
        return err_set(err, -ENOMEM, "out of memory");
    thread->outbox = outbox;
    thread->n_threads = n_threads;
    TAILQ_INIT(&thread->small);
    TAILQ_INIT(&thread->arrived);
    TAILQ_INIT(&thread->active);
    pthread_mutex_init(&thread->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_cond_init(&thread->wake, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = worker_pool_new(&thread->pool, n_threads);
    if (!r) {
        r = -pthread_create(&thread->thread, NULL, run, thread);
        thread->is_started = !r;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r)
        return err_set(err, r < 0 ? r : err_fold(r), "cannot start %u threads: %s", n_threads, strerror(-r));
    *threadp = steal(&thread);
    return 0;
}

int engine_thread_stop(EngineThread *thread, uint64_t timeout_ms) {
    struct timespec until;
    Job *job;
    int r;

    if (!thread->is_started || thread->is_joined)
        return 0;
    pthread_mutex_lock(&thread->lock);
    thread->stopping = true;
    TAILQ_FOREACH(job, &thread->small, link)
    atomic_store(&job->cancelled, true);
    pthread_cond_signal(&thread->wake);
    pthread_mutex_unlock(&thread->lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(timeout_ms / 1000);
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    r = pthread_timedjoin_np(thread->thread, NULL, &until);
    if (r)
        return -r;
    thread->is_joined = true;
    return 0;
}

EngineThread *engine_thread_free(EngineThread *thread) {
    if (!thread)
        return NULL;
    assert(!thread->is_started || thread->is_joined);
    worker_pool_free(thread->pool);
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
    pthread_cond_signal(&thread->wake);
    pthread_mutex_unlock(&thread->lock);
}

void engine_thread_cancel(EngineThread *thread, Job *job) {
    outbox_lock(thread->outbox);
    atomic_store(&job->cancelled, true);
    if (job->running)
        generation_cancel(job->running);
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
    pthread_cond_signal(&thread->wake);
    pthread_mutex_unlock(&thread->lock);
}

EngineThreadPulse engine_thread_pulse(const EngineThread *thread) {
    return (EngineThreadPulse){ atomic_load(&thread->n_beats), atomic_load(&thread->busy_since_ns) };
}
