// SPDX-License-Identifier: Apache-2.0
/*
 * The generations take turns, and a turn is a step that they share. Which step: that of an interactive generation when
 * there is one; else the step that has made way, if one has; else that of whoever is next by class and order.
 *
 * A step without interactive generations makes way at its next operator when turns_interrupt() is called: it is parked,
 * with its rows, and its jobs are in no list until it ends. One step is parked at most. While interactive generations
 * answer, the parked step gets as much time after each of theirs as that one took; so an interactive token comes after
 * at most twice its own time and one operator, and the others keep half of the machine. While an interactive generation
 * waits for its first token it gets nothing, until waiting has raised it to their class.
 */
#include "daemon/turns.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"

typedef struct Company Company;

struct Turns {
    Outbox *outbox;               /* const */
    Histories *histories;         /* NULL: nothing is kept of answers */
    JobList active;               /* in the order of their turns; without those whose step has begun */
    Company *companies;           /* [2]: one runs, the other may have made way */
    Company *parked;              /* the one that has; NULL: none */
    bool parked_waits;            /* for weights that are on their way */
    _Atomic bool wanted;          /* any thread: the step that runs is to make way */
    _Atomic uint64_t n_preempted; /* any thread */
};

typedef struct StepTarget {
    Turns *turns;
    Job *job;
    int r;
} StepTarget;

struct Company {
    Job *jobs[GENERATION_TURNS_MAX]; /* NULL: it is not in the step */
    StepTarget targets[GENERATION_TURNS_MAX];
    GenerationTurn turns[GENERATION_TURNS_MAX];
    size_t n;
    GenerationStep step;
    bool is_interactive; /* one of them is */
};

/* ---- first turns and answers ------------------------------------------------------------------------------------- */

static int generation_code(int r) {
    switch (r) {
    case GENERATION_E_EMPTY:
        return JOB_E_EMPTY;
    case GENERATION_E_TOO_LONG:
        return JOB_E_TOO_LONG;
    case GENERATION_E_MEMORY:
        return JOB_E_MEMORY;
    case GENERATION_E_SHARE:
        return JOB_E_SHARE;
    case GENERATION_E_OPTIONS:
        return JOB_E_OPTIONS;
    default:
        return err_fold(r);
    }
}

static uint64_t kv_bytes_of(const Job *job, uint64_t user) {
    if (!job || !job->running || job->generation_options.user != user)
        return 0;
    return generation_kv_bytes(job->running) + draft_timeline_kv_bytes(&job->draft_model);
}

/* The job's options, with what its user's other generations leave of the user's share of KV memory. */
static GenerationOptions options_within_share(const Turns *turns, const Job *job) {
    GenerationOptions options = job->generation_options;
    uint64_t held_bytes = 0;
    const Job *other;

    if (!options.kv_max_bytes)
        return options;
    TAILQ_FOREACH(other, &turns->active, link)
    held_bytes += kv_bytes_of(other, options.user);
    for (size_t i = 0; turns->parked && i < turns->parked->n; i++)
        held_bytes += kv_bytes_of(turns->parked->jobs[i], options.user);
    options.kv_max_bytes = held_bytes < options.kv_max_bytes ? options.kv_max_bytes - held_bytes : 1;
    return options;
}

/* What its user's earlier answers give the generation, and where its own is gathered. Without memory for that it goes
 * without. */
static void begin_history(Turns *turns, Job *job, GenerationOptions *options) {
    const uint8_t *tokenizer = tokenizer_hash(engine_tokenizer(job->engine));
    const uint32_t uid = (uint32_t)options->user;

    if (!turns->histories || !job->keeps_history)
        return;
    if (options->speculation.sources & 1u << SPECULATION_HISTORY)
        options->speculation.history = histories_find(turns->histories, uid, tokenizer, clock_now_ns());
    job->answer = draft_errand_new(DRAFT_ADD, uid, tokenizer);
}

/* Takes from the model what the request does not say of sampling. */
static void settle_sampling(Job *job) {
    if (!job->samples_as_model)
        return;
    sampling_choose(&job->sampling, engine_sampling_defaults(job->engine), &job->sampling.options,
                    job->sampling_fields);
    job->generation_options.sampler = job->sampling.options;
}

