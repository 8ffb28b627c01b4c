// SPDX-License-Identifier: Apache-2.0
/* JSON Schema (2020-12 and drafts 4 to 7) as a part of a grammar: the JSON texts whose values fit a schema.
 *
 * Every keyword that a value can break is enforced, or refused by its name and JSON pointer. The texts are a subset of
 * all spellings (docs/json-schema.md). */
#ifndef COORDGEN_SCHEMA_GRAMMAR_H
#define COORDGEN_SCHEMA_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "text/grammar/grammar_builder.h"

typedef struct SchemaOptions {
    bool is_compact; /* no white space at all; else at most one space, or a line end and its indentation */
    /* Properties may come in any order, else in the schema's. An order leaves fewer choices: more bytes are forced. */
    bool is_any_order;
} SchemaOptions;

/* Translates a schema (JSON, at most 256 KiB, 128 levels) into parts of the builder, *partp: out. Errors name keyword
 * and JSON pointer. 0; GRAMMAR_E_SYNTAX: no JSON, or a malformed keyword; GRAMMAR_E_UNSUPPORTED: a keyword that cannot
 * be followed; GRAMMAR_E_TOO_COMPLEX: a limit; GRAMMAR_E_NOTHING: no value fits; -ENOMEM. */
int grammar_part_json_schema(GrammarBuilder *builder, const char *text, size_t len_bytes, const SchemaOptions *options,
                             GrammarPart *partp, ErrText *err);

#endif
