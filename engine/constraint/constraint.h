// SPDX-License-Identifier: Apache-2.0
/* What an answer may be: a plan of segments (constraint_plan.h) for a model's vocabulary. constraint_run.h follows it
 * token by token. */
#ifndef COORDGEN_ENGINE_CONSTRAINT_H
#define COORDGEN_ENGINE_CONSTRAINT_H

#include "base/cleanup.h"
#include "base/memory/account.h"
#include "engine/constraint/constraint_plan.h"

/* A whole plan for one model's vocabulary. Counted; immutable, but for matchers that runs leave to later runs: any
 * number of threads may use it. */
typedef struct Constraint Constraint;

/* Makes the constraint of a plan, whose segments pass to it, and finds out how the shortest texts end: this may take
 * some milliseconds, so it does not belong on the threads that serve or compute. 0; CONSTRAINT_E_PLAN: also if the
 * vocabulary cannot write a text of the plan; CONSTRAINT_E_TOO_COMPLEX; -errno. */
int constraint_new(Constraint **constraintp, ConstraintPlan *plan, ConstraintVocabulary *vocabulary, ErrText *err);
Constraint *constraint_ref(Constraint *constraint);
Constraint *constraint_unref(Constraint *constraint); /* NULL is allowed; returns NULL */
DEFINE_CLEANUP(Constraint, constraint_unref)

/* Whether someone else has a reference, too. */
bool constraint_is_shared(const Constraint *constraint);

/* Returns the least number of tokens of a whole answer that begins at an entry, as far as it is known: no answer needs
 * more. */
uint32_t constraint_least_tokens(const Constraint *constraint, uint32_t entry);
/* Whether text of a grammar comes first: then a space that a tokenizer puts before texts counts as text. */
bool constraint_begins_with_text(const Constraint *constraint, uint32_t entry);
ConstraintVocabulary *constraint_vocabulary(const Constraint *constraint);
/* Charges its memory until it is freed. Call it once, before other threads know the constraint. 0, ACCOUNT_E_LIMIT. */
int constraint_charge(Constraint *constraint, AccountTable *accounts, AccountId id);
size_t constraint_memory_bytes(const Constraint *constraint); /* grammars included, which others may share */

#endif
