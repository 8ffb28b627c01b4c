// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/histories.h"

#include <string.h>

#include "base/min_max.h"

typedef struct Entry {
    uint32_t uid;
    uint8_t tokenizer[DRAFT_DB_TOKENIZER_BYTES];
    History *history; /* NULL: the store still builds it */
    uint64_t used_ns; /* time of the last request for this history */
    uint64_t made_ns;
} Entry;

struct Histories {
    DraftStore *store;
    Entry entries[HISTORIES_MAX];
    size_t n;
};

int histories_new(Histories **historiesp, DraftStore *store) {
    Histories *histories = calloc(1, sizeof(*histories));

    if (!histories)
        return err_raise(-ENOMEM);
    histories->store = store;
    *historiesp = histories;
    return 0;
}

static void remove_at(Histories *histories, size_t i) {
    history_freep(&histories->entries[i].history);
    histories->entries[i] = histories->entries[--histories->n];
}

Histories *histories_free(Histories *histories) {
    if (!histories)
        return NULL;
    while (histories->n)
        remove_at(histories, histories->n - 1);
    free(histories);
    return NULL;
}

DraftStore *histories_store(const Histories *histories) {
    return histories->store;
}

static Entry *find(Histories *histories, uint32_t uid, const uint8_t *tokenizer) {
    for (size_t i = 0; i < histories->n; i++)
        if (histories->entries[i].uid == uid &&
            !memcmp(histories->entries[i].tokenizer, tokenizer, DRAFT_DB_TOKENIZER_BYTES))
            return &histories->entries[i];
    return NULL;
}

/* ---- room -------------------------------------------------------------------------------------------------------- */

static size_t count_of(const Histories *histories, uint32_t uid) {
    size_t n = 0;

    for (size_t i = 0; i < histories->n; i++)
        n += histories->entries[i].uid == uid;
    return n;
}

/* Makes room for a history of user @uid. The user with the most histories loses the least recently used one, but never
 * to another user who has as many, or would then have as many. Return: whether there is room. */
static bool make_room(Histories *histories, uint32_t uid) {
    const size_t own = count_of(histories, uid);
    size_t most = 0, victim = HISTORIES_MAX;

    if (histories->n < HISTORIES_MAX)
        return true;
    for (size_t i = 0; i < histories->n; i++) {
        const size_t n = count_of(histories, histories->entries[i].uid);

        if (n > most || (n == most && histories->entries[i].used_ns < histories->entries[victim].used_ns)) {
            most = n;
            victim = i;
        }
    }
    if (own == most) /* the user with the most gives up one of its own histories */
        for (size_t i = 0; i < histories->n; i++)
            if (histories->entries[i].uid == uid &&
                (histories->entries[victim].uid != uid ||
                 histories->entries[i].used_ns < histories->entries[victim].used_ns))
                victim = i;
    if (own != most && most <= own + 1)
        return false;
    remove_at(histories, victim);
    return true;
}

History *histories_find(Histories *histories, uint32_t uid, const uint8_t *tokenizer, uint64_t now_ns) {
    _cleanup_(draft_errand_freep) DraftErrand *errand = NULL;
    Entry *entry = find(histories, uid, tokenizer);

    if (entry) {
        entry->used_ns = now_ns;
        return entry->history;
    }
    if (!make_room(histories, uid))
        return NULL;
    errand = draft_errand_new(DRAFT_BUILD, uid, tokenizer);
    if (!errand)
        return NULL;
    entry = &histories->entries[histories->n++];
    *entry = (Entry){ .uid = uid, .used_ns = now_ns };
    memcpy(entry->tokenizer, tokenizer, sizeof(entry->tokenizer));
    draft_store_submit(histories->store, &errand);
    return NULL;
}

void histories_warm(Histories *histories, const uint8_t *tokenizer) {
    DraftErrand *errand = draft_errand_new(DRAFT_RECENT, 0, tokenizer);

    if (errand) /* without memory each history is built when a user asks for it */
        draft_store_submit(histories->store, &errand);
}

/* ---- news -------------------------------------------------------------------------------------------------------- */

/* Takes a history that the store has built. Without a database the errand has none: the entry goes, so that the next
 * request asks again. */
