// SPDX-License-Identifier: Apache-2.0
/* Texts that clients send: chat messages, and how much text the service accepts. */
#include <stdlib.h>
#include <string.h>

#include "daemon/handlers/handlers_list.h"
#include "daemon/net/reply.h"

ChatMessage *handler_messages(const Coordgen__V1__Messages *messages, const ChatMessage *before, size_t n_before) {
    static const ChatRole roles[] = {
        [COORDGEN__V1__ROLE__ROLE_SYSTEM] = CHAT_ROLE_SYSTEM,
        [COORDGEN__V1__ROLE__ROLE_USER] = CHAT_ROLE_USER,
        [COORDGEN__V1__ROLE__ROLE_ASSISTANT] = CHAT_ROLE_ASSISTANT,
        [COORDGEN__V1__ROLE__ROLE_TOOL] = CHAT_ROLE_TOOL,
    };
    ChatMessage *list = calloc(n_before + messages->n_message, sizeof(*list));

    if (!list)
        return NULL;
    if (n_before)
        memcpy(list, before, n_before * sizeof(*list));
    for (size_t i = 0; i < messages->n_message; i++)
        list[n_before + i] = (ChatMessage){
            .role = roles[messages->message[i]->role],
            .text = messages->message[i]->text,
            .len_bytes = strlen(messages->message[i]->text),
        };
    return list;
}

size_t handler_messages_bytes(const Coordgen__V1__Messages *messages) {
    size_t sum_bytes = 0;

    for (size_t i = 0; i < messages->n_message; i++)
        sum_bytes += strlen(messages->message[i]->text);
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
