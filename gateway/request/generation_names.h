// SPDX-License-Identifier: Apache-2.0
/* Names of a request's fields for errors of the service, whose own names the client has never seen. */
#ifndef COORDGEN_GATEWAY_GENERATION_NAMES_H
#define COORDGEN_GATEWAY_GENERATION_NAMES_H

#include "gateway/json/api_error.h"

/* Fields that a request may name in several ways: the name that it used, a constant; NULL: the usual name. */
typedef struct GenerationNames {
    const char *messages, *prompt, *suffix, *max_tokens, *constraint, *answer_prefix;
    const char *thinking, *kwargs, *logprobs, *no_answer; /* no_answer: add_generation_prompt */
} GenerationNames;

/* Puts the request's name of a field in the place of the service's, in param and at the front of the message. */
void generation_names_apply(const GenerationNames *names, ApiError *error);

#endif
