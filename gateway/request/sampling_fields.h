// SPDX-License-Identifier: Apache-2.0
/* The fields of a body that say how tokens are chosen. */
#ifndef COORDGEN_GATEWAY_SAMPLING_FIELDS_H
#define COORDGEN_GATEWAY_SAMPLING_FIELDS_H

#include "gateway/request/generation_request.h"

extern const FieldTable sampling_fields_table; /* of a GenerationRequest */
/* Settles what several fields say together. */
void sampling_fields_settle(GenerationRequest *request);

#endif
