// SPDX-License-Identifier: Apache-2.0
/* The fields of a body that say how tokens are chosen. */
#ifndef COORDGEN_GATEWAY_SAMPLING_FIELDS_H
#define COORDGEN_GATEWAY_SAMPLING_FIELDS_H

#include "gateway/request/generation_request.h"

extern const FieldTable sampling_fields_table; /* of a GenerationRequest */
/* Settles what several fields say together. */
void sampling_fields_settle(GenerationRequest *request);
/* Adds the biases of texts, whose ids are known, to those of ids. 0 or API_E_REFUSED. */
int sampling_fields_join(GenerationRequest *request, ApiError *error);

#endif
