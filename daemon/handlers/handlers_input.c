// SPDX-License-Identifier: Apache-2.0
/* Texts that clients send: chat messages, and how much text the service accepts. */
#include <stdlib.h>
#include <string.h>

#include "daemon/handlers/handlers_list.h"
#include "daemon/net/reply.h"

static size_t n_calls(const Coordgen__V1__Messages *messages) {
    size_t n = 0;

    for (size_t i = 0; i < messages->n_message; i++)
        n += messages->message[i]->n_tool_calls;
    return n;
}

ChatMessage *handler_messages(const Coordgen__V1__Messages *messages, const ChatMessage *before, size_t n_before) {
    static const ChatRole roles[] = {
        [COORDGEN__V1__ROLE__ROLE_SYSTEM] = CHAT_ROLE_SYSTEM,
        [COORDGEN__V1__ROLE__ROLE_USER] = CHAT_ROLE_USER,
        [COORDGEN__V1__ROLE__ROLE_ASSISTANT] = CHAT_ROLE_ASSISTANT,
        [COORDGEN__V1__ROLE__ROLE_TOOL] = CHAT_ROLE_TOOL,
    };
    const size_t n_all = n_before + messages->n_message;
    ChatMessage *list = calloc(1, n_all * sizeof(*list) + n_calls(messages) * sizeof(ChatToolCall));
    ChatToolCall *calls;

    if (!list)
        return NULL;
    calls = (ChatToolCall *)(list + n_all);
    if (n_before)
        memcpy(list, before, n_before * sizeof(*list));
    for (size_t i = 0; i < messages->n_message; i++) {
        const Coordgen__V1__Message *from = messages->message[i];

        list[n_before + i] = (ChatMessage){
            .role = roles[from->role],
            .text = from->text ? from->text : "",
            .len_bytes = from->text ? strlen(from->text) : 0,
            .tool_calls = calls,
            .n_tool_calls = from->n_tool_calls,
            .tool_call_id = from->tool_call_id,
            .name = from->name,
            .reasoning = from->reasoning,
        };
        for (size_t k = 0; k < from->n_tool_calls; k++)
            *calls++ =
                (ChatToolCall){ from->tool_calls[k]->id, from->tool_calls[k]->name, from->tool_calls[k]->arguments };
    }
    return list;
}

static size_t text_bytes(const char *text) {
    return text ? strlen(text) : 0;
}

size_t handler_messages_bytes(const Coordgen__V1__Messages *messages) {
    size_t sum_bytes = 0;

    for (size_t i = 0; i < messages->n_message; i++) {
        const Coordgen__V1__Message *message = messages->message[i];

        sum_bytes += text_bytes(message->text) + text_bytes(message->tool_call_id) + text_bytes(message->name) +
                     text_bytes(message->reasoning);
        for (size_t k = 0; k < message->n_tool_calls; k++)
            sum_bytes += text_bytes(message->tool_calls[k]->id) + text_bytes(message->tool_calls[k]->name) +
                         text_bytes(message->tool_calls[k]->arguments);
    }
    return sum_bytes;
}

bool handler_text_fits(Peer *peer, uint64_t request_id, size_t len_bytes, const char *field) {
    uint64_t max_bytes = peer->service->config->limits.prompt_max_bytes;

    if (len_bytes <= max_bytes)
        return true;
    connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0, field,
                          "%s: %zu bytes of text: at most %llu are accepted", field, len_bytes,
                          (unsigned long long)max_bytes);
    return false;
}
