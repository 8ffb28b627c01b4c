// SPDX-License-Identifier: Apache-2.0
/* Values by a context of one or two tokens: a hash table of at most `limit` entries, where a new entry takes the place
 * of the one that was untouched for longest. Memory is charged on draftdb and doubles as the table fills. */
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

/* A token that a model holds for possible at a place, with its probability. */
typedef struct ContextTop {
    uint32_t token;
    float probability;
} ContextTop;

typedef struct ContextMap ContextMap;

/* Makes a map of at most `limit` entries (a power of two) of value_bytes each. 0, -ENOMEM, -errno of the hash's key. */
int context_map_new(AccountTable *accounts, size_t value_bytes, uint32_t limit, ContextMap **mapp);
void context_map_free(ContextMap *map);
DEFINE_CLEANUP(ContextMap, context_map_free)
/* Returns the value, or NULL; valid until the next put. */
const void *context_map_find(const ContextMap *map, uint64_t key);
/* Finds or adds the value, which is zeroed if the key is new; the entry is the newest afterwards. 0; -ENOMEM or
 * DRAFTER_E_MEMORY: the map is as it was. */
int context_map_put(ContextMap *map, uint64_t key, void **valuep);

static inline uint64_t context_pair(uint32_t before, uint32_t token) {
    return (uint64_t)before << 32 | token;
}

/* The last tokens of a path as a cursor: a is the one before b; the low bits of c say how many are known. */
enum {
    CONTEXT_KNOWN_MASK = 3
};

static inline DraftCursor context_follow(DraftCursor at, uint32_t token) {
    return (DraftCursor){ .a = at.b, .b = token, .c = (at.c & CONTEXT_KNOWN_MASK) ? 2 : 1 };
}

/* Returns the class of a probability; 0 is the lowest. */
enum {
    CONTEXT_CLASSES = 8
};
uint16_t context_class(float probability);
/* Returns a probability that is typical of the class. */
float context_class_typical(uint16_t class);

#endif
