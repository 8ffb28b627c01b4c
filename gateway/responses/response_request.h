// SPDX-License-Identifier: Apache-2.0
/* The body of POST /v1/responses. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_RESPONSE_REQUEST_H
#define COORDGEN_GATEWAY_RESPONSE_REQUEST_H

#include "gateway/request/generation_request.h"

typedef struct ResponseRequest {
    GenerationRequest generation; /* first: generation_request_free() frees the whole */
    bool with_logprobs;           /* include has message.output_text.logprobs */
    uint32_t top_logprobs;        /* 0: of chosen tokens alone */
} ResponseRequest;

/* Makes a request of a body, which it takes over. 0 or API_E_REFUSED. */
int response_request_new(ResponseRequest **requestp, json_t *body, ApiError *error);
/* Makes the parameters that a response repeats, with the defaults of those that the request left out. NULL: out of
 * memory. */
json_t *response_request_echo(const ResponseRequest *request);

#endif
