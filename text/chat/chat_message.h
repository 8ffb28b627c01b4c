// SPDX-License-Identifier: Apache-2.0
/* A message of a chat, with the calls of tools that it holds. */
#ifndef COORDGEN_TEXT_CHAT_MESSAGE_H
#define COORDGEN_TEXT_CHAT_MESSAGE_H

#include <stddef.h>

typedef enum ChatRole {
    CHAT_ROLE_SYSTEM,
    CHAT_ROLE_USER,
    CHAT_ROLE_ASSISTANT,
    CHAT_ROLE_TOOL,
    _CHAT_ROLE_N,
} ChatRole;

/* A call of a tool by the model. */
typedef struct ChatToolCall {
    const char *id; /* NULL: none */
    const char *name;
    const char *arguments; /* JSON: an object; NULL: no arguments */
} ChatToolCall;

typedef struct ChatMessage {
    ChatRole role;
    const char *text;
    size_t len_bytes;
    const ChatToolCall *tool_calls; /* [n_tool_calls]; of the assistant */
    size_t n_tool_calls;
    const char *tool_call_id; /* of a tool's message: the call that it answers; NULL: none */
    const char *name;         /* the tool or the participant; NULL: none */
    const char *reasoning;    /* the assistant's thinking; NULL: none */
    void *block;              /* memory of a copy, which holds everything above; NULL: the caller owns these texts */
} ChatMessage;

const char *chat_role_name(ChatRole role);
/* Returns the bytes of all texts of a message, for limits and accounts. */
size_t chat_message_bytes(const ChatMessage *message);
/* Copies a message with all that belongs to it; chat_message_deinit() is due. 0 or -ENOMEM. */
int chat_message_copy(ChatMessage *to, const ChatMessage *from);
void chat_message_deinit(ChatMessage *message);

#endif
