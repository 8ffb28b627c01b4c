// SPDX-License-Identifier: Apache-2.0
#include "text/chat/chat_message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

const char *chat_role_name(ChatRole role) {
    static const char *const names[_CHAT_ROLE_N] = { [CHAT_ROLE_SYSTEM] = "system",
                                                     [CHAT_ROLE_USER] = "user",
                                                     [CHAT_ROLE_ASSISTANT] = "assistant",
                                                     [CHAT_ROLE_TOOL] = "tool" };

    return role < _CHAT_ROLE_N ? names[role] : "?";
}

static size_t text_bytes(const char *text) {
    return text ? strlen(text) : 0;
}

size_t chat_message_bytes(const ChatMessage *message) {
    size_t bytes = message->len_bytes + text_bytes(message->tool_call_id) + text_bytes(message->name) +
                   text_bytes(message->reasoning);

    for (size_t i = 0; i < message->n_tool_calls; i++) {
        const ChatToolCall *call = &message->tool_calls[i];

        bytes += sizeof(*call) + text_bytes(call->id) + text_bytes(call->name) + text_bytes(call->arguments);
    }
    return bytes;
}

/* Copies a text to the cursor, which moves behind its NUL. */
static const char *put(char **cursorp, const char *text, size_t len_bytes) {
    char *at = *cursorp;

    if (!text)
        return NULL;
    if (len_bytes)
        memcpy(at, text, len_bytes);
    at[len_bytes] = 0;
    *cursorp += len_bytes + 1;
    return at;
}

static const char *put_text(char **cursorp, const char *text) {
    return put(cursorp, text, text_bytes(text));
}

int chat_message_copy(ChatMessage *to, const ChatMessage *from) {
    const size_t n_texts = 4 + 3 * from->n_tool_calls; /* each with a NUL */
    ChatToolCall *calls = malloc(chat_message_bytes(from) + n_texts);
    char *cursor;

    if (!calls)
        return err_raise(-ENOMEM);
    cursor = (char *)(calls + from->n_tool_calls);
    *to = (ChatMessage){ .role = from->role, .len_bytes = from->len_bytes, .n_tool_calls = from->n_tool_calls };
    to->text = put(&cursor, from->text ? from->text : "", from->len_bytes);
    to->tool_call_id = put_text(&cursor, from->tool_call_id);
    to->name = put_text(&cursor, from->name);
    to->reasoning = put_text(&cursor, from->reasoning);
    for (size_t i = 0; i < from->n_tool_calls; i++)
        calls[i] = (ChatToolCall){ .id = put_text(&cursor, from->tool_calls[i].id),
                                   .name = put_text(&cursor, from->tool_calls[i].name),
                                   .arguments = put_text(&cursor, from->tool_calls[i].arguments) };
    to->tool_calls = from->n_tool_calls ? calls : NULL;
    to->block = calls;
    return 0;
}

void chat_message_deinit(ChatMessage *message) {
    free(message->block);
    *message = (ChatMessage){ .role = message->role };
}
