// SPDX-License-Identifier: Apache-2.0
/* The fields of a constraint. Private to engine/constraint/; constraint.h comes before. */
#ifndef COORDGEN_ENGINE_CONSTRAINT_PRIVATE_H
#define COORDGEN_ENGINE_CONSTRAINT_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/constraint/constraint_segment.h"
#include "text/grammar/grammar_matcher.h"

#define CONSTRAINT_NO_END UINT32_MAX /* tokens to an end that cannot be reached */

/* A grammar of one or more segments, with a matcher that no run uses. */
typedef struct ConstraintSource {
    Grammar *grammar;      /* of a segment */
    GrammarMatcher *spare; /* lock; may be NULL */
} ConstraintSource;

struct Constraint {
    _Atomic uint32_t n_refs;
    ConstraintVocabulary *vocabulary;
    ConstraintSegment *segments;
    uint32_t n_segments;
    uint32_t start;
    uint32_t entries[CONSTRAINT_ENTRIES_MAX];
    uint32_t n_entries;
    pthread_mutex_t lock;
    ConstraintSource *sources; /* [n_sources]; const but for the spares */
    uint32_t n_sources;
    Bill bill;
};

/* Takes the spare matcher of a source, or makes one. 0 or -errno. */
int constraint_take_matcher(Constraint *constraint, uint32_t source, GrammarMatcher **matcherp);
/* Leaves a matcher to later runs, or frees it. */
void constraint_give_matcher(Constraint *constraint, uint32_t source, GrammarMatcher *matcher);

/* Returns the segment of an entry. */
static inline uint32_t constraint_entry(const Constraint *constraint, uint32_t entry) {
    return entry && entry <= constraint->n_entries ? constraint->entries[entry - 1] : constraint->start;
}

/* Adds tokens of two parts of a way. */
static inline uint32_t constraint_add_tokens(uint32_t a, uint32_t b) {
    return a > CONSTRAINT_NO_END - 1 - b || b == CONSTRAINT_NO_END ? CONSTRAINT_NO_END : a + b;
}

/* Returns the tokens of a short way from the start of a segment, or CONSTRAINT_END, to an end of the answer. */
static inline uint32_t constraint_least_of(const Constraint *constraint, uint32_t segment) {
    return segment == CONSTRAINT_END ? 0 : constraint->segments[segment].least;
}

#endif
