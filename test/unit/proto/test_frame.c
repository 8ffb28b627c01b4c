// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "proto/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "base/strings/str_buf.h"
#include "proto/proto_allocator.h"
#include "proto/proto_check.h"
#include "proto/wire_check.h"

/* ---- hand-made wire bytes ---------------------------------------------------------------------------------------- */

static void put_varint(StrBuf *out, uint64_t value) {
    do {
        char byte = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        str_buf_append(out, &byte, 1);
        value >>= 7;
    } while (value);
}

static void put_tag(StrBuf *out, uint32_t id, unsigned wire_type) {
    put_varint(out, (uint64_t)id << 3 | wire_type);
}

static void put_number(StrBuf *out, uint32_t id, uint64_t value) {
    put_tag(out, id, 0);
    put_varint(out, value);
}

static void put_bytes(StrBuf *out, uint32_t id, const void *data, size_t len_bytes) {
    put_tag(out, id, 2);
    put_varint(out, len_bytes);
    str_buf_append(out, data, len_bytes);
}

static void put_text(StrBuf *out, uint32_t id, const char *text) {
    put_bytes(out, id, text, strlen(text));
}

static void put_buf(StrBuf *out, uint32_t id, const StrBuf *part) {
    put_bytes(out, id, part->data ? part->data : "", part->len_bytes);
}

static int decode(const StrBuf *body, FrameFault *fault) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;

    return frame_decode_request((const uint8_t *)body->data, body->len_bytes, &request, fault);
}

/* Decodes a generate request with the given inner bytes, under request id 7. */
static int decode_generate(const StrBuf *generate, FrameFault *fault) {
    _cleanup_(str_buf_deinit) StrBuf body = STR_BUF_NULL;

    put_number(&body, 1, 7);
    put_buf(&body, 3, generate);
    return decode(&body, fault);
}

/* Makes a request that uses every kind of field. */
static void make_generate(uint8_t **framep, size_t *len_bytesp) {
    Coordgen__V1__Message one = COORDGEN__V1__MESSAGE__INIT, two = COORDGEN__V1__MESSAGE__INIT;
    Coordgen__V1__Message *list[] = { &one, &two };
    Coordgen__V1__Messages messages = COORDGEN__V1__MESSAGES__INIT;
    Coordgen__V1__SamplingOptions sampling = COORDGEN__V1__SAMPLING_OPTIONS__INIT;
    Coordgen__V1__GenerateRequest generate = COORDGEN__V1__GENERATE_REQUEST__INIT;
    Coordgen__V1__Request request = COORDGEN__V1__REQUEST__INIT;
    static char system_text[] = "Sei kurz. \xe2\x82\xac \xf0\x9f\x99\x82", stop_lines[] = "\n\n", stop_end[] = "END",
                empty[] = "";
    char *stops[] = { stop_lines, stop_end };

    one.has_role = two.has_role = true;
    one.role = COORDGEN__V1__ROLE__ROLE_SYSTEM;
    one.text = system_text;
    two.role = COORDGEN__V1__ROLE__ROLE_USER;
    two.text = empty;
    messages.n_message = 2;
    messages.message = list;
    sampling.has_temperature = sampling.has_seed = sampling.has_top_k = true;
    sampling.temperature = 0.75f;
    sampling.seed = UINT64_MAX;
    sampling.top_k = UINT32_MAX;
    generate.input_case = COORDGEN__V1__GENERATE_REQUEST__INPUT_MESSAGES;
    generate.messages = &messages;
    generate.sampling = &sampling;
    generate.has_max_tokens = generate.has_want_tokens = true;
    generate.max_tokens = 300;
    generate.want_tokens = true;
    generate.n_stop = 2;
    generate.stop = stops;
    request.has_request_id = true;
    request.request_id = 300;
    request.op_case = COORDGEN__V1__REQUEST__OP_GENERATE;
    request.generate = &generate;
    assert_int_equal(frame_encode(&request.base, framep, len_bytesp, NULL), 0);
}

