// SPDX-License-Identifier: Apache-2.0
#include "daemon/engine/outbox.h"

#include <pthread.h>
#include <sys/eventfd.h>

struct Outbox {
    pthread_mutex_t lock;
    STAILQ_HEAD(, Job) jobs; /* under the lock */
    int fd;                  /* const */
};

int outbox_new(Outbox **outboxp) {
    Outbox *outbox = calloc(1, sizeof(*outbox));

    if (!outbox)
        return err_raise(-ENOMEM);
    outbox->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (outbox->fd < 0) {
        int r = -errno;

        free(outbox);
        return err_raise(r);
    }
    STAILQ_INIT(&outbox->jobs);
    pthread_mutex_init(&outbox->lock, NULL);
    *outboxp = outbox;
    return 0;
}

Outbox *outbox_free(Outbox *outbox) {
    if (!outbox)
        return NULL;
    close(outbox->fd);
    pthread_mutex_destroy(&outbox->lock);
    free(outbox);
    return NULL;
}

int outbox_fd(const Outbox *outbox) {
    return outbox->fd;
}

void outbox_lock(Outbox *outbox) {
    pthread_mutex_lock(&outbox->lock);
}

void outbox_unlock(Outbox *outbox) {
    pthread_mutex_unlock(&outbox->lock);
}

void outbox_call(Outbox *outbox) {
    uint64_t one = 1;

    /* The write fails only if the counter is full, and then the loop is awake anyway. */
    (void)!write(outbox->fd, &one, sizeof(one));
}

void outbox_post_locked(Outbox *outbox, Job *job) {
    if (job->posted)
        return;
    job->posted = true;
    STAILQ_INSERT_TAIL(&outbox->jobs, job, outbox_link);
    if (STAILQ_FIRST(&outbox->jobs) == job)
        outbox_call(outbox);
}

bool outbox_release(Outbox *outbox, Job *job, GenerationUsage *usagep) {
    Generation *generation;

    outbox_lock(outbox);
    generation = steal(&job->run.generation);
    outbox_unlock(outbox);
    job->run.errand = draft_errand_free(job->run.errand);
    if (!generation)
        return false;
    *usagep = *generation_usage(generation);
    generation_free(generation);
    job_end_draft(job);
    return true;
}

/* Ends a job, which belongs to the loop from here on: the engine thread must not touch the job any more. */
void outbox_finish(Outbox *outbox, Job *job, GenerationEnd end, int result, const ErrText *err) {
    GenerationUsage usage;
    /* Memory is freed first, so that a client that has read the end finds its pages free. */
    const bool had_generation = outbox_release(outbox, job, &usage);

    job->run.tools = call_tools_free(job->run.tools);
    outbox_lock(outbox);
    if (had_generation)
        job->news.usage = usage;
    job->news.end = end;
    job->news.result = result;
    if (err)
        job->news.err = *err;
    job->news.done = true;
    outbox_post_locked(outbox, job);
    outbox_unlock(outbox);
}

void outbox_quiet(Outbox *outbox) {
    uint64_t count;

    (void)!read(outbox->fd, &count, sizeof(count));
}

Job *outbox_take(Outbox *outbox, JobNews *news) {
    Job *job;

    outbox_lock(outbox);
    job = STAILQ_FIRST(&outbox->jobs);
    if (job) {
        STAILQ_REMOVE_HEAD(&outbox->jobs, outbox_link);
        job->posted = false;
        *news = job->news;
        job->news =
            (JobNews){ .usage = news->usage, .context_tokens = news->context_tokens, .too_long = news->too_long };
    }
    outbox_unlock(outbox);
    return job;
}
