// SPDX-License-Identifier: Apache-2.0
/* Requests for the vectors of texts. */
#include <string.h>

#include "base/min_max.h"
#include "daemon/engine/job_choices.h"
#include "daemon/handlers/handlers_list.h"
#include "daemon/net/reply.h"
#include "daemon/requests/request_failure.h"
#include "daemon/requests/request_queue.h"

/* Returns what counts for prompt-max: bytes of texts, or of token ids. */
static size_t input_bytes(const Coordgen__V1__EmbedRequest *embed) {
    size_t sum_bytes = 0;

    for (size_t i = 0; i < embed->n_text; i++)
        sum_bytes += strlen(embed->text[i]);
    for (size_t i = 0; i < embed->n_tokens; i++)
        sum_bytes += embed->tokens[i]->n_id;
    return sum_bytes;
}

/* Lists the texts, which stay in the request's message. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
static int take_texts(Request *request, const Coordgen__V1__EmbedRequest *embed) {
    JobTexts *texts = &request->job.texts;
    int r;

    texts->n = MAX(embed->n_text, embed->n_tokens);
    r = user_charge(request->user, request->is_admin, &request->bill, texts->n * sizeof(*texts->list));
    texts->list = r ? NULL : calloc(texts->n, sizeof(*texts->list));
    if (!texts->list)
        return r ? r : err_raise(-ENOMEM);
    for (size_t i = 0; i < texts->n; i++)
        texts->list[i] = embed->n_text
                             ? (JobText){ .text = embed->text[i], .text_bytes = strlen(embed->text[i]) }
                             : (JobText){ .tokens = embed->tokens[i]->id, .n_tokens = embed->tokens[i]->n_id };
    return 0;
}

static EmbeddingPooling pooling_of(Coordgen__V1__Pooling pooling) {
    switch (pooling) {
    case COORDGEN__V1__POOLING__POOLING_LAST:
        return EMBEDDING_LAST;
    case COORDGEN__V1__POOLING__POOLING_CLS:
        return EMBEDDING_CLS;
    default:
        return EMBEDDING_MEAN;
    }
}

void handle_embed(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes) {
    const Coordgen__V1__EmbedRequest *embed = (*messagep)->embed;
    const Config *config = peer->service->config;
    Model *model = handler_admit(peer, (*messagep)->request_id, embed->model, "embed.model");
    Request *request;
    Job *job;

    if (!model || !handler_text_fits(peer, (*messagep)->request_id, input_bytes(embed),
                                     embed->n_text ? "embed.text" : "embed.tokens"))
        return;
    request = handler_new_request(peer, messagep, len_bytes, model);
    if (!request)
        return;
    job = &request->job;
    job->kind = JOB_GENERATE;
    job->texts.takes_model_pooling = embed->pooling == COORDGEN__V1__POOLING__POOLING_UNSPECIFIED;
    job->generate.prompt_max_tokens = config->limits.prompt_max_tokens;
    job->generate.priority = handler_priority(embed->has_priority, embed->priority);
    job->generate.ageing_ns = (uint64_t)config->turns.ageing_ms * 1000000;
    job->generate.options = (GenerationOptions){
        .context_tokens = config_context_tokens(config, model->name),
        .user = peer->user->uid,
        .no_reuse = true,
        .kv_max_bytes = handler_kv_share_bytes(peer),
        .embedding = { .pooling = pooling_of(embed->pooling), .raw = embed->raw },
        .sampler = SAMPLER_OPTIONS_GREEDY,
    };
    if (take_texts(request, embed)) {
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                     admission_retry_ms(&peer->service->requests.admission), "", "no memory for the texts");
        return;
    }
    job->generate.n = (uint32_t)MIN(job->texts.n, JOB_CHOICES_MAX);
    request_queue_enter(request);
}
