// SPDX-License-Identifier: Apache-2.0
/* The JSON object of a response, in each of its states. Knows no HTTP. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_RESPONSE_OBJECT_H
#define COORDGEN_GATEWAY_RESPONSE_OBJECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/coordgen-client.h"
#include "gateway/json/api_error.h"

/* What stays the same while a response is made. */
typedef struct ResponseHead {
    const char *id;
    uint64_t created_s; /* seconds since 1970 */
    const char *model;
    json_t *echo; /* the request's parameters, as the response repeats them */
} ResponseHead;

/* Whether an answer was cut off before its own end. */
bool response_object_is_cut(const CoordgenGenerateResult *result);
/* Makes a response that has no output yet. NULL: out of memory, here and below. */
json_t *response_object_begun(const ResponseHead *head);
/* Makes a response that has ended. Releases its items. */
json_t *response_object_ended(const ResponseHead *head, const CoordgenGenerateResult *result, json_t *items);
/* Makes a response that an error has ended. Releases its items. */
json_t *response_object_failed(const ResponseHead *head, const ApiError *error, json_t *items);

#endif
