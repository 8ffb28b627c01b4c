// SPDX-License-Identifier: Apache-2.0
/* The JSON body of a request. */
#ifndef COORDGEN_GATEWAY_BODY_H
#define COORDGEN_GATEWAY_BODY_H

#include <jansson.h>

#include "gateway/http/exchange.h"

enum {
    BODY_VALUES_MAX = 1 << 18, /* of a body: a value takes some 100 bytes of memory, and may be two bytes of text */
};

/* Parses the body, which must be one JSON object in UTF-8. Returns it, or NULL with the error. */
json_t *body_parse(const Exchange *exchange, ApiError *error);
/* Parses such a text of len_bytes. */
json_t *body_of_text(const char *text, size_t len_bytes, ApiError *error);

#endif
