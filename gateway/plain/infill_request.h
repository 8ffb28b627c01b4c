// SPDX-License-Identifier: Apache-2.0
/* Requests for the text in a gap. */
#ifndef COORDGEN_GATEWAY_INFILL_REQUEST_H
#define COORDGEN_GATEWAY_INFILL_REQUEST_H

#include "gateway/plain/plain_request.h"

typedef struct InfillRequest {
    PlainRequest plain;
    const char *prefix, *suffix; /* NULL: absent */
    const json_t *extra;         /* NULL: none */
} InfillRequest;

extern const FieldTable infill_fields; /* of an InfillRequest */
/* Makes the text before the gap: the files, the prefix, and the beginning of the gap. request: an InfillRequest. 0 or
 * API_E_REFUSED. */
int infill_settle(PlainRequest *request, ApiError *error);

#endif
