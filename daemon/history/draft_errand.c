// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/draft_errand.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

DraftErrand *draft_errand_new(DraftErrandKind kind, uint32_t uid, const uint8_t *tokenizer) {
    DraftErrand *errand = calloc(1, sizeof(*errand));

    if (!errand)
        return NULL;
    errand->kind = kind;
    errand->uid = uid;
    errand->fd = -1;
    if (tokenizer)
        memcpy(errand->tokenizer, tokenizer, sizeof(errand->tokenizer));
    return errand;
}

DraftErrand *draft_errand_free(DraftErrand *errand) {
    if (!errand)
        return NULL;
    free(errand->answer.tokens);
    free(errand->result.stats);
    history_freep(&errand->result.history);
    closep(&errand->fd);
    bill_settle(&errand->bill);
    free(errand);
    return NULL;
}

/* Doubles the room for tokens, and charges the new room before it is allocated. */
static bool grow(DraftErrand *errand, AccountTable *accounts) {
    const size_t room = errand->answer.room ? 2 * errand->answer.room : 64;
    uint32_t *tokens;

    if (account_charge(accounts, ACCOUNT_DRAFTDB, &errand->bill, (room - errand->answer.room) * sizeof(*tokens)))
        return false;
    tokens = reallocarray(errand->answer.tokens, room, sizeof(*tokens));
    if (!tokens)
        return false;
    errand->answer.tokens = tokens;
    errand->answer.room = room;
    return true;
}

void draft_errand_add_token(DraftErrand *errand, AccountTable *accounts, uint32_t token) {
    if (errand->answer.n_tokens == errand->answer.room && !grow(errand, accounts))
        errand->answer.is_incomplete = true;
    if (!errand->answer.is_incomplete)
        errand->answer.tokens[errand->answer.n_tokens++] = token;
}
