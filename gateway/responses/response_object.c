// SPDX-License-Identifier: Apache-2.0
#include "gateway/responses/response_object.h"

#include <math.h>
#include <time.h>

#include "base/strings/json_text.h"

bool response_object_is_cut(const CoordgenGenerateResult *result) {
    return result->end_reason == COORDGEN_END_MAX_TOKENS || result->end_reason == COORDGEN_END_CONTEXT_FULL;
}

/* Makes a response. Releases the items; NULL: memory was short. */
static json_t *make(const ResponseHead *head, const char *status, json_t *items) {
    json_t *response = json_pack("{ss, ss, sI, ss, sn, sn, sn, so, so, sn}", "id", head->id, "object", "response",
                                 "created_at", (json_int_t)head->created_s, "status", status, "completed_at", "error",
                                 "incomplete_details", "model", json_text(head->model), "output", items, "usage");

    if (response && !json_object_update_missing(response, head->echo))
        return response;
    json_decref(response);
    return NULL;
}

json_t *response_object_begun(const ResponseHead *head) {
    return make(head, "in_progress", json_array());
}

/* Replaces a member of a response, which is released if that fails. */
static json_t *put(json_t *response, const char *name, json_t *value) {
    if (response && !json_object_set_new(response, name, value))
        return response;
    if (!response)
        json_decref(value);
    json_decref(response);
    return NULL;
}

/* Puts the value in effect where the request did not name one, in decimals that a float has. */
static json_t *put_in_effect(json_t *response, const char *name, float value) {
    return json_is_null(json_object_get(response, name))
               ? put(response, name, json_real(round((double)value * 1e6) / 1e6))
               : response;
}

static json_t *usage_of(const CoordgenGenerateResult *result) {
    return json_pack("{sI, s{sI}, sI, s{sI}, sI}", "input_tokens", (json_int_t)result->prompt_tokens,
                     "input_tokens_details", "cached_tokens", (json_int_t)result->cached_tokens, "output_tokens",
                     (json_int_t)result->output_tokens, "output_tokens_details", "reasoning_tokens",
                     (json_int_t)result->reasoning_tokens, "total_tokens",
                     (json_int_t)result->prompt_tokens + (json_int_t)result->output_tokens);
}

json_t *response_object_ended(const ResponseHead *head, const CoordgenGenerateResult *result, json_t *items) {
    const bool is_cut = response_object_is_cut(result);
    json_t *response = make(head, is_cut ? "incomplete" : "completed", items);

    if (is_cut)
        response = put(response, "incomplete_details", json_pack("{ss}", "reason", "max_output_tokens"));
    else
        response = put(response, "completed_at", json_integer((json_int_t)time(NULL)));
    response = put_in_effect(response, "temperature", result->temperature);
    response = put_in_effect(response, "top_p", result->top_p);
    return put(response, "usage", usage_of(result));
}

json_t *response_object_failed(const ResponseHead *head, const ApiError *error, json_t *items) {
    const char *code = error->status == 429                          ? "rate_limit_exceeded"
                       : error->status >= 400 && error->status < 500 ? "invalid_prompt"
                                                                     : "server_error";

    return put(make(head, "failed", items), "error",
               json_pack("{ss, so}", "code", code, "message", json_text(error->message)));
}
