// SPDX-License-Identifier: Apache-2.0
/* What a word that is not known may have been meant to be. */
#ifndef COORDGEN_BASE_NEAREST_WORD_H
#define COORDGEN_BASE_NEAREST_WORD_H

#include <stddef.h>

/* One of names[n]; NULL: none is near. */
const char *nearest_word(const char *word, const char *const *names, size_t n);

#endif
