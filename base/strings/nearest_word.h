// SPDX-License-Identifier: Apache-2.0
/* What a word that is not known may have been meant to be. */
#ifndef COORDGEN_BASE_NEAREST_WORD_H
#define COORDGEN_BASE_NEAREST_WORD_H

#include <stddef.h>

/* Returns one of names[n]; NULL: none is near. */
const char *nearest_word(const char *word, const char *const *names, size_t n);
/* Returns one of n structures' names: the first is at *names, each other one stride_bytes behind the one before. */
const char *nearest_word_in(const char *word, const char *const *names, size_t stride_bytes, size_t n);

#endif
