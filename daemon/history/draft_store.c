// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/history/draft_store.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/system/thread.h"
#include "daemon/history/draft_server.h"

enum {
    NICENESS = 10, /* running requests have precedence */
};

struct DraftStore {
    DraftServer server; /* store thread, except for what its header allows elsewhere */
    void (*on_news)(void *arg);
    void *on_news_arg;
    Thread thread; /* loop */
    int fd;        /* const; readable when there are answers */

    pthread_mutex_t lock;
    pthread_cond_t wake;
    DraftErrandList queue;   /* lock */
    uint64_t waiting_bytes;  /* lock; of the tokens in the queue */
    DraftErrandList news;    /* lock: for the engine thread */
    DraftErrandList answers; /* lock: for the loop */
    _Atomic bool has_news;   /* whether news has entries; any thread may read this without the lock */
};

/* Returns the bytes that an errand takes of the room for waiting answers. */
static uint64_t errand_waiting_bytes(const DraftErrand *errand) {
    return errand->kind == DRAFT_ADD ? errand->bill.bytes : 0;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void post_news(DraftStore *store, DraftErrand **errandp) {
    DraftErrand *errand = steal(errandp);

    pthread_mutex_lock(&store->lock);
    STAILQ_INSERT_TAIL(&store->news, errand, link);
    atomic_store(&store->has_news, true);
    pthread_mutex_unlock(&store->lock);
    store->on_news(store->on_news_arg);
}

/* Does an errand and passes it on. An errand that changes a user's documents passes through the engine thread, so that
 * its answer comes after the old documents have left memory. */
static void serve(DraftStore *store, DraftErrand *next) {
    _cleanup_(draft_errand_freep) DraftErrand *errand = next;

    switch (errand->kind) {
    case DRAFT_ADD:
        if (!draft_server_add(&store->server, errand))
            post_news(store, &errand);
        return;
    case DRAFT_BUILD:
        draft_server_build(&store->server, errand);
        post_news(store, &errand);
        return;
    case DRAFT_RECENT:
        draft_server_recent(&store->server, errand);
        post_news(store, &errand);
        return;
    case DRAFT_FORGET:
    case DRAFT_IMPORT:
        errand->result.r = draft_server_call(&store->server, errand);
        post_news(store, &errand);
        return;
    default:
        errand->result.r = draft_server_call(&store->server, errand);
        draft_store_answer(store, &errand);
    }
}

/* Returns the next answer to store while the service ends. All other errands serve clients or histories in memory, and
 * both end with the service. */
static DraftErrand *next_while_stopping(DraftStore *store) {
    DraftErrand *errand;

    STAILQ_FOREACH (errand, &store->queue, link)
        if (errand->kind == DRAFT_ADD)
            break;
    if (errand)
        STAILQ_REMOVE(&store->queue, errand, DraftErrand, link);
    return errand;
}

/* Waits for the next errand. Return: NULL with *endp set if the thread must end; NULL otherwise if documents must
 * expire or the database must be opened. */
static DraftErrand *next_errand(DraftStore *store, bool *endp) {
    DraftErrand *errand;

    pthread_mutex_lock(&store->lock);
    if (STAILQ_EMPTY(&store->queue) && !atomic_load(&store->server.is_stopping))
        (void)thread_cond_wait_until(&store->wake, &store->lock,
                                     clock_now_ns() +
                                         (store->server.db ? DRAFT_SERVER_EXPIRE_NS : DRAFT_SERVER_BUSY_NS));
    if (atomic_load(&store->server.is_stopping)) {
        errand = next_while_stopping(store);
        *endp = !errand;
    } else {
        errand = STAILQ_FIRST(&store->queue);
        if (errand)
            STAILQ_REMOVE_HEAD(&store->queue, link);
    }
    if (errand)
        store->waiting_bytes -= errand_waiting_bytes(errand);
    pthread_mutex_unlock(&store->lock);
    return errand;
}

static void *draft_store_run(void *arg) {
    DraftStore *store = arg;
    bool end = false;

    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICENESS);
    (void)draft_server_ready(&store->server);
    while (!end) {
        DraftErrand *errand = next_errand(store, &end);

        if (errand)
            serve(store, errand);
        if (!end && draft_server_ready(&store->server))
            draft_server_expire(&store->server);
    }
    store->server.db = draft_db_free(store->server.db);
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

int draft_store_new(DraftStore **storep, const char *path, const DraftDbLimits *limits, AccountTable *accounts) {
    _cleanup_(draft_store_freep) DraftStore *store = calloc(1, sizeof(*store));

    if (!store)
        return err_raise(-ENOMEM);
    STAILQ_INIT(&store->queue);
    STAILQ_INIT(&store->news);
    STAILQ_INIT(&store->answers);
    pthread_mutex_init(&store->lock, NULL);
    thread_cond_init(&store->wake);
    store->server = (DraftServer){
        .limits = *limits,
        .accounts = accounts,
        .expire_ns = clock_now_ns() + DRAFT_SERVER_EXPIRE_NS, /* the opening itself expires documents */
    };
    store->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (store->fd < 0)
        return err_raise(-errno);
    store->server.path = strdup(path);
    if (!store->server.path)
        return err_raise(-ENOMEM);
    *storep = steal(&store);
    return 0;
}

int draft_store_start(DraftStore *store, void (*on_news)(void *arg), void *arg) {
    store->on_news = on_news;
    store->on_news_arg = arg;
    return thread_begin(&store->thread, "draftdb", draft_store_run, store);
}

int draft_store_stop(DraftStore *store, uint64_t timeout_ms) {
    if (!thread_is_under_way(&store->thread))
        return 0;
    pthread_mutex_lock(&store->lock);
    atomic_store(&store->server.is_stopping, true);
    pthread_cond_signal(&store->wake);
    pthread_mutex_unlock(&store->lock);
    return thread_end(&store->thread, timeout_ms);
}

static void free_list(DraftErrandList *list) {
    DraftErrand *errand;

    while ((errand = STAILQ_FIRST(list))) {
        STAILQ_REMOVE_HEAD(list, link);
        draft_errand_free(errand);
    }
}

DraftStore *draft_store_free(DraftStore *store) {
    if (!store)
        return NULL;
    assert(!thread_is_under_way(&store->thread));
    free_list(&store->queue);
    free_list(&store->news);
    free_list(&store->answers);
    if (store->fd >= 0)
        close(store->fd);
    pthread_cond_destroy(&store->wake);
    pthread_mutex_destroy(&store->lock);
    free(store->server.path);
    free(store);
    return NULL;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* Returns the bytes of one user's answers in the queue. The caller holds the lock. */
static uint64_t waiting_of(const DraftStore *store, uint32_t uid) {
    const DraftErrand *errand;
    uint64_t len_bytes = 0;

    STAILQ_FOREACH (errand, &store->queue, link)
        if (errand->uid == uid)
            len_bytes += errand_waiting_bytes(errand);
    return len_bytes;
}

/* Tells whether the queue takes the errand. If the disk is slow, the latest answers are dropped; one user's answers
 * leave room for others. The caller holds the lock. */
static bool has_room(const DraftStore *store, const DraftErrand *errand) {
    const uint64_t len_bytes = errand_waiting_bytes(errand);

    return store->waiting_bytes + len_bytes <= DRAFT_STORE_WAITING_BYTES &&
           waiting_of(store, errand->uid) + len_bytes <= DRAFT_STORE_WAITING_BYTES / DRAFT_STORE_USER_PARTS;
}

void draft_store_submit(DraftStore *store, DraftErrand **errandp) {
    _cleanup_(draft_errand_freep) DraftErrand *errand = steal(errandp);

    pthread_mutex_lock(&store->lock);
    if (errand->kind != DRAFT_ADD || (!errand->answer.is_incomplete && has_room(store, errand))) {
        store->waiting_bytes += errand_waiting_bytes(errand);
        STAILQ_INSERT_TAIL(&store->queue, errand, link);
        errand = NULL;
        pthread_cond_signal(&store->wake);
    }
    pthread_mutex_unlock(&store->lock);
    if (!errand)
        return;
    atomic_fetch_add(&store->server.n_dropped, 1);
    log_warn_of(errand->uid, TOPIC_DAEMON, "an answer is not stored for later drafts: %s",
                errand->answer.is_incomplete ? "memory-limit is reached"
                                             : "the disk of the draft database is slower than answers come");
}

DraftStoreCounts draft_store_counts(const DraftStore *store) {
    return (DraftStoreCounts){ atomic_load(&store->server.n_stored), atomic_load(&store->server.n_dropped) };
}

bool draft_store_has_news(const DraftStore *store) {
    return atomic_load(&store->has_news);
}

DraftErrand *draft_store_take_news(DraftStore *store) {
    DraftErrand *errand;

    pthread_mutex_lock(&store->lock);
    errand = STAILQ_FIRST(&store->news);
    if (errand)
        STAILQ_REMOVE_HEAD(&store->news, link);
    atomic_store(&store->has_news, !STAILQ_EMPTY(&store->news));
    pthread_mutex_unlock(&store->lock);
    return errand;
}

void draft_store_answer(DraftStore *store, DraftErrand **errandp) {
    DraftErrand *errand = steal(errandp);
    uint64_t one = 1;

    pthread_mutex_lock(&store->lock);
    STAILQ_INSERT_TAIL(&store->answers, errand, link);
    pthread_mutex_unlock(&store->lock);
    /* The write fails only if the counter is full, and then the loop is awake anyway. */
    (void)!write(store->fd, &one, sizeof(one));
}

int draft_store_fd(const DraftStore *store) {
    return store->fd;
}

DraftErrand *draft_store_take_answer(DraftStore *store) {
    DraftErrand *errand;
    uint64_t count;

    (void)!read(store->fd, &count, sizeof(count));
    pthread_mutex_lock(&store->lock);
    errand = STAILQ_FIRST(&store->answers);
    if (errand)
        STAILQ_REMOVE_HEAD(&store->answers, link);
    pthread_mutex_unlock(&store->lock);
    return errand;
}
