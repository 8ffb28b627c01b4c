// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/constraint/constraint_store.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "base/system/thread.h"
#include "daemon/constraint/constraint_cache.h"
#include "daemon/constraint/constraint_turns.h"
#include "engine/constraint/engine_vocabulary.h"

enum {
    NICENESS = 10,               /* running requests have precedence */
    COMPILE_BYTES_MIN = 4 << 20, /* memory that a compilation needs to begin */
};

struct ConstraintStore {
    AccountTable *accounts; /* const */
    ConstraintCache cache;  /* has a lock of its own */
    Thread thread;          /* loop */
    int fd;                 /* const */

    pthread_mutex_t lock;
    pthread_cond_t wake;
    ConstraintErrandList queue; /* lock */
    ConstraintErrandList done;  /* lock */
    bool is_stopping;           /* lock */
    bool wants_sweep;           /* lock */
    ConstraintTurns turns;      /* lock */
};

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* Reserves memory to compile: no more than half of what is left, so that generations can begin meanwhile. Where that is
 * too little, constraints of earlier requests make way. */
static int reserve(ConstraintStore *store, Bill *bill, GrammarLimits *limits, ErrText *err) {
    const uint64_t most_bytes = limits->memory_bytes_max;

    do {
        const uint64_t room_bytes = MIN(account_own_room_bytes(store->accounts, ACCOUNT_ACTIVATIONS),
                                        account_shared_room_bytes(store->accounts, ACCOUNT_ACTIVATIONS));

        limits->memory_bytes_max = (size_t)MIN(room_bytes / 2, most_bytes);
        if (limits->memory_bytes_max >= COMPILE_BYTES_MIN &&
            !account_charge(store->accounts, ACCOUNT_ACTIVATIONS, bill, limits->memory_bytes_max))
            return 0;
    } while (constraint_cache_drop_one(&store->cache));
    return err_set(err, CONSTRAINT_SPEC_E_MEMORY, "no memory to compile the constraint");
}

/* Charges a constraint. Those of earlier requests make way. 0, ACCOUNT_E_LIMIT. */
static int charge(ConstraintStore *store, Constraint *constraint) {
    int r = constraint_charge(constraint, store->accounts, ACCOUNT_ACTIVATIONS);

    while (r && constraint_cache_drop_one(&store->cache))
        r = constraint_charge(constraint, store->accounts, ACCOUNT_ACTIVATIONS);
    return r;
}

static int compile(ConstraintStore *store, ConstraintErrand *errand, Grammar **grammarp) {
    _cleanup_(bill_settle) Bill bill = { 0 };
    GrammarLimits limits = CONSTRAINT_LIMITS;
    const size_t most_bytes = limits.memory_bytes_max;
    int r;

    if (errand->spec.form == CONSTRAINT_FORM_NONE)
        return 0;
    r = reserve(store, &bill, &limits, &errand->err);
    if (!r)
        r = constraint_spec_compile(&errand->spec, &limits, grammarp, &errand->err);
    if (r == CONSTRAINT_SPEC_E_TOO_COMPLEX && limits.memory_bytes_max < most_bytes)
        return err_set(&errand->err, CONSTRAINT_SPEC_E_MEMORY, "too little memory to compile the constraint");
    return r;
}

static int build(ConstraintStore *store, ConstraintErrand *errand, Grammar *grammar) {
    _cleanup_(bill_settle) Bill bill = { 0 };
    GrammarLimits limits = CONSTRAINT_LIMITS;
    int r = errand->spec.tools ? reserve(store, &bill, &limits, &errand->err) : 0; /* schemas of tools come now */

    if (!r)
        r = constraint_spec_build(&errand->spec, grammar, errand->engine, &errand->constraint, &errand->err);
    if (!r && charge(store, errand->constraint)) {
        errand->constraint = constraint_unref(errand->constraint);
        r = err_set(&errand->err, CONSTRAINT_SPEC_E_MEMORY, "no memory for the constraint");
    }
    return r;
}

static void serve(ConstraintStore *store, ConstraintErrand *errand) {
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    ConstraintKey key = { .uid = errand->uid };

    constraint_spec_hash(&errand->spec, key.hash);
    if (errand->engine)
        errand->constraint = constraint_cache_find(&store->cache, &key, engine_vocabulary_made(errand->engine));
    if (errand->constraint)
        return;
    errand->r = compile(store, errand, &grammar);
    if (errand->r || !errand->engine)
        return;
    errand->r = build(store, errand, grammar);
    if (!errand->r)
        constraint_cache_add(&store->cache, &key, errand->constraint);
}

/* Waits for the next errand. NULL: the thread must end. */
static ConstraintErrand *next_errand(ConstraintStore *store) {
    ConstraintErrand *errand = NULL;

    pthread_mutex_lock(&store->lock);
    while (!store->is_stopping && !(errand = constraint_turns_next(&store->turns, &store->queue))) {
        if (store->wants_sweep)
            constraint_cache_sweep(&store->cache);
        store->wants_sweep = false;
        pthread_cond_wait(&store->wake, &store->lock);
    }
    if (errand) {
        TAILQ_REMOVE(&store->queue, errand, link);
        errand->stage = CONSTRAINT_ERRAND_RUNNING;
    }
    pthread_mutex_unlock(&store->lock);
    return errand;
}

