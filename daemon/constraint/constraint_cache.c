// SPDX-License-Identifier: Apache-2.0
#include "daemon/constraint/constraint_cache.h"

#include <stdlib.h>
#include <string.h>

struct ConstraintCacheEntry {
    ConstraintKey key;
    Constraint *constraint;
    size_t n_bytes;
    TAILQ_ENTRY(ConstraintCacheEntry) link;
};

void constraint_cache_init(ConstraintCache *cache) {
    *cache = (ConstraintCache){ 0 };
    pthread_mutex_init(&cache->lock, NULL);
    TAILQ_INIT(&cache->entries);
}

/* The functions below want the lock to be held. */
static void drop(ConstraintCache *cache, ConstraintCacheEntry *entry) {
    TAILQ_REMOVE(&cache->entries, entry, link);
    cache->n_bytes -= entry->n_bytes;
    constraint_unref(entry->constraint);
    free(entry);
}

void constraint_cache_deinit(ConstraintCache *cache) {
    while (!TAILQ_EMPTY(&cache->entries))
        drop(cache, TAILQ_FIRST(&cache->entries));
    pthread_mutex_destroy(&cache->lock);
}

Constraint *constraint_cache_find(ConstraintCache *cache, const ConstraintKey *key,
                                  const ConstraintVocabulary *vocabulary) {
    ConstraintCacheEntry *entry;
    Constraint *found = NULL;

    pthread_mutex_lock(&cache->lock);
    TAILQ_FOREACH (entry, &cache->entries, link) {
        if (entry->key.uid != key->uid || memcmp(entry->key.hash, key->hash, sizeof(key->hash)) ||
            constraint_vocabulary(entry->constraint) != vocabulary)
            continue;
        TAILQ_REMOVE(&cache->entries, entry, link);
        TAILQ_INSERT_HEAD(&cache->entries, entry, link);
        found = constraint_ref(entry->constraint);
        break;
    }
    pthread_mutex_unlock(&cache->lock);
    return found;
}

static size_t bytes_of(const ConstraintCache *cache, uint32_t uid) {
    const ConstraintCacheEntry *entry;
    size_t n_bytes = 0;

    TAILQ_FOREACH (entry, &cache->entries, link)
        if (entry->key.uid == uid)
            n_bytes += entry->n_bytes;
    return n_bytes;
}

/* Returns the entry that was not used for longest; uid NULL: of all users. */
static ConstraintCacheEntry *oldest(const ConstraintCache *cache, const uint32_t *uid) {
    ConstraintCacheEntry *entry;

    TAILQ_FOREACH_REVERSE (entry, &cache->entries, ConstraintCacheList, link)
        if (!uid || entry->key.uid == *uid)
            return entry;
    return NULL;
}

void constraint_cache_add(ConstraintCache *cache, const ConstraintKey *key, Constraint *constraint) {
    const size_t user_bytes = CONSTRAINT_CACHE_BYTES / CONSTRAINT_CACHE_USER_PARTS;
    ConstraintCacheEntry *entry = calloc(1, sizeof(*entry));

    if (!entry)
        return;
    entry->key = *key;
    entry->n_bytes = sizeof(*entry) + constraint_memory_bytes(constraint);
    if (entry->n_bytes > user_bytes) {
        free(entry);
        return;
    }
    entry->constraint = constraint_ref(constraint);
    pthread_mutex_lock(&cache->lock);
    while (bytes_of(cache, key->uid) + entry->n_bytes > user_bytes)
        drop(cache, oldest(cache, &key->uid));
    while (cache->n_bytes + entry->n_bytes > CONSTRAINT_CACHE_BYTES)
        drop(cache, oldest(cache, NULL));
    cache->n_bytes += entry->n_bytes;
    TAILQ_INSERT_HEAD(&cache->entries, entry, link);
    pthread_mutex_unlock(&cache->lock);
}

bool constraint_cache_drop_one(ConstraintCache *cache) {
    ConstraintCacheEntry *entry;

    pthread_mutex_lock(&cache->lock);
    TAILQ_FOREACH_REVERSE (entry, &cache->entries, ConstraintCacheList, link)
        if (!constraint_is_shared(entry->constraint))
            break;
    if (entry)
        drop(cache, entry);
    pthread_mutex_unlock(&cache->lock);
    return entry != NULL;
}

void constraint_cache_sweep(ConstraintCache *cache) {
    ConstraintCacheEntry *entry, *next;

    pthread_mutex_lock(&cache->lock);
    for (entry = TAILQ_FIRST(&cache->entries); entry; entry = next) {
        next = TAILQ_NEXT(entry, link);
        if (constraint_vocabulary_is_closed(constraint_vocabulary(entry->constraint)))
            drop(cache, entry);
    }
    pthread_mutex_unlock(&cache->lock);
}
