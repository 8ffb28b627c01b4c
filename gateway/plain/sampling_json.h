// SPDX-License-Identifier: Apache-2.0
/* Sampling options with llama-server's names. */
#ifndef COORDGEN_GATEWAY_SAMPLING_JSON_H
#define COORDGEN_GATEWAY_SAMPLING_JSON_H

#include <jansson.h>

#include "gateway/request/generation_request.h"

/* Returns the options that an answer was made with: "generation_settings". NULL: out of memory. */
json_t *sampling_json(const CoordgenGenerateResult *result, const GenerationRequest *request, uint64_t seed);
/* Returns those of a request that sets none: "params" of the default settings. NULL: out of memory. */
json_t *sampling_defaults_json(const CoordgenSamplingDefaults *sampling);

#endif
