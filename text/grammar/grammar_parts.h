// SPDX-License-Identifier: Apache-2.0
/* Types of a grammar under construction: parts, limits, classes of code points, flags. */
#ifndef COORDGEN_TEXT_GRAMMAR_PARTS_H
#define COORDGEN_TEXT_GRAMMAR_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t GrammarPart;

/* A part that is never valid: for fronts that note "none yet". */
#define GRAMMAR_PART_NONE UINT32_MAX
/* The maximum of a repeat without one. */
#define GRAMMAR_NO_MAX UINT32_MAX

/* Members of a part in any order, at most. */
#define GRAMMAR_UNORDERED_MAX 62

/* A member of a part whose members come in any order. */
typedef struct GrammarMember {
    GrammarPart part; /* never the empty text */
    bool is_required;
    bool may_repeat; /* any number of times, else at most once */
} GrammarMember;

/* Limits on a grammar under construction. A limit that is reached is GRAMMAR_E_TOO_COMPLEX. */
typedef struct GrammarLimits {
    uint32_t parts_max;      /* parts of the builder, and transitions of the rules that are made of them */
    size_t memory_bytes_max; /* memory of builder and grammar */
    uint64_t fuel_max;       /* steps of the compiler; about 10 million take a second */
} GrammarLimits;

#define GRAMMAR_LIMITS_DEFAULT                                                                                         \
    ((GrammarLimits){ .parts_max = 1u << 20, .memory_bytes_max = 64u << 20, .fuel_max = 3u << 19 })

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

#endif
