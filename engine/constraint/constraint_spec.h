// SPDX-License-Identifier: Apache-2.0
/* What a request says of its answer, and the constraint that is made of it. */
#ifndef COORDGEN_ENGINE_CONSTRAINT_SPEC_H
#define COORDGEN_ENGINE_CONSTRAINT_SPEC_H

#include "engine/constraint/constraint.h"
#include "engine/core/engine_core.h"
#include "text/grammar/grammar_builder.h"

enum {
    CONSTRAINT_SPEC_E_INVALID = 1,     /* malformed, or asks for what cannot be enforced; the text says where */
    CONSTRAINT_SPEC_E_TOO_COMPLEX = 2, /* a limit on size, parts, memory or fuel is reached */
    CONSTRAINT_SPEC_E_MEMORY = 3,      /* a memory account's limit is reached */
};

typedef enum ConstraintForm {
    CONSTRAINT_FORM_NONE,
    CONSTRAINT_FORM_JSON_SCHEMA,
    CONSTRAINT_FORM_GBNF,
    CONSTRAINT_FORM_REGEX, /* the whole answer matches */
} ConstraintForm;

#define CONSTRAINT_TEXT_BYTES_MAX (256 << 10)
#define CONSTRAINT_REGEX_BYTES_MAX (64 << 10)

typedef struct ConstraintSpec {
    ConstraintForm form;
    const char *text; /* [n_bytes]: schema, grammar or pattern */
    size_t n_bytes;
    bool is_compact; /* of a JSON schema: no white space */
} ConstraintSpec;

/* Whether the spec asks for nothing: the answer needs no constraint. */
static inline bool constraint_spec_is_empty(const ConstraintSpec *spec) {
    return spec->form == CONSTRAINT_FORM_NONE;
}
/* Returns the bytes of all texts, each with a NUL. */
size_t constraint_spec_bytes(const ConstraintSpec *spec);
/* Makes a copy whose texts lie in one block, which the caller frees. NULL: no memory. */
char *constraint_spec_copy(ConstraintSpec *to, const ConstraintSpec *from);

/* Limits of a service: the largest of some thousand public schemas takes less than 4 MiB. */
#define CONSTRAINT_LIMITS                                                                                              \
    ((GrammarLimits){ .parts_max = 1u << 20, .memory_bytes_max = 16u << 20, .fuel_max = 3u << 19 })

/* Makes the grammar of the form. A hostile text takes some 100 ms at most. *grammarp: NULL without a form. 0,
 * CONSTRAINT_SPEC_E_INVALID, CONSTRAINT_SPEC_E_TOO_COMPLEX, -errno, with a text. Any thread. */
int constraint_spec_compile(const ConstraintSpec *spec, const GrammarLimits *limits, Grammar **grammarp, ErrText *err);
/* Makes the constraint for a model; grammar: what constraint_spec_compile() has made. Errors are as above, and
 * CONSTRAINT_SPEC_E_MEMORY. Any thread. */
int constraint_spec_build(const ConstraintSpec *spec, Grammar *grammar, Engine *engine, Constraint **constraintp,
                          ErrText *err);
/* Hash of everything that a constraint depends on, beside the model. */
#define CONSTRAINT_SPEC_HASH_BYTES 32
void constraint_spec_hash(const ConstraintSpec *spec, uint8_t hash[CONSTRAINT_SPEC_HASH_BYTES]);

#endif
