// SPDX-License-Identifier: Apache-2.0
/* The tools that a response offers to the model, and whether the model must call them. */
#ifndef COORDGEN_GATEWAY_RESPONSE_TOOLS_H
#define COORDGEN_GATEWAY_RESPONSE_TOOLS_H

#include "gateway/request/generation_request.h"

/* Sets the options for tools (NULL: none) and for the choice among them (NULL: the model's). Both live as long as the
 * request. 0 or API_E_REFUSED. */
int response_tools_read(GenerationRequest *request, const json_t *tools, const json_t *choice, ApiError *error);

#endif
