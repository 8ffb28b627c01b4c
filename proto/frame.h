// SPDX-License-Identifier: Apache-2.0
/* Frames of the wire contract: a 4-byte little-endian length, then one packed Request or Response. */
#ifndef COORDGEN_PROTO_FRAME_H
#define COORDGEN_PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "proto/coordgen.pb-c.h"

#define FRAME_HEADER_BYTES 4u
#define FRAME_MAX_BYTES (4u << 20) /* of the message, without the header */

enum {
    FRAME_E_MORE = 1,      /* the bytes do not hold the whole frame yet */
    FRAME_E_TOO_LARGE,     /* longer than the cap */
    FRAME_E_MALFORMED,     /* not a protobuf message, or a field of the wrong type */
    FRAME_E_TWICE,         /* a singular field, or two members of a oneof */
    FRAME_E_UNKNOWN_FIELD, /* refused, never ignored (requests) */
    FRAME_E_UNKNOWN_ENUM,  /* a value outside its enumeration (requests) */
    FRAME_E_RANGE,         /* a number that does not fit the type of its field */
    FRAME_E_TEXT,          /* a string that is not UTF-8, or that holds a NUL */
    FRAME_E_MISSING,       /* no operation in the envelope */
    FRAME_E_BUDGET,        /* the message would take more memory than frame_decode_budget_bytes() */
};

/* Why a message was refused. */
typedef struct FrameFault {
    ErrText err;
    char field[128];     /* "generate.sampling.top_p"; "" when no field is at fault */
    uint64_t request_id; /* of the message, when that much could be read; else 0 */
} FrameFault;

/* Looks at the front of a byte stream. 0: *body_lenp bytes follow the header and are all there; FRAME_E_MORE:
 * *neededp bytes from the start are needed at least; FRAME_E_TOO_LARGE, FRAME_E_MISSING (length 0). */
int frame_peek(const uint8_t *data, size_t len_bytes, uint32_t max_bytes, size_t *body_lenp, size_t *neededp,
               ErrText *err);

/* Header and packed message in one malloc()ed buffer. 0, FRAME_E_TOO_LARGE, -ENOMEM. */
int frame_encode(const ProtobufCMessage *message, uint8_t **framep, size_t *len_bytesp, ErrText *err);

/* body: without the header. 0, a FRAME_E_* (fault is filled in), -ENOMEM. Free with frame_*_free(). */
int frame_decode_request(const uint8_t *body, size_t len_bytes, Coordgen__V1__Request **requestp, FrameFault *fault);
int frame_decode_response(const uint8_t *body, size_t len_bytes, Coordgen__V1__Response **responsep, FrameFault *fault);
Coordgen__V1__Request *frame_request_free(Coordgen__V1__Request *request);
Coordgen__V1__Response *frame_response_free(Coordgen__V1__Response *response);
DEFINE_CLEANUP(Coordgen__V1__Request, frame_request_free)
DEFINE_CLEANUP(Coordgen__V1__Response, frame_response_free)

/* The most that decoding a request of this length allocates: charge it before. */
size_t frame_decode_budget_bytes(size_t len_bytes);
/* The wire error that tells a peer of a fault of this kind, and whether the connection can go on after it. */
Coordgen__V1__ErrorCode frame_error_code(int frame_e);
int frame_e_is_fatal(int frame_e);

/* An incremental reader that owns its bytes; zero is empty. */
typedef struct FrameReader {
    uint8_t *data;
    size_t at_bytes;  /* consumed */
    size_t len_bytes; /* valid, from the start of data */
    size_t room_bytes;
    uint32_t max_bytes; /* of a message; 0: FRAME_MAX_BYTES */
} FrameReader;

/* Free room of at least want_bytes at the end (0, -ENOMEM); after the read, frame_reader_filled(). */
int frame_reader_room(FrameReader *reader, size_t want_bytes, uint8_t **roomp, size_t *len_bytesp);
void frame_reader_filled(FrameReader *reader, size_t len_bytes);
/* The next message, valid until the next frame_reader_room(): 0, FRAME_E_MORE, FRAME_E_TOO_LARGE, FRAME_E_MISSING. */
int frame_reader_next(FrameReader *reader, const uint8_t **bodyp, size_t *body_lenp, ErrText *err);
void frame_reader_deinit(FrameReader *reader);

#endif
