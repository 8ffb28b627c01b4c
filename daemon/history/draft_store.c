// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/history/draft_store_private.h"

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
#include "base/system/c_library.h"
#include "base/system/thread.h"

enum {
    NICENESS = 10, /* requests that run come first */
};

/* Whether a line is due; *np: how many it is of. */
bool draft_store_log_due(QuietLog *quiet, uint64_t *np) {
    const uint64_t now_ns = clock_now_ns();

    quiet->n++;
    if (now_ns < quiet->until_ns)
        return false;
    *np = quiet->n;
    quiet->n = 0;
    quiet->until_ns = now_ns + DRAFT_STORE_QUIET_NS;
    return true;
}

/* Of the room for answers that wait. */
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

/* Takes the errand where it is to go next. What changes a user's documents goes by the engine thread, so that its
 * answer comes when nothing of before is in memory any more. */
static void serve(DraftStore *store, DraftErrand *next) {
    _cleanup_(draft_errand_freep) DraftErrand *errand = next;

    switch (errand->kind) {
    case DRAFT_ADD:
        if (!draft_store_add(store, errand))
            post_news(store, &errand);
        return;
    case DRAFT_BUILD:
        draft_store_build(store, errand);
        post_news(store, &errand);
        return;
    case DRAFT_RECENT:
        draft_store_recent(store, errand);
        post_news(store, &errand);
        return;
    case DRAFT_FORGET:
    case DRAFT_IMPORT:
        errand->r = draft_store_call(store, errand);
        post_news(store, &errand);
        return;
    default:
        errand->r = draft_store_call(store, errand);
        draft_store_answer(store, &errand);
    }
}

/* While the service ends only answers are stored: what they wait for is a client's, or memory that goes. */
static DraftErrand *next_while_stopping(DraftStore *store) {
    DraftErrand *errand;

    STAILQ_FOREACH(errand, &store->queue, link)
    if (errand->kind == DRAFT_ADD)
        break;
    if (errand)
        STAILQ_REMOVE(&store->queue, errand, DraftErrand, link);
    return errand;
}

/* Waits for the next errand. NULL: the thread may look whether something is too old or the database can be opened
 * (*endp false), or it ends. */
static DraftErrand *next_errand(DraftStore *store, bool *endp) {
    DraftErrand *errand;

    pthread_mutex_lock(&store->lock);
    if (STAILQ_EMPTY(&store->queue) && !store->stopping)
        (void)thread_cond_wait_until(&store->wake, &store->lock,
                                     clock_now_ns() + (store->db ? DRAFT_STORE_EXPIRE_NS : DRAFT_STORE_RETRY_NS));
    if (store->stopping) {
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
    (void)draft_store_ready(store);
    while (!end) {
        DraftErrand *errand = next_errand(store, &end);

        if (errand)
            serve(store, errand);
        if (!end && draft_store_ready(store))
            draft_store_expire(store);
    }
    store->db = draft_db_free(store->db);
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
    store->limits = *limits;
    store->accounts = accounts;
    store->expire_ns = clock_now_ns() + DRAFT_STORE_EXPIRE_NS; /* opening it has looked */
    store->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (store->fd < 0)
        return err_raise(-errno);
    store->path = strdup(path);
    if (!store->path)
        return err_raise(-ENOMEM);
    *storep = steal(&store);
    return 0;
}

int draft_store_start(DraftStore *store, void (*on_news)(void *arg), void *arg) {
    int r;

    store->on_news = on_news;
    store->on_news_arg = arg;
    r = thread_start(&store->thread, "draftdb", draft_store_run, store);
    store->is_started = !r;
    return r;
}

int draft_store_stop(DraftStore *store, uint64_t timeout_ms) {
    int r;

    if (!store->is_started || store->is_joined)
        return 0;
    pthread_mutex_lock(&store->lock);
    store->stopping = true;
    atomic_store(&store->is_stopping, true);
    pthread_cond_signal(&store->wake);
    pthread_mutex_unlock(&store->lock);
    r = c_library_join_within(store->thread, timeout_ms);
    if (r)
        return r;
    store->is_joined = true;
    return 0;
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
    assert(!store->is_started || store->is_joined);
    free_list(&store->queue);
    free_list(&store->news);
    free_list(&store->answers);
    if (store->fd >= 0)
        close(store->fd);
    pthread_cond_destroy(&store->wake);
    pthread_mutex_destroy(&store->lock);
    free(store->path);
    free(store);
    return NULL;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* What one user's answers take of the queue. Locked. */
static uint64_t waiting_of(const DraftStore *store, uint32_t uid) {
    const DraftErrand *errand;
    uint64_t len_bytes = 0;

    STAILQ_FOREACH(errand, &store->queue, link)
    if (errand->uid == uid)
        len_bytes += errand_waiting_bytes(errand);
    return len_bytes;
}

/* Locked. Where the disk is slower than the answers come, the latest ones go; one user leaves room for others. */
static bool has_room(const DraftStore *store, const DraftErrand *errand) {
    const uint64_t len_bytes = errand_waiting_bytes(errand);

    return store->waiting_bytes + len_bytes <= DRAFT_STORE_WAITING_BYTES &&
           waiting_of(store, errand->uid) + len_bytes <= DRAFT_STORE_WAITING_BYTES / DRAFT_STORE_USER_PARTS;
}

void draft_store_submit(DraftStore *store, DraftErrand **errandp) {
    _cleanup_(draft_errand_freep) DraftErrand *errand = steal(errandp);
    uint64_t n = 0;

    pthread_mutex_lock(&store->lock);
    if (errand->kind != DRAFT_ADD || (!errand->is_incomplete && has_room(store, errand))) {
        store->waiting_bytes += errand_waiting_bytes(errand);
        STAILQ_INSERT_TAIL(&store->queue, errand, link);
        errand = NULL;
        pthread_cond_signal(&store->wake);
    } else {
        atomic_fetch_add(&store->n_dropped, 1);
        if (!draft_store_log_due(&store->overflows, &n))
            n = 0;
    }
    pthread_mutex_unlock(&store->lock);
    if (n)
        log_warn(TOPIC_DAEMON, "%" PRIu64 " answers are not stored for later drafts: %s", n,
                 errand->is_incomplete ? "memory-limit is reached"
                                       : "the disk of the draft database is slower than they come");
}

DraftStoreCounts draft_store_counts(const DraftStore *store) {
    return (DraftStoreCounts){ atomic_load(&store->n_stored), atomic_load(&store->n_dropped) };
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
    /* Fails only when the counter is full, and then the loop is awake anyway. */
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
