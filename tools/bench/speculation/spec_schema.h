// SPDX-License-Identifier: Apache-2.0
/* Constraints of requests, as the service makes them of JSON schemas. */
#ifndef COORDGEN_BENCH_SPEC_SCHEMA_H
#define COORDGEN_BENCH_SPEC_SCHEMA_H

#include <jansson.h>

#include "engine/constraint/constraint.h"

/* Makes the constraint of a schema, for the vocabulary. Return: 0; -EINVAL with a text that names what the schema asks
 * for; -ENOMEM. */
int spec_schema_constraint(Constraint **constraintp, const json_t *schema, ConstraintVocabulary *vocabulary,
                           ErrText *err);

#endif
