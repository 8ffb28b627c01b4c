// SPDX-License-Identifier: Apache-2.0
/* Makes text from a file or a peer fit for a reply, a log line, an error message or a terminal. */
#ifndef COORDGEN_BASE_PRINTABLE_H
#define COORDGEN_BASE_PRINTABLE_H

#include <stdarg.h>
#include <stddef.h>

#include "base/strings/utf8.h"

#define PRINTABLE_FORMAT_BYTES_MAX 1280 /* of a formatted text, before printable_format() escapes it */

typedef struct Printable {
    char text[104]; /* the last four bytes hold "..." and the NUL of a text that is cut */
} Printable;

/*
 * Writes valid UTF-8 without control characters, and a NUL. Every other byte becomes \xHH; a text that does not fit
 * ends in "...". room_bytes >= 4. A second application changes nothing. Returns the bytes without the NUL.
 */
size_t printable_put(char *out, size_t room_bytes, const void *data, size_t len_bytes);
/* Formats a text and makes it printable; out may be among the arguments. */
size_t printable_format(char *out, size_t room_bytes, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
/* Writes the printable text into p. Returns p->text. */
const char *printable(Printable *p, const void *data, size_t len_bytes);
/* Returns the printable text on the heap, at most max_bytes long; NULL: out of memory. */
char *printable_dup(const char *text, size_t max_bytes);

#endif
