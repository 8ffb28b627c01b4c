// SPDX-License-Identifier: Apache-2.0
/* Completions in llama-server's own form, for /completion and /infill. */
#ifndef COORDGEN_GATEWAY_PLAIN_COMPLETION_H
#define COORDGEN_GATEWAY_PLAIN_COMPLETION_H

#include "gateway/request/prompts.h"
#include "gateway/answers/turn.h"

/* A request whose answer has that form. An endpoint with more fields has a structure that begins with it. */
typedef struct PlainRequest {
    GenerationRequest request;
    const json_t *prompt;
    PromptList prompts;            /* to be set by the endpoint */
    const json_t *response_fields; /* names of the members that the answer shall have; NULL: all */
} PlainRequest;

/* Makes a PlainRequest, or a structure of struct_bytes that begins with one, of a body, which it takes over. NULL: out
 * of memory. */
PlainRequest *plain_request_new(size_t struct_bytes, json_t *body);
PlainRequest *plain_request_free(PlainRequest *request);
/* Reads the request as plain_completion_run() does. 0 or API_E_REFUSED. */
int plain_request_read(PlainRequest *request, const FieldTable *table,
                       int (*settle)(PlainRequest *request, ApiError *error), ApiError *error);
/* Sets the prompts of a completion. 0 or API_E_REFUSED. */
int plain_settle_prompts(PlainRequest *request, ApiError *error);

/* Reads the body of the exchange by the fields of a completion and those of the table (NULL: none), which are of a
 * structure of struct_bytes; then settle() sets the prompts. Answers the exchange. */
void plain_completion_run(Gateway *gateway, Exchange *exchange, size_t struct_bytes, const FieldTable *table,
                          int (*settle)(PlainRequest *request, ApiError *error));

#endif
