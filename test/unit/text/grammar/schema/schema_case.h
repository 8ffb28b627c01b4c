// SPDX-License-Identifier: Apache-2.0
/* A JSON Schema in a test, and texts that fit it or do not. */
#ifndef COORDGEN_TEST_UNIT_SCHEMA_CASE_H
#define COORDGEN_TEST_UNIT_SCHEMA_CASE_H

#include <jansson.h>

#include "base/strings/str_buf.h"
#include "text/grammar/grammar_matcher.h"
#include "text/grammar/schema/schema_grammar.h"

typedef struct SchemaCase {
    Grammar *grammar;
    TokenTrie *trie;
    GrammarMatcher *matcher; /* NULL: the schema was refused */
    ErrText err;
    int r;
} SchemaCase;

void schema_case_init(SchemaCase *one, const char *schema, size_t len_bytes, const SchemaOptions *options);
void schema_case_deinit(SchemaCase *one);
/* Whether the text is a whole value that fits; fails the test on any other error than a refusal. */
bool schema_case_fits(SchemaCase *one, const char *text, size_t len_bytes);
/* Appends a value without white space, its numbers as short as they can be. */
void schema_case_write(StrBuf *text, const json_t *value);

#endif
