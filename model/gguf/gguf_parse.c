// SPDX-License-Identifier: Apache-2.0
/* The parser compares every count and length with the bytes left, before it allocates or touches anything for it.
 * Memory thus stays below about five times the size of the metadata, whatever the file claims. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings/printable.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_private.h"

#define AGAIN "; the file is cut short or damaged: download it again"

/* Smallest encodings. Key: a name of one byte and a value of one byte. Tensor: a name, one dimension, type and
 * offset. */
#define KEY_BYTES_MIN (8 + 1 + 4 + 1)
#define TENSOR_BYTES_MIN (8 + 1 + 4 + 8 + 4 + 8)

/* Reading position in the file; at <= file->len_bytes always. */
typedef struct Cursor {
    const GgufFile *file;
    size_t at;
    ErrText *err;
    char where[160]; /* current item, for messages */
} Cursor;

static size_t bytes_left(const Cursor *cursor) {
    return cursor->file->len_bytes - cursor->at;
}

/* Steps over n bytes and checks that all are there; *datap is their start. */
static int take(Cursor *cursor, size_t n, const char *field, const uint8_t **datap) {
    if (n > bytes_left(cursor))
        return err_set(cursor->err, GGUF_E_CORRUPT, "%s: %s: %s needs %zu bytes at byte %zu, the file has %zu" AGAIN,
                       cursor->file->path, cursor->where, field, n, cursor->at, cursor->file->len_bytes);
    *datap = cursor->file->data + cursor->at;
    cursor->at += n;
    return 0;
}

static int take_u32(Cursor *cursor, const char *field, uint32_t *valuep) {
    const uint8_t *data = NULL;
    int r = take(cursor, sizeof(*valuep), field, &data);

    if (!r)
        memcpy(valuep, data, sizeof(*valuep));
    return r;
}

static int take_u64(Cursor *cursor, const char *field, uint64_t *valuep) {
    const uint8_t *data = NULL;
    int r = take(cursor, sizeof(*valuep), field, &data);

    if (!r)
        memcpy(valuep, data, sizeof(*valuep));
    return r;
}

static int take_string(Cursor *cursor, const char *field, GgufString *stringp) {
    const uint8_t *data = NULL;
    uint64_t len_bytes;
    int r;

    r = take_u64(cursor, field, &len_bytes);
    if (r)
        return r;
    if (len_bytes > bytes_left(cursor))
        return err_set(cursor->err, GGUF_E_CORRUPT,
                       "%s: %s: %s has length %" PRIu64 ", %zu bytes are left in the file" AGAIN, cursor->file->path,
                       cursor->where, field, len_bytes, bytes_left(cursor));
    r = take(cursor, (size_t)len_bytes, field, &data);
    if (r)
        return r;
    *stringp = (GgufString){ .data = (const char *)data, .len_bytes = (size_t)len_bytes };
    return 0;
}

/* Checks that a name is not empty, and is text without control bytes: names are compared as bytes and printed. */
static int check_name(Cursor *cursor, const char *field, GgufString name, size_t max_bytes) {
    Printable shown;

    if (!name.len_bytes || name.len_bytes > max_bytes)
        return err_set(cursor->err, GGUF_E_CORRUPT, "%s: %s: %s '%s' has %zu bytes, 1 to %zu are allowed",
                       cursor->file->path, cursor->where, field, printable(&shown, name.data, name.len_bytes),
                       name.len_bytes, max_bytes);
    for (size_t i = 0, n; i < name.len_bytes; i += n) {
        n = utf8_sequence(name.data + i, name.len_bytes - i);
        if (!n || (uint8_t)name.data[i] < 0x20 || name.data[i] == 0x7f)
            return err_set(cursor->err, GGUF_E_CORRUPT,
                           "%s: %s: %s '%s' holds byte 0x%02x at %zu, which is not UTF-8 text" AGAIN,
                           cursor->file->path, cursor->where, field, printable(&shown, name.data, name.len_bytes),
                           (uint8_t)name.data[i], i);
    }
    return 0;
}

