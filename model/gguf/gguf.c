// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "model/gguf/gguf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/strings/printable.h"
#include "model/gguf/gguf_parts.h"
#include "model/gguf/gguf_private.h"

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
    for (size_t i = 0; i < file->n_others; i++)
        gguf_free(file->others[i]);
    free(file->others);
    mapped_file_deinit(&file->map);
    free(file->path);
    free(file);
    return NULL;
}

int gguf_parse(GgufFile **filep, const void *data, size_t len_bytes, const char *name, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = calloc(1, sizeof(*file));
    int r;

    if (file)
        file->path = strdup(name);
    if (!file || !file->path)
        return err_set(err, -ENOMEM, "%s: out of memory", name);
    file->data = data;
    file->len_bytes = len_bytes;
    r = gguf_parse_into(file, err);
    if (r)
        return r;
    *filep = steal(&file);
    return 0;
}

/* The map is the file's then, or unmapped on error. */
static int parse_map(GgufFile **filep, MappedFile map, const char *name, ErrText *err) {
    _cleanup_(mapped_file_deinit) MappedFile owned = map;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    int r;

    r = gguf_parse(&file, map.data, map.len_bytes, name, err);
    if (mapped_file_check(&map, name, err)) /* what was wrong was not in the file */
        return GGUF_E_CORRUPT;
    if (r)
        return r;
    file->map = owned;
    owned = (MappedFile){ 0 };
    *filep = steal(&file);
    return 0;
}

/**
 * gguf_open() - map a GGUF file read-only and check its whole structure
 *
 * The data of tensors is not touched. The map is the file: when another process cuts the file short while it is open,
 * reading the lost part ends the process with SIGBUS, or, after map_guard_install(), gives zeros. Who reads keys or
 * tensors then asks gguf_check_whole() behind what it has read, before that counts: the metadata's strings are in the
 * map too. Tensors are best read with read calls (as the importer and loads of packages do).
 *
 * Thread: any; the object is immutable afterwards and may be shared.
 * Return: 0, GGUF_E_CORRUPT, GGUF_E_UNSUPPORTED, or -errno of the file system; the text names file, field and value.
 */
int gguf_open(GgufFile **filep, const char *path, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    MappedFile map;
    int r;

    r = mapped_file_open(&map, path, err);
    if (!r)
        r = parse_map(&file, map, path, err);
    if (!r)
        r = gguf_parts_open(file, err);
    if (!r)
        *filep = steal(&file);
    return r;
}

/* As gguf_open() for a file that is open already; fd stays the caller's, name is used in messages. */
int gguf_open_fd(GgufFile **filep, int fd, const char *name, ErrText *err) {
    MappedFile map;
    int r;

    r = mapped_file_from_fd(&map, fd, name, err);
    return r ? r : parse_map(filep, map, name, err);
}

int gguf_check_whole(const GgufFile *file, ErrText *err) {
    for (size_t i = 0; i < file->n_others; i++)
        if (gguf_check_whole(file->others[i], err))
            return GGUF_E_CORRUPT;
    return mapped_file_check(&file->map, file->path, err) ? GGUF_E_CORRUPT : 0;
}

const char *gguf_path(const GgufFile *file) {
    return file->path;
}

uint64_t gguf_len_bytes(const GgufFile *file) {
    uint64_t len_bytes = file->len_bytes;

    for (size_t i = 0; i < file->n_others; i++)
        len_bytes += file->others[i]->len_bytes;
    return len_bytes;
}

size_t gguf_n_parts(const GgufFile *file) {
    return 1 + file->n_others;
}

const char *gguf_part_path(const GgufFile *file, size_t part) {
    return part ? file->others[part - 1]->path : file->path;
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
