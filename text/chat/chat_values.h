// SPDX-License-Identifier: Apache-2.0
/* Messages as values that a chat template reads. */
#ifndef COORDGEN_TEXT_CHAT_VALUES_H
#define COORDGEN_TEXT_CHAT_VALUES_H

#include <stdbool.h>

#include "text/chat/chat_message.h"
#include "text/jinja/jinja.h"

#define CHAT_ID_BYTES 9 /* bytes of a made-up id of a call: Mistral's templates take no other length */

/* Texts that messages lack and templates want; valid until the rendering is over. */
typedef struct ChatValues {
    const char *system_tools; /* JSON text that the first system message gets as "tools"; NULL: none */
    bool calls_as_text;       /* arguments of calls are the JSON text; else its value */
    char (*ids)[CHAT_ID_BYTES + 1];
    size_t n_ids;
    const ChatMessage *caller; /* the last message with calls */
    size_t first_id;           /* place of its first made-up id */
    size_t n_results;          /* messages of tools since then */
} ChatValues;

/* 0 or -ENOMEM; chat_values_deinit() is due in any case. */
int chat_values_init(ChatValues *values, const ChatMessage *messages, size_t n);
void chat_values_deinit(ChatValues *values);
/* Puts the list "messages". A call without an id gets one, and a tool's message without id or name those of its call.
 * 0; JINJA_E_RUN: arguments of a call are no JSON object, and the text names the message; JINJA_E_LIMIT; -ENOMEM. */
int chat_values_put(ChatValues *values, JinjaRendering *rendering, const ChatMessage *messages, size_t n, ErrText *err);

#endif
