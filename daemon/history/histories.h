// SPDX-License-Identifier: Apache-2.0
/* Users' earlier answers in memory: one History for each user and tokenizer. The draft database's thread builds a
 * History when a model is loaded or when the History is first asked for; later answers are added. The engine thread
 * owns all of this. No user's History serves another user. */
#ifndef COORDGEN_DAEMON_HISTORIES_H
#define COORDGEN_DAEMON_HISTORIES_H

#include "daemon/history/draft_store.h"

enum {
    HISTORIES_MAX = 16
};

#define HISTORIES_IDLE_NS (UINT64_C(600) * 1000 * 1000 * 1000) /* a History unused for so long is dropped */
/* A History is dropped at this age and then built again, without answers that have become too old. */
#define HISTORIES_LIFE_NS (UINT64_C(24) * 3600 * 1000 * 1000 * 1000)

typedef struct Histories Histories;

int histories_new(Histories **historiesp, DraftStore *store); /* the store must outlive the histories */
Histories *histories_free(Histories *histories);              /* before the accounts that pay for them */
DEFINE_CLEANUP(Histories, histories_free)

/* Finds a user's History, or asks for it to be built. NULL: not built yet, or no room. Valid until the next call of
 * histories_settle() or histories_drop(); HistoryReaders live on. */
History *histories_find(Histories *histories, uint32_t uid, const uint8_t *tokenizer, uint64_t now_ns);
/* Builds Histories for the users whom this tokenizer's models have answered lately, as far as there is unused room. To
 * call when a model is loaded. */
void histories_warm(Histories *histories, const uint8_t *tokenizer);
bool histories_have_news(const Histories *histories); /* the store has finished errands */
/* Takes in the errands that the store has finished, and drops unused Histories. */
void histories_settle(Histories *histories, uint64_t now_ns);
uint64_t histories_wake_ns(const Histories *histories); /* when to settle without news; UINT64_MAX: never */
/* Drops all Histories, or one of the user who has the most, because memory is short. false: there was none. */
bool histories_drop(Histories *histories);
bool histories_drop_one(Histories *histories);
DraftStore *histories_store(const Histories *histories);

#endif
