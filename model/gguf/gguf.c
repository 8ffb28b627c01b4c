// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "model/gguf/gguf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf/gguf_private.h"

/* --- look-up by name ---------------------------------------------------------------------------------------------- */

static TextSpan key_name(const void *owner, uint32_t id) {
    const GgufString *name = &((const GgufFile *)owner)->keys[id].name;

    return (TextSpan){ name->data, name->len_bytes };
}

static TextSpan tensor_name(const void *owner, uint32_t id) {
    const char *name = ((const GgufFile *)owner)->tensors[id].name;

    return (TextSpan){ name, strlen(name) };
}

int gguf_index_keys(GgufFile *file, size_t n) {
    return text_index_init(&file->key_index, (uint32_t)n, key_name, file);
}

int gguf_index_tensors(GgufFile *file, size_t n) {
    text_index_deinit(&file->tensor_index);
    return text_index_init(&file->tensor_index, (uint32_t)n, tensor_name, file);
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
    text_index_deinit(&file->key_index);
    text_index_deinit(&file->tensor_index);
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
    uint32_t id = text_index_find(&file->key_index, name, strlen(name));

    return id == UINT32_MAX ? NULL : &file->keys[id];
}

size_t gguf_n_tensors(const GgufFile *file) {
    return file->n_tensors;
}

const GgufTensor *gguf_tensor_at(const GgufFile *file, size_t index) {
    return index < file->n_tensors ? &file->tensors[index] : NULL;
}

const GgufTensor *gguf_tensor(const GgufFile *file, const char *name) {
    uint32_t id = text_index_find(&file->tensor_index, name, strlen(name));

    return id == UINT32_MAX ? NULL : &file->tensors[id];
}
