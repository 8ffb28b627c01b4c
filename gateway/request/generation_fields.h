// SPDX-License-Identifier: Apache-2.0
/* Reads a generation from a body: fields of OpenAI, of llama-server where OpenAI has none, and of coordgen. */
#ifndef COORDGEN_GATEWAY_GENERATION_FIELDS_H
#define COORDGEN_GATEWAY_GENERATION_FIELDS_H

#include "gateway/request/generation_request.h"

/* Groups of fields that an endpoint takes. */
enum {
    GENERATION_FIELDS_COMMON = 1,     /* model, limits, stream, sampling, stop strings; what every client may send */
    GENERATION_FIELDS_CONSTRAINT = 2, /* grammar, json_schema, regex, response_format */
    GENERATION_FIELDS_CHAT = 4,       /* messages, tools, thinking, log probabilities as chats have them */
};

/* Reads the request's body by these groups and by tables of the endpoint, which go first, then settles what several
 * fields say together. more: at most GENERATION_TABLES_MAX; offsets are those of the endpoint's structure. 0 or
 * API_E_REFUSED. */
enum {
    GENERATION_TABLES_MAX = 4,
};
int generation_fields_read(GenerationRequest *request, unsigned int groups, const FieldTable *more, size_t n_more,
                           ApiError *error);
/* Sets a CoordgenPriority by its name. */
FieldSet generation_set_priority;

#endif
