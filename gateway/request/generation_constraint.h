// SPDX-License-Identifier: Apache-2.0
/* The fields of a body that say which texts an answer may have. */
#ifndef COORDGEN_GATEWAY_GENERATION_CONSTRAINT_H
#define COORDGEN_GATEWAY_GENERATION_CONSTRAINT_H

#include "gateway/request/generation_request.h"

extern const FieldTable generation_constraint_table; /* of a GenerationRequest */
/* Makes the constraint of the fields that were read; two of them are refused. 0 or API_E_REFUSED. */
int generation_constraint_settle(GenerationRequest *request, ApiError *error);

/* Sets the constraint to a JSON schema, an object or a boolean. param: a constant, the field that has it. 0 or
 * API_E_REFUSED. */
int generation_set_schema(GenerationRequest *request, const json_t *schema, const char *param, ApiError *error);

#endif
