// SPDX-License-Identifier: Apache-2.0
/* Text from a file or a peer, made fit for a reply, a log line, an error message or a terminal. */
#ifndef COORDGEN_BASE_PRINTABLE_H
#define COORDGEN_BASE_PRINTABLE_H

#include <stdarg.h>
#include <stddef.h>

#include "base/strings/utf8.h"

#define PRINTABLE_FORMAT_BYTES_MAX 1280 /* of what printable_format() makes before it is looked at */

typedef struct Printable {
    char text[104]; /* the last four bytes are room for "..." and the NUL */
} Printable;

/*
 * Whole UTF-8 without control characters, with a NUL: every other byte becomes \xHH, and what does not fit ends in
 * "...". room_bytes >= 4. Done twice it changes nothing. Return: bytes without the NUL.
 */
size_t printable_put(char *out, size_t room_bytes, const void *data, size_t len_bytes);
/* The same of a format; out may be among the arguments. */
size_t printable_format(char *out, size_t room_bytes, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
/* The same in an object of its own. Returns p->text. */
const char *printable(Printable *p, const void *data, size_t len_bytes);
/* The same on the heap, at most max_bytes of it. NULL: out of memory. */
char *printable_dup(const char *text, size_t max_bytes);

#endif
