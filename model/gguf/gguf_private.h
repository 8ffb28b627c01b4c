// SPDX-License-Identifier: Apache-2.0
/* The object behind GgufFile, for the modules that fill and read it. */
#ifndef COORDGEN_MODEL_GGUF_PRIVATE_H
#define COORDGEN_MODEL_GGUF_PRIVATE_H

#include "base/files/file_io.h"
#include "model/gguf/gguf_types.h"

#define GGUF_VALUE_TYPE_N (GGUF_F64 + 1)
#define GGUF_ALIGNMENT_DEFAULT 32
#define GGUF_ALIGNMENT_MAX (1u << 20)
/* Far above any real file (some hundred keys and a few thousand tensors); bounds the cost of look-up collisions too. */
#define GGUF_KEYS_MAX 32768
#define GGUF_TENSORS_MAX 32768
#define GGUF_KEY_NAME_MAX 65535 /* the format's limit in bytes */

/* A hash index with open addressing: a power of two of slots, at most half full; a slot holds index + 1, or 0. */
typedef struct GgufIndex {
    uint32_t *slots;
    uint32_t mask;
} GgufIndex;

struct GgufFile {
    char *path;
    MappedFile map;      /* empty when the memory is the caller's */
    const uint8_t *data; /* [len_bytes] */
    size_t len_bytes;
    uint32_t version;
    uint32_t alignment;
    uint64_t data_offset; /* offset of the data section */
    size_t n_keys;
    GgufKey *keys;
    size_t n_tensors;
    GgufTensor *tensors;
    GgufIndex key_index;
    GgufIndex tensor_index;
    GgufFile **others; /* [n_others]: further parts (gguf_parts.c), whose tensors are in `tensors` too */
    size_t n_others;
};

int gguf_index_init(GgufIndex *index, size_t n);
/* Finds the slot of a name: the occupied one, or a free one. */
uint32_t *gguf_key_slot(const GgufFile *file, const char *name, size_t len_bytes);
uint32_t *gguf_tensor_slot(const GgufFile *file, const char *name, size_t len_bytes);

/* Bytes of a value of fixed size; 0 for strings, arrays and unknown types. */
uint32_t gguf_value_bytes(uint32_t type);
/* Sets key->value from the packed bytes of a value of key->type, which has a fixed size. */
void gguf_decode_scalar(GgufKey *key, const uint8_t *data);

/* Opens one file, even where it is a part of a model in several. Errors of gguf_open(). */
int gguf_open_one(GgufFile **filep, const char *path, ErrText *err);

#endif
