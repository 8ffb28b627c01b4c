// SPDX-License-Identifier: Apache-2.0
/* UTF-8 as Unicode defines it (table 3-7): no overlong forms, no surrogates, nothing past U+10FFFF. */
#ifndef COORDGEN_BASE_UTF8_H
#define COORDGEN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

typedef enum Utf8Kind {
    UTF8_WHOLE,  /* one well-formed sequence */
    UTF8_BROKEN, /* a maximal subpart of an ill-formed sequence: one U+FFFD by Unicode's recommendation */
    UTF8_CUT,    /* the text ends inside a sequence that is well-formed so far */
} Utf8Kind;

/* Classifies the start of data (len_bytes >= 1). Returns the bytes that belong to it, 1..4. */
size_t utf8_step(const void *data, size_t len_bytes, Utf8Kind *kindp);
/* Returns the length of the well-formed sequence at the start of data, 1..4; 0: there is none. */
size_t utf8_sequence(const void *data, size_t len_bytes);
/* Whether data consists of well-formed sequences; a NUL is one. */
bool utf8_is_valid(const void *data, size_t len_bytes);
/* Returns the length of the text's longest beginning of at most max_bytes that cuts no character. */
size_t utf8_prefix(const char *text, size_t max_bytes);
/* For "%.*s" instead of "%.64s". */
#define UTF8_PREFIX(text, max_bytes) (int)utf8_prefix((text), (max_bytes)), (text)

#endif
