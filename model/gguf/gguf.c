// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "model/gguf/gguf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
