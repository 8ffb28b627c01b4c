// SPDX-License-Identifier: Apache-2.0
/* What was seen behind a context of one or two tokens: a hash table of at most `limit` entries, where a new one takes
 * the place of the one that was longest untouched. Memory is charged on draftdb and doubles as it fills. */
#ifndef COORDGEN_SPEC_CONTEXT_MAP_H
#define COORDGEN_SPEC_CONTEXT_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/memory/account.h"
#include "spec/sources/drafter.h"

enum {
    CONTEXT_NO_TOKEN = UINT32_MAX /* before the first token of a text */
};

/* A token that a model holds for possible at a place. */
typedef struct ContextTop {
    uint32_t token;
    float probability;
} ContextTop;

typedef struct ContextMap ContextMap;

/* value_bytes a value, limit entries (a power of two) at most. 0, -ENOMEM, -errno of the hash's key. */
int context_map_new(AccountTable *accounts, size_t value_bytes, uint32_t limit, ContextMap **mapp);
void context_map_free(ContextMap *map);
DEFINE_CLEANUP(ContextMap, context_map_free)
/* The value, or NULL; valid until the next put. */
const void *context_map_find(const ContextMap *map, uint64_t key);
/* The value, zeroed if the key is new; the entry is the newest afterwards. 0, -ENOMEM, DRAFTER_E_MEMORY: as it was. */
int context_map_put(ContextMap *map, uint64_t key, void **valuep);

static inline uint64_t context_pair(uint32_t before, uint32_t token) {
    return (uint64_t)before << 32 | token;
}

/* The last tokens of a path, as a cursor: a the one before b, c how many are known, in the low bits. */
enum {
    CONTEXT_KNOWN_MASK = 3
};

static inline DraftCursor context_follow(DraftCursor at, uint32_t token) {
    return (DraftCursor){ .a = at.b, .b = token, .c = (at.c & CONTEXT_KNOWN_MASK) ? 2 : 1 };
}

/* Of a probability: 0 the lowest. */
enum {
    CONTEXT_CLASSES = 8
};
uint16_t context_class(float probability);
/* A probability that is typical of the class. */
float context_class_typical(uint16_t class);

#endif
