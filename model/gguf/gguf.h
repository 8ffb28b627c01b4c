// SPDX-License-Identifier: Apache-2.0
/* GGUF v3 reader: every size, count, offset, type and duplicate is checked before use; the file stays mapped. */
#ifndef COORDGEN_MODEL_GGUF_H
#define COORDGEN_MODEL_GGUF_H

#include "base/cleanup.h"
#include "base/err.h"
#include "model/gguf/gguf_types.h"
#include "quant/format/ggml_type.h"

/* Opens a file with all its parts, if it is the first of several: NAME-00001-of-0000N.gguf. */
int gguf_open(GgufFile **filep, const char *path, ErrText *err);
/* Opens one file that is open already, even if it is a part. fd stays the caller's, name is used in messages. */
int gguf_open_fd(GgufFile **filep, int fd, const char *name, ErrText *err);
/* Parses len_bytes of memory that must outlive the object (fuzzing, tests). */
int gguf_parse(GgufFile **filep, const void *data, size_t len_bytes, const char *name, ErrText *err);
/* Whether all bytes that were read of the map so far were the file's (map_guard). 0, or GGUF_E_CORRUPT if the file was
 * cut short meanwhile. Any thread. */
int gguf_check_whole(const GgufFile *file, ErrText *err);
GgufFile *gguf_free(GgufFile *file);
DEFINE_CLEANUP(GgufFile, gguf_free)

const char *gguf_path(const GgufFile *file);
uint64_t gguf_len_bytes(const GgufFile *file); /* length of all parts */
const void *gguf_data(const GgufFile *file);   /* the whole map, of the first part */
size_t gguf_n_parts(const GgufFile *file);     /* 1 if the model is in one file */
const char *gguf_part_path(const GgufFile *file, size_t part);
uint32_t gguf_alignment(const GgufFile *file);
uint32_t gguf_version(const GgufFile *file);

size_t gguf_n_keys(const GgufFile *file);
const GgufKey *gguf_key_at(const GgufFile *file, size_t index);
const GgufKey *gguf_key(const GgufFile *file, const char *name); /* NULL when absent; O(1) */
size_t gguf_n_tensors(const GgufFile *file);
const GgufTensor *gguf_tensor_at(const GgufFile *file, size_t index);
const GgufTensor *gguf_tensor(const GgufFile *file, const char *name); /* NULL when absent; O(1) */

/* Typed getters (gguf_value.c). A value of any type of the format is taken if it fits the type asked for. Each getter
 * returns 0, GGUF_E_MISSING, GGUF_E_TYPE or GGUF_E_RANGE, with a text that names the key, the type found and the type
 * wanted. *valuep is untouched on error. */
int gguf_get_u32(const GgufFile *file, const char *name, uint32_t *valuep, ErrText *err);
int gguf_get_u64(const GgufFile *file, const char *name, uint64_t *valuep, ErrText *err);
int gguf_get_i64(const GgufFile *file, const char *name, int64_t *valuep, ErrText *err);
int gguf_get_f32(const GgufFile *file, const char *name, float *valuep, ErrText *err);
int gguf_get_bool(const GgufFile *file, const char *name, bool *valuep, ErrText *err);
int gguf_get_string(const GgufFile *file, const char *name, GgufString *valuep, ErrText *err);
/* Getters of lists; an empty list is taken as a list of any type. Integers lie from min to max. Numbers are f32 or
 * NaN. */
int gguf_get_strings(const GgufFile *file, const char *name, const GgufArray **arrayp, ErrText *err);
int gguf_get_integers(const GgufFile *file, const char *name, int64_t min, int64_t max, const GgufArray **arrayp,
                      ErrText *err);
int gguf_get_numbers(const GgufFile *file, const char *name, const GgufArray **arrayp, ErrText *err);
/* Gets a list of exactly this type, whose bytes in the file are used as they are. */
int gguf_get_array(const GgufFile *file, const char *name, GgufValueType element_type, const GgufArray **arrayp,
                   ErrText *err);

/* Element of a list from gguf_get_integers(), or from gguf_get_numbers(). */
int64_t gguf_array_i64(const GgufArray *array, uint64_t index);
float gguf_array_f32(const GgufArray *array, uint64_t index);

const char *gguf_value_type_name(uint32_t type);

#endif
