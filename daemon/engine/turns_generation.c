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
    case GENERATION_E_SHORT:
        return JOB_E_SHORT;
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

/* Frees memory of earlier answers for a request that found none. The limit on keys and values is not theirs to meet. */
static bool histories_make_way(Turns *turns, const Job *job) {
    const AccountTable *accounts = engine_accounts(job->engine);

    return turns->histories &&
           account_shared_room_bytes(accounts, ACCOUNT_KV) < account_own_room_bytes(accounts, ACCOUNT_KV) &&
           histories_drop_one(turns->histories);
}

int turns_new_generation(Turns *turns, Job *job, const TokenList *prompt, GenerationOptions *options,
                         Generation **generationp, ErrText *err) {
    int r = generation_new(generationp, job->engine, prompt->ids, prompt->n, options, err);

    if (r == GENERATION_E_MEMORY && options->speculation.model.ops) { /* the request runs without its draft model */
        job_end_draft(job);
        options->speculation.model = (DraftModel){ 0 };
        r = generation_new(generationp, job->engine, prompt->ids, prompt->n, options, err);
    }
    while (r == GENERATION_E_MEMORY && histories_make_way(turns, job)) {
        options->speculation.history = NULL; /* the freed history may have been this one */
        r = generation_new(generationp, job->engine, prompt->ids, prompt->n, options, err);
    }
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

/* Notes the end of one of several answers. An answer that fails ends the others. Return: whether all have ended. */
static bool note_end(Turns *turns, Job *job, GenerationEnd end, int result, const ErrText *err) {
    Job *asked = job_asked(job);
    JobChoices *choices = asked->run.choices;
    JobChoiceEnd *noted = &choices->ends[job->run.choice];
    bool is_last;

    (void)outbox_release(turns->outbox, job, &noted->usage);
    noted->end = end;
    if (result && !choices->result) {
        choices->result = result;
        choices->err = err ? *err : (ErrText){ 0 };
        outbox_lock(turns->outbox);
        job_cancel_answers(asked);
        outbox_unlock(turns->outbox);
    }
    outbox_lock(turns->outbox);
    asked->news.usage = job_usage(asked);
    is_last = atomic_fetch_sub(&choices->n_left, 1) == 1;
    if (!is_last)
        outbox_post_locked(turns->outbox, asked);
    outbox_unlock(turns->outbox);
    return is_last;
}

void turns_end_answer(Turns *turns, Job *job, GenerationEnd end, int result, const ErrText *err) {
    Job *asked = job_asked(job);
    const JobChoices *choices = asked->run.choices;

    if (!choices)
        outbox_finish(turns->outbox, job, end, result, err);
    else if (note_end(turns, job, end, result, err))
        outbox_finish(turns->outbox, asked, choices->result ? GENERATION_RUNNING : end_of(choices), choices->result,
                      &choices->err);
}
