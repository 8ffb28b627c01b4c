// SPDX-License-Identifier: Apache-2.0
#include "proto/wire_check.h"

#include <stdio.h>
#include <string.h>

#include "base/strings/utf8.h"

/* The path down to the message that is being checked. */
typedef struct Walk {
    const ProtobufCFieldDescriptor *path[WIRE_DEPTH_MAX];
    uint32_t index[WIRE_DEPTH_MAX]; /* the element of a repeated field */
    unsigned depth;
    bool strict;
    FrameFault *fault;
} Walk;

/* Writes the path, as "messages.message[3].text". */
static void path_print(const Walk *walk, char *out, size_t room_bytes) {
    size_t len_bytes = 0;

    out[0] = 0;
    for (unsigned i = 0; i < walk->depth; i++) {
        bool repeated = walk->path[i]->label == PROTOBUF_C_LABEL_REPEATED;
        int n = snprintf(out + len_bytes, room_bytes - len_bytes, repeated ? "%s%s[%u]" : "%s%s", i ? "." : "",
                         walk->path[i]->name, walk->index[i]);

        if (n < 0 || (size_t)n >= room_bytes - len_bytes)
            return;
        len_bytes += (size_t)n;
    }
}

static int refuse(Walk *walk, int code, const char *what) {
    path_print(walk, walk->fault->field, sizeof(walk->fault->field));
    return err_set(&walk->fault->err, code, "%s: %s", walk->depth ? walk->fault->field : "message", what);
}

/* Reads a varint: base 128, low groups first, at most 10 bytes and 64 bits. */
static bool varint_read(const uint8_t **atp, const uint8_t *end, uint64_t *valuep) {
    const uint8_t *at = *atp;
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 70 && at < end; shift += 7) {
        uint8_t byte = *at++;

        if (shift == 63 && byte > 1)
            return false;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *atp = at;
            *valuep = value;
            return true;
        }
    }
    return false;
}

static int message_check(Walk *walk, const uint8_t *at, const uint8_t *end,
                         const ProtobufCMessageDescriptor *descriptor);

static ProtobufCWireType wire_type_of(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return PROTOBUF_C_WIRE_TYPE_32BIT;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return PROTOBUF_C_WIRE_TYPE_64BIT;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
    default:
        return PROTOBUF_C_WIRE_TYPE_VARINT;
    }
}

/* Refuses a varint that does not fit its field; protobuf-c would cut it silently. */
static int varint_check(Walk *walk, const ProtobufCFieldDescriptor *field, uint64_t value) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_SINT32:
        return value > UINT32_MAX ? refuse(walk, FRAME_E_RANGE, "the number does not fit 32 bits") : 0;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM:
        if (value > INT32_MAX && value < (uint64_t)INT32_MIN)
            return refuse(walk, FRAME_E_RANGE, "the number does not fit 32 bits");
        if (walk->strict && field->type == PROTOBUF_C_TYPE_ENUM &&
            !protobuf_c_enum_descriptor_get_value(field->descriptor, (int)(int64_t)value)) {
            char what[96];
            snprintf(what, sizeof(what), "%lld is not a value of %.48s", (long long)value,
                     ((const ProtobufCEnumDescriptor *)field->descriptor)->short_name);
            return refuse(walk, FRAME_E_UNKNOWN_ENUM, what);
        }
        return 0;
    case PROTOBUF_C_TYPE_BOOL:
        return value > 1 ? refuse(walk, FRAME_E_RANGE, "a truth value is 0 or 1") : 0;
    default:
        return 0;
    }
}

/* Checks a value without a length prefix. */
static int scalar_check(Walk *walk, const ProtobufCFieldDescriptor *field, ProtobufCWireType wire_type,
                        const uint8_t **atp, const uint8_t *end) {
    size_t width_bytes = wire_type == PROTOBUF_C_WIRE_TYPE_64BIT ? 8 : 4;
    uint64_t value;

    if (wire_type == PROTOBUF_C_WIRE_TYPE_VARINT) {
        if (!varint_read(atp, end, &value))
            return refuse(walk, FRAME_E_MALFORMED, "a number that is cut off or longer than 64 bits");
        return field ? varint_check(walk, field, value) : 0;
    }
    if ((size_t)(end - *atp) < width_bytes)
        return refuse(walk, FRAME_E_MALFORMED, "the message ends inside a number");
    *atp += width_bytes;
    return 0;
}

/* Checks a length-prefixed value: text, bytes, a message, or packed numbers. */
static int prefixed_check(Walk *walk, const ProtobufCFieldDescriptor *field, const uint8_t **atp, const uint8_t *end) {
    const uint8_t *at = *atp;
    uint64_t len_bytes;
    int r;

    if (!varint_read(&at, end, &len_bytes) || len_bytes > (uint64_t)(end - at))
        return refuse(walk, FRAME_E_MALFORMED, "a length that passes the end of the message");
    *atp = at + len_bytes;
    if (!field)
        return 0;
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return message_check(walk, at, at + len_bytes, field->descriptor);
    case PROTOBUF_C_TYPE_BYTES:
        return 0;
    case PROTOBUF_C_TYPE_STRING:
        /* protobuf-c makes a C string of the text, which a NUL would cut silently. */
        if (len_bytes && memchr(at, 0, len_bytes))
            return refuse(walk, FRAME_E_TEXT, "the text holds a NUL byte: remove it");
        if (!utf8_is_valid(at, len_bytes))
            return refuse(walk, FRAME_E_TEXT, "the text is not valid UTF-8: convert it");
        return 0;
    default:
        for (const uint8_t *stop = at + len_bytes; at < stop;) {
            r = scalar_check(walk, field, wire_type_of(field->type), &at, stop);
            if (r)
                return r;
        }
        return 0;
    }
}

