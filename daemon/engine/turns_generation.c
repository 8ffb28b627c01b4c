// SPDX-License-Identifier: Apache-2.0
#include "daemon/engine/turns_generation.h"

#include "daemon/engine/job_choices.h"

int turns_generation_code(int r) {
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
    case GENERATION_E_DEAD_END:
        return JOB_E_DEAD_END;
    case GENERATION_E_SHORT:
        return JOB_E_SHORT;
    case GENERATION_E_PREFIX:
        return JOB_E_PREFIX;
    default:
        return err_fold(r);
    }
}

/* Returns what a job counts for in its user's share. Pages that several answers share count for the first answer that
 * has not ended. */
static uint64_t kv_bytes_of(Job *job, uint64_t user) {
    const Generation *generation = job ? job->run.generation : NULL;
    Job *asked;

    if (!generation || job->generate.options.user != user)
        return 0;
    asked = job_asked(job);
    for (uint32_t i = 0; i < job->run.choice; i++)
        if (job_of_choice(asked, i)->run.generation)
            return generation_kv_bytes(generation) + draft_timeline_kv_bytes(&job->run.draft_model);
    return generation_kv_bytes(generation) + generation_shared_kv_bytes(generation) +
           draft_timeline_kv_bytes(&job->run.draft_model);
}

/* Returns what the jobs of other requests count for. */
static uint64_t others_kv_bytes(const Turns *turns, const Job *asked, uint64_t user) {
    const Company *companies[] = { turns->parked, turns->settling };
    uint64_t held_bytes = 0;
    Job *other;

    TAILQ_FOREACH (other, &turns->active, link)
        held_bytes += job_asked(other) == asked ? 0 : kv_bytes_of(other, user);
    for (size_t k = 0; k < ARRAY_LEN(companies); k++)
        for (size_t i = 0; companies[k] && i < companies[k]->n; i++) {
            other = companies[k]->targets[i].job;
            held_bytes += other && job_asked(other) != asked ? kv_bytes_of(other, user) : 0;
        }
    return held_bytes;
}

GenerationOptions turns_options_within_share(const Turns *turns, Job *job) {
    GenerationOptions options = job->generate.options;
    Job *asked = job_asked(job);
    const uint32_t n = asked->run.choices ? asked->run.choices->n : 1;
    uint64_t held_bytes;

    if (!options.kv_max_bytes)
        return options;
    held_bytes = others_kv_bytes(turns, asked, options.user);
    for (uint32_t i = 0; i < n; i++)
        held_bytes += kv_bytes_of(job_of_choice(asked, i), options.user);
    options.kv_max_bytes = held_bytes < options.kv_max_bytes ? options.kv_max_bytes - held_bytes : 1;
    return options;
}

/* Frees memory for a request that found none: of constraints that no request has, then of earlier answers. The limit on
 * keys and values is not theirs to meet. @options: those of the generation. Return: whether anything was freed. */
static bool others_make_way(Turns *turns, const Job *job, GenerationOptions *options) {
    const AccountTable *accounts = engine_accounts(job->engine);

    if (account_shared_room_bytes(accounts, ACCOUNT_KV) >= account_own_room_bytes(accounts, ACCOUNT_KV))
        return false;
    if (turns->constraints && constraint_store_drop_one(turns->constraints))
        return true;
    if (!turns->histories || !histories_drop_one(turns->histories))
        return false;
    options->speculation.history = NULL; /* the freed history may have been this one */
    return true;
}

int turns_new_generation(Turns *turns, Job *job, const TokenList *prompt, GenerationOptions *options,
                         Generation **generationp, ErrText *err) {
    int r = generation_new(generationp, job->engine, prompt->ids, prompt->n, options, err);

    if (r == GENERATION_E_MEMORY && options->speculation.model.ops) { /* the request runs without its draft model */
        job_end_draft(job);
        options->speculation.model = (DraftModel){ 0 };
        r = generation_new(generationp, job->engine, prompt->ids, prompt->n, options, err);
    }
    while (r == GENERATION_E_MEMORY && others_make_way(turns, job, options))
        r = generation_new(generationp, job->engine, prompt->ids, prompt->n, options, err);
    return r ? turns_generation_code(r) : 0;
}

