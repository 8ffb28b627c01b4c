// SPDX-License-Identifier: Apache-2.0
/* Writes a text as a file, whole or not at all. */
#ifndef COORDGEN_EVAL_TEXT_FILE_H
#define COORDGEN_EVAL_TEXT_FILE_H

#include "base/err.h"
#include "base/strings/str_buf.h"

/* Replaces the file at @path. Return: 0, -ENOMEM if the text has failed, or -errno, with a text. */
int text_file_write(const StrBuf *text, const char *path, ErrText *err);

#endif
