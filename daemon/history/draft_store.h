// SPDX-License-Identifier: Apache-2.0
/* The thread that owns the draft database: what others want of it comes as errands and goes back as news. Neither the
 * loop nor the thread that computes ever waits for the disk. */
#ifndef COORDGEN_DAEMON_DRAFT_STORE_H
#define COORDGEN_DAEMON_DRAFT_STORE_H

#include "daemon/history/draft_errand.h"

enum {
    DRAFT_STORE_WAITING_BYTES = 4 << 20, /* of answers that wait to be stored; what does not fit is dropped */
    DRAFT_STORE_USER_PARTS = 2           /* one user's may have one part in so many */
};

typedef struct DraftStore DraftStore;

typedef struct DraftStoreCounts {
    uint64_t n_stored;  /* answers, since the start */
    uint64_t n_dropped; /* that were finished and are not stored: no room in the queue, on the disk or in memory */
} DraftStoreCounts;

/* Nothing is opened before draft_store_start(). on_news: called by the store's thread when the engine thread has
 * news. */
int draft_store_new(DraftStore **storep, const char *path, const DraftDbLimits *limits, AccountTable *accounts);
int draft_store_start(DraftStore *store, void (*on_news)(void *arg), void *arg);
/* Answers that wait are stored first; all else is left. 0, or -ETIMEDOUT: the thread still runs. */
int draft_store_stop(DraftStore *store, uint64_t timeout_ms);
DraftStore *draft_store_free(DraftStore *store); /* stopped before, or never started */
DEFINE_CLEANUP(DraftStore, draft_store_free)

/* Any thread; takes the errand. They are done in order. */
void draft_store_submit(DraftStore *store, DraftErrand **errandp);
DraftStoreCounts draft_store_counts(const DraftStore *store);

/* Engine thread: what is done and matters to it, in that order: answers that are stored, what was built, what was
 * forgotten or brought in. NULL: nothing. The loop's errands go on with draft_store_answer(). */
bool draft_store_has_news(const DraftStore *store);
DraftErrand *draft_store_take_news(DraftStore *store);
void draft_store_answer(DraftStore *store, DraftErrand **errandp);

/* Loop: the fd is readable when there are answers to its errands. */
int draft_store_fd(const DraftStore *store);
DraftErrand *draft_store_take_answer(DraftStore *store);

#endif
