// SPDX-License-Identifier: Apache-2.0
/* The tools that a body offers to the model, and whether the model must call them. */
#ifndef COORDGEN_GATEWAY_GENERATION_TOOLS_H
#define COORDGEN_GATEWAY_GENERATION_TOOLS_H

#include "gateway/request/generation_request.h"

/* Sets the tools, an array of {"type": "function", "function": {...}}; an empty one is none. 0 or API_E_REFUSED. */
int generation_set_tools(GenerationRequest *request, const json_t *tools, ApiError *error);
/* Sets the choice among the tools, which were set before: "none", "auto", "required", or an object that names one
 * function or some allowed ones. 0 or API_E_REFUSED. */
int generation_set_tool_choice(GenerationRequest *request, const json_t *choice, ApiError *error);

#endif
