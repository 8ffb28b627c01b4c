// SPDX-License-Identifier: Apache-2.0
/* Begins generations, and passes on what steps give them: text, tokens, ends, and answers to store. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/engine/turns_answers.h"

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
    case GENERATION_E_COMPLEX:
        return JOB_E_COMPLEX;
    case GENERATION_E_SHORT:
        return JOB_E_SHORT;
    default:
        return err_fold(r);
    }
}

static uint64_t kv_bytes_of(const Job *job, uint64_t user) {
    if (!job || !job->run.generation || job->generate.options.user != user)
        return 0;
    return generation_kv_bytes(job->run.generation) + draft_timeline_kv_bytes(&job->run.draft_model);
}

/* Returns the job's options, limited to the rest of the user's share of KV memory. */
static GenerationOptions options_within_share(const Turns *turns, const Job *job) {
    GenerationOptions options = job->generate.options;
    uint64_t held_bytes = 0;
    const Job *other;

    if (!options.kv_max_bytes)
        return options;
    TAILQ_FOREACH (other, &turns->active, link)
        held_bytes += kv_bytes_of(other, options.user);
    for (size_t i = 0; turns->parked && i < turns->parked->n; i++)
        held_bytes += kv_bytes_of(turns->parked->targets[i].job, options.user);
    options.kv_max_bytes = held_bytes < options.kv_max_bytes ? options.kv_max_bytes - held_bytes : 1;
    return options;
}

/* Connects the generation with its user's earlier answers, and begins to gather its own answer. Without memory the
 * generation runs without both. */
static void begin_history(Turns *turns, Job *job, GenerationOptions *options) {
    const uint8_t *tokenizer = tokenizer_hash(engine_tokenizer(job->engine));
    const uint32_t uid = (uint32_t)options->user;

    if (!turns->histories || !job->generate.keeps_history)
        return;
    if (options->speculation.sources & 1u << SPECULATION_HISTORY)
        options->speculation.history = histories_find(turns->histories, uid, tokenizer, clock_now_ns());
    job->run.errand = draft_errand_new(DRAFT_ADD, uid, tokenizer);
}

/* Sets sampling options that the request leaves out to the model's. */
static void settle_sampling(Job *job) {
    if (!job->generate.samples_as_model)
        return;
    sampling_choose(&job->generate.sampling, engine_sampling_defaults(job->engine), &job->generate.sampling.options,
                    job->generate.sampling_fields);
    job->generate.options.sampler = job->generate.sampling.options;
}

/* Frees memory of earlier answers for a request that found none. The limit on keys and values is not theirs to meet. */
static bool histories_make_way(Turns *turns, const Job *job) {
    const AccountTable *accounts = engine_accounts(job->engine);

    return turns->histories &&
           account_shared_room_bytes(accounts, ACCOUNT_KV) < account_own_room_bytes(accounts, ACCOUNT_KV) &&
           histories_drop_one(turns->histories);
}

/* Stores an answer that is complete and not cancelled. The client does not wait for the disk. */
static void end_history(Turns *turns, Job *job, GenerationEnd end) {
    if (end != GENERATION_END_CANCELLED && job->run.errand && job->run.errand->answer.n_tokens)
        draft_store_submit(histories_store(turns->histories), &job->run.errand);
}