/* ---- framing ----------------------------------------------------------------------------------------------------- */

static void test_frame_round_trip(void **state) {
    _cleanup_(freep) uint8_t *frame = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;
    size_t len_bytes, body_bytes, needed;
    FrameFault fault;

    make_generate(&frame, &len_bytes);
    assert_int_equal(frame_peek(frame, len_bytes, FRAME_MAX_BYTES, &body_bytes, &needed, NULL), 0);
    assert_int_equal(body_bytes, len_bytes - FRAME_HEADER_BYTES);
    assert_int_equal(frame_decode_request(frame + FRAME_HEADER_BYTES, body_bytes, &request, &fault), 0);
    assert_int_equal(fault.request_id, 300);
    assert_int_equal(request->request_id, 300);
    assert_int_equal(request->generate->messages->n_message, 2);
    assert_string_equal(request->generate->messages->message[0]->text, "Sei kurz. \xe2\x82\xac \xf0\x9f\x99\x82");
    assert_true(request->generate->sampling->temperature == 0.75f);
    assert_true(request->generate->sampling->seed == UINT64_MAX);
    assert_string_equal(request->generate->stop[1], "END");
    assert_int_equal(proto_check_request(request, &fault), 0);
}

/* Every prefix of a stream asks for more bytes, with their number, and is never read past its end. */
static void test_frame_every_prefix(void **state) {
    _cleanup_(freep) uint8_t *frame = NULL;
    size_t len_bytes, body_bytes, needed;

    make_generate(&frame, &len_bytes);
    for (size_t n = 0; n < len_bytes; n++) {
        _cleanup_(freep) uint8_t *part = malloc(n ? n : 1); /* exactly n bytes: a sanitizer sees a read past them */

        memcpy(part, frame, n);
        assert_int_equal(frame_peek(part, n, FRAME_MAX_BYTES, &body_bytes, &needed, NULL), FRAME_E_MORE);
        assert_int_equal(needed, n < FRAME_HEADER_BYTES ? FRAME_HEADER_BYTES : len_bytes);
    }
}

/* A body that is cut anywhere is refused without a read past its end. Cut between two fields, it may be a smaller valid
 * message. */
static void test_frame_every_cut_body(void **state) {
    _cleanup_(freep) uint8_t *frame = NULL;
    size_t len_bytes, n_refused = 0;

    make_generate(&frame, &len_bytes);
    for (size_t n = 0; n < len_bytes - FRAME_HEADER_BYTES; n++) {
        _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;
        _cleanup_(freep) uint8_t *part = malloc(n ? n : 1);
        FrameFault fault;
        int r;

        memcpy(part, frame + FRAME_HEADER_BYTES, n);
        r = frame_decode_request(part, n, &request, &fault);
        assert_true(r == FRAME_E_MALFORMED || (r == FRAME_E_MISSING && (n == 0 || n == 3)));
        n_refused += r == FRAME_E_MALFORMED;
    }
    assert_int_equal(n_refused, len_bytes - FRAME_HEADER_BYTES - 2);
}

static void test_frame_reader_split_points(void **state) {
    _cleanup_(freep) uint8_t *frame = NULL;
    _cleanup_(freep) uint8_t *stream = NULL;
    size_t len_bytes;

    make_generate(&frame, &len_bytes);
    stream = malloc(3 * len_bytes);
    for (unsigned i = 0; i < 3; i++)
        memcpy(stream + i * len_bytes, frame, len_bytes);
    for (size_t step = 1; step <= 3 * len_bytes; step++) {
        _cleanup_(frame_reader_deinit) FrameReader reader = { 0 };
        unsigned n_frames = 0;

        for (size_t at = 0; at < 3 * len_bytes; at += step) {
            size_t n = MIN(3 * len_bytes - at, step), room_bytes, body_bytes;
            const uint8_t *body;
            uint8_t *room;
            int r;

            assert_int_equal(frame_reader_room(&reader, n, &room, &room_bytes), 0);
            assert_true(room_bytes >= n);
            memcpy(room, stream + at, n);
            frame_reader_filled(&reader, n);
            while (!(r = frame_reader_next(&reader, &body, &body_bytes, NULL))) {
                assert_int_equal(body_bytes, len_bytes - FRAME_HEADER_BYTES);
                assert_memory_equal(body, frame + FRAME_HEADER_BYTES, body_bytes);
                n_frames++;
            }
            assert_int_equal(r, FRAME_E_MORE);
        }
        assert_int_equal(n_frames, 3);
    }
}

