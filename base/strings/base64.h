// SPDX-License-Identifier: Apache-2.0
/* Base64 of RFC 4648, with "+", "/" and padding. */
#ifndef COORDGEN_BASE_BASE64_H
#define COORDGEN_BASE_BASE64_H

#include "base/strings/str_buf.h"

/* Appends the text of the bytes. */
void base64_append(StrBuf *buf, const void *data, size_t len_bytes);

#endif
