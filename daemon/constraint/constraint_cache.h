// SPDX-License-Identifier: Apache-2.0
/* Constraints that were made lately, so that a schema which an app sends with each request is compiled once. Entries
 * are shared within a user alone. The least recently used ones go when there are too many, or when memory is short. Any
 * thread may call any function but init and deinit. */
#ifndef COORDGEN_DAEMON_CONSTRAINT_CACHE_H
#define COORDGEN_DAEMON_CONSTRAINT_CACHE_H

#include <pthread.h>

#include "base/queue.h"
#include "engine/constraint/constraint_spec.h"

enum {
    CONSTRAINT_CACHE_BYTES = 32 << 20, /* of all entries */
    CONSTRAINT_CACHE_USER_PARTS = 2,   /* one user's entries have 1/2 of that at most */
};

typedef struct ConstraintKey {
    uint32_t uid;
    uint8_t hash[CONSTRAINT_SPEC_HASH_BYTES];
} ConstraintKey;

typedef struct ConstraintCacheEntry ConstraintCacheEntry;
TAILQ_HEAD(ConstraintCacheList, ConstraintCacheEntry);
typedef struct ConstraintCacheList ConstraintCacheList;

typedef struct ConstraintCache {
    pthread_mutex_t lock;
    ConstraintCacheList entries; /* lock; the most recently used one first */
    size_t n_bytes;              /* lock */
} ConstraintCache;

void constraint_cache_init(ConstraintCache *cache);
void constraint_cache_deinit(ConstraintCache *cache);
/* Finds a constraint for the vocabulary, and returns a reference; NULL: there is none. */
Constraint *constraint_cache_find(ConstraintCache *cache, const ConstraintKey *key,
                                  const ConstraintVocabulary *vocabulary);
/* Keeps a reference to the constraint, in place of others. Without memory, or if it is too large, nothing is kept. */
void constraint_cache_add(ConstraintCache *cache, const ConstraintKey *key, Constraint *constraint);
/* Drops the least recently used constraint that no request has, because memory is short. false: there was none. */
bool constraint_cache_drop_one(ConstraintCache *cache);
/* Drops the constraints of models that were unloaded. */
void constraint_cache_sweep(ConstraintCache *cache);

#endif
