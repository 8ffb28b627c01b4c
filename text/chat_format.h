// SPDX-License-Identifier: Apache-2.0
/* The formats of chats that are known: told from a template's text, and the marks that each of them writes. */
#ifndef COORDGEN_TEXT_CHAT_FORMAT_H
#define COORDGEN_TEXT_CHAT_FORMAT_H

#include <stddef.h>

#include "model/gguf.h"

typedef enum ChatFormat {
    CHAT_FORMAT_NONE, /* base model */
    CHAT_FORMAT_CHATML,
    CHAT_FORMAT_LLAMA3,
    CHAT_FORMAT_MISTRAL,
    CHAT_FORMAT_GEMMA,
} ChatFormat;

/* The format of a template's text; CHAT_FORMAT_NONE: another one. */
ChatFormat chat_format_of(const char *text, size_t len_bytes);
/* That of a file's template; CHAT_FORMAT_NONE: none that is known. */
ChatFormat chat_format_of_file(const GgufFile *file);
const char *chat_format_name(ChatFormat format);
/* The marks that chats of the format are written with, besides BOS and EOS; NULL at the end. */
const char *const *chat_format_marks(ChatFormat format);

#endif
