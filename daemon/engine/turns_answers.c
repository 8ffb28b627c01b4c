// SPDX-License-Identifier: Apache-2.0
/* Begins generations, and passes on what steps give them: text, tokens, ends, and answers to store. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "daemon/engine/job_choices.h"
#include "daemon/engine/turns_answers.h"
#include "daemon/engine/turns_generation.h"
#include "daemon/engine/turns_texts.h"

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

/* Stores an answer that is complete and not cancelled. The client does not wait for the disk. */
static void end_history(Turns *turns, Job *job, GenerationEnd end) {
    if (end != GENERATION_END_CANCELLED && job->run.errand && job->run.errand->answer.n_tokens)
        draft_store_submit(histories_store(turns->histories), &job->run.errand);
}

/* Notes how long a refused prompt is, for programs that cut it. */
static void note_length(Turns *turns, Job *job, size_t n_prompt, uint32_t limit_tokens) {
    outbox_lock(turns->outbox);
    job->news.too_long = (JobTooLong){ (uint32_t)n_prompt, limit_tokens };
    outbox_unlock(turns->outbox);
}

/* Refuses a prompt that is too long, with the limit and what raises it. setting_tokens: context-tokens. */
static int check_length(Turns *turns, Job *job, size_t n_prompt, uint32_t setting_tokens, ErrText *err) {
    const uint32_t n_context = engine_info(job->engine)->n_context,
                   usable = job->generate.options.context_tokens; /* the lesser of the two */

    if (job->generate.prompt_max_tokens && n_prompt > job->generate.prompt_max_tokens) {
        note_length(turns, job, n_prompt, MIN(job->generate.prompt_max_tokens, usable));
        return err_set(err, JOB_E_TOO_LONG,
                       "the prompt has %zu tokens: at most %" PRIu32 " are accepted (prompt-max-tokens)", n_prompt,
                       job->generate.prompt_max_tokens);
    }
    if (n_prompt < usable)
        return 0;
    note_length(turns, job, n_prompt, usable);
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

/* Begins each answer with the text of the prompt. */
static int echo_prompt(Turns *turns, Job *job, const TokenList *prompt, ErrText *err) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    JobNews *news = &job->news;
    int r = 0;

    if (!job->generate.echo)
        return 0;
    r = job_prompt_text(job, prompt, &text);
    outbox_lock(turns->outbox);
    for (uint32_t i = 0; i < MAX(job->generate.n, 1) && !r; i++)
        r = job_news_echo(news, &text, i);
    outbox_unlock(turns->outbox);
    return r ? err_no_memory(err) : 0;
}

/* Lets the answer's calls be parsed. Tools that are no list of functions were refused with their constraint. */
static int begin_calls(Job *job, GenerationOptions *options, ErrText *err) {
    const ChatInput *chat = &job->input.chat;
    int r = 0;

    if (!chat->offers_calls || !job->input.splits)
        return 0;
    options->answer.calls = NULL;
    if (!engine_call_shape(job->engine))
        return 0;
    if (!job->run.tools)
        r = call_tools_new(&job->run.tools, chat->tools, chat->tools_bytes, &job->input.calls, err);
    if (r)
        return r > 0 ? JOB_E_TOOLS : r;
    job->run.tools->is_unconstrained = !options->constraint.it;
    options->answer.calls = &engine_call_shape(job->engine)->format;
    options->answer.tools = job->run.tools;
    return 0;
}

/* Makes the generation of one answer. beside: the generation of the first answer; NULL: this is the first one. */
static int begin_answer(Turns *turns, Job *job, const TokenList *prompt, Generation *beside, Generation **generationp,
                        ErrText *err) {
    GenerationOptions options = turns_options_within_share(turns, job);
    Job *asked = job_asked(job);
    int r;

    options.report = &job->run.report;
    options.beside = beside;
    options.constraint.entry = (uint32_t)asked->run.place;
    if (asked->input.splits)
        options.answer = (AnswerFormat){ .thinking = engine_thinking_marks(job->engine),
                                         .is_thinking = asked->run.place == THINKING_INSIDE,
                                         .is_behind = asked->run.place == THINKING_BEHIND };
    r = begin_calls(asked, &options, err);
    if (r)
        return r;
    begin_history(turns, job, &options);
    job_begin_draft(job, prompt->n, &options);
    r = turns_new_generation(turns, job, prompt, &options, generationp, err);
    if (r)
        job_end_draft(job);
    return r;
}

/* Gives a job its generation, which the loop may cancel from here on. */
static void set_generation(Turns *turns, Job *job, Generation *generation) {
    outbox_lock(turns->outbox);
    job->run.generation = generation;
    outbox_unlock(turns->outbox);
}