static void test_frame_cap(void **state) {
    uint8_t header[4] = { 0x01, 0x00, 0x40, 0x00 }; /* 4 MiB + 1 */
    size_t body_bytes = 77, needed = 77;
    ErrText err = { 0 };

    assert_int_equal(frame_peek(header, 4, FRAME_MAX_BYTES, &body_bytes, &needed, &err), FRAME_E_TOO_LARGE);
    assert_non_null(strstr(err.text, "4194305"));
    assert_int_equal(body_bytes, 77);
    header[0] = 0;
    assert_int_equal(frame_peek(header, 4, FRAME_MAX_BYTES, &body_bytes, &needed, &err), FRAME_E_MORE);
    assert_int_equal(needed, FRAME_MAX_BYTES + 4);
    memset(header, 0xff, 4);
    assert_int_equal(frame_peek(header, 4, FRAME_MAX_BYTES, &body_bytes, &needed, &err), FRAME_E_TOO_LARGE);
    memset(header, 0, 4);
    assert_int_equal(frame_peek(header, 4, FRAME_MAX_BYTES, &body_bytes, &needed, &err), FRAME_E_MISSING);
}

static void test_frame_encode_cap(void **state) {
    Coordgen__V1__Request request = COORDGEN__V1__REQUEST__INIT;
    Coordgen__V1__GenerateRequest generate = COORDGEN__V1__GENERATE_REQUEST__INIT;
    _cleanup_(freep) char *prompt = malloc(FRAME_MAX_BYTES + 1);
    _cleanup_(freep) uint8_t *frame = NULL;
    size_t len_bytes;
    ErrText err;

    memset(prompt, 'a', FRAME_MAX_BYTES);
    prompt[FRAME_MAX_BYTES] = 0;
    generate.input_case = COORDGEN__V1__GENERATE_REQUEST__INPUT_PROMPT;
    generate.prompt = prompt;
    request.op_case = COORDGEN__V1__REQUEST__OP_GENERATE;
    request.generate = &generate;
    assert_int_equal(frame_encode(&request.base, &frame, &len_bytes, &err), FRAME_E_TOO_LARGE);
    assert_null(frame);
    prompt[FRAME_MAX_BYTES - 10] = 0; /* two tags and two lengths of 4 bytes */
    assert_int_equal(frame_encode(&request.base, &frame, &len_bytes, &err), 0);
    assert_int_equal(len_bytes, FRAME_HEADER_BYTES + FRAME_MAX_BYTES);
}

/* ---- refused messages -------------------------------------------------------------------------------------------- */

