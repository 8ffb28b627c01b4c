#define _GNU_SOURCE
#include "model/gguf.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/printable.h"
#include "model/gguf_private.h"

/* --- look-up by name ---------------------------------------------------------------------------------------------- */

int gguf_index_init(GgufIndex *index, size_t n) {
    uint32_t n_slots = 2;

    while (n_slots < 2 * (n + 1))
        n_slots *= 2;
    index->slots = calloc(n_slots, sizeof(*index->slots));
    if (!index->slots)
        return err_raise(-ENOMEM);
    index->mask = n_slots - 1;
    return 0;
}

/* FNV-1a. Collisions made on purpose cost a walk over at most GGUF_KEYS_MAX slots each. */
static uint32_t name_hash(const char *name, size_t len_bytes) {
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len_bytes; i++)
        hash = (hash ^ (uint8_t)name[i]) * 0x100000001b3u;
    return (uint32_t)(hash ^ hash >> 32);
}

uint32_t *gguf_key_slot(const GgufFile *file, const char *name, size_t len_bytes) {
    const GgufIndex *index = &file->key_index;

    for (uint32_t at = name_hash(name, len_bytes) & index->mask;; at = (at + 1) & index->mask) {
        const GgufString *held;

        if (!index->slots[at])
            return &index->slots[at];
        held = &file->keys[index->slots[at] - 1].name;
        if (held->len_bytes == len_bytes && !memcmp(held->data, name, len_bytes))
            return &index->slots[at];
    }
}

uint32_t *gguf_tensor_slot(const GgufFile *file, const char *name, size_t len_bytes) {
    const GgufIndex *index = &file->tensor_index;

    for (uint32_t at = name_hash(name, len_bytes) & index->mask;; at = (at + 1) & index->mask) {
        const char *held;

        if (!index->slots[at])
            return &index->slots[at];
        held = file->tensors[index->slots[at] - 1].name;
        if (strlen(held) == len_bytes && !memcmp(held, name, len_bytes))
            return &index->slots[at];
    }
}

/* --- object ------------------------------------------------------------------------------------------------------- */

GgufFile *gguf_free(GgufFile *file) {
    if (!file)
        return NULL;
    for (size_t i = 0; i < file->n_keys; i++)
        if (file->keys[i].type == GGUF_ARRAY)
            free((void *)file->keys[i].value.array.strings);
    free(file->keys);
    free(file->tensors);
    free(file->key_index.slots);
    free(file->tensor_index.slots);
    mapped_file_deinit(&file->map);
    free(file->path);
    free(file);
    return NULL;
}

static int file_new(GgufFile **filep, const char *path, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = calloc(1, sizeof(*file));

    if (file)
        file->path = strdup(path);
    if (!file || !file->path)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    *filep = steal(&file);
    return 0;
}

static int parse_map(GgufFile **filep, GgufFile *file, ErrText *err) {
    int r;

    file->data = file->map.data;
    file->len_bytes = file->map.len_bytes;
    r = gguf_parse_into(file, err);
    if (r)
        return r;
    *filep = file;
    return 0;
}

/**
 * gguf_open() - map a GGUF file read-only and check its whole structure
 *
 * The data of tensors is not touched. The map is the file: when another process cuts the file short while it is open,
 * touching the lost part raises SIGBUS. Who must survive that reads the data with read calls (as the importer does) or
 * copies it (as a loader does that lays the weights out anew) and opens files that only it may write.
 *
 * Thread: any; the object is immutable afterwards and may be shared.
 * Return: 0, GGUF_E_CORRUPT, GGUF_E_UNSUPPORTED, or -errno of the file system; the text names file, field and value.
 */
int gguf_open(GgufFile **filep, const char *path, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    int r;

    r = file_new(&file, path, err);
    if (r)
        return r;
    r = mapped_file_open(&file->map, path, err);
    if (r)
        return r;
    r = parse_map(filep, file, err);
    if (!r)
        (void)steal(&file);
    return r;
}

/* As gguf_open() for a file that is open already; fd stays the caller's, name is used in messages. */
int gguf_open_fd(GgufFile **filep, int fd, const char *name, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    int r;

    r = file_new(&file, name, err);
    if (r)
        return r;
    r = mapped_file_from_fd(&file->map, fd, name, err);
    if (r)
        return r;
    r = parse_map(filep, file, err);
    if (!r)
        (void)steal(&file);
    return r;
}

int gguf_parse(GgufFile **filep, const void *data, size_t len_bytes, const char *name, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    int r;

    r = file_new(&file, name, err);
    if (r)
        return r;
    file->data = data;
    file->len_bytes = len_bytes;
    r = gguf_parse_into(file, err);
    if (r)
        return r;
    *filep = steal(&file);
    return 0;
}

const char *gguf_path(const GgufFile *file) {
    return file->path;
}

uint64_t gguf_len_bytes(const GgufFile *file) {
    return file->len_bytes;
}

const void *gguf_data(const GgufFile *file) {
    return file->data;
}

uint32_t gguf_alignment(const GgufFile *file) {
    return file->alignment;
}

uint32_t gguf_version(const GgufFile *file) {
    return file->version;
}

size_t gguf_n_keys(const GgufFile *file) {
    return file->n_keys;
}

const GgufKey *gguf_key_at(const GgufFile *file, size_t index) {
    return index < file->n_keys ? &file->keys[index] : NULL;
}

