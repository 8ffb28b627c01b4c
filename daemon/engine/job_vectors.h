// SPDX-License-Identifier: Apache-2.0
/* The vectors of a request that gives several texts. Each text is a generation without an answer. The request's answers
 * (job_choices.h) are lanes: a lane computes one text, then the next text that has not begun. */
#ifndef COORDGEN_DAEMON_JOB_VECTORS_H
#define COORDGEN_DAEMON_JOB_VECTORS_H

#include "daemon/engine/job.h"

enum {
    JOB_VECTORS_ENVELOPE_BYTES = 1024, /* of a reply, beside its vectors */
    JOB_VECTORS_FRAME_BYTES = 24,      /* of each vector in a reply, beside its values */
};

struct JobVectors {
    size_t n;      /* texts */
    size_t n_embd; /* values of a vector */
    size_t n_next; /* the first text that has not begun */
    EmbeddingPooling pooling;
    GenerationUsage done; /* of the texts that have ended: the engine thread's until the job is done */
    Bill bill;
    uint32_t *n_tokens; /* [n] */
    float *values;      /* f32[n][n_embd] */
    double room[];
};

/* Makes room for the vectors of the job's texts, which it charges. 0; JOB_E_ANSWER: the reply would not fit a message;
 * JOB_E_OPTIONS: the model has no such vectors; JOB_E_MEMORY. Thread: the engine thread. */
int job_vectors_new(JobVectors **vectorsp, const Job *asked, ErrText *err);
JobVectors *job_vectors_free(JobVectors *vectors); /* any thread */
/* Takes the vector of the job's text, whose generation has ended, and its usage. Thread: the engine thread. */
void job_vectors_take(JobVectors *vectors, const Job *job);
/* Adds what the computation of a text has used. Texts share steps, so times are the longest. */
void job_vectors_add_usage(GenerationUsage *sum, const GenerationUsage *usage);

#endif
