// SPDX-License-Identifier: Apache-2.0
/* A conversation in the form of OpenAI's chat completions, as messages for the service. */
#ifndef COORDGEN_GATEWAY_MESSAGES_H
#define COORDGEN_GATEWAY_MESSAGES_H

#include "client/coordgen-client.h"
#include "gateway/json/owned.h"

typedef struct MessageList {
    CoordgenMessage *list; /* [n]; texts live in the body, or in owned */
    size_t n, room;
    Owned owned;
} MessageList;

/* Reads an array of messages, which may not be empty, behind those of the list. path: its own, "messages". Texts live
 * as long as the array and the list. 0 or API_E_REFUSED. */
int messages_read(MessageList *messages, const json_t *array, const char *path, ApiError *error);
/* Adds one message behind the others; what it points to lives as long as the list. 0 or API_E_REFUSED. */
int messages_add(MessageList *messages, const CoordgenMessage *message, ApiError *error);
void messages_deinit(MessageList *messages);

/* How a part of a content is named that has text: its type, and the member with the text. */
typedef struct ContentPart {
    const char *type, *member;
    bool is_answer; /* it may come back with annotations and log probabilities, which have no effect */
} ContentPart;

/* Reads a content: a string, or an array of parts of the given types, whose texts become lines of one text. 0 or
 * API_E_REFUSED. */
int content_read(Owned *owned, const json_t *value, const ContentPart *parts, size_t n_parts, const char *path,
                 const char **textp, ApiError *error);

#endif