/* Earlier answers never keep a request out; where the limit on keys and values does, they are not to blame. */
static bool histories_make_way(Turns *turns, const Job *job) {
    const AccountTable *accounts = engine_accounts(job->engine);

    return turns->histories &&
           account_shared_room_bytes(accounts, ACCOUNT_KV) < account_own_room_bytes(accounts, ACCOUNT_KV) &&
           histories_drop_one(turns->histories);
}

/* The answer is whole, and not one that its client has given up. Its client need not wait for the disk. */
static void end_history(Turns *turns, Job *job, GenerationEnd end) {
    if (end != GENERATION_END_CANCELLED && job->answer && job->answer->n_tokens)
        draft_store_submit(histories_store(turns->histories), &job->answer);
}

/* Tells a prompt that is too long which limit stops it, and what raises that. setting_tokens: context-tokens. */
static int check_length(const Job *job, size_t n_prompt, uint32_t setting_tokens, ErrText *err) {
    const uint32_t n_context = engine_info(job->engine)->n_context,
                   usable = job->generation_options.context_tokens; /* the lesser of the two */

    if (job->prompt_max_tokens && n_prompt > job->prompt_max_tokens)
        return err_set(err, JOB_E_TOO_LONG,
                       "the prompt has %zu tokens: at most %" PRIu32 " are accepted (prompt-max-tokens)", n_prompt,
                       job->prompt_max_tokens);
    if (n_prompt < usable)
        return 0;
    if (usable < n_context)
        return err_set(err, JOB_E_TOO_LONG,
                       "the prompt has %zu tokens, which leaves no room for an answer in a context of %" PRIu32
                       ": shorten it, or let an administrator raise context-tokens = %" PRIu32
                       " in coordgend.conf, for which this model allows up to %" PRIu32,
                       n_prompt, usable, setting_tokens, n_context);
    return err_set(
        err, JOB_E_TOO_LONG,
        "the prompt has %zu tokens, which leaves no room for an answer in a context of %" PRIu32
        ", the model's own limit: shorten it, or use a model with a longer context (context-tokens = %" PRIu32
        " does not stop it)",
        n_prompt, usable, setting_tokens);
}

static int generate_begin_inner(Turns *turns, Job *job, ErrText *err) {
    _cleanup_(token_list_deinit) TokenList prompt = { 0 };
    Generation *generation = NULL;
    uint32_t n_context = engine_info(job->engine)->n_context;
    const uint32_t setting_tokens = job->generation_options.context_tokens;
    GenerationReport report;
    GenerationOptions options;
    int r;

    if (!job->generation_options.context_tokens || job->generation_options.context_tokens > n_context)
        job->generation_options.context_tokens = n_context;
    settle_sampling(job);
    outbox_lock(turns->outbox);
    job->news.started = true;
    job->news.started_ns = clock_now_ns();
    job->news.context_tokens = job->generation_options.context_tokens;
    outbox_post_locked(turns->outbox, job);
    outbox_unlock(turns->outbox);

    r = job_encode(job, &prompt, err);
    if (r)
        return r;
    r = check_length(job, prompt.n, setting_tokens, err);
    if (r)
        return r;
    if (atomic_load(&job->cancelled))
        return JOB_E_CANCELLED;
    options = options_within_share(turns, job);
    begin_history(turns, job, &options);
    job_begin_draft(job, prompt.n, &options);
    r = generation_new(&generation, job->engine, prompt.ids, prompt.n, &options, err);
    if (r == GENERATION_E_MEMORY && options.speculation.model.ops) { /* a draft model never keeps a request out */
        job_end_draft(job);
        options.speculation.model = (DraftModel){ 0 };
        r = generation_new(&generation, job->engine, prompt.ids, prompt.n, &options, err);
    }
    while (r == GENERATION_E_MEMORY && histories_make_way(turns, job)) {
        options.speculation.history = NULL; /* it may have been that one */
        r = generation_new(&generation, job->engine, prompt.ids, prompt.n, &options, err);
    }
    if (r) {
        job_end_draft(job);
        return generation_code(r);
    }
    generation_report(generation, &report);
    outbox_lock(turns->outbox);
    job->running = generation;
    job->news.usage = *generation_usage(generation);
    job->news.report = report;
    /* A cancel that came before the generation was there would be lost on it. */
    if (atomic_load(&job->cancelled))
        generation_cancel(generation);
    outbox_post_locked(turns->outbox, job);
    outbox_unlock(turns->outbox);
    return 0;
}