static void *constraint_store_run(void *arg) {
    ConstraintStore *store = arg;
    ConstraintErrand *errand;

    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICENESS);
    while ((errand = next_errand(store))) {
        const uint64_t start_ns = clock_now_ns();
        const uint64_t one = 1;

        serve(store, errand);
        pthread_mutex_lock(&store->lock);
        constraint_turns_took(&store->turns, errand->uid, clock_now_ns() - start_ns);
        errand->stage = CONSTRAINT_ERRAND_DONE;
        TAILQ_INSERT_TAIL(&store->done, errand, link);
        pthread_mutex_unlock(&store->lock);
        /* The write fails only if the counter is full, and then the loop is awake anyway. */
        (void)!write(store->fd, &one, sizeof(one));
    }
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

int constraint_store_new(ConstraintStore **storep, AccountTable *accounts) {
    _cleanup_(constraint_store_freep) ConstraintStore *store = calloc(1, sizeof(*store));

    if (!store)
        return err_raise(-ENOMEM);
    store->accounts = accounts;
    constraint_cache_init(&store->cache);
    TAILQ_INIT(&store->queue);
    TAILQ_INIT(&store->done);
    pthread_mutex_init(&store->lock, NULL);
    thread_cond_init(&store->wake);
    store->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (store->fd < 0)
        return err_raise(-errno);
    *storep = steal(&store);
    return 0;
}

int constraint_store_stop(ConstraintStore *store, uint64_t timeout_ms) {
    if (!thread_is_under_way(&store->thread))
        return 0;
    pthread_mutex_lock(&store->lock);
    store->is_stopping = true;
    pthread_cond_signal(&store->wake);
    pthread_mutex_unlock(&store->lock);
    return thread_end(&store->thread, timeout_ms);
}

ConstraintStore *constraint_store_free(ConstraintStore *store) {
    if (!store)
        return NULL;
    assert(!thread_is_under_way(&store->thread));
    assert(TAILQ_EMPTY(&store->queue) && TAILQ_EMPTY(&store->done));
    constraint_cache_deinit(&store->cache);
    if (store->fd >= 0)
        close(store->fd);
    pthread_cond_destroy(&store->wake);
    pthread_mutex_destroy(&store->lock);
    free(store);
    return NULL;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

int constraint_store_submit(ConstraintStore *store, ConstraintErrand *errand) {
    if (!store->thread.is_started) {
        int r = thread_begin(&store->thread, "constraint", constraint_store_run, store);

        if (r)
            return r;
    }
    pthread_mutex_lock(&store->lock);
    constraint_turns_arrive(&store->turns, errand->uid);
    errand->stage = CONSTRAINT_ERRAND_QUEUED;
    TAILQ_INSERT_TAIL(&store->queue, errand, link);
    pthread_cond_signal(&store->wake);
    pthread_mutex_unlock(&store->lock);
    return 0;
}

bool constraint_store_withdraw(ConstraintStore *store, ConstraintErrand *errand) {
    bool is_taken = true;

    pthread_mutex_lock(&store->lock);
    switch (errand->stage) {
    case CONSTRAINT_ERRAND_QUEUED:
        TAILQ_REMOVE(&store->queue, errand, link);
        break;
    case CONSTRAINT_ERRAND_RUNNING:
        is_taken = false;
        break;
    case CONSTRAINT_ERRAND_DONE:
        TAILQ_REMOVE(&store->done, errand, link);
        break;
    }
    pthread_mutex_unlock(&store->lock);
    return is_taken;
}

int constraint_store_fd(const ConstraintStore *store) {
    return store->fd;
}

ConstraintErrand *constraint_store_take(ConstraintStore *store) {
    ConstraintErrand *errand;
    uint64_t count;

    (void)!read(store->fd, &count, sizeof(count));
    pthread_mutex_lock(&store->lock);
    errand = TAILQ_FIRST(&store->done);
    if (errand)
        TAILQ_REMOVE(&store->done, errand, link);
    pthread_mutex_unlock(&store->lock);
    return errand;
}

bool constraint_store_drop_one(ConstraintStore *store) {
    return constraint_cache_drop_one(&store->cache);
}

bool constraint_store_drop(ConstraintStore *store) {
    bool any = false;

    while (constraint_cache_drop_one(&store->cache))
        any = true;
    return any;
}

void constraint_store_sweep(ConstraintStore *store) {
    if (!store->thread.is_started)
        return;
    pthread_mutex_lock(&store->lock);
    store->wants_sweep = true;
    pthread_cond_signal(&store->wake);
    pthread_mutex_unlock(&store->lock);
}