static void take_built(Histories *histories, DraftErrand *errand, uint64_t now_ns) {
    Entry *entry = find(histories, errand->uid, errand->tokenizer);

    if (!entry || entry->history)
        return;
    entry->history = steal(&errand->result.history);
    entry->made_ns = now_ns;
    if (!entry->history)
        remove_at(histories, (size_t)(entry - histories->entries));
}

/* Asks for histories of the latest users while there is room. No history is dropped for one that nobody has asked for
 * yet. */
static void take_recent(Histories *histories, const DraftErrand *errand, uint64_t now_ns) {
    for (size_t i = 0; i < errand->result.n_recent && histories->n < HISTORIES_MAX; i++)
        if (!find(histories, errand->result.recent[i], errand->tokenizer))
            (void)histories_find(histories, errand->result.recent[i], errand->tokenizer, now_ns);
}

/* Adds a stored answer to its user's history. A history that the store still builds will contain the answer, since the
 * store does errands in order. */
static void take_stored(Histories *histories, const DraftErrand *errand) {
    const Entry *entry = find(histories, errand->uid, errand->tokenizer);

    /* If memory runs out, a part of the answer is missing, and drafts come from the rest. */
    if (entry && entry->history)
        (void)history_add(entry->history, errand->answer.tokens, errand->answer.n_tokens);
}

/* Drops a user's histories after a change of the user's documents. Histories that the store still builds already
 * reflect the change. */
static void drop_of(Histories *histories, const DraftErrand *errand) {
    for (size_t i = histories->n; i-- > 0;)
        if (histories->entries[i].history && (errand->of_all_users || histories->entries[i].uid == errand->uid))
            remove_at(histories, i);
}

bool histories_have_news(const Histories *histories) {
    return draft_store_has_news(histories->store);
}

static uint64_t end_of(const Entry *entry) {
    const uint64_t idle_ns = entry->used_ns + HISTORIES_IDLE_NS, life_ns = entry->made_ns + HISTORIES_LIFE_NS;

    return !entry->history ? UINT64_MAX : MIN(idle_ns, life_ns);
}

uint64_t histories_wake_ns(const Histories *histories) {
    uint64_t first_ns = UINT64_MAX;

    for (size_t i = 0; i < histories->n; i++)
        if (end_of(&histories->entries[i]) < first_ns)
            first_ns = end_of(&histories->entries[i]);
    return first_ns;
}

void histories_settle(Histories *histories, uint64_t now_ns) {
    while (histories_have_news(histories)) {
        _cleanup_(draft_errand_freep) DraftErrand *errand = draft_store_take_news(histories->store);

        if (!errand)
            break;
        if (errand->kind == DRAFT_BUILD) {
            take_built(histories, errand, now_ns);
        } else if (errand->kind == DRAFT_RECENT) {
            take_recent(histories, errand, now_ns);
        } else if (errand->kind == DRAFT_ADD) {
            take_stored(histories, errand);
        } else {
            drop_of(histories, errand);
            draft_store_answer(histories->store, &errand);
        }
    }
    for (size_t i = histories->n; i-- > 0;)
        if (end_of(&histories->entries[i]) <= now_ns)
            remove_at(histories, i);
}

static uint64_t bytes_of(const Histories *histories, uint32_t uid) {
    uint64_t sum_bytes = 0;

    for (size_t i = 0; i < histories->n; i++)
        if (histories->entries[i].uid == uid && histories->entries[i].history)
            sum_bytes += history_stats(histories->entries[i].history).bytes;
    return sum_bytes;
}

bool histories_drop_one(Histories *histories) {
    size_t victim = HISTORIES_MAX;
    uint64_t most_bytes = 0;

    for (size_t i = 0; i < histories->n; i++) {
        const Entry *entry = &histories->entries[i];
        const uint64_t sum_bytes = entry->history ? bytes_of(histories, entry->uid) : 0;

        if (entry->history && (victim == HISTORIES_MAX || sum_bytes > most_bytes ||
                               (sum_bytes == most_bytes && entry->used_ns < histories->entries[victim].used_ns))) {
            victim = i;
            most_bytes = sum_bytes;
        }
    }
    if (victim == HISTORIES_MAX)
        return false;
    remove_at(histories, victim);
    return true;
}

bool histories_drop(Histories *histories) {
    bool any = false;

    for (size_t i = histories->n; i-- > 0;)
        if (histories->entries[i].history) {
            remove_at(histories, i);
            any = true;
        }
    return any;
}
