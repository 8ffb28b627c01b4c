// SPDX-License-Identifier: Apache-2.0
#include "gateway/json/body.h"

#include <stdbool.h>

/* Counts commas and opening brackets outside of strings. Each value but the first stands behind one of these. */
static size_t count_values(const char *text, size_t len_bytes) {
    bool in_string = false;
    size_t n = 0;

    for (size_t i = 0; i < len_bytes; i++)
        if (text[i] == '"')
            in_string = !in_string;
        else if (in_string)
            i += text[i] == '\\';
        else
            n += text[i] == ',' || text[i] == '[' || text[i] == '{';
    return n;
}

json_t *body_of_text(const char *text, size_t len_bytes, ApiError *error) {
    json_error_t at;
    json_t *body;

    if (count_values(text, len_bytes) > BODY_VALUES_MAX) {
        api_error_set(error, 413, "invalid_request_error", "request_too_large",
                      "the body has more than %d values: send less, or text in place of token ids", BODY_VALUES_MAX);
        return NULL;
    }
    body = json_loadb(text, len_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &at);
    if (body && json_is_object(body))
        return body;
    if (body)
        api_error_field(error, NULL, "the body must be a JSON object");
    else
        api_error_field(error, NULL, "the body is not JSON: line %d, column %d: %s", at.line, at.column, at.text);
    json_decref(body);
    return NULL;
}

json_t *body_parse(const Exchange *exchange, ApiError *error) {
    size_t len_bytes;
    const char *text = exchange_body(exchange, &len_bytes);

    return body_of_text(text, len_bytes, error);
}
