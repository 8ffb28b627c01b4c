// SPDX-License-Identifier: Apache-2.0
/* The JSON body of a request. */
#ifndef COORDGEN_GATEWAY_BODY_H
#define COORDGEN_GATEWAY_BODY_H

#include <jansson.h>

#include "gateway/http/exchange.h"

/* Parses the body, which must be one JSON object in UTF-8. Returns it, or NULL with the error. */
json_t *body_parse(const Exchange *exchange, ApiError *error);

#endif
