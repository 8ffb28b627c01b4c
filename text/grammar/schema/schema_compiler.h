// SPDX-License-Identifier: Apache-2.0
/* The state of one translation of a JSON Schema: memory, the first error, and the parts that all values share. */
#ifndef COORDGEN_SCHEMA_COMPILER_H
#define COORDGEN_SCHEMA_COMPILER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/grammar/grammar_builder.h"
#include "text/grammar/schema/schema_source.h"

typedef struct SchemaBlock SchemaBlock;
struct SchemaNodes;

/* A string of the schema: a property's name, a value of an enum. The bytes belong to the document. */
typedef struct SchemaName {
    const char *data;
    size_t len_bytes;
} SchemaName;

/* Whether a pattern's strings have a name. */
typedef struct SchemaMatch {
    SchemaName name;
    bool is_match;
    struct SchemaMatch *next;
} SchemaMatch;

enum {
    SCHEMA_MATCH_BUCKETS = 64,
    SCHEMA_CONST_BUCKETS = 256,
    SCHEMA_FIXED_MAX = 16,
};

/* A pattern that was compiled once already, and the names that were compared with it. */
typedef struct SchemaPattern {
    const char *text;
    GrammarPart part;
    SchemaMatch *matches[SCHEMA_MATCH_BUCKETS]; /* by the first and last byte, and the length */
    struct SchemaPattern *next;
} SchemaPattern;

/* A schema that says what a "const" of an array or object says, by other keywords. */
typedef struct SchemaConst {
    const json_t *value;
    json_t *schema;
    struct SchemaConst *next;
} SchemaConst;

typedef struct SchemaCompiler {
    GrammarBuilder *builder;
    SchemaSource *source;
    bool is_compact, is_any_order;
    int r; /* the first failure: the rest of the work has no meaning */
    ErrText *err;
    uint64_t fuel;
    SchemaBlock *blocks;
    size_t memory_bytes;
    struct SchemaNodes *nodes;
    SchemaPattern *patterns;
    SchemaConst *consts[SCHEMA_CONST_BUCKETS]; /* by the address of the value */
    struct {
        const char *pattern;
        GrammarPart part;
    } fixed[SCHEMA_FIXED_MAX]; /* regular expressions of this room, each made once */
    GrammarPart character;     /* of a string, in its only spelling; GRAMMAR_PART_NONE: not made yet */
} SchemaCompiler;

/* Returns zeroed memory that lives as long as the compiler, or NULL, with c->r set. */
void *schema_alloc(SchemaCompiler *c, size_t n, size_t item_bytes);
/* Returns an array of na items of a and nb of b; NULL with c->r set, or where both are empty. */
void *schema_join(SchemaCompiler *c, const void *a, size_t na, const void *b, size_t nb, size_t item_bytes);
void schema_compiler_deinit(SchemaCompiler *c);
/* Counts steps of work; false: c->r is set, from now or before. */
bool schema_step(SchemaCompiler *c, uint64_t n);
/* Sets c->r and the error "POINTER: KEYWORD: ..." if there is no error yet. */
void schema_refuse(SchemaCompiler *c, int code, const json_t *schema, const char *keyword, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
#define schema_unsupported(c, schema, keyword, ...)                                                                    \
    schema_refuse((c), GRAMMAR_E_UNSUPPORTED, (schema), (keyword), __VA_ARGS__)
#define schema_invalid(c, schema, keyword, ...) schema_refuse((c), GRAMMAR_E_SYNTAX, (schema), (keyword), __VA_ARGS__)

/* Reads a keyword that counts, at most UINT32_MAX; false: it is not there, or malformed (c->r). */
bool schema_read_count(SchemaCompiler *c, const json_t *schema, const char *keyword, uint32_t *np);

#endif