void turns_drop_answers(Turns *turns, Job *job) {
    JobChoices *choices;
    GenerationUsage usage;

    for (uint32_t i = job->run.choices->n; i-- > 1;)
        (void)outbox_release(turns->outbox, job_of_choice(job, i), &usage);
    (void)outbox_release(turns->outbox, job, &usage);
    outbox_lock(turns->outbox);
    choices = steal(&job->run.choices);
    outbox_unlock(turns->outbox);
    job_choices_free(choices);
}

/* Returns how a request with several answers ended: as the first one, unless a cancel has cut any of them off. */
static GenerationEnd end_of(const JobChoices *choices) {
    for (uint32_t i = 0; i < choices->n; i++)
        if (choices->ends[i].end == GENERATION_END_CANCELLED)
            return GENERATION_END_CANCELLED;
    return choices->ends[0].end;
}

/* Returns the end of an answer that fails for itself, while others go on; GENERATION_RUNNING: the failure is not its
 * own. Keys and values are reserved before the first step, so only its constraint can lack memory. */
static GenerationEnd own_failure(const Job *asked, int result) {
    if (asked->texts.n)
        return GENERATION_RUNNING;
    return result == JOB_E_MEMORY                                ? GENERATION_END_MEMORY
           : result == JOB_E_COMPLEX || result == JOB_E_DEAD_END ? GENERATION_END_COMPLEX
                                                                 : GENERATION_RUNNING;
}

/* Notes why an answer has failed. A failure that is not the answer's own ends the others. */
static void note_failure(Turns *turns, Job *asked, bool is_own, int result, const ErrText *err) {
    JobChoices *choices = asked->run.choices;

    if (choices->has_failed || (is_own && choices->result))
        return;
    choices->result = result;
    choices->err = err ? *err : (ErrText){ 0 };
    choices->has_failed = !is_own;
    if (is_own)
        return;
    outbox_lock(turns->outbox);
    job_cancel_answers(asked);
    outbox_unlock(turns->outbox);
}

/* Notes the end of one of several answers. Return: whether all have ended. */
static bool note_end(Turns *turns, Job *job, GenerationEnd end, int result, const ErrText *err) {
    Job *asked = job_asked(job);
    JobChoices *choices = asked->run.choices;
    JobChoiceEnd *noted = &choices->ends[job->run.choice];
    const GenerationEnd own = own_failure(asked, result);
    bool is_last;

    (void)outbox_release(turns->outbox, job, &noted->usage);
    noted->end = own ? own : end;
    if (result)
        note_failure(turns, asked, own != GENERATION_RUNNING, result, err);
    outbox_lock(turns->outbox);
    asked->news.usage = job_usage(asked);
    is_last = atomic_fetch_sub(&choices->n_left, 1) == 1;
    if (!is_last)
        outbox_post_locked(turns->outbox, asked);
    outbox_unlock(turns->outbox);
    return is_last;
}

/* Whether the request fails: by a failure of all, or because each answer has failed for itself. */
static bool has_failed(const JobChoices *choices) {
    for (uint32_t i = 0; i < choices->n; i++)
        if (choices->ends[i].end != GENERATION_END_MEMORY && choices->ends[i].end != GENERATION_END_COMPLEX)
            return choices->has_failed;
    return true;
}

void turns_end_answer(Turns *turns, Job *job, GenerationEnd end, int result, const ErrText *err) {
    Job *asked = job_asked(job);
    const JobChoices *choices = asked->run.choices;

    if (!choices)
        outbox_finish(turns->outbox, job, end, result, err);
    else if (!note_end(turns, job, end, result, err))
        return;
    else if (has_failed(choices))
        outbox_finish(turns->outbox, asked, GENERATION_RUNNING, choices->result, &choices->err);
    else
        outbox_finish(turns->outbox, asked, end_of(choices), 0, NULL);
}
