// SPDX-License-Identifier: Apache-2.0
/* Follows the events of a streamed response through the states that OpenAI's clients know. */
#ifndef COORDGEN_TEST_RESPONSE_CHECKER_H
#define COORDGEN_TEST_RESPONSE_CHECKER_H

#include <jansson.h>

/* Follows the events of an array to their end. *outputp: the items that they told of, a new reference, if it is not
 * NULL and all is well. Returns NULL, or what is wrong, in a buffer that the next call overwrites. */
const char *response_checker_follow(const json_t *events, json_t **outputp);

#endif
