// SPDX-License-Identifier: Apache-2.0
/* Why a frame or a message is refused. */
#ifndef COORDGEN_PROTO_FRAME_FAULT_H
#define COORDGEN_PROTO_FRAME_FAULT_H

#include <stdint.h>

#include "base/err.h"

enum {
    FRAME_E_MORE = 1,      /* the bytes do not hold the whole frame yet */
    FRAME_E_TOO_LARGE,     /* the message is longer than the cap */
    FRAME_E_MALFORMED,     /* no protobuf message, or a field of the wrong type */
    FRAME_E_TWICE,         /* a singular field, or a oneof, is given twice */
    FRAME_E_UNKNOWN_FIELD, /* a field that the service does not know; never ignored in requests */
    FRAME_E_UNKNOWN_ENUM,  /* a value outside its enumeration, in requests */
    FRAME_E_RANGE,         /* a number that does not fit the type of its field */
    FRAME_E_TEXT,          /* a string that is not UTF-8, or that holds a NUL */
    FRAME_E_MISSING,       /* no operation in the envelope */
    FRAME_E_BUDGET,        /* the message would take more memory than frame_decode_budget_bytes() */
};

/* The reason why a message is refused. */
typedef struct FrameFault {
    ErrText err;
    char field[128];     /* "generate.sampling.top_p"; "" if no field is at fault */
    uint64_t request_id; /* of the message; 0 if it could not be read */
} FrameFault;

#endif