static int field_check(Walk *walk, const ProtobufCFieldDescriptor *field, ProtobufCWireType wire_type,
                       const uint8_t **atp, const uint8_t *end) {
    ProtobufCWireType expected = wire_type_of(field->type);
    bool packed = field->label == PROTOBUF_C_LABEL_REPEATED && expected != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED &&
                  wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;

    if (wire_type != expected && !packed)
        return refuse(walk, FRAME_E_MALFORMED, "the value has the wire type of another kind of field");
    return wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED ? prefixed_check(walk, field, atp, end)
                                                             : scalar_check(walk, field, wire_type, atp, end);
}

/* Refuses a singular field, or a oneof, that the message has already had. place: the field's index in the descriptor.
 * */
static int seen_check(Walk *walk, const ProtobufCMessageDescriptor *descriptor, unsigned place, uint64_t *seen) {
    const ProtobufCFieldDescriptor *field = &descriptor->fields[place];

    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return 0;
    if (*seen >> place & 1)
        return refuse(walk, FRAME_E_TWICE, "the field is given twice");
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        for (unsigned i = 0; i < descriptor->n_fields; i++)
            if (*seen >> i & 1 && descriptor->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
                descriptor->fields[i].quantifier_offset == field->quantifier_offset)
                return refuse(walk, FRAME_E_TWICE, "only one field of its group may be given");
    *seen |= (uint64_t)1 << place;
    return 0;
}

static int unknown_check(Walk *walk, const ProtobufCMessageDescriptor *descriptor, uint64_t id,
                         ProtobufCWireType wire_type, const uint8_t **atp, const uint8_t *end) {
    char what[128];

    if (walk->strict) {
        snprintf(what, sizeof(what), "field number %llu is not known to %.48s of this version", (unsigned long long)id,
                 descriptor->short_name);
        return refuse(walk, FRAME_E_UNKNOWN_FIELD, what);
    }
    switch (wire_type) {
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        return prefixed_check(walk, NULL, atp, end);
    case PROTOBUF_C_WIRE_TYPE_VARINT:
    case PROTOBUF_C_WIRE_TYPE_64BIT:
    case PROTOBUF_C_WIRE_TYPE_32BIT:
        return scalar_check(walk, NULL, wire_type, atp, end);
    default:
        return refuse(walk, FRAME_E_MALFORMED, "a wire type that does not exist");
    }
}

/* The descriptors are not recursive and so bound the depth; the cap guards later versions of them. */
static int message_check(Walk *walk, const uint8_t *at, const uint8_t *end,
                         const ProtobufCMessageDescriptor *descriptor) {
    uint32_t repeats[64] = { 0 };
    uint64_t seen = 0;
    int r;

    if (walk->depth == WIRE_DEPTH_MAX || descriptor->n_fields > 64)
        return refuse(walk, FRAME_E_MALFORMED, "messages are nested too deeply");
    while (at < end) {
        const ProtobufCFieldDescriptor *field;
        ProtobufCWireType wire_type;
        uint64_t tag;
        unsigned place;

        if (!varint_read(&at, end, &tag) || !(tag >> 3) || tag > UINT32_MAX)
            return refuse(walk, FRAME_E_MALFORMED, "a field number that is cut off or outside 1..536870911");
        wire_type = (ProtobufCWireType)(tag & 7);
        field = protobuf_c_message_descriptor_get_field(descriptor, (unsigned)(tag >> 3));
        if (!field) {
            r = unknown_check(walk, descriptor, tag >> 3, wire_type, &at, end);
            if (r)
                return r;
            continue;
        }
        place = (unsigned)(field - descriptor->fields);
        walk->path[walk->depth] = field;
        walk->index[walk->depth] = repeats[place]++;
        walk->depth++;
        r = seen_check(walk, descriptor, place, &seen);
        if (!r)
            r = field_check(walk, field, wire_type, &at, end);
        if (r)
            return r;
        walk->depth--;
    }
    return 0;
}

/**
 * wire_check() - refuse everything in packed bytes that protobuf-c would drop, cut, merge or guess at
 * @strict: true: refuse field numbers and enum values that the descriptor lacks, because a service never ignores an
 *          option; false: pass them, because a newer service may tell more than this library knows
 *
 * Reads the bytes once, allocates nothing. A field that is not repeated may be given once only, unlike in protobuf's
 * merging rules.
 * Return: 0 or FRAME_E_MALFORMED, _TWICE, _UNKNOWN_FIELD, _UNKNOWN_ENUM, _RANGE, _TEXT; @fault has text and path.
 */
int wire_check(const uint8_t *body, size_t len_bytes, const ProtobufCMessageDescriptor *descriptor, bool strict,
               FrameFault *fault) {
    Walk walk = { .strict = strict, .fault = fault };

    return message_check(&walk, body, body + len_bytes, descriptor);
}
