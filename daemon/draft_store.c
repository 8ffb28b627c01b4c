// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/draft_store.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "base/file_io.h"
#include "base/log.h"
#include "base/thread.h"
#include "spec/suffix_automaton.h"

enum {
    NICENESS = 10, /* requests that run come first */
};

#define RETRY_NS (UINT64_C(60) * 1000 * 1000 * 1000) /* a database that could not be opened is tried again after that */
#define EXPIRE_NS (UINT64_C(3600) * 1000 * 1000 * 1000)
#define QUIET_NS (UINT64_C(60) * 1000 * 1000 * 1000) /* between two log lines of one kind */

/* At most a line in so long; how many it stands for. */
typedef struct QuietLog {
    uint64_t until_ns;
    uint64_t n;
} QuietLog;

struct DraftStore {
    char *path;             /* const */
    DraftDbLimits limits;   /* const */
    AccountTable *accounts; /* const */
    void (*on_news)(void *arg);
    void *on_news_arg;
    pthread_t thread;
    bool is_started, is_joined; /* loop */
    int fd;                     /* const: of answers */

    pthread_mutex_t lock;
    pthread_cond_t wake;
    DraftErrandList queue;   /* lock */
    uint64_t waiting_bytes;  /* lock: of tokens in the queue */
    bool stopping;           /* lock */
    QuietLog overflows;      /* lock */
    DraftErrandList news;    /* lock */
    DraftErrandList answers; /* lock */
    _Atomic bool has_news;
    _Atomic bool is_stopping; /* the same as stopping, for what looks at it without the lock */
    _Atomic uint64_t n_stored, n_dropped;

    /* The store's thread. */
    DraftDb *db;       /* NULL: it cannot be used */
    ErrText why;       /* then: why not */
    uint64_t retry_ns; /* then: not before */
    uint64_t expire_ns;
    QuietLog failures;
};

/* Whether a line is due; *np: how many it is of. */
static bool quiet_log_due(QuietLog *quiet, uint64_t *np) {
    const uint64_t now_ns = clock_now_ns();

    quiet->n++;
    if (now_ns < quiet->until_ns)
        return false;
    *np = quiet->n;
    quiet->n = 0;
    quiet->until_ns = now_ns + QUIET_NS;
    return true;
}

/* Of the room for answers that wait. */
static uint64_t errand_waiting_bytes(const DraftErrand *errand) {
    return errand->kind == DRAFT_ADD ? errand->bill.bytes : 0;
}

/* ---- the database ------------------------------------------------------------------------------------------------ */

static int make_parents(const char *path, ErrText *err) {
    _cleanup_(freep) char *folder = strdup(path);
    char *slash;

    for (int i = 0; folder && i < 2; i++) { /* the last one is the database's own to make */
        slash = strrchr(folder, '/');
        if (!slash || slash == folder)
            return 0;
        *slash = 0;
    }
    return folder ? file_make_dirs(folder, err) : err_set(err, -ENOMEM, "out of memory");
}

static int count_documents(void *arg, const DraftDbStats *stats) {
    *(uint64_t *)arg += stats->n_documents;
    return 0;
}

/* The log says once that it was set aside; what comes of that is 0 for whom an empty database is as good. */
static int taken_as_empty(int r, const ErrText *err) {
    if (r == DRAFT_DB_E_SET_ASIDE) {
        log_error(TOPIC_DAEMON, "draft database %s", err->text);
        return 0;
    }
    return r;
}

static int store_open(DraftStore *store, ErrText *err) {
    uint64_t n_documents = 0;
    ErrText ignored;
    int r = make_parents(store->path, err);

    if (!r)
        r = taken_as_empty(draft_db_open(&store->db, store->path, &store->limits, (uint64_t)time(NULL), err), err);
    if (!r && !draft_db_stats_each(store->db, count_documents, &n_documents, &ignored))
        log_info(TOPIC_DAEMON, "draft database %s: %" PRIu64 " documents", store->path, n_documents);
    return r;
}

/* Whether the database can be used. One that cannot be opened is tried again, for another process may let go of it, or a
 * disk get room. */
