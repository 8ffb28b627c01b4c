// SPDX-License-Identifier: Apache-2.0
/* Sets of strings. Their parts describe the inside of a JSON string, between the quotes, where each character has one
 * spelling (GRAMMAR_CLASS_JSON): intersections and complements of spellings are then those of the strings. */
#ifndef COORDGEN_SCHEMA_TEXT_H
#define COORDGEN_SCHEMA_TEXT_H

#include <string.h>

#include "text/grammar/schema/schema_compiler.h"

typedef enum SchemaTextKind {
    SCHEMA_TEXT_LIST,   /* these strings; none: the empty set, which a zeroed SchemaText is */
    SCHEMA_TEXT_EXCEPT, /* all strings but these; none: every string */
    SCHEMA_TEXT_PART,   /* the strings of a part */
} SchemaTextKind;

typedef struct SchemaText {
    SchemaTextKind kind;
    const SchemaName *names;
    size_t n;
    GrammarPart part;
    bool has_some; /* the part is known to have a string */
} SchemaText;

#define SCHEMA_TEXT_ANY ((SchemaText){ .kind = SCHEMA_TEXT_EXCEPT })

static inline bool schema_text_is_any(const SchemaText *text) {
    return text->kind == SCHEMA_TEXT_EXCEPT && !text->n;
}

/* Compares the last eight bytes first: names that are numbered differ there. */
static inline bool schema_name_equal(SchemaName a, SchemaName b) {
    uint64_t end, other;

    if (a.len_bytes != b.len_bytes)
        return false;
    if (a.len_bytes < sizeof(end))
        return !a.len_bytes || !memcmp(a.data, b.data, a.len_bytes);
    memcpy(&end, a.data + a.len_bytes - sizeof(end), sizeof(end));
    memcpy(&other, b.data + b.len_bytes - sizeof(other), sizeof(other));
    return end == other && !memcmp(a.data, b.data, a.len_bytes - sizeof(end));
}
SchemaText schema_text_and(SchemaCompiler *c, SchemaText a, SchemaText b);
SchemaText schema_text_or(SchemaCompiler *c, SchemaText a, SchemaText b);
SchemaText schema_text_not(SchemaCompiler *c, SchemaText text);
/* Whether the set has the string, or has none at all. */
bool schema_text_has(SchemaCompiler *c, const SchemaText *text, SchemaName name);
bool schema_text_is_empty(SchemaCompiler *c, const SchemaText *text);
/* The strings with min to max code points. */
SchemaText schema_text_length(SchemaCompiler *c, uint32_t min, uint32_t max);
/* The strings in which the pattern of a keyword matches. The text lives as long as the compiler. */
SchemaText schema_text_pattern(SchemaCompiler *c, const json_t *schema, const char *keyword, const char *pattern);
/* The strings of a format; SCHEMA_TEXT_ANY for a format of numbers, c->r set for one that is not known. */
SchemaText schema_text_format(SchemaCompiler *c, const json_t *schema, const char *format);
/* Parts: the string with its quotes, as a JSON value has it; the name alone. */
GrammarPart schema_text_quoted(SchemaCompiler *c, const SchemaText *text);
GrammarPart schema_name_quoted(SchemaCompiler *c, SchemaName name);
/* A regular expression of this room, of plain characters. */
GrammarPart schema_plain_regex(SchemaCompiler *c, const char *pattern);
/* A regular expression that is a constant of the program: made once for a compiler. */
GrammarPart schema_fixed_regex(SchemaCompiler *c, const char *pattern);

#endif
