// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/request_embedding.h"

#include <stdlib.h>

#include "base/clock.h"
#include "daemon/engine/job_vectors.h"
#include "daemon/net/reply.h"
#include "daemon/requests/request_failure.h"
#include "daemon/requests/request_table.h"

static Coordgen__V1__Pooling wire_pooling(EmbeddingPooling pooling) {
    switch (pooling) {
    case EMBEDDING_LAST:
        return COORDGEN__V1__POOLING__POOLING_LAST;
    case EMBEDDING_CLS:
        return COORDGEN__V1__POOLING__POOLING_CLS;
    default:
        return COORDGEN__V1__POOLING__POOLING_MEAN;
    }
}

/* Sends the reply. false: out of memory. */
static bool send_vectors(Request *request, const JobVectors *vectors) {
    _cleanup_(freep) Coordgen__V1__Embedding *embeddings = calloc(vectors->n, sizeof(*embeddings));
    _cleanup_(freep) Coordgen__V1__Embedding **list = calloc(vectors->n, sizeof(*list));
    Coordgen__V1__EmbedReply reply = COORDGEN__V1__EMBED_REPLY__INIT;
    Coordgen__V1__Response response;
    Coordgen__V1__Timings timings;

    if (!embeddings || !list)
        return false;
    for (size_t i = 0; i < vectors->n; i++) {
        coordgen__v1__embedding__init(&embeddings[i]);
        embeddings[i].n_value = vectors->n_embd;
        embeddings[i].value = vectors->values + i * vectors->n_embd;
        embeddings[i].has_tokens = true;
        embeddings[i].tokens = vectors->n_tokens[i];
        list[i] = &embeddings[i];
    }
    request_fill_timings(request, clock_now_ns(), &timings);
    reply_init(&response, request->id);
    reply.n_embeddings = vectors->n;
    reply.embeddings = list;
    reply.model = request->model->name;
    reply.has_pooling = reply.has_prompt_tokens = reply.has_request_number = true;
    reply.pooling = wire_pooling(vectors->pooling);
    reply.prompt_tokens = request->answer.usage.n_prompt_tokens;
    reply.timings = &timings;
    reply.request_number = request->serial;
    response.op_case = COORDGEN__V1__RESPONSE__OP_EMBED;
    response.embed = &reply;
    connection_send(request->peer->connection, &response);
    return true;
}

void request_embedding_finish(Request *request, GenerationEnd end) {
    if (end == GENERATION_END_CANCELLED) {
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_CANCELLED, 0, "", "cancelled");
        return;
    }
    if (request->peer && !send_vectors(request, request->job.run.vectors)) {
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, REQUEST_RETRY_NO_MEMORY_MS, "",
                     "out of memory");
        return;
    }
    request_record(request, request->peer ? "done" : "abandoned", TALLY_DONE);
    request_end(request);
}