/* Tokenizes the prompt and reserves memory: this is a job's first turn. */
static int generate_begin(Turns *turns, Job *job) {
    ErrText err = { "" };
    int r = generate_begin_inner(turns, job, &err);

    if (r == JOB_E_CANCELLED)
        outbox_finish(turns->outbox, job, GENERATION_END_CANCELLED, 0, NULL);
    else if (r)
        outbox_finish(turns->outbox, job, GENERATION_RUNNING, r, &err);
    return r;
}

static void on_delta(void *arg, const char *text, size_t len_bytes, const uint32_t *tokens, size_t n_tokens) {
    StepTarget *target = arg;
    JobNews *news = &target->job->news;
    int r = 0;

    for (size_t i = 0; target->job->answer && i < n_tokens; i++)
        draft_errand_add_token(target->job->answer, engine_accounts(target->job->engine), tokens[i]);
    if (!len_bytes && !(n_tokens && target->job->want_tokens))
        return;
    outbox_lock(target->turns->outbox);
    str_buf_append(&news->text, text, len_bytes);
    if (target->job->want_tokens)
        for (size_t i = 0; i < n_tokens && !r; i++)
            r = token_list_add(&news->tokens, tokens[i]);
    if (!r)
        r = str_buf_failed(&news->text) ? -ENOMEM : job_news_mark(news);
    outbox_unlock(target->turns->outbox);
    if (r)
        target->r = r;
}

/* A job's first turn. Return: whether it goes on; if not, the job is the loop's already. */
static bool first_turn(Turns *turns, Job *job) {
    if (!atomic_load(&job->cancelled))
        return generate_begin(turns, job) == 0;
    outbox_finish(turns->outbox, job, GENERATION_END_CANCELLED, 0, NULL);
    return false;
}

