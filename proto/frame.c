// SPDX-License-Identifier: Apache-2.0
#include "proto/frame.h"

#include <stdbool.h>
#include <string.h>

#include "proto/proto_allocator.h"
#include "proto/wire_check.h"

/* The memory that decoding may take. A request has few objects and long texts, or up to PROTO_MESSAGES_MAX messages of
 * a byte or two, which take 32 times their bytes. A reply may be a list of short pieces, each with an allocation of
 * its own. */
enum {
    BUDGET_BASE_BYTES = 64 << 10,
    REQUEST_BYTES_PER_BYTE = 8,
    REQUEST_PARTS_BYTES_PER_BYTE = 24, /* in addition, for messages */
    REQUEST_PARTS_BYTES_MAX = 512 << 10,
    REQUEST_ALLOCATIONS_MAX = 1 << 16,
    RESPONSE_BYTES_PER_BYTE = 40,
    RESPONSE_ALLOCATIONS_MAX = 1 << 21,
};

int frame_peek(const uint8_t *data, size_t len_bytes, uint32_t max_bytes, size_t *body_lenp, size_t *neededp,
               ErrText *err) {
    uint32_t body_bytes;

    if (len_bytes < FRAME_HEADER_BYTES) {
        *neededp = FRAME_HEADER_BYTES;
        return FRAME_E_MORE;
    }
    body_bytes = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
    if (body_bytes > max_bytes)
        return err_set(err, FRAME_E_TOO_LARGE, "a frame of %u bytes: at most %u are accepted", body_bytes, max_bytes);
    if (!body_bytes)
        return err_set(err, FRAME_E_MISSING, "an empty frame: it must hold a message");
    if (len_bytes - FRAME_HEADER_BYTES < body_bytes) {
        *neededp = (size_t)body_bytes + FRAME_HEADER_BYTES;
        return FRAME_E_MORE;
    }
    *body_lenp = body_bytes;
    return 0;
}

int frame_encode(const ProtobufCMessage *message, uint8_t **framep, size_t *len_bytesp, ErrText *err) {
    size_t body_bytes = protobuf_c_message_get_packed_size(message);
    uint8_t *frame;

    if (body_bytes > FRAME_MAX_BYTES)
        return err_set(err, FRAME_E_TOO_LARGE, "the message takes %zu bytes: at most %u fit into a frame", body_bytes,
                       FRAME_MAX_BYTES);
    frame = malloc(FRAME_HEADER_BYTES + body_bytes);
    if (!frame)
        return err_set(err, -ENOMEM, "out of memory for a frame of %zu bytes", body_bytes);
    for (unsigned i = 0; i < FRAME_HEADER_BYTES; i++)
        frame[i] = (uint8_t)(body_bytes >> 8 * i);
    protobuf_c_message_pack(message, frame + FRAME_HEADER_BYTES);
    *framep = frame;
    *len_bytesp = FRAME_HEADER_BYTES + body_bytes;
    return 0;
}

/* Reads the request's id, under which a refusal is answered; every encoder writes field 1 first. */
static uint64_t request_id_peek(const uint8_t *body, size_t len_bytes) {
    uint64_t value = 0;

    if (len_bytes < 2 || body[0] != (1 << 3 | PROTOBUF_C_WIRE_TYPE_VARINT))
        return 0;
    for (size_t i = 1; i < len_bytes && i <= 10; i++) {
        value |= (uint64_t)(body[i] & 0x7f) << 7 * (i - 1);
        if (!(body[i] & 0x80))
            return i == 10 && body[i] > 1 ? 0 : value;
    }
    return 0;
}

/* Decodes bytes that wire_check() has passed, so that only memory can be short. */
static int unpack(const uint8_t *body, size_t len_bytes, const ProtobufCMessageDescriptor *descriptor,
                  ProtoAllocator *allocator, ProtobufCMessage **messagep, FrameFault *fault) {
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &allocator->base, len_bytes, body);

    if (message) {
        *messagep = message;
        return 0;
    }
    if (allocator->budget_passed)
        return err_set(&fault->err, FRAME_E_BUDGET,
                       "a message of %zu bytes holds so many parts that it passes its memory budget: send fewer or "
                       "longer ones",
                       len_bytes);
    return err_set(&fault->err, -ENOMEM, "out of memory for a message of %zu bytes", len_bytes);
}

size_t frame_decode_budget_bytes(size_t len_bytes) {
    size_t parts_bytes = len_bytes < REQUEST_PARTS_BYTES_MAX / REQUEST_PARTS_BYTES_PER_BYTE
                             ? len_bytes * REQUEST_PARTS_BYTES_PER_BYTE
                             : REQUEST_PARTS_BYTES_MAX;

    return BUDGET_BASE_BYTES + len_bytes * REQUEST_BYTES_PER_BYTE + parts_bytes;
}