static void test_frame_unknown_field_at_any_depth(void **state) {
    _cleanup_(str_buf_deinit) StrBuf top = STR_BUF_NULL, generate = STR_BUF_NULL, sampling = STR_BUF_NULL;
    FrameFault fault;

    put_number(&top, 1, 9);
    put_bytes(&top, 99, "", 0);
    assert_int_equal(decode(&top, &fault), FRAME_E_UNKNOWN_FIELD);
    assert_int_equal(fault.request_id, 9);
    assert_string_equal(fault.field, "");
    assert_non_null(strstr(fault.err.text, "99"));
    assert_non_null(strstr(fault.err.text, "Request"));

    put_number(&sampling, 44, 1);
    put_buf(&generate, 4, &sampling);
    assert_int_equal(decode_generate(&generate, &fault), FRAME_E_UNKNOWN_FIELD);
    assert_int_equal(fault.request_id, 7);
    assert_string_equal(fault.field, "generate.sampling");
    assert_non_null(strstr(fault.err.text, "SamplingOptions"));
    assert_non_null(strstr(fault.err.text, "44"));
    assert_int_equal(frame_error_code(FRAME_E_UNKNOWN_FIELD), COORDGEN__V1__ERROR_CODE__ERROR_CODE_UNKNOWN_OPTION);
    assert_false(frame_e_is_fatal(FRAME_E_UNKNOWN_FIELD));
}

static void test_frame_enum_outside(void **state) {
    _cleanup_(str_buf_deinit) StrBuf message = STR_BUF_NULL, messages = STR_BUF_NULL, generate = STR_BUF_NULL;
    FrameFault fault;

    put_bytes(&messages, 1, "", 0);
    put_number(&message, 1, 5);
    put_buf(&messages, 1, &message);
    put_buf(&generate, 2, &messages);
    assert_int_equal(decode_generate(&generate, &fault), FRAME_E_UNKNOWN_ENUM);
    assert_string_equal(fault.field, "generate.messages.message[1].role");
}

static void check_text(const char *bytes, size_t len_bytes, int expected) {
    _cleanup_(str_buf_deinit) StrBuf generate = STR_BUF_NULL;
    FrameFault fault;

    put_bytes(&generate, 3, bytes, len_bytes);
    assert_int_equal(decode_generate(&generate, &fault), expected);
    if (expected)
        assert_string_equal(fault.field, "generate.prompt");
}

