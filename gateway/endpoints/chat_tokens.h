// SPDX-License-Identifier: Apache-2.0
/* The prompt that a generation of messages would have, for endpoints that count its tokens. The functions are those of
 * a QueryOps whose arg is a ChatTokensRequest. */
#ifndef COORDGEN_GATEWAY_CHAT_TOKENS_H
#define COORDGEN_GATEWAY_CHAT_TOKENS_H

#include "gateway/request/generation_request.h"
#include "gateway/service/query.h"

typedef struct ChatTokensRequest {
    GenerationRequest *generation; /* read by the endpoint; freed by chat_tokens_deinit() */
    CoordgenTokenizeOptions options;
} ChatTokensRequest;

/* Makes the request for the number of the generation's tokens. */
void chat_tokens_count(ChatTokensRequest *request);
int chat_tokens_start(void *arg, CoordgenClient *client, Query *query, uint64_t *request_idp);
int chat_tokens_take_count(void *arg, const CoordgenReply *reply, Exchange *exchange);
void chat_tokens_rename(void *arg, ApiError *error);
void chat_tokens_deinit(void *arg);

#endif
