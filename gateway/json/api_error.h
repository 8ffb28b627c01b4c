// SPDX-License-Identifier: Apache-2.0
/* Errors as clients of OpenAI's API expect them: a status, a type, a code, and the field at fault. */
#ifndef COORDGEN_GATEWAY_API_ERROR_H
#define COORDGEN_GATEWAY_API_ERROR_H

#include <jansson.h>
#include <stdint.h>

typedef struct ApiError {
    unsigned int status; /* of HTTP */
    const char *type;    /* "invalid_request_error", ...: a constant */
    const char *code;    /* "context_length_exceeded", ...: a constant; NULL: null in JSON */
    char param[128];     /* the field at fault, as "messages[0].content"; "": none */
    char message[1024];
    uint32_t retry_after_ms;                    /* 0: none */
    uint32_t n_prompt_tokens, n_context_tokens; /* a prompt that is too long; 0: unknown */
} ApiError;

enum {
    API_E_REFUSED = 1, /* the ApiError says why */
};

/* Sets a request's error of status 400 at a field (NULL: none). Returns API_E_REFUSED. */
int api_error_field(ApiError *error, const char *param, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Sets an error of another status. Returns API_E_REFUSED. */
int api_error_set(ApiError *error, unsigned int status, const char *type, const char *code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Sets the error of memory that is short, status 500. Returns API_E_REFUSED. */
int api_error_no_memory(ApiError *error);
/* Translates an error of the service or of its library: CoordgenError, text, field ("" or NULL: none). Returns
 * API_E_REFUSED. */
int api_error_of_service(ApiError *error, int code, const char *message, const char *field, uint32_t retry_after_ms);
/* Returns {"error": {...}}; NULL: out of memory. */
json_t *api_error_json(const ApiError *error);

#endif
