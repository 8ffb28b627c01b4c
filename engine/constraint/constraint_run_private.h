// SPDX-License-Identifier: Apache-2.0
/* The fields of a run. Private to engine/constraint/; constraint_run.h and constraint_private.h come before. */
#ifndef COORDGEN_ENGINE_CONSTRAINT_RUN_PRIVATE_H
#define COORDGEN_ENGINE_CONSTRAINT_RUN_PRIVATE_H

typedef struct RunMatcher {
    GrammarMatcher *it;
    size_t first_bytes; /* its memory when the run began */
} RunMatcher;

/* A text with which the answer had begun before its first token. */
typedef struct RunPrefix {
    char *text; /* [n_bytes]; NULL: none */
    size_t n_bytes;
    uint32_t segment; /* where the text ends */
    size_t from;      /* bytes before that segment */
} RunPrefix;

struct ConstraintRun {
    Constraint *constraint;
    RunMatcher *matchers; /* of the constraint's sources */
    uint64_t *scratch;    /* a mask */
    uint64_t *taken;      /* a mask: tokens with which a grammar goes on before what follows it */
    uint64_t fuel;
    RunPrefix prefix;
};

static inline const ConstraintSegment *constraint_run_segment(const ConstraintRun *run, ConstraintState state) {
    return &run->constraint->segments[state.segment];
}

/* Returns the matcher of a GRAMMAR segment with the run's fuel, for one call of it. */
GrammarMatcher *constraint_run_begin_call(ConstraintRun *run, const ConstraintSegment *segment);
/* Takes the fuel back that the call has left, and translates its result. */
int constraint_run_end_call(ConstraintRun *run, const ConstraintSegment *segment, int r);
/* Returns the state at the begin of a segment, or of what follows it if nothing of it can come. */
ConstraintState constraint_run_enter(const ConstraintRun *run, uint32_t segment);
/* Moves a state whose segment has all that can come to the next segment. */
ConstraintState constraint_run_settle(const ConstraintRun *run, ConstraintState state);

#endif
