// SPDX-License-Identifier: Apache-2.0
/* Writes numbers of bytes for people. */
#ifndef COORDGEN_BASE_BYTE_TEXT_H
#define COORDGEN_BASE_BYTE_TEXT_H

#include <stdint.h>

typedef struct ByteText {
    char text[16];
} ByteText;

/* Writes "224.3 MiB", or whole bytes below a KiB. Returns text->text. */
const char *byte_text(ByteText *text, uint64_t len_bytes);

#endif