static void test_frame_text(void **state) {
    static const struct {
        const char *bytes;
        size_t len_bytes;
        int expected;
    } cases[] = {
        { "", 0, 0 },
        { "\xf4\x8f\xbf\xbf", 4, 0 },
        { "\xed\x9f\xbf\xee\x80\x80", 6, 0 },
        { "a\0b", 3, FRAME_E_TEXT },
        { "\0", 1, FRAME_E_TEXT },
        { "a\0", 2, FRAME_E_TEXT },
        { "\x80", 1, FRAME_E_TEXT },
        { "\xc0\x80", 2, FRAME_E_TEXT }, /* overlong NUL */
        { "\xc1\xbf", 2, FRAME_E_TEXT },
        { "\xe0\x9f\xbf", 3, FRAME_E_TEXT },     /* overlong */
        { "\xed\xa0\x80", 3, FRAME_E_TEXT },     /* surrogate */
        { "\xf0\x8f\xbf\xbf", 4, FRAME_E_TEXT }, /* overlong */
        { "\xf4\x90\x80\x80", 4, FRAME_E_TEXT }, /* past U+10FFFF */
        { "\xf5\x80\x80\x80", 4, FRAME_E_TEXT },
        { "\xe2\x82", 2, FRAME_E_TEXT }, /* cut off */
        { "\xe2\x82z", 3, FRAME_E_TEXT },
        { "\xff", 1, FRAME_E_TEXT },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check_text(cases[i].bytes, cases[i].len_bytes, cases[i].expected);
}

static void test_frame_twice(void **state) {
    _cleanup_(str_buf_deinit) StrBuf two_ops = STR_BUF_NULL, two_ids = STR_BUF_NULL, two_inputs = STR_BUF_NULL;
    FrameFault fault;

    put_number(&two_ops, 1, 5);
    put_bytes(&two_ops, 7, "", 0);
    put_bytes(&two_ops, 8, "", 0);
    assert_int_equal(decode(&two_ops, &fault), FRAME_E_TWICE);
    assert_string_equal(fault.field, "model_list");
    assert_true(frame_e_is_fatal(FRAME_E_TWICE));

    put_number(&two_ids, 1, 5);
    put_number(&two_ids, 1, 6);
    put_bytes(&two_ids, 7, "", 0);
    assert_int_equal(decode(&two_ids, &fault), FRAME_E_TWICE);
    assert_string_equal(fault.field, "request_id");

    put_text(&two_inputs, 3, "x");
    put_bytes(&two_inputs, 2, "", 0);
    assert_int_equal(decode_generate(&two_inputs, &fault), FRAME_E_TWICE);
    assert_string_equal(fault.field, "generate.messages");
}

static void test_frame_range(void **state) {
    _cleanup_(str_buf_deinit) StrBuf max_tokens = STR_BUF_NULL, flag = STR_BUF_NULL, role = STR_BUF_NULL;
    _cleanup_(str_buf_deinit) StrBuf messages = STR_BUF_NULL, generate = STR_BUF_NULL;
    FrameFault fault;

    put_number(&max_tokens, 5, UINT64_C(1) << 32); /* protobuf-c would make 0 of it */
    assert_int_equal(decode_generate(&max_tokens, &fault), FRAME_E_RANGE);
    assert_string_equal(fault.field, "generate.max_tokens");
    put_number(&flag, 8, 2);
    assert_int_equal(decode_generate(&flag, &fault), FRAME_E_RANGE);
    put_number(&role, 1, (UINT64_C(1) << 32) + 1); /* would be cut to ROLE_SYSTEM */
    put_buf(&messages, 1, &role);
    put_buf(&generate, 2, &messages);
    assert_int_equal(decode_generate(&generate, &fault), FRAME_E_RANGE);
    assert_string_equal(fault.field, "generate.messages.message[0].role");
}

static void test_frame_malformed(void **state) {
    static const struct {
        const char *bytes;
        size_t len_bytes;
    } cases[] = {
        { "\x08", 1 },                                              /* no value */
        { "\x08\x80", 2 },                                          /* a varint that goes on */
        { "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11 },     /* 65 bits */
        { "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12 }, /* 11 bytes */
        { "\x00\x00", 2 },                                          /* field 0 */
        { "\xf8\xff\xff\xff\xff\x01\x00", 7 },                      /* field number past 2^29 */
        { "\x0a\x00", 2 },                                          /* request_id as bytes */
        { "\x09\0\0\0\0\0\0\0\0", 9 },                              /* request_id as 64 bits */
        { "\x0b\x0c", 2 },                                          /* group */
        { "\x0f\x00", 2 },                                          /* wire type 7 */
        { "\x38\x01", 2 },                                          /* status as a number */
        { "\x3a\x05", 2 },                                          /* length past the end */
        { "\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 },     /* length of 2^64 - 1 */
        { "\x1a\x04\x22\x02\x0d\x00", 6 },                          /* generate.sampling.temperature cut off */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;
        FrameFault fault;

        assert_int_equal(frame_decode_request((const uint8_t *)cases[i].bytes, cases[i].len_bytes, &request, &fault),
                         FRAME_E_MALFORMED);
        assert_null(request);
        assert_true(fault.err.text[0]);
    }
}

static void test_frame_missing_operation(void **state) {
    _cleanup_(str_buf_deinit) StrBuf body = STR_BUF_NULL;
    FrameFault fault;

    put_number(&body, 1, 5);
    assert_int_equal(decode(&body, &fault), FRAME_E_MISSING);
    assert_int_equal(fault.request_id, 5);
}

/* Two bytes on the wire become a structure. The budget stops decoding, and allocated memory is freed again. */
static void test_frame_budget(void **state) {
    _cleanup_(str_buf_deinit) StrBuf messages = STR_BUF_NULL, generate = STR_BUF_NULL;
    FrameFault fault;

    for (size_t i = 0; i < 100000; i++)
        put_bytes(&messages, 1, "", 0);
    put_buf(&generate, 2, &messages);
    assert_int_equal(decode_generate(&generate, &fault), FRAME_E_BUDGET);
    assert_non_null(strstr(fault.err.text, "budget"));
}

/* A message that would take slightly more than the budget of its length is refused. */
static void test_frame_budget_is_what_it_says(void **state) {
    _cleanup_(str_buf_deinit) StrBuf messages = STR_BUF_NULL, generate = STR_BUF_NULL;
    FrameFault fault;
    size_t n = 0;

    do
        put_bytes(&messages, 1, "", 0);
    while (++n < 100000 && n * sizeof(Coordgen__V1__Message) <= frame_decode_budget_bytes(messages.len_bytes + 64));
    assert_in_range(n, 100, 99999); /* their number is not the limit */
    put_buf(&generate, 2, &messages);
    assert_int_equal(decode_generate(&generate, &fault), FRAME_E_BUDGET);
}

static void test_frame_budget_admits_the_longest_texts_and_tokens(void **state) {
    _cleanup_(str_buf_deinit) StrBuf tokens = STR_BUF_NULL, detokenize = STR_BUF_NULL, body = STR_BUF_NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;
    FrameFault fault;

    for (size_t i = 0; i < PROTO_TOKENS_MAX; i++)
        put_varint(&tokens, i & 0x7f); /* one byte each: the worst case of packed numbers */
    put_buf(&detokenize, 2, &tokens);
    put_number(&body, 1, 1);
    put_buf(&body, 6, &detokenize);
    assert_int_equal(frame_decode_request((const uint8_t *)body.data, body.len_bytes, &request, &fault), 0);
    assert_int_equal(request->detokenize->n_tokens, PROTO_TOKENS_MAX);
    assert_int_equal(request->detokenize->tokens[129], 1);
}

/* The maximum number of messages in a request, of one byte each or (which an API may send) empty. */
static void test_frame_budget_admits_the_most_messages(void **state) {
    FrameFault fault;

    for (size_t text_bytes = 0; text_bytes < 3; text_bytes++)
        for (size_t n = 1; n <= PROTO_MESSAGES_MAX; n += n < 64 ? 1 : 63) {
            _cleanup_(str_buf_deinit) StrBuf messages = STR_BUF_NULL, generate = STR_BUF_NULL, message = STR_BUF_NULL;

            put_number(&message, 1, COORDGEN__V1__ROLE__ROLE_USER);
            put_bytes(&message, 2, "ab", text_bytes);
            for (size_t i = 0; i < n; i++)
                put_buf(&messages, 1, &message);
            put_buf(&generate, 2, &messages);
            if (decode_generate(&generate, &fault))
                fail_msg("%zu messages of %zu bytes: %s", n, text_bytes, fault.err.text);
        }
}

static void test_frame_budget_admits_short_pieces(void **state) {
    _cleanup_(str_buf_deinit) StrBuf reply = STR_BUF_NULL, body = STR_BUF_NULL;
    _cleanup_(frame_response_freep) Coordgen__V1__Response *response = NULL;
    FrameFault fault;

    for (size_t i = 0; i < 300000; i++)
        put_bytes(&reply, 2, "a", 1);
    put_number(&body, 1, 1);
    put_buf(&body, 7, &reply);
    assert_int_equal(frame_decode_response((const uint8_t *)body.data, body.len_bytes, &response, &fault), 0);
    assert_int_equal(response->tokenize->n_pieces, 300000);
}

static void test_proto_allocator_negative(void **state) {
    ProtoAllocator allocator;
    void *memory;

    proto_allocator_init(&allocator, 100, 2);
    memory = allocator.base.alloc(&allocator, 100);
    assert_null(memory); /* the overhead counts */
    assert_true(allocator.budget_passed);
    proto_allocator_init(&allocator, 100, 1);
    memory = allocator.base.alloc(&allocator, 84);
    assert_non_null(memory);
    assert_false(allocator.budget_passed);
    assert_null(allocator.base.alloc(&allocator, 0));
    assert_true(allocator.budget_passed);
    allocator.base.free(&allocator, memory);
    proto_allocator_init(&allocator, SIZE_MAX, 9);
    assert_null(allocator.base.alloc(&allocator, SIZE_MAX));
}

/* A newer service may send unknown fields, but not malformed ones. */
static void test_frame_response_is_lenient_on_the_unknown(void **state) {
    _cleanup_(str_buf_deinit) StrBuf error = STR_BUF_NULL, body = STR_BUF_NULL;
    _cleanup_(frame_response_freep) Coordgen__V1__Response *response = NULL;
    _cleanup_(frame_response_freep) Coordgen__V1__Response *none = NULL;
    FrameFault fault;

    put_number(&error, 1, 4711);
    put_text(&error, 900, "later");
    put_number(&body, 1, 3);
    put_buf(&body, 2, &error);
    put_tag(&body, 901, 5);
    str_buf_append(&body, "1234", 4);
    assert_int_equal(frame_decode_response((const uint8_t *)body.data, body.len_bytes, &response, &fault), 0);
    assert_int_equal(response->error->code, 4711);
    put_tag(&body, 902, 5);
    str_buf_append(&body, "123", 3);
    assert_int_equal(frame_decode_response((const uint8_t *)body.data, body.len_bytes, &none, &fault),
                     FRAME_E_MALFORMED);
    str_buf_truncate(&body, 2);
    assert_int_equal(frame_decode_response((const uint8_t *)body.data, body.len_bytes, &none, &fault), FRAME_E_MISSING);
}

static void test_frame_delta_text_may_hold_nul(void **state) {
    Coordgen__V1__GenerateDelta delta = COORDGEN__V1__GENERATE_DELTA__INIT;
    Coordgen__V1__Response out = COORDGEN__V1__RESPONSE__INIT;
    _cleanup_(frame_response_freep) Coordgen__V1__Response *in = NULL;
    _cleanup_(freep) uint8_t *frame = NULL;
    size_t len_bytes;
    FrameFault fault;

    delta.has_text = true;
    delta.text = (ProtobufCBinaryData){ .data = (uint8_t *)"a\0b", .len = 3 };
    out.op_case = COORDGEN__V1__RESPONSE__OP_GENERATE_DELTA;
    out.generate_delta = &delta;
    assert_int_equal(frame_encode(&out.base, &frame, &len_bytes, NULL), 0);
    assert_int_equal(frame_decode_response(frame + 4, len_bytes - 4, &in, &fault), 0);
    assert_int_equal(in->generate_delta->text.len, 3);
    assert_memory_equal(in->generate_delta->text.data, "a\0b", 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame_round_trip),
        cmocka_unit_test(test_frame_every_prefix),
        cmocka_unit_test(test_frame_every_cut_body),
        cmocka_unit_test(test_frame_reader_split_points),
        cmocka_unit_test(test_frame_cap),
        cmocka_unit_test(test_frame_encode_cap),
        cmocka_unit_test(test_frame_unknown_field_at_any_depth),
        cmocka_unit_test(test_frame_enum_outside),
        cmocka_unit_test(test_frame_text),
        cmocka_unit_test(test_frame_twice),
        cmocka_unit_test(test_frame_range),
        cmocka_unit_test(test_frame_malformed),
        cmocka_unit_test(test_frame_missing_operation),
        cmocka_unit_test(test_frame_budget),
        cmocka_unit_test(test_frame_budget_is_what_it_says),
        cmocka_unit_test(test_frame_budget_admits_the_longest_texts_and_tokens),
        cmocka_unit_test(test_frame_budget_admits_the_most_messages),
        cmocka_unit_test(test_frame_budget_admits_short_pieces),
        cmocka_unit_test(test_proto_allocator_negative),
        cmocka_unit_test(test_frame_response_is_lenient_on_the_unknown),
        cmocka_unit_test(test_frame_delta_text_may_hold_nul),
    };

    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
