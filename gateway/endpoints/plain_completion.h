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

/* Reads the body of the exchange by the fields of a completion and those of the table (NULL: none), which are of a
 * structure of struct_bytes; then settle() sets the prompts. Answers the exchange. */
void plain_completion_run(Gateway *gateway, Exchange *exchange, size_t struct_bytes, const FieldTable *table,
                          int (*settle)(PlainRequest *request, ApiError *error));

#endif
