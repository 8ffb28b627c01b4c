// SPDX-License-Identifier: Apache-2.0
/* Finds the known name that an unknown word may have meant. */
#ifndef COORDGEN_BASE_NEAREST_WORD_H
#define COORDGEN_BASE_NEAREST_WORD_H

#include <stddef.h>

/* Returns the nearest of names[n], or NULL if none is near. */
const char *nearest_word(const char *word, const char *const *names, size_t n);
/* Returns the nearest name of n structures: the first name is at *names, each further one stride_bytes later. */
const char *nearest_word_in(const char *word, const char *const *names, size_t stride_bytes, size_t n);

#endif
