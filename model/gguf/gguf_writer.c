// SPDX-License-Identifier: Apache-2.0
#include "model/gguf/gguf_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "model/gguf/gguf_private.h"

struct GgufWriter {
    uint32_t alignment;
    StrBuf keys;  /* encoded */
    StrBuf table; /* encoded tensor infos */
    StrBuf head;  /* after gguf_writer_layout() */
    uint64_t n_keys;
    uint64_t *offsets; /* [n_tensors]: offsets in the data section */
    size_t n_tensors, room_tensors;
    uint64_t data_bytes; /* length of the data section so far, padded */
    int error;           /* the first error */
    ErrText error_text;
};

int gguf_writer_new(GgufWriter **writerp, uint32_t alignment, ErrText *err) {
    _cleanup_(gguf_writer_freep) GgufWriter *writer = NULL;

    if (alignment < 8 || (alignment & (alignment - 1)) || alignment > GGUF_ALIGNMENT_MAX)
        return err_set(err, GGUF_WRITER_E_INVALID, "alignment %u: a power of two from 8 to %u is allowed", alignment,
                       GGUF_ALIGNMENT_MAX);
    writer = calloc(1, sizeof(*writer));
    if (!writer)
        return err_set(err, -ENOMEM, "out of memory for a GGUF writer");
    writer->alignment = alignment;
    if (alignment != GGUF_ALIGNMENT_DEFAULT)
        gguf_writer_u32(writer, "general.alignment", alignment);
    *writerp = steal(&writer);
    return 0;
}

