// SPDX-License-Identifier: Apache-2.0
/* The input of a response, a text or a list of items, as messages for the service. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_RESPONSE_INPUT_H
#define COORDGEN_GATEWAY_RESPONSE_INPUT_H

#include "gateway/request/messages.h"

/* Adds the messages of the instructions (NULL: none) and of the input (NULL: none) behind those of the list. Texts live
 * as long as both and the list. 0 or API_E_REFUSED. */
int response_input_read(MessageList *messages, const char *instructions, const json_t *input, ApiError *error);

#endif
