// SPDX-License-Identifier: Apache-2.0
#include "gateway/json/body.h"

json_t *body_parse(const Exchange *exchange, ApiError *error) {
    size_t len_bytes;
    const char *text = exchange_body(exchange, &len_bytes);
    json_error_t at;
    json_t *body = json_loadb(text, len_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &at);

    if (body && json_is_object(body))
        return body;
    if (body)
        api_error_field(error, NULL, "the body must be a JSON object");
    else
        api_error_field(error, NULL, "the body is not JSON: line %d, column %d: %s", at.line, at.column, at.text);
    json_decref(body);
    return NULL;
}
