// SPDX-License-Identifier: Apache-2.0
/* Builds a grammar from parts: literal text, classes of code points, regular expressions, sequences, choices, repeats,
 * rules that may be recursive, intersections and complements. Fronts (JSON Schema, GBNF) translate into parts.
 *
 * A part is a number, may be used in several places, and belongs to its builder. A failure (memory, a limit) stays with
 * the builder: later calls return any part, and grammar_builder_finish() reports the first failure. A builder is used by
 * one thread at a time. */
#ifndef COORDGEN_TEXT_GRAMMAR_BUILDER_H
#define COORDGEN_TEXT_GRAMMAR_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "text/grammar/grammar.h"

typedef uint32_t GrammarPart;

/* A part that is never valid: for fronts that note "none yet". */
#define GRAMMAR_PART_NONE UINT32_MAX
/* The maximum of a repeat without one. */
#define GRAMMAR_NO_MAX UINT32_MAX

/* Limits on a grammar under construction. A limit that is reached is GRAMMAR_E_TOO_COMPLEX. */
typedef struct GrammarLimits {
    uint32_t parts_max;      /* parts of the builder, and transitions of the rules that are made of them */
    size_t memory_bytes_max; /* memory of builder and grammar */
    uint64_t fuel_max;       /* steps of the compiler; about 20 million take a second */
} GrammarLimits;

#define GRAMMAR_LIMITS_DEFAULT                                                                                         \
    ((GrammarLimits){ .parts_max = 1u << 20, .memory_bytes_max = 64u << 20, .fuel_max = 1u << 21 })

/* Code points first..last, both included. */
typedef struct GrammarRange {
    uint32_t first;
    uint32_t last;
} GrammarRange;

typedef enum GrammarClassFlags {
    GRAMMAR_CLASS_NEGATED = 1u << 0, /* every code point except those of the ranges */
    /* The code point as it stands inside a JSON string: '"', '\' and controls become an escape (the short one, or
     * \u00XX where JSON has no short one), all others stand for themselves. */
    GRAMMAR_CLASS_JSON = 1u << 1,
} GrammarClassFlags;

typedef enum GrammarRegexFlags {
    /* The pattern may match anywhere in the text, as JSON Schema's "pattern" does; else it matches the whole text. */
    GRAMMAR_REGEX_SEARCH = 1u << 0,
    GRAMMAR_REGEX_JSON = 1u << 1, /* the text stands inside a JSON string (GRAMMAR_CLASS_JSON), without its quotes */
    GRAMMAR_REGEX_IGNORE_CASE = 1u << 2, /* of ASCII letters */
    GRAMMAR_REGEX_DOT_ALL = 1u << 3,     /* '.' matches line ends, too */
} GrammarRegexFlags;

typedef struct GrammarBuilder GrammarBuilder;

int grammar_builder_new(GrammarBuilder **builderp, const GrammarLimits *limits); /* 0 or -ENOMEM */
GrammarBuilder *grammar_builder_free(GrammarBuilder *builder);
DEFINE_CLEANUP(GrammarBuilder, grammar_builder_free)

/* Whether a call has failed, so that a front may stop early. */
bool grammar_builder_failed(const GrammarBuilder *builder);

GrammarPart grammar_part_empty(GrammarBuilder *builder);   /* the empty text */
GrammarPart grammar_part_nothing(GrammarBuilder *builder); /* no text at all */
GrammarPart grammar_part_bytes(GrammarBuilder *builder, const void *bytes, size_t n);
/* One code point of a class. Surrogates are never allowed. */
GrammarPart grammar_part_class(GrammarBuilder *builder, const GrammarRange *ranges, size_t n, unsigned int flags);
GrammarPart grammar_part_sequence(GrammarBuilder *builder, const GrammarPart *parts, size_t n);
GrammarPart grammar_part_choice(GrammarBuilder *builder, const GrammarPart *parts, size_t n);
/* min to max times the part; max may be GRAMMAR_NO_MAX. */
GrammarPart grammar_part_repeat(GrammarBuilder *builder, GrammarPart part, uint32_t min, uint32_t max);
/* Texts of both parts; texts (of any bytes) that are not the part's. Their parts are regular, which means that no rule
 * inside can reach itself. grammar_builder_finish() refuses others. */
GrammarPart grammar_part_and(GrammarBuilder *builder, GrammarPart a, GrammarPart b);
GrammarPart grammar_part_not(GrammarBuilder *builder, GrammarPart part);
/* A rule, whose body may come later and may hold the rule itself. The name (NULL: none) is for messages. */
GrammarPart grammar_part_rule(GrammarBuilder *builder, const char *name);
void grammar_rule_set(GrammarBuilder *builder, GrammarPart rule, GrammarPart body);
bool grammar_rule_is_set(const GrammarBuilder *builder, GrammarPart rule);

/* A regular expression (ECMA-262 with PCRE's usual spellings) as a part, *partp: out. Back references, look-around, word
 * boundaries and anchors in the middle are refused by name. 0; GRAMMAR_E_SYNTAX, GRAMMAR_E_UNSUPPORTED with the offset in
 * the pattern; GRAMMAR_E_TOO_COMPLEX; -ENOMEM. */
int grammar_part_regex(GrammarBuilder *builder, const char *pattern, size_t n, unsigned int flags, GrammarPart *partp,
                       ErrText *err);

/* Tells whether the part, which must be regular and have all of its rules set, allows no text at all: with
 * grammar_part_and(), whether two parts are disjoint. 0; GRAMMAR_E_UNSUPPORTED: the part is not regular;
 * GRAMMAR_E_TOO_COMPLEX; -ENOMEM. These errors leave the builder usable. */
int grammar_builder_allows_nothing(GrammarBuilder *builder, GrammarPart part, bool *nothingp, ErrText *err);

/* Makes the grammar whose texts are root's; the builder may be freed afterwards. 0; GRAMMAR_E_SYNTAX: a rule has no
 * body; GRAMMAR_E_UNSUPPORTED: an intersection or complement of a recursive part; GRAMMAR_E_NOTHING: no text is
 * allowed; GRAMMAR_E_TOO_COMPLEX; -ENOMEM. */
int grammar_builder_finish(GrammarBuilder *builder, GrammarPart root, Grammar **grammarp, ErrText *err);

#endif
