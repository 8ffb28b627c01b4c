// SPDX-License-Identifier: Apache-2.0
/* The fields of a body that only conversations have. */
#ifndef COORDGEN_GATEWAY_GENERATION_CHAT_H
#define COORDGEN_GATEWAY_GENERATION_CHAT_H

#include "gateway/request/generation_request.h"

extern const FieldTable generation_chat_table, generation_chat_refused; /* of a GenerationRequest */
/* Settles messages, tools, thinking and log probabilities. 0 or API_E_REFUSED. */
int generation_chat_settle(GenerationRequest *request, ApiError *error);

#endif
