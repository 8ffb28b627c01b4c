// SPDX-License-Identifier: Apache-2.0
/* A request that passes every check, which tests spoil field by field. Included behind cmocka.h. */
#ifndef COORDGEN_TEST_GOOD_REQUEST_H
#define COORDGEN_TEST_GOOD_REQUEST_H

#include "proto/proto_check.h"

/* A valid generate request, to be spoilt in one place. */
typedef struct Good {
    Coordgen__V1__Request request;
    Coordgen__V1__GenerateRequest generate;
    Coordgen__V1__SamplingOptions sampling;
    Coordgen__V1__Messages messages;
    Coordgen__V1__Message message;
    Coordgen__V1__Message *list[1];
    char *stops[9];
} Good;

static char text_x[] = "x";

static inline void good_init(Good *good) {
    good->request = (Coordgen__V1__Request)COORDGEN__V1__REQUEST__INIT;
    good->generate = (Coordgen__V1__GenerateRequest)COORDGEN__V1__GENERATE_REQUEST__INIT;
    good->sampling = (Coordgen__V1__SamplingOptions)COORDGEN__V1__SAMPLING_OPTIONS__INIT;
    good->messages = (Coordgen__V1__Messages)COORDGEN__V1__MESSAGES__INIT;
    good->message = (Coordgen__V1__Message)COORDGEN__V1__MESSAGE__INIT;
    good->request.has_request_id = true;
    good->request.request_id = 1;
    good->request.op_case = COORDGEN__V1__REQUEST__OP_GENERATE;
    good->request.generate = &good->generate;
    good->generate.sampling = &good->sampling;
    good->generate.input_case = COORDGEN__V1__GENERATE_REQUEST__INPUT_MESSAGES;
    good->generate.messages = &good->messages;
    good->generate.stop = good->stops;
    good->messages.n_message = 1;
    good->messages.message = good->list;
    good->list[0] = &good->message;
    good->message.has_role = true;
    good->message.role = COORDGEN__V1__ROLE__ROLE_USER;
    good->message.text = text_x;
    for (size_t i = 0; i < ARRAY_LEN(good->stops); i++)
        good->stops[i] = text_x;
}

static inline void expect(const Good *good, int code, const char *field) {
    FrameFault fault = { .field = "" };
    int r = proto_check_request(&good->request, &fault);

    if (r != code || strcmp(fault.field, field))
        fail_msg("%d '%s' (%s), wanted %d '%s'", r, fault.field, fault.err.text, code, field);
    if (r)
        assert_non_null(strstr(fault.err.text, field));
}

#endif