static bool store_ready(DraftStore *store) {
    const uint64_t now_ns = clock_now_ns();
    ErrText err = { "" };

    if (store->db)
        return true;
    if (now_ns < store->retry_ns)
        return false;
    store->retry_ns = now_ns + RETRY_NS;
    if (!store_open(store, &err))
        return true;
    store->db = draft_db_free(store->db);
    store->why = err;
    log_warn(TOPIC_DAEMON, "nothing is stored for later drafts: draft database %s", err.text);
    return false;
}

static void expire(DraftStore *store) {
    const uint64_t now_ns = clock_now_ns();
    ErrText err = { "" };
    int r;

    if (!store->limits.age_max_s || now_ns < store->expire_ns || !store_ready(store))
        return;
    store->expire_ns = now_ns + EXPIRE_NS;
    r = taken_as_empty(draft_db_expire(store->db, (uint64_t)time(NULL), &err), &err);
    if (r)
        log_warn(TOPIC_DAEMON, "draft database %s", err.text);
}

/* ---- errands of the engine thread -------------------------------------------------------------------------------- */

static int add_once(DraftStore *store, const DraftErrand *errand, ErrText *err) {
    const DraftDbDocument document = { .uid = errand->uid,
                                       .tokenizer = errand->tokenizer,
                                       .tokens = errand->tokens,
                                       .n_tokens = errand->n_tokens,
                                       .time_s = (uint64_t)time(NULL) };

    return draft_db_add(store->db, &document, err);
}

/* 0: it is on the disk. */
static int serve_add(DraftStore *store, DraftErrand *errand) {
    ErrText err = { "" };
    uint64_t n;
    int r;

    if (!store_ready(store)) {
        atomic_fetch_add(&store->n_dropped, 1);
        return -ENOENT;
    }
    r = add_once(store, errand, &err);
    if (r == DRAFT_DB_E_SET_ASIDE && !taken_as_empty(r, &err))
        r = add_once(store, errand, &err);
    if (!r) {
        atomic_fetch_add(&store->n_stored, 1);
        log_debug(TOPIC_DAEMON, "draft database: uid %" PRIu32 ": an answer of %zu tokens is stored", errand->uid,
                  errand->n_tokens);
        return 0;
    }
    if (r == DRAFT_DB_E_FROZEN) /* as its user wants it */
        return r;
    atomic_fetch_add(&store->n_dropped, 1);
    if (quiet_log_due(&store->failures, &n))
        log_warn(TOPIC_DAEMON, "an answer is not stored for later drafts (%" PRIu64 " in the last minute or more): %s",
                 n, err.text);
    return r;
}

/* Documents as they are read, the newest first. */
typedef struct Collection {
    DraftStore *store;
    uint32_t **texts; /* [n], each [lengths[i]] */
    size_t *lengths;
    size_t n, room;
    Bill bill;
} Collection;

static void collection_deinit(Collection *collection) {
    for (size_t i = 0; i < collection->n; i++)
        free(collection->texts[i]);
    free(collection->texts);
    free(collection->lengths);
    bill_settle(&collection->bill);
}

static bool collection_grow(Collection *collection) {
    const size_t room = collection->room ? 2 * collection->room : 64;
    uint32_t **texts = reallocarray(collection->texts, room, sizeof(*texts));
    size_t *lengths;

    if (!texts)
        return false;
    collection->texts = texts;
    lengths = reallocarray(collection->lengths, room, sizeof(*lengths));
    if (!lengths)
        return false;
    collection->lengths = lengths;
    collection->room = room;
    return true;
}

/* The end of the reading where memory ends: what was read is the newest. */
static int collect(void *arg, const DraftDbDocument *document) {
    Collection *collection = arg;
    const size_t len_bytes = document->n_tokens * sizeof(uint32_t);
    uint32_t *tokens;

    if (atomic_load(&collection->store->is_stopping))
        return 1;
    if (!document->n_tokens)
        return 0;
    if ((collection->n == collection->room && !collection_grow(collection)) ||
        account_charge(collection->store->accounts, ACCOUNT_DRAFTDB, &collection->bill,
                       len_bytes + sizeof(uint32_t *) + sizeof(size_t)))
        return 1;
    tokens = malloc(len_bytes);
    if (!tokens)
        return 1;
    memcpy(tokens, document->tokens, len_bytes);
    collection->texts[collection->n] = tokens;
    collection->lengths[collection->n++] = document->n_tokens;
    return 0;
}

