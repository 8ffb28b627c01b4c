// SPDX-License-Identifier: Apache-2.0
/* Files with one JSON object a line. */
#ifndef COORDGEN_EVAL_JSON_LINES_H
#define COORDGEN_EVAL_JSON_LINES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef int JsonLineFn(void *arg, json_t *object, size_t line, ErrText *err);
/* Calls fn with the JSON object of each line; stops at a non-zero value. Errors name file and line. */
int json_lines_each(const char *path, JsonLineFn *fn, void *arg, ErrText *err);
/* Does the same, and calls fn with NULL for a line that jansson cannot read (a NUL in a key, a number out of range). */
int json_lines_each_or_null(const char *path, JsonLineFn *fn, void *arg, ErrText *err);
/* Converts a JSON array of token ids below n_vocab to a new array. Return: 0, or -EINVAL with a text. */
int json_lines_ids(const json_t *array, uint32_t n_vocab, uint32_t **idsp, size_t *np, ErrText *err);

#endif
