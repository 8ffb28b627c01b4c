// SPDX-License-Identifier: Apache-2.0
#include "gateway/json/api_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings/json_text.h"
#include "base/strings/printable.h"
#include "client/coordgen-client.h"

static void set_text(ApiError *error, const char *format, va_list args) {
    printable_format(error->message, sizeof(error->message), format, args);
}

int api_error_field(ApiError *error, const char *param, const char *format, ...) {
    va_list args;

    *error = (ApiError){ .status = 400, .type = "invalid_request_error" };
    printable_put(error->param, sizeof(error->param), param ? param : "", param ? strlen(param) : 0);
    va_start(args, format);
    set_text(error, format, args);
    va_end(args);
    return API_E_REFUSED;
}

int api_error_set(ApiError *error, unsigned int status, const char *type, const char *code, const char *format, ...) {
    va_list args;

    *error = (ApiError){ .status = status, .type = type, .code = code };
    va_start(args, format);
    set_text(error, format, args);
    va_end(args);
    return API_E_REFUSED;
}

int api_error_no_memory(ApiError *error) {
    return api_error_set(error, 500, "server_error", NULL, "the gateway is out of memory: try again later");
}

/* How errors of the service appear; an error that is not listed is one of the server. */
static const struct {
    int code;
    unsigned int status;
    const char *type, *name;
} kinds[] = {
    { COORDGEN_E_INVALID_ARGUMENT, 400, "invalid_request_error", NULL },
    { COORDGEN_E_UNKNOWN_OPTION, 400, "invalid_request_error", NULL },
    { COORDGEN_E_TOO_LARGE, 413, "invalid_request_error", "request_too_large" },
    { COORDGEN_E_CONTEXT_FULL, 400, "exceed_context_size_error", "context_length_exceeded" },
    { COORDGEN_E_NO_TEMPLATE, 400, "invalid_request_error", "no_chat_template" },
    { COORDGEN_E_INVALID_SCHEMA, 400, "invalid_request_error", "invalid_schema" },
    { COORDGEN_E_SCHEMA_TOO_COMPLEX, 400, "invalid_request_error", "schema_too_complex" },
    { COORDGEN_E_MODEL_NOT_FOUND, 404, "not_found_error", "model_not_found" },
    { COORDGEN_E_NOT_FOUND, 404, "not_found_error", NULL },
    { COORDGEN_E_DENIED, 403, "permission_error", "denied" },
    { COORDGEN_E_QUOTA_EXCEEDED, 429, "rate_limit_error", "quota_exceeded" },
    { COORDGEN_E_BUSY, 503, "overloaded_error", "busy" },
    { COORDGEN_E_MODEL_NOT_READY, 503, "unavailable_error", "loading" },
    { COORDGEN_E_SHUTTING_DOWN, 503, "unavailable_error", "shutting_down" },
    { COORDGEN_E_UNREACHABLE, 503, "unavailable_error", "unreachable" },
    { COORDGEN_E_DISCONNECTED, 503, "unavailable_error", "disconnected" },
    { COORDGEN_E_TIMEOUT, 504, "timeout_error", "timeout" },
};

int api_error_of_service(ApiError *error, int code, const char *message, const char *field, uint32_t retry_after_ms) {
    size_t i = 0;

    while (i < ARRAY_LEN(kinds) && kinds[i].code != code)
        i++;
    if (i < ARRAY_LEN(kinds))
        api_error_set(error, kinds[i].status, kinds[i].type, kinds[i].name, "%s", message);
    else
        api_error_set(error, 500, "server_error", coordgen_error_name(code), "%s", message);
    if (field)
        printable_put(error->param, sizeof(error->param), field, strlen(field));
    error->retry_after_ms = retry_after_ms;
    return API_E_REFUSED;
}

json_t *api_error_json(const ApiError *error) {
    json_t *body =
        json_pack("{so, si, ss, s:o, s:o}", "message", json_text(error->message), "status", (int)error->status, "type",
                  error->type, "param", *error->param ? json_text(error->param) : json_null(), "code",
                  error->code ? json_string(error->code) : json_null());

    if (body && error->n_context_tokens) {
        json_object_set_new(body, "n_prompt_tokens", json_integer(error->n_prompt_tokens));
        json_object_set_new(body, "n_ctx", json_integer(error->n_context_tokens));
    }
    return body ? json_pack("{so}", "error", body) : NULL;
}
