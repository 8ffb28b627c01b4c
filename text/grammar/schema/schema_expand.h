// SPDX-License-Identifier: Apache-2.0
/* The keywords: which values fit a schema, and which do not. */
#ifndef COORDGEN_SCHEMA_EXPAND_H
#define COORDGEN_SCHEMA_EXPAND_H

#include "text/grammar/schema/schema_node.h"

/* Returns the values that fit the literal; c->r is set where a keyword is malformed or cannot be followed. */
SchemaSet schema_expand(SchemaCompiler *c, SchemaLiteral literal);

#endif
