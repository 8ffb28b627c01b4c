// SPDX-License-Identifier: Apache-2.0
/* Hashes with a secret: a client that chooses a table's keys cannot choose their slots. */
#ifndef COORDGEN_BASE_HASH_KEY_H
#define COORDGEN_BASE_HASH_KEY_H

#include <stddef.h>
#include <stdint.h>

typedef struct HashKey {
    uint64_t seed;
    uint64_t factor; /* odd */
} HashKey;

/* Draws a secret from the kernel, one for each table. 0 or -errno. */
int hash_key_init(HashKey *key);
uint64_t hash_key_text(const HashKey *key, const void *text, size_t len_bytes);

static inline uint64_t hash_key_fold(const HashKey *key, uint64_t value) {
    __extension__ typedef unsigned __int128 Wide;
    Wide product = (Wide)value * key->factor;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Folds twice: after one fold, consecutive numbers would land at regular steps in the table. */
static inline uint64_t hash_key_u64(const HashKey *key, uint64_t value) {
    return hash_key_fold(key, hash_key_fold(key, value ^ key->seed));
}

#endif
