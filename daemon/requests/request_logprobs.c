// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/request_logprobs.h"

#include <assert.h>

static void fill(Coordgen__V1__Logprob *message, const JobLogprobs *logprobs, size_t index) {
    const JobLogprob *entry = &logprobs->entries[index];
    const size_t begin = index ? logprobs->entries[index - 1].piece_end : 0;

    coordgen__v1__logprob__init(message);
    message->has_token = message->has_logprob = message->has_piece = true;
    message->token = entry->it.token;
    message->logprob = entry->it.logprob;
    message->piece.len = entry->piece_end - begin;
    message->piece.data = message->piece.len ? (uint8_t *)logprobs->pieces.data + begin : NULL;
}

void request_logprobs_fill(RequestLogprobs *room, const JobLogprobs *logprobs, size_t from, size_t to,
                           Coordgen__V1__GenerateDelta *delta) {
    assert(to - from <= JOB_LOGPROBS_ENTRIES_MAX);
    if (from == to)
        return;
    coordgen__v1__token_logprobs__init(&room->token);
    for (size_t i = from; i < to; i++)
        fill(&room->list[i - from], logprobs, i);
    for (size_t i = from + 1; i < to; i++)
        room->top[i - from - 1] = &room->list[i - from];
    room->token.chosen = &room->list[0];
    room->token.top = room->top;
    room->token.n_top = to - from - 1;
    room->tokens[0] = &room->token;
    delta->logprobs = room->tokens;
    delta->n_logprobs = 1;
}
