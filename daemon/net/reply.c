// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/reply.h"

#include "base/cleanup.h"

void reply_init(Coordgen__V1__Response *response, uint64_t request_id) {
    coordgen__v1__response__init(response);
    response->has_request_id = true;
    response->request_id = request_id;
}

void reply_init_error(Coordgen__V1__Response *response, Coordgen__V1__Error *error, uint64_t request_id,
                      Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *field, const char *text) {
    reply_init(response, request_id);
    coordgen__v1__error__init(error);
    error->has_code = true;
    error->code = code;
    error->message = (char *)text;
    error->has_retry_after_ms = true;
    error->retry_after_ms = retry_after_ms;
    error->field = (char *)(field && *field ? field : NULL);
    response->op_case = COORDGEN__V1__RESPONSE__OP_ERROR;
    response->error = error;
}

const char *reply_code_name(Coordgen__V1__ErrorCode code) {
    static const char *const names[] = {
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_UNSPECIFIED] = "unspecified",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL] = "protocol",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_VERSION] = "version",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT] = "invalid-argument",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_UNKNOWN_OPTION] = "unknown-option",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY] = "busy",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_QUOTA_EXCEEDED] = "quota-exceeded",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_CONTEXT_FULL] = "context-full",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_FOUND] = "model-not-found",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_READY] = "model-not-ready",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_CORRUPT] = "model-corrupt",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_IN_USE] = "model-in-use",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_CANCELLED] = "cancelled",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_DENIED] = "denied",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_SHUTTING_DOWN] = "shutting-down",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_NOT_FOUND] = "not-found",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL] = "internal",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_NO_TEMPLATE] = "no-template",
        [COORDGEN__V1__ERROR_CODE__ERROR_CODE_VOCAB_MISMATCH] = "vocab-mismatch",
    };

    return (size_t)code < ARRAY_LEN(names) ? names[code] : "unknown";
}