const GgufKey *gguf_key(const GgufFile *file, const char *name) {
    uint32_t slot = *gguf_key_slot(file, name, strlen(name));

    return slot ? &file->keys[slot - 1] : NULL;
}

size_t gguf_n_tensors(const GgufFile *file) {
    return file->n_tensors;
}

const GgufTensor *gguf_tensor_at(const GgufFile *file, size_t index) {
    return index < file->n_tensors ? &file->tensors[index] : NULL;
}

const GgufTensor *gguf_tensor(const GgufFile *file, const char *name) {
    uint32_t slot = *gguf_tensor_slot(file, name, strlen(name));

    return slot ? &file->tensors[slot - 1] : NULL;
}

/* --- typed getters ------------------------------------------------------------------------------------------------ */

static int find_key(const GgufFile *file, const char *name, const GgufKey **keyp, ErrText *err) {
    *keyp = gguf_key(file, name);
    if (!*keyp)
        return err_set(err, GGUF_E_MISSING, "%s: the key '%s' is missing", file->path, name);
    return 0;
}

static int wrong_type(const GgufFile *file, const GgufKey *key, const char *name, const char *expected, ErrText *err) {
    if (key->type == GGUF_ARRAY)
        return err_set(err, GGUF_E_TYPE, "%s: key '%s' is an array of %s, expected %s", file->path, name,
                       gguf_value_type_name(key->value.array.element_type), expected);
    return err_set(err, GGUF_E_TYPE, "%s: key '%s' is of type %s, expected %s", file->path, name,
                   gguf_value_type_name(key->type), expected);
}

static bool is_unsigned(GgufValueType type) {
    return type == GGUF_U8 || type == GGUF_U16 || type == GGUF_U32 || type == GGUF_U64;
}

static bool is_signed(GgufValueType type) {
    return type == GGUF_I8 || type == GGUF_I16 || type == GGUF_I32 || type == GGUF_I64;
}

int gguf_get_u64(const GgufFile *file, const char *name, uint64_t *valuep, ErrText *err) {
    const GgufKey *key;
    int r;

    r = find_key(file, name, &key, err);
    if (r)
        return r;
    if (is_signed(key->type) && key->value.i64 < 0)
        return err_set(err, GGUF_E_TYPE, "%s: key '%s' is %" PRId64 ", a number from 0 is expected", file->path, name,
                       key->value.i64);
    if (!is_unsigned(key->type) && !is_signed(key->type))
        return wrong_type(file, key, name, "an integer", err);
    *valuep = is_unsigned(key->type) ? key->value.u64 : (uint64_t)key->value.i64;
    return 0;
}

int gguf_get_u32(const GgufFile *file, const char *name, uint32_t *valuep, ErrText *err) {
    uint64_t value;
    int r;

    r = gguf_get_u64(file, name, &value, err);
    if (r)
        return r;
    if (value > UINT32_MAX)
        return err_set(err, GGUF_E_TYPE, "%s: key '%s' is %" PRIu64 ", at most %u is expected", file->path, name, value,
                       UINT32_MAX);
    *valuep = (uint32_t)value;
    return 0;
}

int gguf_get_f32(const GgufFile *file, const char *name, float *valuep, ErrText *err) {
    const GgufKey *key;
    float value;
    int r;

    r = find_key(file, name, &key, err);
    if (r)
        return r;
    if (key->type == GGUF_F32 || key->type == GGUF_F64)
        value = (float)key->value.f64;
    else if (is_unsigned(key->type))
        value = (float)key->value.u64;
    else if (is_signed(key->type))
        value = (float)key->value.i64;
    else
        return wrong_type(file, key, name, "a number", err);
    if (!isfinite(value))
        return err_set(err, GGUF_E_TYPE, "%s: key '%s' is not a finite number", file->path, name);
    *valuep = value;
    return 0;
}

int gguf_get_bool(const GgufFile *file, const char *name, bool *valuep, ErrText *err) {
    const GgufKey *key;
    int r;

    r = find_key(file, name, &key, err);
    if (r)
        return r;
    if (key->type != GGUF_BOOL)
        return wrong_type(file, key, name, "a bool", err);
    *valuep = key->value.boolean;
    return 0;
}

int gguf_get_string(const GgufFile *file, const char *name, GgufString *valuep, ErrText *err) {
    const GgufKey *key;
    int r;

    r = find_key(file, name, &key, err);
    if (r)
        return r;
    if (key->type != GGUF_STRING)
        return wrong_type(file, key, name, "a string", err);
    *valuep = key->value.string;
    return 0;
}

int gguf_get_array(const GgufFile *file, const char *name, GgufValueType element_type, const GgufArray **arrayp,
                   ErrText *err) {
    const GgufKey *key;
    char expected[32];
    int r;

    r = find_key(file, name, &key, err);
    if (r)
        return r;
    if (key->type != GGUF_ARRAY || key->value.array.element_type != element_type) {
        snprintf(expected, sizeof(expected), "an array of %s", gguf_value_type_name(element_type));
        return wrong_type(file, key, name, expected, err);
    }
    *arrayp = &key->value.array;
    return 0;
}

int32_t gguf_array_i32(const GgufArray *array, uint64_t index) {
    int32_t value;

    memcpy(&value, array->data + index * sizeof(value), sizeof(value));
    return value;
}

float gguf_array_f32(const GgufArray *array, uint64_t index) {
    float value;

    memcpy(&value, array->data + index * sizeof(value), sizeof(value));
    return value;
}