static int parse_header(Cursor *cursor, GgufFile *file, uint64_t *n_tensorsp, uint64_t *n_keysp) {
    const uint8_t *magic = NULL;
    int r;

    if (!file->len_bytes)
        return err_set(cursor->err, GGUF_E_CORRUPT, "%s: the file is empty: download it again", file->path);
    r = take(cursor, 4, "the magic", &magic);
    if (r)
        return r;
    if (memcmp(magic, "GGUF", 4)) {
        Printable shown;

        return err_set(cursor->err, GGUF_E_CORRUPT,
                       "%s: not a GGUF file: it starts with '%s' (%02x %02x %02x %02x), not 'GGUF'", file->path,
                       printable(&shown, magic, 4), magic[0], magic[1], magic[2], magic[3]);
    }
    r = take_u32(cursor, "the version", &file->version);
    if (r)
        return r;
    if (file->version && !(file->version & 0xffff))
        return err_set(cursor->err, GGUF_E_UNSUPPORTED,
                       "%s: a big-endian GGUF file (version bytes 0x%08x): use the little-endian file of this model",
                       file->path, file->version);
    if (file->version != 2 && file->version != 3)
        return err_set(cursor->err, GGUF_E_UNSUPPORTED,
                       "%s: GGUF version %u; this program reads version 3 (and 2): get a newer conversion of the model",
                       file->path, file->version);
    r = take_u64(cursor, "the number of tensors", n_tensorsp);
    if (r)
        return r;
    r = take_u64(cursor, "the number of keys", n_keysp);
    if (r)
        return r;
    if (*n_keysp > GGUF_KEYS_MAX || *n_keysp > bytes_left(cursor) / KEY_BYTES_MIN)
        return err_set(cursor->err, GGUF_E_CORRUPT,
                       "%s: header: %" PRIu64 " keys; %zu bytes of file allow %zu, the limit is %d" AGAIN, file->path,
                       *n_keysp, file->len_bytes, bytes_left(cursor) / KEY_BYTES_MIN, GGUF_KEYS_MAX);
    if (*n_tensorsp > GGUF_TENSORS_MAX || *n_tensorsp > bytes_left(cursor) / TENSOR_BYTES_MIN)
        return err_set(cursor->err, GGUF_E_CORRUPT,
                       "%s: header: %" PRIu64 " tensors; %zu bytes of file allow %zu, the limit is %d" AGAIN,
                       file->path, *n_tensorsp, file->len_bytes, bytes_left(cursor) / TENSOR_BYTES_MIN,
                       GGUF_TENSORS_MAX);
    return 0;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static int parse_scalar(Cursor *cursor, GgufKey *key) {
    const uint8_t *data = NULL;
    int r;

    r = take(cursor, gguf_value_bytes(key->type), "the value", &data);
    if (r)
        return r;
    if (key->type == GGUF_BOOL && *data > 1)
        return err_set(cursor->err, GGUF_E_CORRUPT, "%s: %s: a bool of value %u, 0 or 1 is allowed" AGAIN,
                       cursor->file->path, cursor->where, *data);
    gguf_decode_scalar(key, data);
    return 0;
}

static int parse_strings(Cursor *cursor, GgufArray *array) {
    GgufString *strings;
    int r;

    strings = calloc(array->n, sizeof(*strings));
    if (!strings)
        return err_set(cursor->err, -ENOMEM, "%s: %s: out of memory for %" PRIu64 " strings", cursor->file->path,
                       cursor->where, array->n);
    array->strings = strings; /* gguf_free() finds it there, also after an error below */
    for (uint64_t i = 0; i < array->n; i++) {
        uint64_t len_bytes;

        /* Fast path of take_string(), which reports the errors: this loop sees 150,000 tokens and more. */
        if (bytes_left(cursor) >= 8) {
            memcpy(&len_bytes, cursor->file->data + cursor->at, 8);
            if (len_bytes <= bytes_left(cursor) - 8) {
                strings[i] = (GgufString){ (const char *)cursor->file->data + cursor->at + 8, (size_t)len_bytes };
                cursor->at += 8 + (size_t)len_bytes;
                continue;
            }
        }
        r = take_string(cursor, "an array's string", &strings[i]);
        if (r)
            return r;
    }
    return 0;
}

static int parse_array(Cursor *cursor, GgufKey *key) {
    GgufArray *array = &key->value.array;
    uint32_t element_type, element_bytes;
    int r;

    r = take_u32(cursor, "the array's element type", &element_type);
    if (r)
        return r;
    if (element_type == GGUF_ARRAY)
        return err_set(cursor->err, GGUF_E_UNSUPPORTED, "%s: %s: an array of arrays, which this program does not read",
                       cursor->file->path, cursor->where);
    if (element_type >= GGUF_VALUE_TYPE_N)
        return err_set(cursor->err, GGUF_E_CORRUPT, "%s: %s: array element type %u, 0 to 12 are defined" AGAIN,
                       cursor->file->path, cursor->where, element_type);
    array->element_type = (GgufValueType)element_type;
    r = take_u64(cursor, "the array's length", &array->n);
    if (r)
        return r;
    element_bytes = element_type == GGUF_STRING ? 8 : gguf_value_bytes(element_type);
    if (array->n > bytes_left(cursor) / element_bytes)
        return err_set(cursor->err, GGUF_E_CORRUPT,
                       "%s: %s: an array of %" PRIu64 " %s, %zu bytes are left in the file" AGAIN, cursor->file->path,
                       cursor->where, array->n, gguf_value_type_name(element_type), bytes_left(cursor));
    if (!array->n)
        return 0;
    if (element_type == GGUF_STRING)
        return parse_strings(cursor, array);
    r = take(cursor, (size_t)array->n * element_bytes, "the array", &array->data);
    if (r)
        return r;
    if (element_type == GGUF_BOOL)
        for (uint64_t i = 0; i < array->n; i++)
            if (array->data[i] > 1)
                return err_set(cursor->err, GGUF_E_CORRUPT, "%s: %s: element %" PRIu64 " is a bool of value %u" AGAIN,
                               cursor->file->path, cursor->where, i, array->data[i]);
    return 0;
}

/* Adds the key or tensor that the cursor names to its index. */
static int index_name(const Cursor *cursor, TextIndex *index, size_t id) {
    int r = text_index_add(index, (uint32_t)id);

    if (r < 0)
        return err_trace(r);
    return r ? err_set(cursor->err, GGUF_E_CORRUPT,
                       "%s: the names of %s and thousands before it were made to collide in a hash table: refused",
                       cursor->file->path, cursor->where)
             : 0;
}

static int parse_key(Cursor *cursor, GgufFile *file, size_t index, uint64_t n_keys) {
    GgufKey *key = &file->keys[index];
    uint32_t type, twin;
    Printable shown;
    int r;

    snprintf(cursor->where, sizeof(cursor->where), "key %zu of %" PRIu64, index + 1, n_keys);
    r = take_string(cursor, "the name", &key->name);
    if (r)
        return r;
    r = check_name(cursor, "the name", key->name, GGUF_KEY_NAME_MAX);
    if (r)
        return r;
    printable(&shown, key->name.data, key->name.len_bytes);
    snprintf(cursor->where, sizeof(cursor->where), "key '%s'", shown.text);

    twin = text_index_find(&file->key_index, key->name.data, key->name.len_bytes);
    if (twin != UINT32_MAX)
        return err_set(cursor->err, GGUF_E_CORRUPT, "%s: key '%s' is there twice (keys %u and %zu)", file->path,
                       shown.text, twin + 1, index + 1);
    r = take_u32(cursor, "the value's type", &type);
    if (r)
        return r;
    if (type >= GGUF_VALUE_TYPE_N)
        return err_set(cursor->err, GGUF_E_CORRUPT, "%s: key '%s' has value type %u, 0 to 12 are defined" AGAIN,
                       file->path, shown.text, type);
    key->type = (GgufValueType)type;
    file->n_keys = index + 1;
    r = index_name(cursor, &file->key_index, index);
    if (r)
        return r;
    if (type == GGUF_STRING)
        return take_string(cursor, "the value", &key->value.string);
    if (type == GGUF_ARRAY)
        return parse_array(cursor, key);
    return parse_scalar(cursor, key);
}

static int parse_alignment(GgufFile *file, ErrText *err) {
    uint32_t alignment = GGUF_ALIGNMENT_DEFAULT;
    int r;

    r = gguf_get_u32(file, "general.alignment", &alignment, err);
    if (r && r != GGUF_E_MISSING)
        return GGUF_E_CORRUPT;
    if (!alignment || (alignment & (alignment - 1)) || alignment > GGUF_ALIGNMENT_MAX)
        return err_set(err, GGUF_E_CORRUPT, "%s: key 'general.alignment' is %u, a power of two up to %u is allowed",
                       file->path, alignment, GGUF_ALIGNMENT_MAX);
    file->alignment = alignment;
    return 0;
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

/* Computes the bytes of the tensor from its dimensions and type, without wrapping. */
static int measure_tensor(Cursor *cursor, GgufTensor *tensor) {
    const char *path = cursor->file->path, *type_name = ggml_type_name(tensor->type);
    uint32_t block_values, block_bytes;
    uint64_t n_values = 1, n_blocks;

    if (!type_name)
        return err_set(cursor->err, GGUF_E_UNSUPPORTED,
                       "%s: tensor '%s' has element type number %u, which the format does not define", path,
                       tensor->name, tensor->type);
    if (!ggml_type_block(tensor->type, &block_values, &block_bytes))
        return err_set(cursor->err, GGUF_E_UNSUPPORTED,
                       "%s: tensor '%s' has element type %s (number %u), which this program does not read: use another "
                       "quantization of the model",
                       path, tensor->name, type_name, tensor->type);
    for (uint32_t d = 0; d < tensor->n_dims; d++) {
        if (!tensor->ne[d] || tensor->ne[d] > INT64_MAX)
            return err_set(cursor->err, GGUF_E_CORRUPT, "%s: tensor '%s': dimension %u is %" PRIu64, path, tensor->name,
                           d, tensor->ne[d]);
        if (__builtin_mul_overflow(n_values, tensor->ne[d], &n_values) || n_values > INT64_MAX)
            return err_set(cursor->err, GGUF_E_CORRUPT,
                           "%s: tensor '%s': the product of its dimensions, %" PRIu64 " x %" PRIu64 " x %" PRIu64
                           " x %" PRIu64 ", passes 2^63",
                           path, tensor->name, tensor->ne[0], tensor->ne[1], tensor->ne[2], tensor->ne[3]);
    }
    if (tensor->ne[0] % block_values)
        return err_set(cursor->err, GGUF_E_CORRUPT,
                       "%s: tensor '%s': dimension 0 is %" PRIu64 ", not a multiple of %s's block of %u", path,
                       tensor->name, tensor->ne[0], type_name, block_values);
    n_blocks = n_values / block_values;
    if (__builtin_mul_overflow(n_blocks, (uint64_t)block_bytes, &tensor->len_bytes))
        return err_set(cursor->err, GGUF_E_CORRUPT, "%s: tensor '%s': %" PRIu64 " values of type %s pass 2^64 bytes",
                       path, tensor->name, n_values, type_name);
    return 0;
}

/* Reads name, dimensions and type; offset_bytes is still relative to the data section. */
static int parse_tensor(Cursor *cursor, GgufFile *file, size_t index, uint64_t n_tensors) {
    GgufTensor *tensor = &file->tensors[index];
    GgufString name;
    uint32_t twin;
    int r;

    snprintf(cursor->where, sizeof(cursor->where), "tensor %zu of %" PRIu64, index + 1, n_tensors);
    r = take_string(cursor, "the name", &name);
    if (r)
        return r;
    r = check_name(cursor, "the name", name, GGUF_TENSOR_NAME_MAX - 1);
    if (r)
        return r;
    memcpy(tensor->name, name.data, name.len_bytes);
    snprintf(cursor->where, sizeof(cursor->where), "tensor '%s'", tensor->name);
    twin = text_index_find(&file->tensor_index, name.data, name.len_bytes);
    if (twin != UINT32_MAX)
        return err_set(cursor->err, GGUF_E_CORRUPT, "%s: tensor '%s' is there twice (tensors %u and %zu)", file->path,
                       tensor->name, twin + 1, index + 1);
    r = take_u32(cursor, "the number of dimensions", &tensor->n_dims);
    if (r)
        return r;
    if (!tensor->n_dims || tensor->n_dims > GGUF_DIMS_MAX)
        return err_set(cursor->err, GGUF_E_CORRUPT, "%s: tensor '%s' has %u dimensions, 1 to %d are allowed" AGAIN,
                       file->path, tensor->name, tensor->n_dims, GGUF_DIMS_MAX);
    for (uint32_t d = 0; d < GGUF_DIMS_MAX; d++) {
        tensor->ne[d] = 1;
        if (d < tensor->n_dims) {
            r = take_u64(cursor, "a dimension", &tensor->ne[d]);
            if (r)
                return r;
        }
    }
    r = take_u32(cursor, "the element type", &tensor->type);
    if (r)
        return r;
    r = take_u64(cursor, "the offset", &tensor->offset_bytes);
    if (r)
        return r;
    r = measure_tensor(cursor, tensor);
    if (r)
        return r;
    file->n_tensors = index + 1;
    return index_name(cursor, &file->tensor_index, index);
}

/**
 * place_tensors() - check the offsets and turn them into places in the file
 *
 * Tensors follow each other in the order of the table, each padded to the alignment. Nothing overlaps, nothing is left
 * out, and a damaged offset is always noticed. (llama.cpp refuses other layouts as well.)
 */
static int place_tensors(Cursor *cursor, GgufFile *file) {
    uint64_t expected = 0, room_bytes;

    file->data_offset = ((uint64_t)cursor->at + file->alignment - 1) & ~(uint64_t)(file->alignment - 1);
    if (file->n_tensors && file->data_offset > file->len_bytes)
        return err_set(cursor->err, GGUF_E_CORRUPT,
                       "%s: the data section starts at byte %" PRIu64 ", the file has %zu" AGAIN, file->path,
                       file->data_offset, file->len_bytes);
    room_bytes = file->n_tensors ? file->len_bytes - file->data_offset : 0;
    for (size_t i = 0; i < file->n_tensors; i++) {
        GgufTensor *tensor = &file->tensors[i];

        if (tensor->offset_bytes % file->alignment)
            return err_set(cursor->err, GGUF_E_CORRUPT,
                           "%s: tensor '%s': offset %" PRIu64 " is not a multiple of the alignment %u" AGAIN,
                           file->path, tensor->name, tensor->offset_bytes, file->alignment);
        if (tensor->offset_bytes != expected)
            return err_set(cursor->err, GGUF_E_CORRUPT,
                           "%s: tensor '%s': offset %" PRIu64 ", the tensors before it end at %" PRIu64
                           ": tensors must follow each other in the order of the table",
                           file->path, tensor->name, tensor->offset_bytes, expected);
        if (tensor->offset_bytes > room_bytes || tensor->len_bytes > room_bytes - tensor->offset_bytes)
            return err_set(cursor->err, GGUF_E_CORRUPT,
                           "%s: tensor '%s': %" PRIu64 " bytes at offset %" PRIu64
                           " of the data section, which has %" PRIu64 AGAIN,
                           file->path, tensor->name, tensor->len_bytes, tensor->offset_bytes, room_bytes);
        /* At most room_bytes, a file's size, plus less than the alignment: cannot wrap. */
        expected = tensor->offset_bytes + tensor->len_bytes;
        expected = (expected + file->alignment - 1) & ~(uint64_t)(file->alignment - 1);
        tensor->offset_bytes += file->data_offset;
        tensor->data = file->data + tensor->offset_bytes;
    }
    return 0;
}

static int parse_into(GgufFile *file, ErrText *err) {
    Cursor cursor = { .file = file, .err = err, .where = "header" };
    uint64_t n_tensors = 0, n_keys = 0;
    int r;

    r = parse_header(&cursor, file, &n_tensors, &n_keys);
    if (r)
        return r;
    file->keys = calloc(n_keys + 1, sizeof(*file->keys));
    file->tensors = calloc(n_tensors + 1, sizeof(*file->tensors));
    if (!file->keys || !file->tensors || gguf_index_keys(file, n_keys) || gguf_index_tensors(file, n_tensors))
        return err_set(err, -ENOMEM, "%s: out of memory for %" PRIu64 " keys and %" PRIu64 " tensors", file->path,
                       n_keys, n_tensors);
    for (size_t i = 0; i < n_keys; i++) {
        r = parse_key(&cursor, file, i, n_keys);
        if (r)
            return r;
    }
    r = parse_alignment(file, err);
    if (r)
        return r;
    for (size_t i = 0; i < n_tensors; i++) {
        r = parse_tensor(&cursor, file, i, n_tensors);
        if (r)
            return r;
    }
    return place_tensors(&cursor, file);
}

/* --- one file ----------------------------------------------------------------------------------------------------- */

int gguf_parse(GgufFile **filep, const void *data, size_t len_bytes, const char *name, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = calloc(1, sizeof(*file));
    int r;

    if (file)
        file->path = strdup(name);
    if (!file || !file->path)
        return err_set(err, -ENOMEM, "%s: out of memory", name);
    file->data = data;
    file->len_bytes = len_bytes;
    r = parse_into(file, err);
    if (r)
        return r;
    *filep = steal(&file);
    return 0;
}

/* Parses a map, which then belongs to the file; it is unmapped on error. */
static int parse_map(GgufFile **filep, MappedFile map, const char *name, ErrText *err) {
    _cleanup_(mapped_file_deinit) MappedFile owned = map;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    int r;

    r = gguf_parse(&file, map.data, map.len_bytes, name, err);
    if (mapped_file_check(&map, name, err)) /* the error came from the cut, not from the content */
        return GGUF_E_CORRUPT;
    if (r)
        return r;
    file->map = owned;
    owned = (MappedFile){ 0 };
    *filep = steal(&file);
    return 0;
}

int gguf_open_one(GgufFile **filep, const char *path, ErrText *err) {
    MappedFile map;
    int r = mapped_file_open(&map, path, err);

    return r ? r : parse_map(filep, map, path, err);
}

/* Maps and parses a file that is open already; fd stays the caller's, name is used in messages. Errors of
 * gguf_open(). */
int gguf_open_fd(GgufFile **filep, int fd, const char *name, ErrText *err) {
    MappedFile map;
    int r;

    r = mapped_file_from_fd(&map, fd, name, err);
    return r ? r : parse_map(filep, map, name, err);
}