/* Makes the answers behind the first one. Their memory is reserved before any of them begins: all or none. */
static int begin_further_answers(Turns *turns, Job *job, const TokenList *prompt, Generation *first, ErrText *err) {
    JobChoices *choices = job_choices_new(job);
    int r = 0;

    if (!choices)
        return err_no_memory(err);
    outbox_lock(turns->outbox);
    job->run.choices = choices;
    outbox_unlock(turns->outbox);
    set_generation(turns, job, first);
    for (uint32_t i = 1; i < choices->n && !r; i++) {
        Generation *generation;

        r = begin_answer(turns, job_of_choice(job, i), prompt, first, &generation, err);
        if (!r)
            set_generation(turns, job_of_choice(job, i), generation);
        else if (r > 0)
            err_prefix(err, "answer %" PRIu32 " of %" PRIu32, i + 1, choices->n);
    }
    if (r)
        turns_drop_answers(turns, job);
    return r;
}

/* Makes the generations of a job's answers. */
static int begin_answers(Turns *turns, Job *job, const TokenList *prompt, ErrText *err) {
    Generation *first = NULL;
    int r = begin_answer(turns, job, prompt, NULL, &first, err);

    if (r)
        return r;
    if (job->generate.n > 1)
        return begin_further_answers(turns, job, prompt, first, err);
    set_generation(turns, job, first);
    return 0;
}

/* Tokenizes the prompt and begins its answers. */
static int begin_prompt(Turns *turns, Job *job, uint32_t setting_tokens, ErrText *err) {
    _cleanup_(token_list_deinit) TokenList prompt = { 0 };
    int r;

    r = job_encode(job, &prompt, err);
    if (r)
        return r;
    r = check_length(turns, job, prompt.n, setting_tokens, err);
    if (r)
        return r;
    if (atomic_load(&job->cancelled))
        return JOB_E_CANCELLED;
    r = begin_answers(turns, job, &prompt, err);
    return r ? r : echo_prompt(turns, job, &prompt, err);
}

static int generate_begin_inner(Turns *turns, Job *job, ErrText *err) {
    uint32_t n_context = engine_info(job->engine)->n_context;
    const uint32_t setting_tokens = job->generate.options.context_tokens;
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

    r = job->texts.n ? turns_begin_texts(turns, job, err) : begin_prompt(turns, job, setting_tokens, err);
    if (r)
        return r;
    outbox_lock(turns->outbox);
    job->news.usage = job_usage(job);
    /* A cancel before generation_new() did not reach the generations. */
    if (atomic_load(&job->cancelled))
        job_cancel_answers(job);
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
    Job *job = target->job;
    JobNews *news = &job_asked(job)->news;
    int r = 0;

    for (size_t i = 0; job->run.errand && i < delta->n_tokens; i++)
        draft_errand_add_token(job->run.errand, engine_accounts(job->engine), delta->tokens[i]);
    if (!delta->len_bytes && !delta->call && !(delta->n_tokens && job->generate.want_tokens) && !delta->logprobs)
        return;
    outbox_lock(target->turns->outbox);
    str_buf_append(&news->text, delta->text, delta->len_bytes);
    if (job->generate.want_tokens)
        for (size_t i = 0; i < delta->n_tokens && !r; i++)
            r = token_list_add(&news->tokens, delta->tokens[i]);
    for (size_t i = 0; delta->logprobs && i < delta->n_tokens && !r; i++)
        r = job_logprobs_add(&news->logprobs, engine_tokenizer(target->job->engine), &delta->logprobs[i]);
    if (!r)
        r = str_buf_failed(&news->text) ? -ENOMEM : job_news_mark(news, delta->part, delta->call);
    if (!r)
        news->marks[news->n_marks - 1].choice = job->run.choice;
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
    Job *asked;

    if (r == GENERATION_E_READ) {
        turns_end_answer(turns, job, GENERATION_RUNNING, JOB_E_MODEL, err);
        return false;
    }
    if (r == GENERATION_E_COMPLEX || r == GENERATION_E_MEMORY || r == GENERATION_E_DEAD_END) {
        err_set(err, 0, "%s",
                r == GENERATION_E_COMPLEX ? "what may follow the answer so far is too complex to be found in time"
                : r == GENERATION_E_MEMORY
                    ? "no memory for the states of the constraint"
                    : "the constraint's text must go on behind the answer so far, and the model's vocabulary has no "
                      "token for it: leave end_in_time on, which avoids such texts, or allow other texts");
        turns_end_answer(turns, job, GENERATION_RUNNING, turns_generation_code(r), err);
        return false;
    }
    if (r) {
        if (*err->text) /* the device has set the reason */
            err_prefix(err, "the step failed");
        else
            err_set(err, 0, "the step failed: %s", r < 0 ? strerror(-r) : "unexpected condition");
        turns_end_answer(turns, job, GENERATION_RUNNING, r < 0 ? r : err_fold(r), err);
        return false;
    }
    end = generation_end(job->run.generation);
    if (end == GENERATION_END_PROMPT)
        return turns_took_vector(turns, job);
    if (end != GENERATION_RUNNING) {
        end_history(turns, job, end);
        turns_end_answer(turns, job, end, 0, NULL);
        return false;
    }
    asked = job_asked(job);
    outbox_lock(turns->outbox);
    asked->news.usage = job_usage(asked);
    outbox_post_locked(turns->outbox, asked);
    outbox_unlock(turns->outbox);
    return true;
}
