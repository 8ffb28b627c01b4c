// SPDX-License-Identifier: Apache-2.0
/* Models as OpenAI's API and llama-server show them. */
#ifndef COORDGEN_GATEWAY_MODEL_JSON_H
#define COORDGEN_GATEWAY_MODEL_JSON_H

#include <jansson.h>

#include "client/coordgen-client.h"

/* Returns the object of a model: OpenAI's fields, and llama-server's "meta", "status" and "capabilities". NULL: out of
 * memory. */
json_t *model_json(const CoordgenModel *model);

#endif
