// SPDX-License-Identifier: Apache-2.0
#include "gateway/request/generation_request.h"

#include <assert.h>

GenerationRequest *generation_request_new(size_t struct_bytes, json_t *body) {
    GenerationRequest *request = calloc(1, struct_bytes);

    assert(struct_bytes >= sizeof(*request));
    if (!request) {
        json_decref(body);
        return NULL;
    }
    coordgen_generate_options_init(&request->options);
    coordgen_sampling_options_init(&request->sampling);
    request->options.more_sampling = &request->sampling;
    request->wishes.ping_s = GENERATION_PING_S;
    request->json.top_logprobs = request->json.n_probs = UINT32_MAX;
    request->json.repeat_last_n = request->json.dry_last_n = INT32_MIN;
    request->body = body;
    return request;
}

GenerationRequest *generation_request_free(GenerationRequest *request) {
    if (!request)
        return NULL;
    messages_deinit(&request->messages);
    owned_deinit(&request->owned);
    json_decref(request->body);
    free(request);
    return NULL;
}
