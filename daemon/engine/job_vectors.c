// SPDX-License-Identifier: Apache-2.0
#include "daemon/engine/job_vectors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "proto/frame.h"

/* Chooses the pooling: the request's, else the model's, else the mean. */
static int choose_pooling(const Job *asked, EmbeddingPooling *poolingp, ErrText *err) {
    const HparamsPooling own = engine_info(asked->engine)->pooling;

    *poolingp = asked->generate.options.embedding.pooling;
    if (!asked->texts.takes_model_pooling)
        return 0;
    switch (own) {
    case HPARAMS_POOLING_CLS:
        *poolingp = EMBEDDING_CLS;
        return 0;
    case HPARAMS_POOLING_LAST:
        *poolingp = EMBEDDING_LAST;
        return 0;
    case HPARAMS_POOLING_RANK:
        return err_set(err, JOB_E_OPTIONS,
                       "the model ranks pairs of texts (pooling_type 4, rank) and has no vectors of its own: name a "
                       "pooling, or use another model");
    default:
        *poolingp = EMBEDDING_MEAN;
        return 0;
    }
}

int job_vectors_new(JobVectors **vectorsp, const Job *asked, ErrText *err) {
    const size_t n = asked->texts.n, n_embd = engine_info(asked->engine)->n_embd,
                 vector_bytes = n_embd * sizeof(float) + JOB_VECTORS_FRAME_BYTES,
                 n_max = (FRAME_MAX_BYTES - JOB_VECTORS_ENVELOPE_BYTES) / vector_bytes,
                 room_bytes = n * (n_embd * sizeof(float) + sizeof(uint32_t));
    EmbeddingPooling pooling;
    JobVectors *vectors;
    int r;

    r = choose_pooling(asked, &pooling, err);
    if (r)
        return r;
    if (n > n_max)
        return err_set(err, JOB_E_ANSWER,
                       "%zu vectors of %zu values do not fit a message of %u bytes: send at most %zu texts at a time",
                       n, n_embd, FRAME_MAX_BYTES, n_max);
    vectors = calloc(1, sizeof(*vectors) + room_bytes);
    if (!vectors)
        return err_set(err, JOB_E_MEMORY, "no memory for %zu vectors", n);
    r = account_charge(engine_accounts(asked->engine), ACCOUNT_ACTIVATIONS, &vectors->bill,
                       sizeof(*vectors) + room_bytes);
    if (r) {
        free(vectors);
        return err_set(err, JOB_E_MEMORY, "no memory for %zu vectors within the limit on activations", n);
    }
    vectors->n = n;
    vectors->n_embd = n_embd;
    vectors->pooling = pooling;
    vectors->values = (float *)vectors->room;
    vectors->n_tokens = (uint32_t *)(vectors->values + n * n_embd);
    *vectorsp = vectors;
    return 0;
}

JobVectors *job_vectors_free(JobVectors *vectors) {
    if (!vectors)
        return NULL;
    bill_settle(&vectors->bill);
    free(vectors);
    return NULL;
}

void job_vectors_take(JobVectors *vectors, const Job *job) {
    const Generation *generation = job->run.generation;
    const float *vector = generation_vector(generation);
    const size_t i = job->run.text;

    memcpy(vectors->values + i * vectors->n_embd, vector, vectors->n_embd * sizeof(*vector));
    vectors->n_tokens[i] = generation_usage(generation)->n_prompt_tokens;
    job_vectors_add_usage(&vectors->done, generation_usage(generation));
}

void job_vectors_add_usage(GenerationUsage *sum, const GenerationUsage *usage) {
    sum->n_prompt_tokens += usage->n_prompt_tokens;
    sum->n_cached_tokens += usage->n_cached_tokens;
    sum->n_prefilled_tokens += usage->n_prefilled_tokens;
    sum->prefill_ns = MAX(sum->prefill_ns, usage->prefill_ns);
    sum->load_ns = MAX(sum->load_ns, usage->load_ns);
    sum->read_bytes = MAX(sum->read_bytes, usage->read_bytes);
    sum->read_wait_ns = MAX(sum->read_wait_ns, usage->read_wait_ns);
}
