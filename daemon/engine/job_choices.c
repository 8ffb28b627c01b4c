// SPDX-License-Identifier: Apache-2.0
#include "daemon/engine/job_choices.h"

#include <assert.h>
#include <stdlib.h>

#include "base/min_max.h"
#include "daemon/engine/job_vectors.h"

JobChoices *job_choices_new(Job *asked) {
    const uint32_t n = asked->generate.n;
    JobChoices *choices = calloc(1, sizeof(*choices) + (n - 1) * sizeof(*choices->further));

    assert(n > (asked->texts.n ? 0 : 1) && n <= JOB_CHOICES_MAX);
    if (!choices)
        return NULL;
    choices->n = n;
    atomic_store(&choices->n_left, n);
    for (uint32_t i = 1; i < n; i++) {
        Job *job = &choices->further[i - 1];

        job->kind = JOB_GENERATE;
        job->owner = asked->owner;
        job->engine = asked->engine;
        job->input.splits = asked->input.splits;
        job->generate = asked->generate;
        job->generate.options.sampler.seed += i;
        job->generate.options.pin = NULL; /* a session goes on with the first answer */
        job->run.waits_since_ns = asked->run.waits_since_ns;
        job->run.asked = asked;
        job->run.choice = i;
    }
    return choices;
}

JobChoices *job_choices_free(JobChoices *choices) {
    for (uint32_t i = 1; choices && i < choices->n; i++)
        assert(!choices->further[i - 1].run.generation);
    free(choices);
    return NULL;
}

bool job_answer_has_place(const Job *job) {
    Job *asked = job_asked((Job *)(uintptr_t)job); /* only read */
    const uint32_t width = atomic_load(&asked->width);
    uint32_t n_before = 0;

    if (!asked->run.choices || !width)
        return true;
    for (uint32_t i = 0; i < job->run.choice; i++)
        n_before += job_of_choice(asked, i)->run.generation != NULL;
    return n_before < width;
}

static GenerationUsage usage_of(Job *asked, uint32_t i) {
    const Generation *generation = job_of_choice(asked, i)->run.generation;

    return generation ? *generation_usage(generation) : asked->run.choices->ends[i].usage;
}

/* The answers share steps, so that the sum of their times would count steps several times. */
static void add_usage(GenerationUsage *sum, const GenerationUsage *usage) {
    sum->n_output_tokens += usage->n_output_tokens;
    sum->n_reasoning_tokens += usage->n_reasoning_tokens;
    sum->n_calls += usage->n_calls;
    sum->ended_in_time = sum->ended_in_time || usage->ended_in_time;
    sum->n_incomplete_bytes += usage->n_incomplete_bytes;
    sum->n_steps += usage->n_steps;
    sum->n_drafted_tokens += usage->n_drafted_tokens;
    sum->n_accepted_tokens += usage->n_accepted_tokens;
    sum->decode_ns = MAX(sum->decode_ns, usage->decode_ns);
    sum->load_ns = MAX(sum->load_ns, usage->load_ns);
    sum->read_bytes = MAX(sum->read_bytes, usage->read_bytes);
    sum->read_wait_ns = MAX(sum->read_wait_ns, usage->read_wait_ns);
}

/* Returns the usage of a request for vectors: of the texts that have ended, and of those that run. */
static GenerationUsage texts_usage(Job *asked) {
    GenerationUsage sum = asked->run.vectors->done;

    for (uint32_t i = 0; i < asked->run.choices->n; i++) {
        const Generation *generation = job_of_choice(asked, i)->run.generation;

        if (generation)
            job_vectors_add_usage(&sum, generation_usage(generation));
    }
    return sum;
}

GenerationUsage job_usage(const Job *asked) {
    Job *job = (Job *)(uintptr_t)asked; /* only read */
    GenerationUsage sum;

    if (asked->run.vectors)
        return texts_usage(job);

    if (!asked->run.choices)
        return *generation_usage(asked->run.generation);
    sum = usage_of(job, 0);
    for (uint32_t i = 1; i < asked->run.choices->n; i++) {
        const GenerationUsage usage = usage_of(job, i);

        add_usage(&sum, &usage);
    }
    return sum;
}

void job_cancel_answers(Job *asked) {
    for (uint32_t i = 0; i < (asked->run.choices ? asked->run.choices->n : 1); i++) {
        Job *job = job_of_choice(asked, i);

        atomic_store(&job->cancelled, true);
        if (job->run.generation)
            generation_cancel(job->run.generation);
    }
}

const DraftReport *job_report(Job *asked) {
    JobChoices *choices = asked->run.choices;

    if (!choices)
        return &asked->run.report;
    choices->sum = asked->run.report;
    for (uint32_t i = 1; i < choices->n; i++)
        draft_report_add(&choices->sum, &choices->further[i - 1].run.report);
    return &choices->sum;
}
