// SPDX-License-Identifier: Apache-2.0
/* Log probabilities as OpenAI's completions have them: four lists with an entry for each token. */
#ifndef COORDGEN_GATEWAY_LEGACY_LOGPROBS_H
#define COORDGEN_GATEWAY_LEGACY_LOGPROBS_H

#include <jansson.h>

#include "client/coordgen-client.h"

/* Makes the four lists without any token. NULL: out of memory. */
json_t *legacy_logprobs_new(void);
/* Adds a delta's tokens to the lists. *n_charsp: characters of the tokens before, which grow. */
void legacy_logprobs_add(json_t *lists, const CoordgenEvent *event, size_t *n_charsp);

#endif
