// SPDX-License-Identifier: Apache-2.0
/* Begins the texts of a request for vectors, and takes their vectors. */
#include "daemon/engine/turns_texts.h"

#include <inttypes.h>

#include "base/clock.h"
#include "daemon/engine/job_choices.h"
#include "daemon/engine/job_vectors.h"
#include "daemon/engine/turns_generation.h"

/* Refuses a text that is empty in tokens, or too long for the context. */
static int check_text(const Job *asked, size_t n_tokens, ErrText *err) {
    const uint32_t context = asked->generate.options.context_tokens, limit = asked->generate.prompt_max_tokens;

    if (!n_tokens)
        return err_set(err, JOB_E_EMPTY, "it has no token");
    if (limit && n_tokens > limit)
        return err_set(err, JOB_E_TOO_LONG, "it has %zu tokens: at most %" PRIu32 " are accepted (prompt-max-tokens)",
                       n_tokens, limit);
    if (n_tokens > context)
        return err_set(err, JOB_E_TOO_LONG,
                       "it has %zu tokens, and the context has %" PRIu32 ": shorten it, or send parts of it", n_tokens,
                       context);
    return 0;
}

/* Tokenizes the job's text, and makes its generation. */
static int new_generation(Turns *turns, Job *job, Generation **generationp, ErrText *err) {
    _cleanup_(token_list_deinit) TokenList prompt = { 0 };
    Job *asked = job_asked(job);
    GenerationOptions options;
    int r;

    r = job_encode(job, &prompt, err);
    if (!r)
        r = check_text(asked, prompt.n, err);
    if (r)
        return r;
    options = turns_options_within_share(turns, job);
    options.embedding.pooling = asked->run.vectors->pooling;
    options.report = &job->run.report;
    return turns_new_generation(turns, job, &prompt, &options, generationp, err);
}

/* Begins the next text in the lane of a job without a generation. The texts end where r is not 0. */
static int begin_text(Turns *turns, Job *job, ErrText *err) {
    Job *asked = job_asked(job);
    JobVectors *vectors = asked->run.vectors;
    const JobText *text = &asked->texts.list[vectors->n_next];
    Generation *generation = NULL;
    int r;

    job->input.text = text->text;
    job->input.text_bytes = text->text_bytes;
    job->input.tokens = text->tokens;
    job->input.n_tokens = text->n_tokens;
    job->input.tokenize_flags = TOKENIZE_ADD_SPECIAL;
    r = new_generation(turns, job, &generation, err);
    if (r > 0)
        err_prefix(err, "text %zu", vectors->n_next);
    if (r)
        return r;
    job->run.text = vectors->n_next++;
    outbox_lock(turns->outbox);
    job->run.generation = generation;
    if (atomic_load(&asked->cancelled)) /* a cancel before this did not reach the generation */
        generation_cancel(generation);
    outbox_unlock(turns->outbox);
    return 0;
}

static bool is_short_of_memory(int r) {
    return r == JOB_E_MEMORY || r == JOB_E_SHARE;
}

int turns_begin_texts(Turns *turns, Job *job, ErrText *err) {
    JobVectors *vectors = NULL;
    JobChoices *choices;
    int r;

    r = job_vectors_new(&vectors, job, err);
    if (r)
        return r;
    choices = job_choices_new(job);
    if (!choices) {
        job_vectors_free(vectors);
        return err_no_memory(err);
    }
    outbox_lock(turns->outbox);
    job->run.vectors = vectors;
    job->run.choices = choices;
    outbox_unlock(turns->outbox);
    r = begin_text(turns, job, err);
    for (uint32_t i = 1; i < choices->n && !r; i++) {
        r = begin_text(turns, job_of_choice(job, i), err);
        if (is_short_of_memory(r)) { /* fewer texts at a time */
            outbox_lock(turns->outbox);
            choices->n = i;
            atomic_store(&choices->n_left, i);
            outbox_unlock(turns->outbox);
            return 0;
        }
    }
    if (r) {
        turns_drop_answers(turns, job);
        job->run.vectors = job_vectors_free(job->run.vectors);
    }
    return r;
}

/* Ends a lane that has no next text. The last lane's end is the end of the job. */
static bool end_lane(Turns *turns, Job *job, int r, const ErrText *err) {
    turns_end_answer(turns, job, r ? GENERATION_RUNNING : GENERATION_END_PROMPT, r, err);
    return false;
}

bool turns_took_vector(Turns *turns, Job *job) {
    Job *asked = job_asked(job);
    JobVectors *vectors = asked->run.vectors;
    GenerationUsage usage;
    ErrText err = { 0 };
    int r;

    job_vectors_take(vectors, job);
    (void)outbox_release(turns->outbox, job, &usage);
    if (atomic_load(&asked->cancelled)) {
        turns_end_answer(turns, job, GENERATION_END_CANCELLED, 0, NULL);
        return false;
    }
    if (vectors->n_next == vectors->n)
        return end_lane(turns, job, 0, NULL);
    r = begin_text(turns, job, &err);
    if (is_short_of_memory(r) && atomic_load(&asked->run.choices->n_left) > 1)
        return end_lane(turns, job, 0, NULL); /* the other lanes go on with the text */
    if (r)
        return end_lane(turns, job, r, &err);
    outbox_lock(turns->outbox);
    asked->news.usage = job_usage(asked);
    outbox_post_locked(turns->outbox, asked);
    outbox_unlock(turns->outbox);
    return true;
}
