// SPDX-License-Identifier: Apache-2.0
/* Writes a plan into a grammar builder. */
#ifndef COORDGEN_SCHEMA_EMIT_H
#define COORDGEN_SCHEMA_EMIT_H

#include "text/grammar/schema/schema_plan.h"

/* Returns the part of the root's values. */
GrammarPart schema_emit(SchemaCompiler *c, const SchemaPlan *plan, uint32_t root);

#endif