/* Refuses a prompt that is too long, with the limit and what raises it. setting_tokens: context-tokens. */
static int check_length(const Job *job, size_t n_prompt, uint32_t setting_tokens, ErrText *err) {
    const uint32_t n_context = engine_info(job->engine)->n_context,
                   usable = job->generate.options.context_tokens; /* the lesser of the two */

    if (job->generate.prompt_max_tokens && n_prompt > job->generate.prompt_max_tokens)
        return err_set(err, JOB_E_TOO_LONG,
                       "the prompt has %zu tokens: at most %" PRIu32 " are accepted (prompt-max-tokens)", n_prompt,
                       job->generate.prompt_max_tokens);
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

/* Lets the answer's calls be parsed. Tools that are no list of functions were refused with their constraint. */
static int begin_calls(Job *job, GenerationOptions *options, ErrText *err) {
    const ChatInput *chat = &job->input.chat;
    int r;

    if (!chat->offers_calls || !job->input.splits)
        return 0;
    options->answer.calls = NULL;
    if (!engine_call_shape(job->engine))
        return 0;
    r = call_tools_new(&job->run.tools, chat->tools, chat->tools_bytes, &job->input.calls, err);
    if (r)
        return r > 0 ? JOB_E_TOOLS : r;
    job->run.tools->is_unconstrained = !options->constraint.it;
    options->answer.calls = &engine_call_shape(job->engine)->format;
    options->answer.tools = job->run.tools;
    return 0;
}

static int generate_begin_inner(Turns *turns, Job *job, ErrText *err) {
    _cleanup_(token_list_deinit) TokenList prompt = { 0 };
    Generation *generation = NULL;
    uint32_t n_context = engine_info(job->engine)->n_context;
    const uint32_t setting_tokens = job->generate.options.context_tokens;
    GenerationOptions options;
    int r;

    if (!job->generate.options.context_tokens || job->generate.options.context_tokens > n_context)
        job->generate.options.context_tokens = n_context;
    settle_sampling(job);
    outbox_lock(turns->outbox);
    job->news.started = true;
    job->news.started_ns = clock_now_ns();
    job->news.context_tokens = job->generate.options.context_tokens;
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
    options.report = &job->run.report;
    options.constraint.entry = (uint32_t)job->run.place;
    if (job->input.splits)
        options.answer = (AnswerFormat){ .thinking = engine_thinking_marks(job->engine),
                                         .is_thinking = job->run.place == THINKING_INSIDE,
                                         .is_behind = job->run.place == THINKING_BEHIND };
    r = begin_calls(job, &options, err);
    if (r)
        return r;
    begin_history(turns, job, &options);
    job_begin_draft(job, prompt.n, &options);
    r = generation_new(&generation, job->engine, prompt.ids, prompt.n, &options, err);
    if (r == GENERATION_E_MEMORY && options.speculation.model.ops) { /* the request runs without its draft model */
        job_end_draft(job);
        options.speculation.model = (DraftModel){ 0 };
        r = generation_new(&generation, job->engine, prompt.ids, prompt.n, &options, err);
    }
    while (r == GENERATION_E_MEMORY && histories_make_way(turns, job)) {
        options.speculation.history = NULL; /* the freed history may have been this one */
        r = generation_new(&generation, job->engine, prompt.ids, prompt.n, &options, err);
    }
    if (r) {
        job_end_draft(job);
        return generation_code(r);
    }
    outbox_lock(turns->outbox);
    job->run.generation = generation;
    job->news.usage = *generation_usage(generation);
    /* A cancel before generation_new() did not reach the generation. */
    if (atomic_load(&job->cancelled))
        generation_cancel(generation);
    outbox_post_locked(turns->outbox, job);
    outbox_unlock(turns->outbox);
    return 0;
}

/* Takes a job's first turn: tokenizes the prompt and reserves memory. */
static int generate_begin(Turns *turns, Job *job) {
    ErrText err = { 0 };
    int r = generate_begin_inner(turns, job, &err);

    if (r == JOB_E_CANCELLED)
        outbox_finish(turns->outbox, job, GENERATION_END_CANCELLED, 0, NULL);
    else if (r)
        outbox_finish(turns->outbox, job, GENERATION_RUNNING, r, &err);
    return r;
}

void turns_on_delta(void *arg, const GenerationDelta *delta) {
    StepTarget *target = arg;
    JobNews *news = &target->job->news;
    int r = 0;

    for (size_t i = 0; target->job->run.errand && i < delta->n_tokens; i++)
        draft_errand_add_token(target->job->run.errand, engine_accounts(target->job->engine), delta->tokens[i]);
    if (!delta->len_bytes && !delta->call && !(delta->n_tokens && target->job->generate.want_tokens) &&
        !delta->logprobs)
        return;
    outbox_lock(target->turns->outbox);
    str_buf_append(&news->text, delta->text, delta->len_bytes);
    if (target->job->generate.want_tokens)
        for (size_t i = 0; i < delta->n_tokens && !r; i++)
            r = token_list_add(&news->tokens, delta->tokens[i]);
    for (size_t i = 0; delta->logprobs && i < delta->n_tokens && !r; i++)
        r = job_logprobs_add(&news->logprobs, engine_tokenizer(target->job->engine), &delta->logprobs[i]);
    if (!r)
        r = str_buf_failed(&news->text) ? -ENOMEM : job_news_mark(news, delta->part, delta->call);
    outbox_unlock(target->turns->outbox);
    if (r)
        target->r = r;
}

bool turns_first_turn(Turns *turns, Job *job) {
    if (!atomic_load(&job->cancelled))
        return generate_begin(turns, job) == 0;
    outbox_finish(turns->outbox, job, GENERATION_END_CANCELLED, 0, NULL);
    return false;
}

bool turns_took_turn(Turns *turns, Job *job, int r, ErrText *err) {
    GenerationEnd end;

    if (r == GENERATION_E_READ) {
        outbox_finish(turns->outbox, job, GENERATION_RUNNING, JOB_E_MODEL, err);
        return false;
    }
    if (r == GENERATION_E_COMPLEX || r == GENERATION_E_MEMORY) {
        err_set(err, 0, "%s",
                r == GENERATION_E_COMPLEX ? "what may follow the answer so far is too complex to be found in time"
                                          : "no memory for the states of the constraint");
        outbox_finish(turns->outbox, job, GENERATION_RUNNING, generation_code(r), err);
        return false;
    }
    if (r) {
        if (*err->text) /* the device has set the reason */
            err_prefix(err, "the step failed");
        else
            err_set(err, 0, "the step failed: %s", r < 0 ? strerror(-r) : "unexpected condition");
        outbox_finish(turns->outbox, job, GENERATION_RUNNING, r < 0 ? r : err_fold(r), err);
        return false;
    }
    end = generation_end(job->run.generation);
    if (end != GENERATION_RUNNING) {
        end_history(turns, job, end);
        outbox_finish(turns->outbox, job, end, 0, NULL);
        return false;
    }
    outbox_lock(turns->outbox);
    job->news.usage = *generation_usage(job->run.generation);
    outbox_post_locked(turns->outbox, job);
    outbox_unlock(turns->outbox);
    return true;
}
