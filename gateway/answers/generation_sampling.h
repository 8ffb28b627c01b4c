// SPDX-License-Identifier: Apache-2.0
/* The fields of a body that say how tokens are chosen. */
#ifndef COORDGEN_GATEWAY_GENERATION_SAMPLING_H
#define COORDGEN_GATEWAY_GENERATION_SAMPLING_H

#include "gateway/answers/generation_request.h"

extern const FieldTable generation_sampling_table; /* of a GenerationRequest */
/* Settles what several fields say together. */
void generation_sampling_settle(GenerationRequest *request);

#endif
