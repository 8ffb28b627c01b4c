// SPDX-License-Identifier: Apache-2.0
/* Models in several files, NAME-00001-of-0000N.gguf and so on: the keys are those of the first file, and tensors are in
 * any. */
#ifndef COORDGEN_MODEL_GGUF_PARTS_H
#define COORDGEN_MODEL_GGUF_PARTS_H

#include "model/gguf/gguf.h"

/* Far above any real model, and few enough to be open at a time. */
#define GGUF_PARTS_MAX 256

/* Counts the files of the model by this file's keys: 1 for a single file. 0, GGUF_E_CORRUPT, GGUF_E_UNSUPPORTED. */
int gguf_parts_count(const GgufFile *file, size_t *np, ErrText *err);
/* Whether the name of a file ends in -00001-of-00003.gguf or the like. part: from 1 to n. Both stay untouched if
 * not. */
bool gguf_parts_of_name(const char *name, uint32_t *partp, uint32_t *np);
/* Bytes of a name without its extension and without -00001-of-00003. */
size_t gguf_parts_stem_bytes(const char *name);
/* Gives the path of another part of the same model, from 0 on; the caller frees it. NULL: path is not the name of a
 * part. */
char *gguf_parts_sibling(const char *path, size_t part);
/* Gives the path of a part, from 0 on, beside the first one of n at `path`; the caller frees it. NULL: path is not the
 * name of a first part of n. */
char *gguf_parts_path(const char *path, size_t part, size_t n);
/* Adds the further parts, n - 1 of them open already, the second one first. 0, GGUF_E_CORRUPT with a text that names
 * the part that is missing or wrong, GGUF_E_UNSUPPORTED, -errno. */
int gguf_parts_add(GgufFile *file, const int *fds, size_t n, ErrText *err);

#endif