/* What a step has given a job. Return: whether it goes on; if not, the job is the loop's already. */
static bool took_turn(Turns *turns, Job *job, int r, ErrText *err) {
    GenerationReport report;
    GenerationEnd end;

    if (r == GENERATION_E_READ) {
        outbox_finish(turns->outbox, job, GENERATION_RUNNING, JOB_E_MODEL, err);
        return false;
    }
    if (r) {
        if (*err->text) /* the device has said why */
            err_prefix(err, "the step failed");
        else
            err_set(err, 0, "the step failed: %s", r < 0 ? strerror(-r) : "unexpected condition");
        outbox_finish(turns->outbox, job, GENERATION_RUNNING, r < 0 ? r : err_fold(r), err);
        return false;
    }
    end = generation_end(job->running);
    if (end != GENERATION_RUNNING) {
        end_history(turns, job, end);
        outbox_finish(turns->outbox, job, end, 0, NULL);
        return false;
    }
    generation_report(job->running, &report);
    outbox_lock(turns->outbox);
    job->news.usage = *generation_usage(job->running);
    job->news.report = report;
    outbox_post_locked(turns->outbox, job);
    outbox_unlock(turns->outbox);
    return true;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Jobs that share a step. From its begin to its end those that have rows in it are in no list. */
static bool may_run(Job *job) {
    return !atomic_load(&job->paused) || atomic_load(&job->cancelled);
}

static Priority rank_of(const Job *job, uint64_t now_ns) {
    const uint64_t waited_ns = now_ns > job->waits_since_ns ? now_ns - job->waits_since_ns : 0;

    return priority_aged(job->priority, waited_ns, job->ageing_ns);
}

/* Whether the job's prompt stays out of steps for now: beside the parked step no other one takes time from interactive
 * generations. */
static bool stands_back(const Turns *turns, const Job *job, Priority rank) {
    return turns->parked && !turns->parked_waits && job->priority != PRIORITY_INTERACTIVE &&
           rank != PRIORITY_INTERACTIVE && !generation_usage(job->running)->n_output_tokens;
}

/* Those of one rank that have had their first turn and run on this engine, in the order of their turns. */
static void gather(Turns *turns, const Engine *engine, Company *company, Priority rank, uint64_t now_ns) {
    Job *job;

    TAILQ_FOREACH(job, &turns->active, link) {
        if (company->n == GENERATION_TURNS_MAX)
            return;
        if (!job->running || job->engine != engine || !may_run(job) || rank_of(job, now_ns) != rank ||
            stands_back(turns, job, rank))
            continue;
        company->targets[company->n] = (StepTarget){ turns, job, 0 };
        company->turns[company->n] = (GenerationTurn){
            .generation = job->running,
            .fn = on_delta,
            .arg = &company->targets[company->n],
            .priority = job->priority,
            .rank = rank,
        };
        company->jobs[company->n++] = job;
    }
}

/* What the step has given all that took part; those that go on come to the end of the list, in the order that they
 * had. */
static void turns_settle(Turns *turns, Company *company, int r, const ErrText *err) {
    for (size_t i = 0; i < company->n; i++) {
        const GenerationTurn *turn = &company->turns[i];
        ErrText own = *err;

        if (!company->jobs[i])
            continue;
        company->jobs[i]->waits_since_ns = clock_now_ns();
        if (took_turn(turns, company->jobs[i], r ? r : turn->r ? turn->r : company->targets[i].r, &own))
            TAILQ_INSERT_TAIL(&turns->active, company->jobs[i], link);
    }
    company->n = 0;
}

/* Begins a step of all generations of one engine. Who gets no rows in it keeps its place before those that do. NULL:
 * there is nothing to compute. */
static Company *begin_step(Turns *turns, const Engine *engine, uint64_t now_ns) {
    Company *company = &turns->companies[turns->parked == &turns->companies[0]];
    ErrText err = { "" };
    int r;

    company->n = 0;
    company->is_interactive = false;
    for (int rank = PRIORITY_INTERACTIVE; rank >= PRIORITY_BACKGROUND; rank--)
        gather(turns, engine, company, (Priority)rank, now_ns);
    if (!company->n)
        return NULL;
    r = generation_step_begin(&company->step, company->turns, company->n, &err);
    for (size_t i = 0; i < company->n; i++)
        if (company->turns[i].ran) {
            TAILQ_REMOVE(&turns->active, company->jobs[i], link);
            company->is_interactive = company->is_interactive || company->jobs[i]->priority == PRIORITY_INTERACTIVE;
        } else {
            company->jobs[i] = NULL;
        }
    if (!r && company->step.n)
        return company;
    turns_settle(turns, company, r, &err);
    return NULL;
}

/* Runs a step to its end, or until it makes way. */
static void run_step(Turns *turns, Company *company, const EngineYield *yield) {
    ErrText err = { "" };
    int r = generation_step_run(&company->step, yield, &err);

    if (r == GENERATION_E_YIELDED || r == GENERATION_E_WAITING) {
        if (turns->parked != company && r == GENERATION_E_YIELDED)
            atomic_fetch_add(&turns->n_preempted, 1);
        turns->parked = company;
        turns->parked_waits = r == GENERATION_E_WAITING;
        return;
    }
    if (turns->parked == company)
        turns->parked = NULL;
    turns_settle(turns, company, r, &err);
}

/* The class that the parked step counts as by now: that of the one of its generations that counts most. */
static Priority parked_rank(const Turns *turns, uint64_t now_ns) {
    Priority rank = PRIORITY_BACKGROUND;

    for (size_t i = 0; i < turns->parked->n; i++)
        if (turns->parked->jobs[i] && rank_of(turns->parked->jobs[i], now_ns) > rank)
            rank = rank_of(turns->parked->jobs[i], now_ns);
    return rank;
}

/* Whether nobody wants the parked step any more: then its memory must not wait. */
static bool parked_is_dead(const Turns *turns) {
    for (size_t i = 0; i < turns->parked->n; i++)
        if (turns->parked->jobs[i] && !atomic_load(&turns->parked->jobs[i]->cancelled))
            return false;
    return true;
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

/* The first interactive job that may run and has had (or has not had) its first turn. */
static Job *next_interactive(const Turns *turns, bool begun) {
    Job *job;

    TAILQ_FOREACH(job, &turns->active, link)
    if (may_run(job) && job->priority == PRIORITY_INTERACTIVE && (job->running != NULL) == begun)
        return job;
    return NULL;
}

/* Of the others, but for those of one engine (NULL: of all): the highest rank, then the order of the turns. */
static Job *next_other(const Turns *turns, const Engine *except, uint64_t now_ns) {
    Job *job, *next = NULL;

    TAILQ_FOREACH(job, &turns->active, link)
    if (may_run(job) && job->running && job->priority != PRIORITY_INTERACTIVE && job->engine != except &&
        (!next || rank_of(job, now_ns) > rank_of(next, now_ns)))
        next = job;
    return next;
}

/* Whether an interactive job waits for its first token. */
static bool someone_waits(const Turns *turns) {
    Job *job;

    TAILQ_FOREACH(job, &turns->active, link)
    if (may_run(job) && job->priority == PRIORITY_INTERACTIVE && job->running &&
        !generation_usage(job->running)->n_output_tokens)
        return true;
    return false;
}

static void sweep_cancelled(Turns *turns) {
    Job *job, *next;

    for (job = TAILQ_FIRST(&turns->active); job; job = next) {
        next = TAILQ_NEXT(job, link);
        if (!atomic_load(&job->cancelled))
            continue;
        TAILQ_REMOVE(&turns->active, job, link);
        outbox_finish(turns->outbox, job, GENERATION_END_CANCELLED, 0, NULL);
    }
    if (turns->parked && parked_is_dead(turns))
        run_step(turns, turns->parked, NULL);
}

static void give_first_turn(Turns *turns, Job *job) {
    TAILQ_REMOVE(&turns->active, job, link);
    if (first_turn(turns, job))
        TAILQ_INSERT_TAIL(&turns->active, job, link);
}

/* To all interactive jobs, and to one of the others where nobody waits for it. */
static void give_first_turns(Turns *turns, uint64_t now_ns) {
    Job *job;

    while ((job = next_interactive(turns, false)))
        give_first_turn(turns, job);
    TAILQ_FOREACH(job, &turns->active, link)
    if (!job->running && may_run(job)) {
        if (rank_of(job, now_ns) == PRIORITY_INTERACTIVE || !someone_waits(turns))
            give_first_turn(turns, job);
        return;
    }
}

/* What the others get after an interactive step: the parked step goes on until then, or one of another engine
 * begins. */
static void share_time(Turns *turns, const Engine *engine, uint64_t until_ns) {
    const uint64_t now_ns = clock_now_ns();
    const EngineYield yield = { .wanted = &turns->wanted, .until_ns = until_ns };
    const Job *job = turns->parked ? NULL : next_other(turns, engine, now_ns);
    Company *company = turns->parked;
    Priority rank;

    if (!company && !job)
        return;
    rank = company ? parked_rank(turns, now_ns) : rank_of(job, now_ns);
    if (rank < PRIORITY_INTERACTIVE && someone_waits(turns))
        return;
    if (!company)
        company = begin_step(turns, job->engine, now_ns);
    if (company)
        run_step(turns, company, turns->parked || engine_has_preemption(job->engine) ? &yield : NULL);
}

/* Return: what the interactive step took. */
static uint64_t interactive_turn(Turns *turns, const Engine *engine) {
    const uint64_t start_ns = clock_now_ns();
    Company *company = begin_step(turns, engine, start_ns);
    uint64_t end_ns;

    if (company)
        run_step(turns, company, NULL);
    end_ns = clock_now_ns();
    share_time(turns, engine, 2 * end_ns - start_ns);
    return end_ns - start_ns;
}

/* A step that can make way. Where it waits for weights that are on their way, others have a step of their own engine
 * meanwhile. */
static void run_beside_others(Turns *turns, Company *company, const Engine *engine, uint64_t now_ns) {
    const Job *other = next_other(turns, engine, now_ns);
    const EngineYield yield = { .wanted = &turns->wanted, .no_waiting = other };
    Company *beside;

    run_step(turns, company, &yield);
    if (!other || turns->parked != company || turns_are_wanted(turns))
        return;
    beside = begin_step(turns, other->engine, now_ns);
    if (beside)
        run_step(turns, beside, NULL);
}

static void plain_turn(Turns *turns, const Engine *engine, uint64_t now_ns) {
    Company *company = begin_step(turns, engine, now_ns);

    if (!company)
        return;
    if (company->is_interactive || !engine_has_preemption(engine))
        run_step(turns, company, NULL);
    else
        run_beside_others(turns, company, engine, now_ns);
}

/* Of whose jobs at least one is there. */
static const Engine *engine_of(const Company *company) {
    for (size_t i = 0; i < company->n; i++)
        if (company->jobs[i])
            return company->jobs[i]->engine;
    return NULL;
}

uint64_t turns_take(Turns *turns) {
    const uint64_t now_ns = clock_now_ns();
    const Job *job;

    sweep_cancelled(turns);
    give_first_turns(turns, now_ns);
    job = next_interactive(turns, true);
    if (job)
        return interactive_turn(turns, job->engine);
    if (turns->parked) {
        run_beside_others(turns, turns->parked, engine_of(turns->parked), now_ns);
    } else {
        job = next_other(turns, NULL, now_ns);
        if (job)
            plain_turn(turns, job->engine, now_ns);
    }
    return 0;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

int turns_new(Turns **turnsp, Outbox *outbox) {
    _cleanup_(turns_freep) Turns *turns = calloc(1, sizeof(*turns));

    if (!turns)
        return err_raise(-ENOMEM);
    TAILQ_INIT(&turns->active);
    turns->outbox = outbox;
    turns->companies = calloc(2, sizeof(*turns->companies));
    if (!turns->companies)
        return err_raise(-ENOMEM);
    *turnsp = steal(&turns);
    return 0;
}

Turns *turns_free(Turns *turns) {
    if (!turns)
        return NULL;
    assert(TAILQ_EMPTY(&turns->active) && !turns->parked);
    free(turns->companies);
    free(turns);
    return NULL;
}

void turns_use_histories(Turns *turns, Histories *histories) {
    turns->histories = histories;
}

void turns_add(Turns *turns, Job *job) {
    job->waits_since_ns = clock_now_ns();
    TAILQ_INSERT_TAIL(&turns->active, job, link);
}

bool turns_have_work(const Turns *turns) {
    Job *job;

    if (turns->parked)
        return true;
    TAILQ_FOREACH(job, &turns->active, link)
    if (may_run(job))
        return true;
    return false;
}

bool turns_have_interactive(const Turns *turns) {
    return next_interactive(turns, true) || next_interactive(turns, false);
}

void turns_cancel_all(Turns *turns) {
    Company *parked = steal(&turns->parked);
    Job *job;

    if (parked)
        generation_step_drop(&parked->step);
    for (size_t i = 0; parked && i < parked->n; i++)
        if (parked->jobs[i])
            outbox_finish(turns->outbox, parked->jobs[i], GENERATION_END_CANCELLED, 0, NULL);
    while ((job = TAILQ_FIRST(&turns->active))) {
        TAILQ_REMOVE(&turns->active, job, link);
        outbox_finish(turns->outbox, job, GENERATION_END_CANCELLED, 0, NULL);
    }
}

void turns_interrupt(Turns *turns) {
    atomic_store(&turns->wanted, true);
}

bool turns_are_wanted(const Turns *turns) {
    return atomic_load(&turns->wanted);
}

void turns_resume(Turns *turns) {
    atomic_store(&turns->wanted, false);
}

uint64_t turns_n_preempted(const Turns *turns) {
    return atomic_load(&turns->n_preempted);
}
