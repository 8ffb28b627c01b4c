// SPDX-License-Identifier: Apache-2.0
/* The content of a GGUF file as text and as JSON: metadata keys and the tensor table. */
#ifndef COORDGEN_MODEL_GGUF_TEXT_H
#define COORDGEN_MODEL_GGUF_TEXT_H

#include <stdbool.h>

#include "base/strings/str_buf.h"
#include "model/gguf/gguf.h"

#define GGUF_TEXT_ARRAY_SHOWN 6 /* elements of an array that are shown, beside its length */

/* Appends the text. A failed allocation shows in str_buf_failed(). */
void gguf_text_write(const GgufFile *file, StrBuf *text);
/* Appends one JSON object: file, file_bytes, version, alignment, parameters, keys [{name, type, value}], tensors
 * [{name, type, shape, offset, bytes}]. Arrays: {element_type, n, first}. Bytes that are not UTF-8 become U+FFFD. 0 or
 * -ENOMEM. */
int gguf_text_json(const GgufFile *file, bool pretty, StrBuf *text);

#endif
