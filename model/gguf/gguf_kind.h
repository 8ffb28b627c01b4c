// SPDX-License-Identifier: Apache-2.0
/* Kinds of model files, recognized by the name and the first part of the content, without a map and in bounded
 * steps. */
#ifndef COORDGEN_MODEL_GGUF_KIND_H
#define COORDGEN_MODEL_GGUF_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

typedef enum GgufKind {
    GGUF_KIND_MODEL,     /* a language model, or the first of its files */
    GGUF_KIND_PART,      /* a later file of a model in several */
    GGUF_KIND_PROJECTOR, /* a projector of images or sounds into a language model's embeddings */
    GGUF_KIND_ADAPTER,   /* an adapter: LoRA, control vector */
    GGUF_KIND_IMATRIX,   /* statistics for quantizers */
    GGUF_KIND_VOCAB,     /* no tensors */
    GGUF_KIND_DOWNLOAD,  /* still being downloaded, by its name or by a file beside it */
    GGUF_KIND_CUT,       /* cut: ends before its content does */
    GGUF_KIND_OTHER,     /* not a readable GGUF file, or a damaged one */
    GGUF_KIND_LOST,      /* cannot be opened or read */
} GgufKind;

typedef struct GgufKindInfo {
    GgufKind kind;
    uint32_t part, n_parts; /* from 1; 1 of 1: a model in one file */
    uint64_t have_bytes;    /* length of the file */
    uint64_t whole_bytes;   /* length that the content needs; 0: not known */
    int error;              /* errno of LOST */
} GgufKindInfo;

/* Most bytes that are read of one file: far above the metadata of any real one. */
#define GGUF_KIND_READ_BYTES_MAX (UINT64_C(64) << 20)

/* Whether the name alone shows that the file is no model. A part's name sets part and n_parts too. */
bool gguf_kind_of_name(GgufKindInfo *info, const char *path);
/* Whether a file beside path shows that path is still being downloaded. */
bool gguf_kind_is_fetched(const char *path);

/* Reads the content step by step. */
typedef struct GgufKindReader GgufKindReader;
/* Begins a reading and takes fd over, also when it fails. 0, -EINVAL if it is not a regular file, or -errno. */
int gguf_kind_reader_new(GgufKindReader **readerp, int fd);
GgufKindReader *gguf_kind_reader_free(GgufKindReader *reader);
DEFINE_CLEANUP(GgufKindReader, gguf_kind_reader_free)
/* Reads about max_bytes more. Returns whether this was the last step. */
bool gguf_kind_reader_step(GgufKindReader *reader, size_t max_bytes);
const GgufKindInfo *gguf_kind_reader_info(const GgufKindReader *reader); /* Gives the result after the last step. */

/* Finds the kind at once, by name, neighbours and content. fd: of the file when it is open, else -1. */
void gguf_kind_find(GgufKindInfo *info, const char *path, int fd);
/* Words for users: what the file is instead of a model, and what to do. "PATH: is ...". Not for GGUF_KIND_MODEL. */
void gguf_kind_tell(const GgufKindInfo *info, const char *path, ErrText *err);

#endif