/* What is stored of a user and tokenizer as a History, which is the errand's; where there is no database it has none. The
 * oldest text goes in first, as it did when it was said. */
static void serve_build(DraftStore *store, DraftErrand *errand) {
    _cleanup_(collection_deinit) Collection collection = { .store = store };
    _cleanup_(history_freep) History *history = NULL;
    ErrText err = { "" };
    DraftDbRead read;
    int r;

    if (!store_ready(store))
        return;
    r = taken_as_empty(draft_db_each(store->db, errand->uid, errand->tokenizer,
                                     DRAFT_STORE_HISTORY_BYTES / SUFFIX_AUTOMATON_TOKEN_BYTES, collect, &collection,
                                     &read, &err),
                       &err);
    if (r) {
        log_warn(TOPIC_DAEMON, "draft database %s", err.text);
        return;
    }
    if (read.n_dropped)
        log_warn(TOPIC_DAEMON, "draft database %s: %" PRIu64 " damaged documents were deleted", store->path,
                 read.n_dropped);
    r = history_new(store->accounts, DRAFT_STORE_HISTORY_BYTES, &history);
    for (size_t i = collection.n; !r && i-- > 0;)
        r = history_add(history, collection.texts[i], collection.lengths[i]);
    if (r < 0) {
        log_warn(TOPIC_DAEMON, "no drafts from earlier answers: %s", strerror(-r));
        return;
    }
    log_debug(TOPIC_DAEMON, "draft database: uid %" PRIu32 ": drafts from %zu documents", errand->uid, collection.n);
    errand->history = steal(&history);
}

/* ---- errands of the loop ----------------------------------------------------------------------------------------- */

static int take_stats(void *arg, const DraftDbStats *stats) {
    DraftErrand *errand = arg;
    DraftDbStats *grown = reallocarray(errand->stats, errand->n_stats + 1, sizeof(*grown));

    if (!grown) {
        errand->r = err_set(&errand->err, -ENOMEM, "out of memory");
        return 1;
    }
    errand->stats = grown;
    errand->stats[errand->n_stats++] = *stats;
    return 0;
}

static int serve_stats(DraftStore *store, DraftErrand *errand) {
    DraftDbStats own;
    int r;

    if (errand->of_all_users) {
        r = taken_as_empty(draft_db_stats_each(store->db, take_stats, errand, &errand->err), &errand->err);
        return r ? r : errand->r;
    }
    own = (DraftDbStats){ .uid = errand->uid };
    r = taken_as_empty(draft_db_stats(store->db, errand->uid, &own, &errand->err), &errand->err);
    if (!r)
        (void)take_stats(errand, &own);
    return r ? r : errand->r;
}

static int serve_forget(DraftStore *store, DraftErrand *errand) {
    const DraftDbForget what = {
        .uid = errand->of_all_users ? NULL : &errand->uid,
        .tokenizer = errand->has_tokenizer ? errand->tokenizer : NULL,
        .before_s = errand->has_before ? &errand->before_s : NULL,
    };

    return taken_as_empty(draft_db_forget(store->db, &what, &errand->n_documents, &errand->err), &errand->err);
}

/* Into a file in memory, which is paid for before it is written: documents take less there than they are charged in the
 * database. */
static int serve_export(DraftStore *store, DraftErrand *errand) {
    DraftDbStats own = { 0 };
    int r = taken_as_empty(draft_db_stats(store->db, errand->uid, &own, &errand->err), &errand->err);

    if (r)
        return r;
    if (account_charge(store->accounts, ACCOUNT_DRAFTDB, &errand->bill, own.bytes + 4096))
        return err_set(&errand->err, -ENOMEM, "no memory for an export of %" PRIu64 " bytes: memory-limit is reached",
                       own.bytes);
    errand->fd = memfd_create("draftdb-export", MFD_CLOEXEC);
    if (errand->fd < 0)
        return err_set(&errand->err, -errno, "no memory for an export: %s", strerror(errno));
    return draft_db_export(store->db, errand->uid, errand->fd, &errand->n_documents, &errand->err);
}

