// SPDX-License-Identifier: Apache-2.0
/* What calls and requests fail with. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "client/client_internal.h"

static const struct {
    int code;
    const char *name;
} error_names[] = {
    { COORDGEN_OK, "ok" },
    { COORDGEN_E_PROTOCOL, "protocol" },
    { COORDGEN_E_VERSION, "version" },
    { COORDGEN_E_INVALID_ARGUMENT, "invalid-argument" },
    { COORDGEN_E_UNKNOWN_OPTION, "unknown-option" },
    { COORDGEN_E_BUSY, "busy" },
    { COORDGEN_E_QUOTA_EXCEEDED, "quota-exceeded" },
    { COORDGEN_E_CONTEXT_FULL, "context-full" },
    { COORDGEN_E_MODEL_NOT_FOUND, "model-not-found" },
    { COORDGEN_E_MODEL_NOT_READY, "model-not-ready" },
    { COORDGEN_E_MODEL_CORRUPT, "model-corrupt" },
    { COORDGEN_E_MODEL_IN_USE, "model-in-use" },
    { COORDGEN_E_CANCELLED, "cancelled" },
    { COORDGEN_E_DENIED, "denied" },
    { COORDGEN_E_SHUTTING_DOWN, "shutting-down" },
    { COORDGEN_E_NOT_FOUND, "not-found" },
    { COORDGEN_E_INTERNAL, "internal" },
    { COORDGEN_E_NO_TEMPLATE, "no-template" },
    { COORDGEN_E_VOCAB_MISMATCH, "vocab-mismatch" },
    { COORDGEN_E_UNREACHABLE, "unreachable" },
    { COORDGEN_E_TIMEOUT, "timeout" },
    { COORDGEN_E_DISCONNECTED, "disconnected" },
    { COORDGEN_E_BAD_REPLY, "bad-reply" },
    { COORDGEN_E_NO_MEMORY, "no-memory" },
    { COORDGEN_E_TOO_LARGE, "too-large" },
    { COORDGEN_E_WRONG_STATE, "wrong-state" },
};

const char *coordgen_error_name(int code) {
    for (size_t i = 0; i < ARRAY_LEN(error_names); i++)
        if (error_names[i].code == code)
            return error_names[i].name;
    return "unknown";
}

int client_fail(CoordgenClient *client, int code, const char *field, uint32_t retry_after_ms, const char *format, ...) {
    va_list args;

    if (!client)
        return code;
    client->failure = (ClientFailure){ .code = code, .retry_after_ms = retry_after_ms };
    snprintf(client->failure.field, sizeof(client->failure.field), "%s", field);
    va_start(args, format);
    vsnprintf(client->failure.err.text, sizeof(client->failure.err.text), format, args);
    va_end(args);
    return code;
}

int client_check_usable(CoordgenClient *client, bool waits) {
    if (!client)
        return COORDGEN_E_INVALID_ARGUMENT;
    if (client->pid != getpid())
        return client_fail(client, COORDGEN_E_WRONG_STATE, "", 0,
                           "the connection belongs to the parent process: connect anew after fork()");
    if (waits && client->in_dispatch)
        return client_fail(client, COORDGEN_E_WRONG_STATE, "", 0,
                           "a call that waits was made inside a callback: use a _start() function");
    return 0;
}

void client_failure_from_wire(ClientFailure *failure, const Coordgen__V1__Error *error) {
    int code = error->has_code ? (int)error->code : COORDGEN_E_INTERNAL;

    /* A service must send neither 0, which is no failure, nor codes of this library, 100 and above. */
    *failure = (ClientFailure){
        .code = code <= 0 || code >= COORDGEN_E_UNREACHABLE ? COORDGEN_E_INTERNAL : code,
        .retry_after_ms = error->retry_after_ms,
        .prompt_tokens = error->prompt_tokens,
        .context_tokens = error->context_tokens,
    };
    snprintf(failure->field, sizeof(failure->field), "%s", error->field ? error->field : "");
    snprintf(failure->err.text, sizeof(failure->err.text), "%s",
             error->message && *error->message ? error->message : coordgen_error_name(failure->code));
}
