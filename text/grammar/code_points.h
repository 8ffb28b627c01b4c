// SPDX-License-Identifier: Apache-2.0
/* Classes of code points, and their UTF-8 as expressions over bytes. */
#ifndef COORDGEN_TEXT_CODE_POINTS_H
#define COORDGEN_TEXT_CODE_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/byte_regex.h"
#include "text/grammar/grammar_parts.h"

/* A growing list of ranges; after a failed allocation it stays failed. */
typedef struct CodePoints {
    GrammarRange *ranges;
    size_t n;
    size_t room;
    bool failed;
} CodePoints;

void code_points_deinit(CodePoints *points);
void code_points_add(CodePoints *points, uint32_t first, uint32_t last);
/* Sorts and joins the ranges; surrogates and what is beyond Unicode fall away. */
void code_points_normalize(CodePoints *points);
/* Takes every other code point in the place of these; the result is normal. */
void code_points_negate(CodePoints *points);
/* Adds the other case of ASCII letters; the result is normal. */
void code_points_fold_ascii(CodePoints *points);
/* Adds the code points of a general category by its short name ("L", "Lu", "Nd"). Whether there is such a category. */
bool code_points_add_category(CodePoints *points, const char *name, size_t n);

/* Returns the expression of one of these code points, which are normal; flags: GRAMMAR_CLASS_JSON. A failure is the
 * store's. */
RegexId code_points_regex(ByteRegex *store, const CodePoints *points, unsigned int flags);

#endif