int frame_decode_request(const uint8_t *body, size_t len_bytes, Coordgen__V1__Request **requestp, FrameFault *fault) {
    ProtobufCMessage *message = NULL;
    ProtoAllocator allocator;
    int r;

    *fault = (FrameFault){ .request_id = request_id_peek(body, len_bytes) };
    if (len_bytes > FRAME_MAX_BYTES)
        return err_set(&fault->err, FRAME_E_TOO_LARGE, "a message of %zu bytes", len_bytes);
    r = wire_check(body, len_bytes, &coordgen__v1__request__descriptor, true, fault);
    if (r)
        return r;
    proto_allocator_init(&allocator, frame_decode_budget_bytes(len_bytes), REQUEST_ALLOCATIONS_MAX);
    r = unpack(body, len_bytes, &coordgen__v1__request__descriptor, &allocator, &message, fault);
    if (r)
        return r;
    if (((Coordgen__V1__Request *)message)->op_case == COORDGEN__V1__REQUEST__OP__NOT_SET) {
        frame_request_free((Coordgen__V1__Request *)message);
        return err_set(&fault->err, FRAME_E_MISSING, "the request names no operation");
    }
    *requestp = (Coordgen__V1__Request *)message;
    return 0;
}

int frame_decode_response(const uint8_t *body, size_t len_bytes, Coordgen__V1__Response **responsep,
                          FrameFault *fault) {
    ProtobufCMessage *message = NULL;
    ProtoAllocator allocator;
    int r;

    *fault = (FrameFault){ .request_id = request_id_peek(body, len_bytes) };
    if (len_bytes > FRAME_MAX_BYTES)
        return err_set(&fault->err, FRAME_E_TOO_LARGE, "a message of %zu bytes", len_bytes);
    r = wire_check(body, len_bytes, &coordgen__v1__response__descriptor, false, fault);
    if (r)
        return r;
    proto_allocator_init(&allocator, BUDGET_BASE_BYTES + len_bytes * RESPONSE_BYTES_PER_BYTE, RESPONSE_ALLOCATIONS_MAX);
    r = unpack(body, len_bytes, &coordgen__v1__response__descriptor, &allocator, &message, fault);
    if (r)
        return r;
    if (((Coordgen__V1__Response *)message)->op_case == COORDGEN__V1__RESPONSE__OP__NOT_SET) {
        frame_response_free((Coordgen__V1__Response *)message);
        return err_set(&fault->err, FRAME_E_MISSING, "the response holds nothing that this version knows");
    }
    *responsep = (Coordgen__V1__Response *)message;
    return 0;
}

Coordgen__V1__Request *frame_request_free(Coordgen__V1__Request *request) {
    coordgen__v1__request__free_unpacked(request, NULL);
    return NULL;
}

Coordgen__V1__Response *frame_response_free(Coordgen__V1__Response *response) {
    coordgen__v1__response__free_unpacked(response, NULL);
    return NULL;
}

Coordgen__V1__ErrorCode frame_error_code(int frame_e) {
    switch (frame_e) {
    case FRAME_E_UNKNOWN_FIELD:
        return COORDGEN__V1__ERROR_CODE__ERROR_CODE_UNKNOWN_OPTION;
    case FRAME_E_UNKNOWN_ENUM:
    case FRAME_E_RANGE:
    case FRAME_E_TEXT:
    case FRAME_E_BUDGET:
        return COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
    case FRAME_E_TOO_LARGE:
    case FRAME_E_MALFORMED:
    case FRAME_E_TWICE:
    case FRAME_E_MISSING:
        return COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL;
    default:
        return COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL;
    }
}

/* After a fatal fault the meaning of further bytes is in doubt, so the connection ends. */
int frame_e_is_fatal(int frame_e) {
    return frame_error_code(frame_e) == COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL;
}

int frame_reader_room(FrameReader *reader, size_t want_bytes, uint8_t **roomp, size_t *len_bytesp) {
    size_t pending_bytes = reader->len_bytes - reader->at_bytes, room_bytes;
    uint8_t *data;

    if (reader->at_bytes) {
        memmove(reader->data, reader->data + reader->at_bytes, pending_bytes);
        reader->at_bytes = 0;
        reader->len_bytes = pending_bytes;
    }
    if (reader->room_bytes - pending_bytes < want_bytes) {
        room_bytes = reader->room_bytes ? reader->room_bytes : 4096;
        while (room_bytes - pending_bytes < want_bytes) {
            if (room_bytes > SIZE_MAX / 2)
                return -ENOMEM;
            room_bytes *= 2;
        }
        data = realloc(reader->data, room_bytes);
        if (!data)
            return -ENOMEM;
        reader->data = data;
        reader->room_bytes = room_bytes;
    }
    *roomp = reader->data + pending_bytes;
    *len_bytesp = reader->room_bytes - pending_bytes;
    return 0;
}

void frame_reader_filled(FrameReader *reader, size_t len_bytes) {
    reader->len_bytes += len_bytes;
}

int frame_reader_next(FrameReader *reader, const uint8_t **bodyp, size_t *body_lenp, ErrText *err) {
    size_t needed_bytes;
    int r;

    if (reader->len_bytes == reader->at_bytes)
        return FRAME_E_MORE;
    r = frame_peek(reader->data + reader->at_bytes, reader->len_bytes - reader->at_bytes,
                   reader->max_bytes ? reader->max_bytes : FRAME_MAX_BYTES, body_lenp, &needed_bytes, err);
    if (r)
        return r;
    *bodyp = reader->data + reader->at_bytes + FRAME_HEADER_BYTES;
    reader->at_bytes += FRAME_HEADER_BYTES + *body_lenp;
    return 0;
}

void frame_reader_deinit(FrameReader *reader) {
    free(reader->data);
    *reader = (FrameReader){ 0 };
}
