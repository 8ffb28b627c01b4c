// SPDX-License-Identifier: Apache-2.0
/* Frames of the wire contract: a 4-byte little-endian length, then one packed Request or Response. */
#ifndef COORDGEN_PROTO_FRAME_H
#define COORDGEN_PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "proto/coordgen.pb-c.h"
#include "proto/frame_fault.h"

#define FRAME_HEADER_BYTES 4u
#define FRAME_MAX_BYTES (4u << 20) /* of a message, without the header */

/* Checks the front of a byte stream. 0: the header and its *body_lenp bytes are there; FRAME_E_MORE: at least *neededp
 * bytes from the start are needed; FRAME_E_TOO_LARGE; FRAME_E_MISSING: the length is 0. */
int frame_peek(const uint8_t *data, size_t len_bytes, uint32_t max_bytes, size_t *body_lenp, size_t *neededp,
               ErrText *err);

/* Packs a header and the message into one buffer of malloc(). 0, FRAME_E_TOO_LARGE or -ENOMEM. */
int frame_encode(const ProtobufCMessage *message, uint8_t **framep, size_t *len_bytesp, ErrText *err);

/* Decode a body without its header. 0, a FRAME_E_* with fault filled in, or -ENOMEM. Freed by frame_*_free(). */
int frame_decode_request(const uint8_t *body, size_t len_bytes, Coordgen__V1__Request **requestp, FrameFault *fault);
int frame_decode_response(const uint8_t *body, size_t len_bytes, Coordgen__V1__Response **responsep, FrameFault *fault);
Coordgen__V1__Request *frame_request_free(Coordgen__V1__Request *request);
Coordgen__V1__Response *frame_response_free(Coordgen__V1__Response *response);
DEFINE_CLEANUP(Coordgen__V1__Request, frame_request_free)
DEFINE_CLEANUP(Coordgen__V1__Response, frame_response_free)

/* Returns the most bytes that decoding a request of this length allocates; the caller charges them before. */
size_t frame_decode_budget_bytes(size_t len_bytes);
/* Return the wire error that tells a peer of a fault, and whether the fault ends the connection. */
Coordgen__V1__ErrorCode frame_error_code(int frame_e);
int frame_e_is_fatal(int frame_e);

/* An incremental reader that owns its bytes. Zero: empty. */
typedef struct FrameReader {
    uint8_t *data;
    size_t at_bytes;  /* consumed so far */
    size_t len_bytes; /* valid bytes from the start of data */
    size_t room_bytes;
    uint32_t max_bytes; /* of a message; 0: FRAME_MAX_BYTES */
} FrameReader;

/* Makes room for at least want_bytes at the end. The caller reads into it and calls frame_reader_filled(). 0 or
 * -ENOMEM. */
int frame_reader_room(FrameReader *reader, size_t want_bytes, uint8_t **roomp, size_t *len_bytesp);
void frame_reader_filled(FrameReader *reader, size_t len_bytes);
/* Returns the next message, valid until the next frame_reader_room(). 0, FRAME_E_MORE, FRAME_E_TOO_LARGE or
 * FRAME_E_MISSING. */
int frame_reader_next(FrameReader *reader, const uint8_t **bodyp, size_t *body_lenp, ErrText *err);
void frame_reader_deinit(FrameReader *reader);

#endif
