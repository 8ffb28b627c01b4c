// SPDX-License-Identifier: Apache-2.0
/* Models in several files, NAME-00001-of-0000N.gguf and so on: the first one's keys count, and tensors are in any. */
#ifndef COORDGEN_MODEL_GGUF_PARTS_H
#define COORDGEN_MODEL_GGUF_PARTS_H

#include "model/gguf/gguf.h"

/* Far above any real model; the first ones of as many files could be open at a time. */
#define GGUF_PARTS_MAX 256

/* How many files the model is in by this one's keys: 1 where it is alone. 0, GGUF_E_CORRUPT, GGUF_E_UNSUPPORTED. */
int gguf_parts_count(const GgufFile *file, size_t *np, ErrText *err);
/* Whether the name of a file ends in -00001-of-00003.gguf or so. part: from 1 to n. Untouched if not. */
bool gguf_parts_of_name(const char *name, uint32_t *partp, uint32_t *np);
/* Bytes of a name without its extension and without -00001-of-00003. */
size_t gguf_parts_stem_bytes(const char *name);
/* Path of another part, from 0 on, of the same model. NULL: path is not the name of a part; else the caller frees
 * it. */
char *gguf_parts_sibling(const char *path, size_t part);
/* Path of a part, from 0 on, beside the first one of n at `path`. NULL: that is not the name of a first part; else the
 * caller frees it. */
char *gguf_parts_path(const char *path, size_t part, size_t n);
/* Adds the further parts, n - 1 of them open already, the second one first. 0, GGUF_E_CORRUPT with a text that names
 * the part that is missing or wrong, GGUF_E_UNSUPPORTED, -errno. */
int gguf_parts_add(GgufFile *file, const int *fds, size_t n, ErrText *err);

#endif
