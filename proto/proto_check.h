// SPDX-License-Identifier: Apache-2.0
/* Checks the values of a request, by the same rules in the library that builds it and in the service. */
#ifndef COORDGEN_PROTO_PROTO_CHECK_H
#define COORDGEN_PROTO_PROTO_CHECK_H

#include "proto/frame.h"

#define PROTO_VERSION_MIN 1u
#define PROTO_VERSION_MAX 1u

#define PROTO_CLIENT_NAME_BYTES_MAX 64
#define PROTO_MODEL_NAME_BYTES_MAX 255
#define PROTO_PATH_BYTES_MAX 4095
#define PROTO_MESSAGES_MAX 4096
#define PROTO_CALLS_MAX 128 /* calls of one message */
#define PROTO_TOOL_NAME_BYTES_MAX 128
#define PROTO_CALL_ID_BYTES_MAX 256
#define PROTO_STOPS_MAX 8
#define PROTO_KWARGS_BYTES_MAX (64 << 10)
#define PROTO_STOP_BYTES_MAX 256
#define PROTO_SPECULATION_BYTES_MAX 128
#define PROTO_CHOICES_MAX 16
#define PROTO_TEXTS_MAX 256 /* of a request for vectors */
#define PROTO_TOKENS_MAX (1u << 20)
#define PROTO_LOGPROBS_MAX 20
#define PROTO_LOGIT_BIASES_MAX 1024
#define PROTO_LOGIT_BIAS_MAX 1000
#define PROTO_DRY_BREAKERS_MAX 16
#define PROTO_DRY_BREAKER_BYTES_MAX 32
#define PROTO_CONSTRAINT_BYTES_MAX (256 << 10) /* of a schema or grammar */
#define PROTO_REGEX_BYTES_MAX (64 << 10)

enum {
    PROTO_CHECK_E_VALUE = 1, /* a value is out of range or missing: ERROR_CODE_INVALID_ARGUMENT */
    PROTO_CHECK_E_ENVELOPE,  /* request_id is missing or 0: ERROR_CODE_PROTOCOL */
};

/* Checks a whole request. 0, or a PROTO_CHECK_E_* with text and field path in fault. */
int proto_check_request(const Coordgen__V1__Request *request, FrameFault *fault);
int proto_check_sampling(const Coordgen__V1__SamplingOptions *sampling, FrameFault *fault);

/* Chooses the highest version that both ends speak. 0, or PROTO_CHECK_E_VALUE if there is none (ERROR_CODE_VERSION). */
int proto_version_choose(const Coordgen__V1__HelloRequest *hello, uint32_t *versionp, ErrText *err);

#endif