GgufWriter *gguf_writer_free(GgufWriter *writer) {
    if (!writer)
        return NULL;
    str_buf_deinit(&writer->keys);
    str_buf_deinit(&writer->table);
    str_buf_deinit(&writer->head);
    free(writer->offsets);
    free(writer);
    return NULL;
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

static void gguf_writer_fail(GgufWriter *writer, const char *what, const char *name) {
    if (!writer->error)
        writer->error = err_set(&writer->error_text, GGUF_WRITER_E_INVALID, "%s: %s", name, what);
}

static void put_u32(StrBuf *buf, uint32_t value) {
    str_buf_append(buf, &value, sizeof(value));
}

static void put_u64(StrBuf *buf, uint64_t value) {
    str_buf_append(buf, &value, sizeof(value));
}

static void put_string(StrBuf *buf, const void *data, size_t len_bytes) {
    put_u64(buf, len_bytes);
    str_buf_append(buf, data, len_bytes);
}

static void put_name(GgufWriter *writer, const char *name, size_t len_bytes, GgufValueType type) {
    put_string(&writer->keys, name, len_bytes);
    put_u32(&writer->keys, type);
    writer->n_keys++;
}

static void put_scalar(GgufWriter *writer, const char *name, GgufValueType type, const void *value, size_t len_bytes) {
    put_name(writer, name, strlen(name), type);
    str_buf_append(&writer->keys, value, len_bytes);
}

void gguf_writer_u32(GgufWriter *writer, const char *name, uint32_t value) {
    put_scalar(writer, name, GGUF_U32, &value, sizeof(value));
}

void gguf_writer_u64(GgufWriter *writer, const char *name, uint64_t value) {
    put_scalar(writer, name, GGUF_U64, &value, sizeof(value));
}

void gguf_writer_f32(GgufWriter *writer, const char *name, float value) {
    put_scalar(writer, name, GGUF_F32, &value, sizeof(value));
}

void gguf_writer_bool(GgufWriter *writer, const char *name, bool value) {
    uint8_t byte = value;

    put_scalar(writer, name, GGUF_BOOL, &byte, sizeof(byte));
}

void gguf_writer_string(GgufWriter *writer, const char *name, const char *value) {
    put_name(writer, name, strlen(name), GGUF_STRING);
    put_string(&writer->keys, value, strlen(value));
}

void gguf_writer_strings(GgufWriter *writer, const char *name, const char *const *values, uint64_t n) {
    put_name(writer, name, strlen(name), GGUF_ARRAY);
    put_u32(&writer->keys, GGUF_STRING);
    put_u64(&writer->keys, n);
    for (uint64_t i = 0; i < n; i++)
        put_string(&writer->keys, values[i], strlen(values[i]));
}

void gguf_writer_array(GgufWriter *writer, const char *name, GgufValueType element_type, const void *elements,
                       uint64_t n) {
    uint32_t element_bytes = gguf_value_bytes(element_type);

    if (!element_bytes || n > SIZE_MAX / element_bytes) {
        gguf_writer_fail(writer, "an array of elements without a fixed size, or of too many", name);
        return;
    }
    put_name(writer, name, strlen(name), GGUF_ARRAY);
    put_u32(&writer->keys, element_type);
    put_u64(&writer->keys, n);
    str_buf_append(&writer->keys, elements, (size_t)n * element_bytes);
}

static void copy_array(GgufWriter *writer, const GgufArray *array) {
    put_u32(&writer->keys, array->element_type);
    put_u64(&writer->keys, array->n);
    if (array->element_type != GGUF_STRING) {
        str_buf_append(&writer->keys, array->data, (size_t)array->n * gguf_value_bytes(array->element_type));
        return;
    }
    for (uint64_t i = 0; i < array->n; i++)
        put_string(&writer->keys, array->strings[i].data, array->strings[i].len_bytes);
}

void gguf_writer_copy(GgufWriter *writer, const GgufKey *key) {
    float f32;

    put_name(writer, key->name.data, key->name.len_bytes, key->type);
    switch (key->type) {
    case GGUF_STRING:
        put_string(&writer->keys, key->value.string.data, key->value.string.len_bytes);
        break;
    case GGUF_ARRAY:
        copy_array(writer, &key->value.array);
        break;
    case GGUF_F32:
        f32 = (float)key->value.f64;
        str_buf_append(&writer->keys, &f32, sizeof(f32));
        break;
    case GGUF_BOOL:
        str_buf_append(&writer->keys, key->value.boolean ? "\1" : "\0", 1);
        break;
    default: /* integers and f64: the low bytes of the value are its encoding */
        str_buf_append(&writer->keys, &key->value, gguf_value_bytes(key->type));
    }
}

static uint64_t tensor_len_bytes(uint32_t type, uint32_t n_dims, const uint64_t *ne) {
    uint32_t block_values, block_bytes;
    uint64_t n = 1;

    if (!n_dims || n_dims > GGUF_DIMS_MAX || !ggml_type_block(type, &block_values, &block_bytes) ||
        ne[0] % block_values)
        return 0;
    for (uint32_t d = 0; d < n_dims; d++)
        if (__builtin_mul_overflow(n, ne[d], &n) || n > INT64_MAX / 512)
            return 0;
    return n / block_values * block_bytes;
}

void gguf_writer_tensor(GgufWriter *writer, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *ne) {
    const uint64_t len_bytes = tensor_len_bytes(type, n_dims, ne), offset_bytes = writer->data_bytes;

    if (!len_bytes || !*name || strlen(name) >= GGUF_TENSOR_NAME_MAX || len_bytes > INT64_MAX / 2 - offset_bytes) {
        gguf_writer_fail(writer, "a tensor's name, type or shape is not valid", name);
        return;
    }
    if (writer->n_tensors == writer->room_tensors) {
        size_t room = writer->room_tensors ? 2 * writer->room_tensors : 64;
        uint64_t *offsets = realloc(writer->offsets, room * sizeof(*offsets));

        if (!offsets) {
            if (!writer->error)
                writer->error = err_set(&writer->error_text, -ENOMEM, "out of memory for %zu tensors", room);
            return;
        }
        writer->offsets = offsets;
        writer->room_tensors = room;
    }
    writer->offsets[writer->n_tensors++] = offset_bytes;
    writer->data_bytes += (len_bytes + writer->alignment - 1) & ~(uint64_t)(writer->alignment - 1);

    put_string(&writer->table, name, strlen(name));
    put_u32(&writer->table, n_dims);
    for (uint32_t d = 0; d < n_dims; d++)
        put_u64(&writer->table, ne[d]);
    put_u32(&writer->table, type);
    put_u64(&writer->table, offset_bytes);
}

/**
 * gguf_writer_layout() - end the tables; the head is ready and every place in the file is known
 *
 * Duplicate names are not looked for: the reader finds them when the file is opened.
 *
 * Return: 0, GGUF_WRITER_E_INVALID, or -ENOMEM.
 */
int gguf_writer_layout(GgufWriter *writer, ErrText *err) {
    StrBuf *head = &writer->head;

    if (writer->error)
        return err_set(err, writer->error, "%s", writer->error_text.text);
    if (writer->n_keys > GGUF_KEYS_MAX || writer->n_tensors > GGUF_TENSORS_MAX)
        return err_set(err, GGUF_WRITER_E_INVALID, "%" PRIu64 " keys and %zu tensors; the limits are %d and %d",
                       writer->n_keys, writer->n_tensors, GGUF_KEYS_MAX, GGUF_TENSORS_MAX);
    str_buf_add(head, "GGUF");
    put_u32(head, 3);
    put_u64(head, writer->n_tensors);
    put_u64(head, writer->n_keys);
    str_buf_append(head, writer->keys.data, writer->keys.len_bytes);
    str_buf_append(head, writer->table.data, writer->table.len_bytes);
    while (head->len_bytes % writer->alignment && !str_buf_failed(head))
        str_buf_append(head, "", 1);
    if (str_buf_failed(head) || str_buf_failed(&writer->keys) || str_buf_failed(&writer->table))
        return err_set(err, -ENOMEM, "out of memory for the head of a GGUF file");
    str_buf_deinit(&writer->keys);
    str_buf_deinit(&writer->table);
    return 0;
}

const StrBuf *gguf_writer_head(const GgufWriter *writer) {
    return &writer->head;
}

uint64_t gguf_writer_tensor_offset(const GgufWriter *writer, size_t index) {
    return writer->head.len_bytes + writer->offsets[index];
}

uint64_t gguf_writer_file_bytes(const GgufWriter *writer) {
    return writer->head.len_bytes + writer->data_bytes;
}
