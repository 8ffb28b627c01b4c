// SPDX-License-Identifier: Apache-2.0
/* The object behind GgufFile, for the modules that fill and read it. */
#ifndef COORDGEN_MODEL_GGUF_PRIVATE_H
#define COORDGEN_MODEL_GGUF_PRIVATE_H

#include "base/files/file_io.h"
#include "base/strings/text_index.h"
#include "model/gguf/gguf_types.h"

#define GGUF_VALUE_TYPE_N (GGUF_F64 + 1)
#define GGUF_ALIGNMENT_DEFAULT 32
#define GGUF_ALIGNMENT_MAX (1u << 20)
/* Far above any real file (some hundred keys and a few thousand tensors). */
#define GGUF_KEYS_MAX 32768
#define GGUF_TENSORS_MAX 32768
#define GGUF_KEY_NAME_MAX 65535 /* the format's limit in bytes */

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
    TextIndex key_index, tensor_index; /* from a name to its place in keys and tensors */
    GgufFile **others; /* [n_others]: further parts (gguf_parts.c), whose tensors are in `tensors` too */
    size_t n_others;
};

/* Makes an empty index of names, with room for n; a new one takes the place of the old one. 0 or -errno. */
int gguf_index_keys(GgufFile *file, size_t n);
int gguf_index_tensors(GgufFile *file, size_t n);

/* Bytes of a value of fixed size; 0 for strings, arrays and unknown types. */
uint32_t gguf_value_bytes(uint32_t type);
/* Sets key->value from the packed bytes of a value of key->type, which has a fixed size. */
void gguf_decode_scalar(GgufKey *key, const uint8_t *data);

/* Opens one file, even where it is a part of a model in several. Errors of gguf_open(). */
int gguf_open_one(GgufFile **filep, const char *path, ErrText *err);

#endif
