// SPDX-License-Identifier: Apache-2.0
/* The thread that owns the draft database: errands come in, results go back as news or answers. Neither the loop nor
 * the engine thread ever waits for the disk. */
#ifndef COORDGEN_DAEMON_DRAFT_STORE_H
#define COORDGEN_DAEMON_DRAFT_STORE_H

#include "daemon/history/draft_errand.h"

enum {
    DRAFT_STORE_WAITING_BYTES = 4 << 20, /* bytes of answers in the queue; answers beyond that are dropped */
    DRAFT_STORE_USER_PARTS = 2           /* one user's answers get at most 1/2 of the queue */
};

typedef struct DraftStore DraftStore;

typedef struct DraftStoreCounts {
    uint64_t n_stored;  /* answers, since the start */
    uint64_t n_dropped; /* answers that were not stored: no room in the queue, on the disk or in memory */
} DraftStoreCounts;

/* draft_store_start() opens the database. on_news: called by the store's thread when there are news for the engine
 * thread. */
int draft_store_new(DraftStore **storep, const char *path, const DraftDbLimits *limits, AccountTable *accounts);
int draft_store_start(DraftStore *store, void (*on_news)(void *arg), void *arg);
/* Stops the thread, which stores the waiting answers first and drops all other errands. 0, or -ETIMEDOUT: the thread
 * still runs. */
int draft_store_stop(DraftStore *store, uint64_t timeout_ms);
DraftStore *draft_store_free(DraftStore *store); /* after draft_store_stop(), or if never started */
DEFINE_CLEANUP(DraftStore, draft_store_free)

/* Queues an errand and takes it over. Errands are done in order. Any thread. */
void draft_store_submit(DraftStore *store, DraftErrand **errandp);
DraftStoreCounts draft_store_counts(const DraftStore *store);

/* Engine thread: takes the next finished errand that changes Histories in memory, in the order in which they were done;
 * NULL: none. An errand of the loop goes on to it with draft_store_answer(). */
bool draft_store_has_news(const DraftStore *store);
DraftErrand *draft_store_take_news(DraftStore *store);
void draft_store_answer(DraftStore *store, DraftErrand **errandp);

/* Loop: the descriptor is readable when there are answers to the loop's errands. */
int draft_store_fd(const DraftStore *store);
DraftErrand *draft_store_take_answer(DraftStore *store);

#endif
