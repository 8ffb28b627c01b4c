// SPDX-License-Identifier: Apache-2.0
/* What users' earlier answers are in memory, one History a user and tokenizer, for the thread that computes. Each is
 * made by the draft database's thread when a model is loaded, or when it is first asked for, and has what is stored
 * since. All of it is the engine thread's; nobody's is read for another user. */
#ifndef COORDGEN_DAEMON_HISTORIES_H
#define COORDGEN_DAEMON_HISTORIES_H

#include "daemon/history/draft_store.h"

enum {
    HISTORIES_MAX = 16
};

#define HISTORIES_IDLE_NS (UINT64_C(600) * 1000 * 1000 * 1000) /* one that nobody has asked for since goes */
/* One is made anew after so long, without what has become too old. */
#define HISTORIES_LIFE_NS (UINT64_C(24) * 3600 * 1000 * 1000 * 1000)

typedef struct Histories Histories;

int histories_new(Histories **historiesp, DraftStore *store); /* the store outlives it */
Histories *histories_free(Histories *histories);              /* before the accounts that it is on */
DEFINE_CLEANUP(Histories, histories_free)

/* The user's, or NULL: it is not there yet, or there is no room for it. Good until the next call of histories_settle()
 * or histories_drop(); HistoryReaders live on. */
History *histories_find(Histories *histories, uint32_t uid, const uint8_t *tokenizer, uint64_t now_ns);
/* A model of the tokenizer has been loaded: who has lately been answered by it will find their answers in memory, as
 * far as there is room that nobody uses. */
void histories_warm(Histories *histories, const uint8_t *tokenizer);
/* Takes in what the store has done, and lets go of what nobody uses. */
bool histories_have_news(const Histories *histories);
void histories_settle(Histories *histories, uint64_t now_ns);
uint64_t histories_wake_ns(const Histories *histories); /* when to settle without news; UINT64_MAX: never */
/* For whom memory is short: all, or one of the user who has the most. False: there was none. */
bool histories_drop(Histories *histories);
bool histories_drop_one(Histories *histories);
DraftStore *histories_store(const Histories *histories);

#endif
