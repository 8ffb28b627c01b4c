// SPDX-License-Identifier: Apache-2.0
/* What a request says of its answer, and the constraint that is made of it. */
#ifndef COORDGEN_ENGINE_CONSTRAINT_SPEC_H
#define COORDGEN_ENGINE_CONSTRAINT_SPEC_H

#include "engine/constraint/constraint.h"
#include "engine/constraint/thinking_plan.h"
#include "engine/core/engine_core.h"
#include "text/chat/call_tools.h"
#include "text/grammar/grammar_builder.h"

enum {
    CONSTRAINT_SPEC_E_INVALID = 1,     /* malformed, or asks for what cannot be enforced; the text says where */
    CONSTRAINT_SPEC_E_TOO_COMPLEX = 2, /* a limit on size, parts, memory or fuel is reached */
    CONSTRAINT_SPEC_E_MEMORY = 3,      /* a memory account's limit is reached */
    CONSTRAINT_SPEC_E_TOOLS = 4,       /* tools are no list of named functions */
    CONSTRAINT_SPEC_E_CHOICE = 5,      /* calls that the tools or the model's template cannot give are asked for */
    CONSTRAINT_SPEC_E_PARAMETERS = 6,  /* as CONSTRAINT_SPEC_E_INVALID, of a tool's parameters */
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
    bool is_compact;   /* of a JSON schema: no white space */
    bool is_any_order; /* of a JSON schema: properties in any order */
    /* Tools that the answer may call; with a form there are none. */
    const char *tools; /* [tools_bytes]: JSON; NULL: none */
    size_t tools_bytes;
    CallChoice choice; /* its name is a text of the spec, too */
    /* An answer in a chat may begin with thinking, of at most that many tokens (0: none); what the text says begins
     * behind it. Of CONSTRAINT_FORM_NONE the thinking alone is limited. */
    bool may_think;
    uint32_t thinking_tokens; /* THINKING_NO_LIMIT: any number */
} ConstraintSpec;

/* Whether the spec asks for nothing: the answer needs no constraint. */
static inline bool constraint_spec_is_empty(const ConstraintSpec *spec) {
    return spec->form == CONSTRAINT_FORM_NONE && !spec->tools &&
           (!spec->may_think || spec->thinking_tokens == THINKING_NO_LIMIT);
}
/* Returns the bytes of all texts, each with a NUL. */
size_t constraint_spec_bytes(const ConstraintSpec *spec);
/* Makes a copy whose texts lie in one block, which the caller frees. NULL: no memory. */
char *constraint_spec_copy(ConstraintSpec *to, const ConstraintSpec *from);

/* Limits of a service: the largest of some thousand public schemas takes less than 4 MiB. */
#define CONSTRAINT_LIMITS                                                                                              \
    ((GrammarLimits){ .parts_max = 1u << 20, .memory_bytes_max = 16u << 20, .fuel_max = 3u << 19 })

/* Makes the grammar of the form, and checks the tools. A hostile text takes some 100 ms at most. *grammarp: NULL
 * without a form. 0, CONSTRAINT_SPEC_E_INVALID, CONSTRAINT_SPEC_E_TOO_COMPLEX, CONSTRAINT_SPEC_E_TOOLS,
 * CONSTRAINT_SPEC_E_CHOICE, -errno, with a text. Any thread. */
int constraint_spec_compile(const ConstraintSpec *spec, const GrammarLimits *limits, Grammar **grammarp, ErrText *err);
/* Makes the constraint for a model; grammar: what constraint_spec_compile() has made. Errors are as above, and
 * CONSTRAINT_SPEC_E_MEMORY, CONSTRAINT_SPEC_E_PARAMETERS. The schemas of tools are compiled here, within
 * CONSTRAINT_LIMITS. Any thread. */
int constraint_spec_build(const ConstraintSpec *spec, Grammar *grammar, Engine *engine, Constraint **constraintp,
                          ErrText *err);
/* Hash of everything that a constraint depends on, beside the model. */
#define CONSTRAINT_SPEC_HASH_BYTES 32
void constraint_spec_hash(const ConstraintSpec *spec, uint8_t hash[CONSTRAINT_SPEC_HASH_BYTES]);

#endif
