// SPDX-License-Identifier: Apache-2.0
/* A hash for bits that are written down in tests: FNV-1a of 64 bits. */
#ifndef COORDGEN_TEST_UNIT_GOLDEN_HASH_H
#define COORDGEN_TEST_UNIT_GOLDEN_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START 0xcbf29ce484222325u

static inline uint64_t hash_of(uint64_t hash, const void *data, size_t len_bytes) {
    const uint8_t *bytes = data;

    for (size_t i = 0; i < len_bytes; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

#endif
