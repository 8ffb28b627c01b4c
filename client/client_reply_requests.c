// SPDX-License-Identifier: Apache-2.0
/* What replies about requests hold: the list of requests, and what drafts brought each. */
#include <stdlib.h>

#include "client/client_reply_internal.h"

/* Fields that the service left out are zero. accept_lengths stays within the response. */
static bool fill(ClientExplanation *to, const Coordgen__V1__Explanation *given) {
    static const Coordgen__V1__Explanation none = COORDGEN__V1__EXPLANATION__INIT;
    const Coordgen__V1__Explanation *from = given ? given : &none;

    to->sources = calloc(from->n_sources ? from->n_sources : 1, sizeof(*to->sources));
    to->source_list = calloc(from->n_sources ? from->n_sources : 1, sizeof(*to->source_list));
    if (!to->sources || !to->source_list)
        return false;
    for (size_t i = 0; i < from->n_sources; i++) {
        to->sources[i] = (CoordgenDraftSource){
            .struct_bytes = sizeof(to->sources[i]),
            .name = client_or_empty(from->sources[i]->name),
            .is_on = from->sources[i]->is_on,
            .drafted_tokens = from->sources[i]->drafted_tokens,
            .accepted_tokens = from->sources[i]->accepted_tokens,
        };
        to->source_list[i] = &to->sources[i];
    }
    to->explanation = (CoordgenExplanation){
        .struct_bytes = sizeof(to->explanation),
        .off = (CoordgenSpeculationOff)from->off,
        .n_sources = from->n_sources,
        .sources = to->source_list,
        .n_accept_lengths = from->n_accept_lengths,
        .accept_lengths = from->accept_lengths,
        .decode_steps = from->decode_steps,
        .verifications = from->verifications,
        .valid_rows = from->valid_rows,
        .wasted_rows = from->wasted_rows,
        .idle_rows = from->idle_rows,
        .draft_us = from->draft_us,
        .head_us = from->head_us,
        .steps_us = from->steps_us,
        .prompt_rows = from->prompt_rows,
        .prompt_head_us = from->prompt_head_us,
        .prompt_learning = (CoordgenPromptLearning)from->prompt_learning,
        .prompt_cost_us = from->prompt_cost_us,
        .prompt_gain_us = from->prompt_gain_us,
        .model_passes = from->model_passes,
        .model_rows = from->model_rows,
        .model_us = from->model_us,
        .read_bytes = from->read_bytes,
        .read_wait_us = from->read_wait_us,
    };
    return true;
}

bool client_explanation_fill(CoordgenReply *reply, const Coordgen__V1__Explanation *explanation) {
    reply->requests.explanations = calloc(1, sizeof(*reply->requests.explanations));
    if (!reply->requests.explanations)
        return false;
    reply->requests.n_explanations = 1;
    return fill(&reply->requests.explanations[0], explanation);
}

bool client_requests_fill(CoordgenReply *reply, Coordgen__V1__RequestInfo *const *requests, size_t n) {
    reply->requests.list = calloc(n ? n : 1, sizeof(*reply->requests.list));
    reply->requests.explanations = calloc(n ? n : 1, sizeof(*reply->requests.explanations));
    if (!reply->requests.list || !reply->requests.explanations)
        return false;
    reply->requests.n_explanations = n;
    for (size_t i = 0; i < n; i++) {
        if (!fill(&reply->requests.explanations[i], requests[i]->explanation))
            return false;
        reply->requests.list[i] = (CoordgenRequestInfo){
            .struct_bytes = sizeof(reply->requests.list[i]),
            .number = requests[i]->number,
            .uid = requests[i]->uid,
            .model = client_or_empty(requests[i]->model),
            .priority = (CoordgenPriority)requests[i]->priority,
            .state = (CoordgenRequestState)requests[i]->state,
            .outcome = client_or_empty(requests[i]->outcome),
            .queue_position = requests[i]->queue_position,
            .prompt_tokens = requests[i]->prompt_tokens,
            .read_tokens = requests[i]->read_tokens,
            .output_tokens = requests[i]->output_tokens,
            .age_us = requests[i]->age_us,
            .prefill_us = requests[i]->prefill_us,
            .decode_us = requests[i]->decode_us,
            .explanation = &reply->requests.explanations[i].explanation,
        };
    }
    reply->requests.n = n;
    return true;
}

void client_requests_deinit(CoordgenReply *reply) {
    for (size_t i = 0; i < reply->requests.n_explanations; i++) {
        free(reply->requests.explanations[i].sources);
        free(reply->requests.explanations[i].source_list);
    }
    free(reply->requests.explanations);
    free(reply->requests.list);
}

/* A list of requests has an explanation in each request, so this function returns none for it. */
const CoordgenExplanation *coordgen_reply_explanation(const CoordgenReply *reply) {
    const bool here = client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_GENERATE_DONE) ||
                      client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_EXPLAIN);

    return here && reply->requests.n_explanations ? &reply->requests.explanations[0].explanation : NULL;
}

size_t coordgen_reply_n_requests(const CoordgenReply *reply) {
    return reply ? reply->requests.n : 0;
}

const CoordgenRequestInfo *coordgen_reply_request(const CoordgenReply *reply, size_t index) {
    return reply && index < reply->requests.n ? &reply->requests.list[index] : NULL;
}

uint32_t coordgen_reply_more_requests(const CoordgenReply *reply) {
    return client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_REQUEST_LIST) ? reply->response->request_list->more : 0;
}

const char *coordgen_request_state_name(int state) {
    static const char *const names[] = {
        [0] = "unknown",
        [COORDGEN_REQUEST_QUEUED] = "queued",
        [COORDGEN_REQUEST_LOADING] = "loading",
        [COORDGEN_REQUEST_PREFILL] = "prefill",
        [COORDGEN_REQUEST_DECODE] = "decode",
        [COORDGEN_REQUEST_PAUSED] = "paused",
        [COORDGEN_REQUEST_RESTING] = "resting",
        [COORDGEN_REQUEST_ENDED] = "ended",
    };

    return state >= 0 && (size_t)state < ARRAY_LEN(names) ? names[state] : "unknown";
}

const char *coordgen_speculation_off_name(int off) {
    static const char *const names[] = {
        [COORDGEN_SPECULATION_ON] = "on",
        [COORDGEN_SPECULATION_SETTING] = "setting",
        [COORDGEN_SPECULATION_REQUEST] = "request",
        [COORDGEN_SPECULATION_NO_SOURCE] = "no-source",
    };

    return off >= 0 && (size_t)off < ARRAY_LEN(names) ? names[off] : "unknown";
}

const char *coordgen_prompt_learning_name(int learning) {
    static const char *const names[] = {
        [COORDGEN_PROMPT_LEARNING_NONE] = "none",   [COORDGEN_PROMPT_LEARNING_DECLINED] = "declined",
        [COORDGEN_PROMPT_LEARNING_PAYS] = "pays",   [COORDGEN_PROMPT_LEARNING_LOSES] = "loses",
        [COORDGEN_PROMPT_LEARNING_TRIAL] = "trial",
    };

    return learning >= 0 && (size_t)learning < ARRAY_LEN(names) ? names[learning] : "unknown";
}
