// SPDX-License-Identifier: Apache-2.0
/* UTF-8 as Unicode defines it (table 3-7): no overlong forms, no surrogates, nothing past U+10FFFF. */
#ifndef COORDGEN_TEXT_UTF8_H
#define COORDGEN_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

typedef enum Utf8Kind {
    UTF8_WHOLE,  /* one well-formed sequence */
    UTF8_BROKEN, /* a maximal subpart of an ill-formed sequence: one U+FFFD by Unicode's recommendation */
    UTF8_CUT,    /* the text ends inside a sequence that is well-formed so far */
} Utf8Kind;

/* Looks at the start of data (len_bytes >= 1); bytes that belong to what was found, 1..4. */
size_t utf8_step(const void *data, size_t len_bytes, Utf8Kind *kindp);

#endif
