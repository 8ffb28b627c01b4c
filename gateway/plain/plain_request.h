// SPDX-License-Identifier: Apache-2.0
/* Requests for completions in llama-server's own form, for /completion and /infill. */
#ifndef COORDGEN_GATEWAY_PLAIN_REQUEST_H
#define COORDGEN_GATEWAY_PLAIN_REQUEST_H

#include "gateway/request/prompts.h"

enum {
    PLAIN_PROMPTS_MAX = 64, /* of a request */
};

/* A request whose answer has that form. An endpoint with more fields has a structure that begins with it. */
typedef struct PlainRequest {
    GenerationRequest request;
    const json_t *prompt;
    PromptList prompts;            /* set by settle() */
    const json_t *response_fields; /* names of the members that the answer shall have; NULL: all */
} PlainRequest;

/* Makes a PlainRequest, or a structure of struct_bytes that begins with one, of a body, which it takes over. NULL: out
 * of memory. */
PlainRequest *plain_request_new(size_t struct_bytes, json_t *body);
PlainRequest *plain_request_free(PlainRequest *request);
/* Reads the body by the fields of a completion and those of the table (NULL: none), which are of the request's own
 * structure; then settle() sets the prompts. 0 or API_E_REFUSED. */
int plain_request_read(PlainRequest *request, const FieldTable *table,
                       int (*settle)(PlainRequest *request, ApiError *error), ApiError *error);
/* Sets the prompts of a completion. 0 or API_E_REFUSED. */
int plain_settle_prompts(PlainRequest *request, ApiError *error);

#endif
