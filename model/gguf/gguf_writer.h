// SPDX-License-Identifier: Apache-2.0
/* GGUF v3 writer: keys, tensor table, and the offsets of the data, which callers write. */
#ifndef COORDGEN_MODEL_GGUF_WRITER_H
#define COORDGEN_MODEL_GGUF_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/strings/str_buf.h"
#include "model/gguf/gguf.h"

enum {
    GGUF_WRITER_E_INVALID = 1, /* a name, type or shape that the format does not allow; the text says which */
};

typedef struct GgufWriter GgufWriter;

/* Makes a writer. alignment: a power of two, at least 8; written as general.alignment unless it is the format's default
 * of 32. */
int gguf_writer_new(GgufWriter **writerp, uint32_t alignment, ErrText *err);
GgufWriter *gguf_writer_free(GgufWriter *writer);
DEFINE_CLEANUP(GgufWriter, gguf_writer_free)

/* Adds keys and tensors. An error (a bad shape, no memory) is kept and returned by gguf_writer_layout(). */
void gguf_writer_u32(GgufWriter *writer, const char *name, uint32_t value);
void gguf_writer_u64(GgufWriter *writer, const char *name, uint64_t value);
void gguf_writer_f32(GgufWriter *writer, const char *name, float value);
void gguf_writer_bool(GgufWriter *writer, const char *name, bool value);
void gguf_writer_string(GgufWriter *writer, const char *name, const char *value);
void gguf_writer_strings(GgufWriter *writer, const char *name, const char *const *values, uint64_t n);
/* Adds fixed-size elements, packed little-endian. */
void gguf_writer_array(GgufWriter *writer, const char *name, GgufValueType element_type, const void *elements,
                       uint64_t n);
void gguf_writer_copy(GgufWriter *writer, const GgufKey *key); /* Adds a key with the same name and value. */
void gguf_writer_tensor(GgufWriter *writer, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *ne);

/* Ends the tables and lays the file out. The functions below need it. */
int gguf_writer_layout(GgufWriter *writer, ErrText *err);
const StrBuf *gguf_writer_head(const GgufWriter *writer); /* all bytes before the data section, padding included */
uint64_t gguf_writer_tensor_offset(const GgufWriter *writer, size_t index); /* offset in the file */
uint64_t gguf_writer_file_bytes(const GgufWriter *writer); /* length of the whole file; the last tensor is padded too */

#endif