static int serve_import(DraftStore *store, DraftErrand *errand) {
    DraftDbImported imported = { 0 };
    int r;

    if (lseek(errand->fd, 0, SEEK_SET) < 0)
        return err_set(&errand->err, -errno, "cannot read the import: %s", strerror(errno));
    r = draft_db_import(store->db, errand->uid, errand->fd, (uint64_t)time(NULL), &imported, &errand->err);
    if (r == DRAFT_DB_E_SET_ASIDE && !taken_as_empty(r, &errand->err)) {
        if (lseek(errand->fd, 0, SEEK_SET) == 0)
            r = draft_db_import(store->db, errand->uid, errand->fd, (uint64_t)time(NULL), &imported, &errand->err);
    }
    errand->n_documents = imported.n_documents;
    errand->n_expired = imported.n_expired;
    return r;
}

static int serve_call(DraftStore *store, DraftErrand *errand) {
    if (!store_ready(store))
        return err_set(&errand->err, -ENOENT, "the draft database cannot be used: %s", store->why.text);
    switch (errand->kind) {
    case DRAFT_STATS:
        return serve_stats(store, errand);
    case DRAFT_FORGET:
        return serve_forget(store, errand);
    case DRAFT_FREEZE:
        return taken_as_empty(draft_db_freeze(store->db, errand->uid, errand->is_frozen, &errand->err), &errand->err);
    case DRAFT_EXPORT:
        return serve_export(store, errand);
    case DRAFT_IMPORT:
        return serve_import(store, errand);
    case DRAFT_ADD:
    case DRAFT_BUILD:
        break;
    }
    return -EINVAL;
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

/* Takes the errand where it is to go next. What changes a user's documents goes by the engine thread, so that its answer
 * comes when nothing of before is in memory any more. */
static void serve(DraftStore *store, DraftErrand *next) {
    _cleanup_(draft_errand_freep) DraftErrand *errand = next;

    switch (errand->kind) {
    case DRAFT_ADD:
        if (!serve_add(store, errand))
            post_news(store, &errand);
        return;
    case DRAFT_BUILD:
        serve_build(store, errand);
        post_news(store, &errand);
        return;
    case DRAFT_FORGET:
    case DRAFT_IMPORT:
        errand->r = serve_call(store, errand);
        post_news(store, &errand);
        return;
    default:
        errand->r = serve_call(store, errand);
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

/* The next errand, or NULL: one may look whether something is too old (*endp false), or the thread ends. */
static DraftErrand *next_errand(DraftStore *store, bool *endp) {
    DraftErrand *errand;
    struct timespec until;

    pthread_mutex_lock(&store->lock);
    if (STAILQ_EMPTY(&store->queue) && !store->stopping) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += (time_t)(EXPIRE_NS / 1000000000);
        (void)pthread_cond_timedwait(&store->wake, &store->lock, &until);
    }
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
    (void)store_ready(store);
    while (!end) {
        DraftErrand *errand = next_errand(store, &end);

        if (errand)
            serve(store, errand);
        if (!end)
            expire(store);
    }
    store->db = draft_db_free(store->db);
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

int draft_store_new(DraftStore **storep, const char *path, const DraftDbLimits *limits, AccountTable *accounts) {
    _cleanup_(draft_store_freep) DraftStore *store = calloc(1, sizeof(*store));
    pthread_condattr_t attr;

    if (!store)
        return err_raise(-ENOMEM);
    STAILQ_INIT(&store->queue);
    STAILQ_INIT(&store->news);
    STAILQ_INIT(&store->answers);
    pthread_mutex_init(&store->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&store->wake, &attr);
    pthread_condattr_destroy(&attr);
    store->limits = *limits;
    store->accounts = accounts;
    store->expire_ns = clock_now_ns() + EXPIRE_NS; /* opening it has looked */
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
    struct timespec until;
    int r;

    if (!store->is_started || store->is_joined)
        return 0;
    pthread_mutex_lock(&store->lock);
    store->stopping = true;
    atomic_store(&store->is_stopping, true);
    pthread_cond_signal(&store->wake);
    pthread_mutex_unlock(&store->lock);
    clock_gettime(CLOCK_REALTIME, &until); /* of the join that the thread sanitizer knows */
    until.tv_sec += (time_t)(timeout_ms / 1000);
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    r = pthread_timedjoin_np(store->thread, NULL, &until);
    if (r)
        return -r;
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
        if (!quiet_log_due(&store->overflows, &n))
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
