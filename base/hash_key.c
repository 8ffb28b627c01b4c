// SPDX-License-Identifier: Apache-2.0
#include "base/hash_key.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"

int hash_key_init(HashKey *key) {
    HashKey drawn;
    ssize_t n;

    do {
        n = getrandom(&drawn, sizeof(drawn), 0);
    } while (n < 0 && errno == EINTR);
    if (n != sizeof(drawn))
        return err_raise(n < 0 ? -errno : -EIO);
    drawn.factor |= 1;
    *key = drawn;
    return 0;
}

/**
 * hash_key_text() - hash any bytes
 *
 * The hash multiplies and folds eight bytes at a time, some three multiplications for a token: look-ups are a large
 * part of tokenizing. Nobody has analysed this hash as SipHash was. Tables that use it refuse keys that collide
 * thousands of times, so a weakness would make them refuse a file, not slow. Hashes differ from secret to secret and
 * with the machine's byte order: no result may depend on them.
 */
uint64_t hash_key_text(const HashKey *key, const void *text, size_t len_bytes) {
    uint64_t hash = key->seed ^ len_bytes, word;
    const char *at = text;

    for (; len_bytes >= sizeof(word); at += sizeof(word), len_bytes -= sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        hash = hash_key_fold(key, hash ^ word);
    }
    word = 0;
    if (len_bytes)
        memcpy(&word, at, len_bytes);
    return hash_key_fold(key, hash_key_fold(key, hash ^ word));
}
