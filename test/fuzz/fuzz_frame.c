// SPDX-License-Identifier: Apache-2.0
/* The frame parser: a stream of bytes as a peer may send it, cut into reads of odd lengths; requests and responses. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "proto/frame.h"
#include "proto/proto_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

/* What was accepted must come out the same when it is packed and read again. */
static void round_trip(const ProtobufCMessage *message) {
    _cleanup_(freep) uint8_t *frame = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *again = NULL;
    size_t len_bytes;
    FrameFault fault;
    ErrText err;

    if (frame_encode(message, &frame, &len_bytes, &err))
        return; /* numbers may take more bytes than they came in */
    if (frame_decode_request(frame + FRAME_HEADER_BYTES, len_bytes - FRAME_HEADER_BYTES, &again, &fault))
        abort();
}

static void decode(const uint8_t *body, size_t len_bytes) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;
    _cleanup_(frame_response_freep) Coordgen__V1__Response *response = NULL;
    FrameFault fault = { 0 };

    if (!frame_decode_request(body, len_bytes, &request, &fault)) {
        round_trip(&request->base);
        if (proto_check_request(request, &fault) && !fault.err.text[0])
            abort(); /* refused without a word */
    } else if (!fault.err.text[0]) {
        abort();
    }
    memset(&fault, 0, sizeof(fault));
    if (frame_decode_response(body, len_bytes, &response, &fault) && !fault.err.text[0])
        abort();
}

/* First byte: how many bytes each read brings. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    FrameReader reader = { .max_bytes = 1u << 16 };
    size_t step_bytes, at = 1;

    if (!len_bytes)
        return 0;
    step_bytes = data[0] ? data[0] : 4096;
    decode(data + 1, len_bytes - 1);
    while (at < len_bytes) {
        size_t n = MIN(len_bytes - at, step_bytes), room_bytes, body_len;
        const uint8_t *body;
        uint8_t *room;
        ErrText err;
        int r;

        if (frame_reader_room(&reader, n, &room, &room_bytes))
            break;
        assert(room_bytes >= n);
        memcpy(room, data + at, n);
        frame_reader_filled(&reader, n);
        at += n;
        while (!(r = frame_reader_next(&reader, &body, &body_len, &err)))
            decode(body, body_len);
        if (r != FRAME_E_MORE)
            break; /* the connection would end here */
    }
    frame_reader_deinit(&reader);
    return 0;
}
