// SPDX-License-Identifier: Apache-2.0
/* Text from a file or a peer, made fit for an error message or a terminal. */
#ifndef COORDGEN_BASE_PRINTABLE_H
#define COORDGEN_BASE_PRINTABLE_H

#include <stddef.h>

typedef struct Printable {
    char text[104]; /* the last four bytes are room for "..." and the NUL */
} Printable;

/* Control bytes and what is not UTF-8 become '?'; what does not fit ends in "...". Returns p->text. */
const char *printable(Printable *p, const void *data, size_t len_bytes);
/* Length of the well-formed UTF-8 sequence at data, or 0. */
size_t utf8_sequence(const void *data, size_t len_bytes);

#endif
